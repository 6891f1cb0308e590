"""The command line imports only `clearhead.api`, and every verb is a function of it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import clearhead
from clearhead import api
from clearhead.cli import VERBS
from tests.rules.test_imports import FILES, ROOT, iter_imports

CLI_FILES = [path for path in FILES if path.relative_to(ROOT).parts[0] == "cli"]
ALLOWED_MODULES = ("api", "errors", "caller", "cli", "__version__")


def find_forbidden_imports(path: Path) -> list[str]:
    """List the imports of Clearhead modules that the command line must not use."""
    imports = ((line, module.split(".")) for line, module in iter_imports(path))
    return [
        f"{line}: {'.'.join(names)}" for line, names in imports if names[0] == "clearhead" and not is_allowed(names)
    ]


def is_allowed(names: list[str]) -> bool:
    return len(names) > 1 and names[1] in ALLOWED_MODULES


@pytest.mark.parametrize("path", CLI_FILES, ids=lambda path: path.name)
def test_the_command_line_imports_only_the_api(path: Path) -> None:
    assert find_forbidden_imports(path) == []


def test_another_import_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.rules.test_imports.ROOT", tmp_path / "clearhead")
    folder = tmp_path / "clearhead" / "cli"
    folder.mkdir(parents=True)
    (folder / "wrong.py").write_text(
        "from clearhead import __version__, api\nfrom clearhead.api.support import shown\n"
        "import clearhead\ndef f():\n    from clearhead.model.loading import load\n    return load\n"
    )
    assert find_forbidden_imports(folder / "wrong.py") == ["3: clearhead", "5: clearhead.model.loading"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_a_public_function(verb: str) -> None:
    name = verb.replace("-", "_")
    function = getattr(api, name)
    assert inspect.isfunction(function)
    assert name in api.__all__
    assert name in clearhead.__all__
    assert getattr(clearhead, name) is function
    summary = (function.__doc__ or "").partition("\n")[0]
    assert summary.endswith((".", ":")), f"{name} has no summary sentence"
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(parameter.annotation is not inspect.Parameter.empty for parameter in signature.parameters.values())


def test_every_public_name_of_the_api_exists() -> None:
    assert [name for name in api.__all__ if not hasattr(api, name)] == []
    from clearhead.api import support

    assert [name for name in support._HOMES if getattr(support, name, None) is None] == []
