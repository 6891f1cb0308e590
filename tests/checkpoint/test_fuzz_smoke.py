"""A small run of the fuzzer, and proof that each kind of finding would be found."""

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
from fuzz.seeds import make

COUNT = 150


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("fuzz") / "seeds"
    return folder, make(folder)


@pytest.fixture(scope="module")
def watch() -> Iterator[cases.Watch]:
    found = cases.Watch()
    yield found
    found.folder = None


def test_mutated_folders_run_or_are_refused(seeds: tuple[Path, list[str]], watch: cases.Watch, tmp_path: Path) -> None:
    ended: Counter[str] = Counter()
    for number in range(COUNT):
        case = cases.build(0, number, *seeds, tmp_path)
        outcome = cases.judge(case, tmp_path, watch)
        assert not outcome.finding, f"{case}: {outcome.word}: {outcome.detail}"
        ended[outcome.word] += 1
    assert ended["ran"] > COUNT // 10
    assert COUNT - ended["ran"] > COUNT // 2
    assert len(ended) >= 5


def test_a_number_always_makes_the_same_case(seeds: tuple[Path, list[str]], tmp_path: Path) -> None:
    def content(number: int, place: Path) -> dict[str, bytes]:
        place.mkdir(exist_ok=True)
        cases.build(3, number, *seeds, place)
        files = sorted(path for path in (place / "case").rglob("*") if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(place)): path.read_bytes() for path in files}

    for number in range(20):
        assert content(number, tmp_path / "one") == content(number, tmp_path / "two")
    assert content(0, tmp_path / "one") != content(1, tmp_path / "one")


def _untyped(folder: Path) -> object:
    raise ValueError(folder)


def _long(folder: Path) -> object:
    raise CheckpointError("x" * 5000)


def _two_lines(folder: Path) -> object:
    raise CheckpointError("one\ntwo")


def _tells(folder: Path) -> object:
    raise CheckpointError((folder.parent / "secret.txt").read_text("utf-8"))


def _reads(folder: Path) -> object:
    (folder.parent / "secret.txt").read_text("utf-8")
    raise CheckpointError("refused")


def _imports(folder: Path) -> object:
    (folder / cases.PLANTED).read_bytes()
    raise CheckpointError("refused")


def _calls(folder: Path) -> object:
    socket.socket().close()
    raise CheckpointError("refused")


@pytest.mark.parametrize("deed", [_untyped, _long, _two_lines, _tells, _reads, _imports, _calls])
def test_each_kind_of_finding_is_found(
    deed: Callable[[Path], object],
    seeds: tuple[Path, list[str]],
    watch: cases.Watch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clearhead, "load", lambda folder, **_: deed(folder))
    assert cases.judge(cases.build(0, 0, *seeds, tmp_path), tmp_path, watch).finding


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


def test_a_crash_and_a_hang_are_found_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "_command", lambda: [sys.executable, "-c", CHILD])
    monkeypatch.setattr(drive, "HANG_SECONDS", 2)
    arguments = argparse.Namespace(seed=0, jobs=2, minutes=1.0, only=None, hostile=0.5, keep=tmp_path / "kept")
    tally = drive._drive(arguments, tmp_path, range(10))
    assert tally.done == 10
    assert tally.words["ran"] == 8
    assert sorted(line.split(":")[0] for line in tally.findings) == ["3", "5"]
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"0-3.txt", "0-5.txt"}
