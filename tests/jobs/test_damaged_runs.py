"""Damaged run folders: every value of every file is checked, and the message names the damage."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import pretrain, train
from clearhead.errors import CheckpointError, ClearheadError
from clearhead.jobs.run_file import read_run_file
from clearhead.pretrain.plan import read_pretrain_run
from fuzz import run_folders
from fuzz.run_folders import StopError, build_case, check_case, make_seeds, resume_run, stop_after_step

WRONG_VALUES: tuple[Any, ...] = (
    None,
    True,
    [],
    {},
    "x",
    0,
    -1,
    10**9,
    10**30,
    math.nan,
    [1],
    ...,
)
CASES = 30


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small stopped runs of every kind."""
    folder = tmp_path_factory.mktemp("runs")
    make_seeds(folder)
    return folder


def iterate_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*path, key)
        yield from iterate_paths(part, (*path, key))


def replace_at(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Copy a JSON document with another value at a path; ... removes it."""
    copy = json.loads(json.dumps(document))
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    if value is ...:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return copy


@pytest.mark.parametrize(("name", "read_run"), [("half", read_run_file), ("pretrain", read_pretrain_run)])
def test_every_value_of_run_json(runs: Path, tmp_path: Path, name: str, read_run: Callable[[Path], Any]) -> None:
    document = json.loads((runs / "seeds" / name / "run.json").read_text())
    outcomes: Counter[str] = Counter()
    for path in iterate_paths(document):
        for value in WRONG_VALUES:
            (tmp_path / "run.json").write_text(json.dumps(replace_at(document, path, value)))
            message = ""
            try:
                read_run(tmp_path)
            except ClearheadError as error:
                message = str(error)
            assert not message or 10 < len(message) < 1000, (path, value)
            outcomes["refused" if message else "read"] += 1
    assert outcomes["refused"] > 0.5 * outcomes.total()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("data",), [], r"run\.json: Expected `object`, got `array` - at `\$\.data`"),
        (("data",), "x", r"run\.json: Expected `object`, got `str` - at `\$\.data`"),
        (("data", "data"), 7, r"\$\.data\.data"),
        (("plan", "threads"), 0, r"run\.json is damaged: .*threads must be at least 1"),
        (("plan", "threads"), 10**9, r"run\.json is damaged: .*threads must be at most"),
        (("plan", "settings", "epochs"), 10**9, "epochs must be at most"),
        (("plan", "settings", "learning_rate"), math.nan, "learning_rate must be above 0"),
        (("command",), 7, r"\$\.command"),
        (("machine", "threads"), "two", r"\$\.machine\.threads"),
        (("machine",), [], r"\$\.machine"),
    ],
)
def test_what_is_wrong_is_named(runs: Path, tmp_path: Path, path: tuple[str, ...], value: Any, message: str) -> None:
    folder = Path(shutil.copytree(runs / "seeds" / "half", tmp_path / "half"))
    document = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(replace_at(document, path, value)))
    with pytest.raises(CheckpointError, match=message):
        train(resume=folder)


@pytest.mark.parametrize("value", [[], "x", {"evaluations": 7}, {"evaluations": [{}]}, {}])
def test_evaluations_of_pretraining(runs: Path, tmp_path: Path, value: Any) -> None:
    folder = Path(shutil.copytree(runs / "seeds" / "pretrain", tmp_path / "learned"))
    (folder / "evaluations.json").write_text(json.dumps(value))
    with pytest.raises(CheckpointError, match=r"evaluations\.json"):
        pretrain(resume=folder, report=False, events=stop_after_step(1))


@pytest.mark.parametrize(
    ("key", "value"), [("bytes", 3), ("tokens", 1), ("sentences", -1), ("documents", 10**9), ("taken", -5)]
)
def test_the_index_of_a_corpus(runs: Path, tmp_path: Path, key: str, value: int) -> None:
    folder = Path(shutil.copytree(runs / "seeds" / "pretrain", tmp_path / "learned"))
    path = folder / "corpus" / "index.json"
    index = json.loads(path.read_text())
    (index if key in index else index["shards"][0])[key] = value
    path.write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="corpus"):
        pretrain(resume=folder, report=False, events=stop_after_step(1))


@pytest.mark.parametrize("value", [{"seed": 1, "dev": 0.5, "test": None}, {"seed": 0}, {}, [], {"seed": 0, "dev": "x"}])
def test_the_result_of_a_seed(runs: Path, tmp_path: Path, value: Any) -> None:
    folder = Path(shutil.copytree(runs / "seeds" / "seeds", tmp_path / "run"))
    (folder / "seeds" / "seed-0" / "result.json").write_text(json.dumps(value))
    with pytest.raises(CheckpointError, match=r"result\.json"):
        train(resume=folder, report=False, events=stop_after_step(1))


@pytest.mark.parametrize("name", ["half", "pretrain", "seeds", "translate"])
def test_runs_that_are_whole_are_resumed(runs: Path, tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(runs / "seeds" / name, tmp_path / "case"))
    with pytest.raises(StopError):
        resume_run(name, folder, runs)


def test_damaged_runs_are_resumed_or_refused(runs: Path, tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    names = sorted(path.name for path in (runs / "seeds").iterdir())
    for number in range(CASES):
        case = build_case(17, number, runs, tmp_path, names)
        outcome = check_case(case, runs, tmp_path)
        assert not outcome.finding, f"{case}: {outcome.word}: {outcome.detail}"
        outcomes[outcome.word.split(":")[0]] += 1
    assert outcomes["read"] > CASES // 10
    assert outcomes["refused"] > CASES // 4


def test_an_untyped_error_is_a_finding(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = build_case(17, 0, runs, tmp_path, ["words"])

    def raise_untyped(*_: object) -> None:
        raise ValueError("what is this?")

    monkeypatch.setattr(run_folders, "resume_run", raise_untyped)
    assert check_case(case, runs, tmp_path).finding


def test_a_log_that_is_a_link_is_refused_and_its_target_kept(runs: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(runs / "seeds" / "half", tmp_path / "half"))
    (tmp_path / "thesis.txt").write_text("mine")
    (folder / "log.jsonl").unlink()
    (folder / "log.jsonl").symlink_to(tmp_path / "thesis.txt")
    with pytest.raises(ClearheadError):
        train(resume=folder)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_folder_among_the_states_of_epochs_is_left_alone(runs: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(runs / "seeds" / "half", tmp_path / "half"))
    (folder / "state" / "epoch-999999.safetensors").mkdir()
    train(resume=folder, report=False)
