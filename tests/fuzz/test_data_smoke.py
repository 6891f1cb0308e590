"""A small run of the data fuzzer, and controls: each kind of finding is detected."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clearhead.data import Examples, load_examples, split_rows, token_batches
from clearhead.errors import InputError
from fuzz import data, data_case
from fuzz.case import Outcome
from fuzz.data_files import build_case, draw_file
from fuzz.data_seeds import File

COUNT = 80


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> object:
    return data.make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def test_mutated_files_are_read_or_refused(tokenizer: object, tmp_path: Path) -> None:
    outcome_counts: Counter[str] = Counter()
    for number in range(COUNT):
        case, file, path = build_case(17, number, tmp_path)
        outcome = data_case.check_file(file, path, number, tokenizer)
        assert not outcome.finding or outcome.word == "slow", f"{case}: {outcome.word}: {outcome.detail}"
        outcome_counts[outcome.word.split(",")[0]] += 1
    assert outcome_counts["read"] + outcome_counts["read in part"] > COUNT // 3
    assert outcome_counts["refused: InputError"] > COUNT // 10
    assert outcome_counts["read as tag"]
    assert outcome_counts["read as span"]
    assert outcome_counts["read as choice"]


def test_a_number_always_yields_the_same_file() -> None:
    files = [draw_file(3, number) for number in range(40)]
    assert files == [draw_file(3, number) for number in range(40)]
    assert len({file.data for _, file in files}) > 30
    assert len({writer for writer, _ in files}) > 4


def _raise_untyped(*_: object, **__: object) -> None:
    raise ValueError("untyped")


def _warn_and_refuse(*_: object, **__: object) -> None:
    warnings.warn("unexpected warning", stacklevel=1)
    raise InputError("refused.")


def _refuse_with(text: str) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise InputError(text)

    return refuse


ROWS = "text,label\n" + "".join(f"a small boat number {row},{'ab'[row % 2]}\n" for row in range(30))


def _check_rows_file(tokenizer: object, tmp_path: Path) -> Outcome:
    path = tmp_path / "data.csv"
    path.write_text(ROWS)
    file = File("data.csv", path.read_bytes(), rows=30)
    return data_case.check_file(file, path, 0, tokenizer)


def test_a_valid_file_is_not_a_finding(tokenizer: object, tmp_path: Path) -> None:
    assert _check_rows_file(tokenizer, tmp_path).word.startswith("read")


@pytest.mark.parametrize(
    ("function_name", "replacement"),
    [
        ("open_source", _raise_untyped),
        ("open_source", _warn_and_refuse),
        ("inspect_data", _refuse_with("x" * 2001)),
        ("load_examples", _refuse_with("a\x1b[2Jb")),
        ("guess_columns", _refuse_with("one\ntwo")),
        ("guess_columns", _refuse_with("")),
        ("open_source", _refuse_with("rows:\n  row 1: " + "x" * 1000 + "\nFix them.")),
    ],
)
def test_errors_that_are_findings(
    function_name: str,
    replacement: Callable[..., None],
    tokenizer: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(data_case, function_name, replacement)
    assert _check_rows_file(tokenizer, tmp_path).finding


def _drop_last_row(examples: Examples) -> Examples:
    return examples.select(range(len(examples) - 1))


def _shift_labels(examples: Examples) -> Examples:
    return replace(examples, labels=examples.labels + 1) if examples.labels is not None else examples


def _drop_first_hash(examples: Examples) -> Examples:
    return replace(examples, hashes=examples.hashes[1:])


def _insert_lone_surrogate(examples: Examples) -> Examples:
    return replace(examples, texts=["\ud800", *examples.texts[1:]])


@pytest.mark.parametrize("change", [_drop_last_row, _shift_labels, _drop_first_hash, _insert_lone_surrogate])
def test_results_that_are_findings(
    change: Callable[[Examples], Examples], tokenizer: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = load_examples
    monkeypatch.setattr(data_case, "load_examples", lambda *args, **options: change(load(*args, **options)))
    assert _check_rows_file(tokenizer, tmp_path).finding


def test_splits_and_batches_that_are_findings(
    tokenizer: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_batches = token_batches
    with monkeypatch.context() as patch:
        patch.setattr(data_case, "token_batches", lambda *args, **options: make_batches(*args, **options)[1:])
        assert "batches" in _check_rows_file(tokenizer, tmp_path).detail
    split: Any = split_rows
    monkeypatch.setattr(data_case, "split_rows", lambda *args, **options: split(*args, **options)[:-1])
    assert "split" in _check_rows_file(tokenizer, tmp_path).detail


def test_a_file_that_takes_long_is_a_finding(
    tokenizer: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_case, "MAX_SECONDS", 0.0)
    assert _check_rows_file(tokenizer, tmp_path).word == "slow"


CHILD = """
import json, os, sys, time
first, stop, step = map(int, sys.argv[-3:])
print("ready", flush=True)
for number in range(first, stop, step):
    if number == 3: os.abort()
    if number == 5: time.sleep(60)
    case = {"number": number, "seed": "s", "file": "f", "kind": "k"}
    print(json.dumps([case, {"word": "read", "detail": "", "finding": number == 7}]), flush=True)
"""


def test_a_crash_and_a_hang_are_reported_and_other_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data.WorkerPool, "command", lambda self: [sys.executable, "-c", CHILD])
    monkeypatch.setattr(data, "HANG_SECONDS", 2)
    arguments = argparse.Namespace(seed=0, jobs=2, minutes=1.0, only=None, keep=tmp_path / "kept")
    tally = data.WorkerPool(arguments, tmp_path, range(10)).run_all()
    assert tally.done == 10
    assert tally.outcomes["read"] == 8
    assert sorted(line.split(":")[0] for line in tally.findings) == ["3", "5", "7"]
    finding = tmp_path / "kept" / "data-0-5"
    assert "--seed 0 --only 5" in (finding / "finding.txt").read_text()
    assert any((finding / "case").iterdir())
