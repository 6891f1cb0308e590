"""A saved state or a log that is damaged: refused with the file's name, or read as it was."""

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
from fuzz.mutate import damage, tensors
from tests.training.test_loop import QUICK, fresh, rows

SETTINGS = replace(QUICK, epochs=2, average_epochs=2, precision="float")
ODD: tuple[Any, ...] = (
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
STEPS = 5  # of 8; the first epoch has ended


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state and the log of a run that was stopped."""
    place = tmp_path_factory.mktemp("state")
    state = fresh(SETTINGS)
    log = RunLog(place, 0)
    for step in train_steps(state, rows(64), SETTINGS, objective=CrossEntropy(), score=lambda: 0.5):
        log.write(step)
        if step.step == STEPS:
            break
    log.close()
    save_state(place, state)
    return place


@pytest.fixture
def place(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "state"))


def step_folder(place: Path) -> Path:
    return place / f"step-{STEPS:08d}"


@cache
def other() -> TrainingState:
    """A network with other weights: everything must come from the files."""
    return fresh(SETTINGS, seed=3)


def resume(place: Path) -> None:
    """What a resumed run reads, up to the first step."""
    state = other()
    state.progress = TrainingProgress()
    load_state(place, state)
    state.progress.check_steps(8, SETTINGS.patience)
    list(read_log(place))
    RunLog(place, state.progress.step).close()


def test_a_whole_state_is_read(place: Path) -> None:
    resume(place)
    assert [line["step"] for line in read_log(place)] == list(range(1, STEPS + 1))


def survives(place: Path) -> bool:
    """Whether it is read; what is refused is refused in a sentence."""
    said = ""
    try:
        resume(place)
    except ClearheadError as error:
        said = str(error)
    assert not said or 10 < len(said) < 1000, said
    return not said


@pytest.mark.parametrize("name", ["latest.json", f"step-{STEPS:08d}/progress.json"])
def test_values_of_json_files(kept: Path, place: Path, name: str) -> None:
    whole = json.loads((kept / name).read_text())
    refused = 0
    for key in whole:
        for value in (*ODD, ...):
            changed = dict(whole)
            if value is ...:
                del changed[key]
            else:
                changed[key] = value
            (place / name).write_text(json.dumps(changed))
            if survives(place):
                shutil.copytree(kept, place, dirs_exist_ok=True)  # what is read may be swept
            else:
                refused += 1
    assert refused > 10 * len(whole)


@pytest.mark.parametrize("key", ["step", "loss", "tokens", "seconds"])
def test_values_of_log_lines(kept: Path, place: Path, key: str) -> None:
    lines = (kept / "log.jsonl").read_text().splitlines(keepends=True)
    odd: tuple[Any, ...] = (None, True, [], {}, "x", -1 if key != "loss" else "y", math.nan, math.inf, 10**30, ...)
    for value in odd:
        changed = json.loads(lines[1])
        if value is ...:
            del changed[key]
        else:
            changed[key] = value
        (place / "log.jsonl").write_text("".join([lines[0], json.dumps(changed) + "\n", *lines[2:]]))
        if (key, value) in (("loss", 10**30), ("seconds", 10**30)):
            continue  # a number like any other
        with pytest.raises(CheckpointError, match=r"log\.jsonl line 2"):
            resume(place)


@pytest.mark.parametrize(
    "text", ["7\n", "[]\n", "null\n", "{\n", "\n", "{}\n", "\x00\n", '{"\\ud800": 1}\n', "[" * 20_000 + "\n"]
)
def test_lines_that_are_none(kept: Path, place: Path, text: str) -> None:
    lines = (kept / "log.jsonl").read_text().splitlines(keepends=True)
    (place / "log.jsonl").write_text("".join([lines[0], text, *lines[1:]]))
    with pytest.raises(CheckpointError, match=r"log\.jsonl line 2"):
        resume(place)


def test_a_torn_line_and_later_steps_are_forgotten(kept: Path, place: Path) -> None:
    whole = (kept / "log.jsonl").read_text()
    later = json.loads(whole.splitlines()[-1]) | {"step": STEPS + 1}
    (place / "log.jsonl").write_text(f"{whole}{json.dumps(later)}\n" + whole[:30])
    resume(place)
    assert (place / "log.jsonl").read_text() == whole


def _without(*kinds: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda found: {name: array for name, array in found.items() if not name.startswith(kinds)}


def _first(change: Callable[[Any], Any], kind: str = "") -> Callable[[dict[str, Any]], dict[str, Any]]:
    def changed(found: dict[str, Any]) -> dict[str, Any]:
        name = next(name for name in found if name.startswith(kind))
        return {**found, name: change(found[name])}

    return changed


def _renamed(found: dict[str, Any]) -> dict[str, Any]:
    first = next(iter(found))
    return {f"{name}x" if name == first else name: array for name, array in found.items()}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("adam", _without("exp_avg/")),
        ("adam", _without("exp_avg_sq/")),
        ("adam", _without("step/")),
        ("adam", _without("")),
        ("adam", _first(lambda array: array[:-1], "exp_avg/")),
        ("adam", _first(lambda array: np.stack([array, array]), "step/")),
        ("adam", _first(lambda array: -array - 1, "step/")),
        ("adam", _first(lambda array: array + 1000, "step/")),
        ("adam", _first(lambda array: array - 0.5, "step/")),
        ("adam", _first(lambda array: -array - 1, "exp_avg_sq/")),
        ("adam", _first(lambda array: array * np.nan, "exp_avg/")),
        ("adam", _renamed),
        ("weights", _renamed),
        ("weights", _first(lambda array: array[:-1])),
        ("weights", _first(lambda array: array * np.inf)),
        ("weights", lambda found: {**found, "more": np.zeros(2, np.float32)}),
        ("best", _renamed),
        ("best", _first(lambda array: array * np.nan)),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinity times zero
def test_tensors_that_are_wrong(place: Path, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path = step_folder(place) / f"{name}.safetensors"
    mapped = MappedTensors(read_header(path))
    write_safetensors(path, change({name: mapped.array(name).copy() for name in mapped.tensors}))
    with pytest.raises(CheckpointError):
        resume(place)


@pytest.mark.parametrize("name", ["adam", "weights", "best"])
def test_bytes_of_tensors(kept: Path, place: Path, name: str) -> None:
    path = step_folder(place) / f"{name}.safetensors"
    whole = (step_folder(kept) / path.name).read_bytes()
    draw, refused = random.Random(name), 0
    for number in range(40):
        path.write_bytes((damage if number % 2 else tensors)(whole, draw))
        refused += not survives(place)
    assert refused > 10


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("what", [_pipe, _folder, lambda path: path.write_bytes(b""), Path.unlink])
@pytest.mark.parametrize(
    "name", ["log.jsonl", "latest.json", "progress.json", "weights.safetensors", "adam.safetensors", "best.safetensors"]
)
def test_what_stands_in_place_of_a_file(place: Path, name: str, what: Callable[[Path], Any]) -> None:
    path = place / name if (place / name).exists() else step_folder(place) / name
    what(path)
    gone = name in ("log.jsonl", "latest.json") and not path.exists()
    empty_log = name == "log.jsonl" and path.is_file()
    assert survives(place) is (gone or empty_log)


def test_a_state_beyond_the_end_is_refused(place: Path) -> None:
    state = fresh(SETTINGS)
    load_state(place, state)
    with pytest.raises(CheckpointError, match="step 5 of 4"):
        state.progress.check_steps(4, None)
    state.progress.finished = True
    with pytest.raises(CheckpointError, match="step 5 of 8, finished"):
        next(train_steps(state, rows(64), SETTINGS, objective=CrossEntropy()))
