"""The recorded values, and a copy of the stored folders that a test may write to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clearhead.deprecation import PLAN_SETTINGS, TRAINING_SETTINGS, rename_stored
from tests.golden.cases import EARLIER, EXPECTED, RECORDS, ROOT, read_machine, train_case


@pytest.fixture(scope="session")
def expected() -> dict[str, Any]:
    """Values computed by the earlier version, with settings under their current names."""
    values: dict[str, Any] = _rename_settings(json.loads(EXPECTED.read_text(encoding="utf-8")))
    values["recipes"] = {name: rename_stored(plan, PLAN_SETTINGS) for name, plan in values["recipes"].items()}
    return values


def _rename_settings(values: Any) -> Any:
    if isinstance(values, list):
        return [_rename_settings(value) for value in values]
    if not isinstance(values, dict):
        return values
    renamed = {key: _rename_settings(value) for key, value in values.items()}
    if isinstance(renamed.get("settings"), dict):
        renamed["settings"] = rename_stored(renamed["settings"], TRAINING_SETTINGS | PLAN_SETTINGS)
    return renamed


@pytest.fixture(scope="session")
def copy_earlier() -> Callable[..., Path]:
    """Copy the stored folders, or some of them, and replace the recorded root path by that of the copy."""

    def copy(folder: Path, *names: str) -> Path:
        for name in names or (".",):
            shutil.copytree(EARLIER / name, folder / name, dirs_exist_ok=True)
        for path in folder.rglob("*"):
            if path.name in RECORDS:
                text = path.read_text(encoding="utf-8")
                if ROOT in text:
                    path.write_text(text.replace(ROOT, str(folder)), encoding="utf-8")
        return folder

    return copy


@pytest.fixture(scope="session")
def earlier(copy_earlier: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy shared by all tests that only read."""
    return copy_earlier(tmp_path_factory.mktemp("golden") / "earlier")


@pytest.fixture(scope="session")
def same_machine(earlier: Path, expected: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> bool:
    """Whether CPU, threads and libraries are those of the recorded values, so that bits must be equal."""
    run = train_case("classify-finetune", earlier, tmp_path_factory.mktemp("machine") / "run", epochs=1)
    now = read_machine(run.folder)
    return now == {key: expected[key] for key in now}
