"""A small run of the fuzzer, and controls: each kind of finding is detected."""

from __future__ import annotations

import argparse
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import clearhead
from clearhead.errors import CheckpointError
from fuzz import case as cases
from fuzz import drive
from fuzz.seeds import make_seeds

CASES = 150


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("fuzz") / "seeds"
    return folder, make_seeds(folder)


@pytest.fixture(scope="module")
def watch() -> Iterator[cases.AccessMonitor]:
    monitor = cases.AccessMonitor()
    yield monitor
    monitor.folder = None


def test_mutated_folders_run_or_are_refused(
    seeds: tuple[Path, list[str]], watch: cases.AccessMonitor, tmp_path: Path
) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(CASES):
        case = cases.build_case(0, number, *seeds, tmp_path)
        outcome = cases.check_case(case, tmp_path, watch)
        assert not outcome.finding, f"{case}: {outcome.word}: {outcome.detail}"
        outcomes[outcome.word] += 1
    assert outcomes["ran"] > CASES // 10
    assert CASES - outcomes["ran"] > CASES // 2
    assert len(outcomes) >= 5


def test_the_same_number_builds_the_same_case(seeds: tuple[Path, list[str]], tmp_path: Path) -> None:
    def read_case(number: int, parent: Path) -> dict[str, bytes]:
        parent.mkdir(exist_ok=True)
        cases.build_case(3, number, *seeds, parent)
        files = sorted(path for path in (parent / "case").rglob("*") if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(parent)): path.read_bytes() for path in files}

    for number in range(20):
        assert read_case(number, tmp_path / "one") == read_case(number, tmp_path / "two")
    assert read_case(0, tmp_path / "one") != read_case(1, tmp_path / "one")


def _raise_value_error(folder: Path) -> object:
    raise ValueError(folder)


def _raise_long_message(folder: Path) -> object:
    raise CheckpointError("x" * 5000)


def _raise_two_lines(folder: Path) -> object:
    raise CheckpointError("one\ntwo")


def _leak_secret(folder: Path) -> object:
    raise CheckpointError((folder.parent / "secret.txt").read_text("utf-8"))


def _read_secret(folder: Path) -> object:
    (folder.parent / "secret.txt").read_text("utf-8")
    raise CheckpointError("refused")


def _read_planted_module(folder: Path) -> object:
    (folder / cases.PLANTED_MODULE).read_bytes()
    raise CheckpointError("refused")


def _open_socket(folder: Path) -> object:
    socket.socket().close()
    raise CheckpointError("refused")


@pytest.mark.parametrize(
    "violate",
    [
        _raise_value_error,
        _raise_long_message,
        _raise_two_lines,
        _leak_secret,
        _read_secret,
        _read_planted_module,
        _open_socket,
    ],
)
def test_each_kind_of_finding_is_detected(
    violate: Callable[[Path], object],
    seeds: tuple[Path, list[str]],
    watch: cases.AccessMonitor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clearhead, "load", lambda folder, **_: violate(folder))
    assert cases.check_case(cases.build_case(0, 0, *seeds, tmp_path), tmp_path, watch).finding


CHILD = """
import json, os, sys, time
first, stop, step = map(int, sys.argv[-3:])
print("ready", flush=True)
for number in range(first, stop, step):
    if number == 3: os.abort()
    if number == 5: time.sleep(60)
    case = {"number": number, "seed": "s", "file": "f", "kind": "k"}
    print(json.dumps([case, {"word": "ran", "detail": "", "finding": False}]), flush=True)
"""


def test_a_crash_and_a_hang_are_reported_and_other_cases_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "_command", lambda: [sys.executable, "-c", CHILD])
    monkeypatch.setattr(drive, "HANG_SECONDS", 2)
    arguments = argparse.Namespace(seed=0, jobs=2, minutes=1.0, only=None, hostile=0.5, keep=tmp_path / "kept")
    tally = drive._run_workers(arguments, tmp_path, range(10))
    assert tally.done == 10
    assert tally.outcomes["ran"] == 8
    assert sorted(line.split(":")[0] for line in tally.findings) == ["3", "5"]
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"0-3.txt", "0-5.txt"}
