"""Damaged training states and logs are rejected with the name of the file."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.checkpoint.weights import MappedTensors, read_header, write_safetensors
from clearhead.errors import CheckpointError, ClearheadError
from clearhead.training.log import RunLog, read_log
from clearhead.training.loop import train_steps
from clearhead.training.objectives import CrossEntropy
from clearhead.training.state import TrainingProgress, TrainingState, load_state, save_state
from fuzz.mutate import damage, mutate_tensors
from tests.training.test_loop import QUICK, make_rows, make_state

SETTINGS = replace(QUICK, epochs=2, average_epochs=2, precision="float")
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    [],
    {},
    "",
    "x",
    0,
    -1,
    1.5,
    10**9,
    10**30,
    -(10**30),
    math.nan,
    math.inf,
    -math.inf,
    [1],
    ["x"],
)
STEPS = 5  # of 8, one after the end of the first epoch


@pytest.fixture(scope="module")
def saved_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state and the log of an interrupted run."""
    folder = tmp_path_factory.mktemp("state")
    state = make_state(SETTINGS)
    log = RunLog(folder, 0)
    for step in train_steps(state, make_rows(64), SETTINGS, objective=CrossEntropy(), score=lambda: 0.5):
        log.write(step)
        if step.step == STEPS:
            break
    log.close()
    save_state(folder, state)
    return folder


@pytest.fixture
def run_folder(saved_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved_run, tmp_path / "state"))


def step_folder(run_folder: Path) -> Path:
    return run_folder / f"step-{STEPS:08d}"


@cache
def make_other_state() -> TrainingState:
    """A state with different weights: everything must be read from the files."""
    return make_state(SETTINGS, seed=3)


def resume(run_folder: Path) -> None:
    """Read what a resumed run reads before its first step."""
    state = make_other_state()
    state.progress = TrainingProgress()
    load_state(run_folder, state)
    state.progress.check_steps(8, SETTINGS.patience)
    list(read_log(run_folder))
    RunLog(run_folder, state.progress.step).close()


def test_a_whole_state_is_read(run_folder: Path) -> None:
    resume(run_folder)
    assert [line["step"] for line in read_log(run_folder)] == list(range(1, STEPS + 1))


def is_accepted(run_folder: Path) -> bool:
    """Whether the run can be resumed; a rejection has a message of reasonable length."""
    message = ""
    try:
        resume(run_folder)
    except ClearheadError as error:
        message = str(error)
    assert not message or 10 < len(message) < 1000, message
    return not message


@pytest.mark.parametrize("name", ["latest.json", f"step-{STEPS:08d}/progress.json"])
def test_values_of_json_files(saved_run: Path, run_folder: Path, name: str) -> None:
    values = json.loads((saved_run / name).read_text())
    refused = 0
    for key in values:
        for value in (*ODD_VALUES, ...):
            changed = dict(values)
            if value is ...:
                del changed[key]
            else:
                changed[key] = value
            (run_folder / name).write_text(json.dumps(changed))
            if is_accepted(run_folder):
                shutil.copytree(saved_run, run_folder, dirs_exist_ok=True)  # loading may remove stale files
            else:
                refused += 1
    assert refused > 10 * len(values)


@pytest.mark.parametrize("key", ["step", "loss", "tokens", "seconds"])
def test_values_of_log_lines(saved_run: Path, run_folder: Path, key: str) -> None:
    lines = (saved_run / "log.jsonl").read_text().splitlines(keepends=True)
    odd_values: tuple[Any, ...] = (
        None,
        True,
        [],
        {},
        "x",
        -1 if key != "loss" else "y",
        math.nan,
        math.inf,
        10**30,
        ...,
    )
    for value in odd_values:
        changed = json.loads(lines[1])
        if value is ...:
            del changed[key]
        else:
            changed[key] = value
        (run_folder / "log.jsonl").write_text("".join([lines[0], json.dumps(changed) + "\n", *lines[2:]]))
        if (key, value) in (("loss", 10**30), ("seconds", 10**30)):
            continue  # a valid value
        with pytest.raises(CheckpointError, match=r"log\.jsonl line 2"):
            resume(run_folder)


@pytest.mark.parametrize(
    "text", ["7\n", "[]\n", "null\n", "{\n", "\n", "{}\n", "\x00\n", '{"\\ud800": 1}\n', "[" * 20_000 + "\n"]
)
def test_invalid_log_lines(saved_run: Path, run_folder: Path, text: str) -> None:
    lines = (saved_run / "log.jsonl").read_text().splitlines(keepends=True)
    (run_folder / "log.jsonl").write_text("".join([lines[0], text, *lines[1:]]))
    with pytest.raises(CheckpointError, match=r"log\.jsonl line 2"):
        resume(run_folder)


def test_a_torn_line_and_later_steps_are_forgotten(saved_run: Path, run_folder: Path) -> None:
    log = (saved_run / "log.jsonl").read_text()
    later_line = json.loads(log.splitlines()[-1]) | {"step": STEPS + 1}
    (run_folder / "log.jsonl").write_text(f"{log}{json.dumps(later_line)}\n" + log[:30])
    resume(run_folder)
    assert (run_folder / "log.jsonl").read_text() == log


def without_tensors(*kinds: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda tensors: {name: array for name, array in tensors.items() if not name.startswith(kinds)}


def change_first(change: Callable[[Any], Any], kind: str = "") -> Callable[[dict[str, Any]], dict[str, Any]]:
    def change_tensors(tensors: dict[str, Any]) -> dict[str, Any]:
        name = next(name for name in tensors if name.startswith(kind))
        return {**tensors, name: change(tensors[name])}

    return change_tensors


def rename_first(tensors: dict[str, Any]) -> dict[str, Any]:
    first = next(iter(tensors))
    return {f"{name}x" if name == first else name: array for name, array in tensors.items()}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("adam", without_tensors("exp_avg/")),
        ("adam", without_tensors("exp_avg_sq/")),
        ("adam", without_tensors("step/")),
        ("adam", without_tensors("")),
        ("adam", change_first(lambda array: array[:-1], "exp_avg/")),
        ("adam", change_first(lambda array: np.stack([array, array]), "step/")),
        ("adam", change_first(lambda array: -array - 1, "step/")),
        ("adam", change_first(lambda array: array + 1000, "step/")),
        ("adam", change_first(lambda array: array - 0.5, "step/")),
        ("adam", change_first(lambda array: -array - 1, "exp_avg_sq/")),
        ("adam", change_first(lambda array: array * np.nan, "exp_avg/")),
        ("adam", rename_first),
        ("weights", rename_first),
        ("weights", change_first(lambda array: array[:-1])),
        ("weights", change_first(lambda array: array * np.inf)),
        ("weights", lambda found: {**found, "more": np.zeros(2, np.float32)}),
        ("best", rename_first),
        ("best", change_first(lambda array: array * np.nan)),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinity times zero
def test_tensors_that_are_wrong(
    run_folder: Path, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    path = step_folder(run_folder) / f"{name}.safetensors"
    mapped = MappedTensors(read_header(path))
    write_safetensors(path, change({name: mapped.array(name).copy() for name in mapped.tensors}))
    with pytest.raises(CheckpointError):
        resume(run_folder)


@pytest.mark.parametrize("name", ["adam", "weights", "best"])
def test_bytes_of_tensors(saved_run: Path, run_folder: Path, name: str) -> None:
    path = step_folder(run_folder) / f"{name}.safetensors"
    content = (step_folder(saved_run) / path.name).read_bytes()
    generator, refused = random.Random(name), 0
    for attempt in range(40):
        path.write_bytes((damage if attempt % 2 else mutate_tensors)(content, generator))
        refused += not is_accepted(run_folder)
    assert refused > 10


def replace_with_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_with_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "replace_file", [replace_with_pipe, replace_with_folder, lambda path: path.write_bytes(b""), Path.unlink]
)
@pytest.mark.parametrize(
    "name", ["log.jsonl", "latest.json", "progress.json", "weights.safetensors", "adam.safetensors", "best.safetensors"]
)
def test_what_stands_in_place_of_a_file(run_folder: Path, name: str, replace_file: Callable[[Path], Any]) -> None:
    path = run_folder / name if (run_folder / name).exists() else step_folder(run_folder) / name
    replace_file(path)
    is_optional_and_missing = name in ("log.jsonl", "latest.json") and not path.exists()
    is_empty_log = name == "log.jsonl" and path.is_file()
    assert is_accepted(run_folder) is (is_optional_and_missing or is_empty_log)


def test_a_state_beyond_the_end_is_refused(run_folder: Path) -> None:
    state = make_state(SETTINGS)
    load_state(run_folder, state)
    with pytest.raises(CheckpointError, match="step 5 of 4"):
        state.progress.check_steps(4, None)
    state.progress.finished = True
    with pytest.raises(CheckpointError, match="step 5 of 8, finished"):
        next(train_steps(state, make_rows(64), SETTINGS, objective=CrossEntropy()))
