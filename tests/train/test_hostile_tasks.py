"""Malformed files of tags, answers and options are read or refused with a short message, without a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import evaluate, inspect, predict_file, train
from clearhead.errors import ClearheadError
from tests.task_rows import (
    QUICK,
    format_conll,
    format_squad,
    make_option_rows,
    make_questions,
    make_span_rows,
    make_tagged_words,
)

DEEP = "[" * 60_000
NUMBER = "9" * 6000
TAGS = format_conll(make_tagged_words(12))
SPANS = [json.dumps(row) for row in make_span_rows(make_tagged_words(12))]
QUESTIONS = [json.dumps(row) for row in make_questions(12)]
OPTIONS = [json.dumps(row) for row in make_option_rows(12)]
SQUAD = json.dumps(format_squad(make_questions(12)))


def append_odd_row(rows: list[str], odd_row: str) -> str:
    return "\n".join([*rows, odd_row]) + "\n"


FILES: dict[str, tuple[str, str]] = {
    "a NUL byte in a token": ("a.conll", TAGS + "\nbad\0\tO\n"),
    "half a character in a token": ("a.conll", TAGS + "\n\ud800\tO\n"),
    "a token of a million": ("a.conll", TAGS + f"\n{'good' * 250_000}\tO\n"),
    "no blank lines": ("a.conll", TAGS.replace("\n\n", "\n")),
    "other columns": ("a.conll", TAGS + "\ngood\tO\tO\n"),
    "mixed schemes": ("a.conll", TAGS + "\ngood\tNOUN\n"),
    "documents alone": ("a.conll", "-DOCSTART- O\n\n" * 5),
    "tags that inject": ("a.conll", TAGS + "\ngood\tB-<script>alert(1)</script>\n"),
    "deep spans": ("a.jsonl", append_odd_row(SPANS, '{"text": "good film", "spans": ' + DEEP + "}")),
    "deep spans in a cell": ("a.jsonl", append_odd_row(SPANS, json.dumps({"text": "good film", "spans": DEEP}))),
    "a huge start": ("a.jsonl", append_odd_row(SPANS, '{"text": "good", "spans": [[' + NUMBER + ', 4, "X"]]}')),
    "a huge start in a cell": (
        "a.jsonl",
        append_odd_row(SPANS, json.dumps({"text": "a", "spans": f'[[{NUMBER}, 4, "X"]]'})),
    ),
    "odd spans": (
        "a.jsonl",
        append_odd_row(SPANS, '{"text": "good", "spans": [null, 1, "x", [], {}, [true, false, null]]}'),
    ),
    "a label that is a surrogate": ("a.jsonl", append_odd_row(SPANS, '{"text": "good", "spans": [[0, 4, "\\ud800"]]}')),
    "a text that is a surrogate": ("a.jsonl", append_odd_row(SPANS, '{"text": "\\ud800", "spans": []}')),
    "a text of a million": ("a.jsonl", append_odd_row(SPANS, json.dumps({"text": "x" * 1_000_000, "spans": []}))),
    "a huge answer start": (
        "a.jsonl",
        append_odd_row(QUESTIONS, QUESTIONS[0].replace('"answer_start": ', '"answer_start": ' + NUMBER)),
    ),
    "an answer beyond": (
        "a.jsonl",
        append_odd_row(QUESTIONS, QUESTIONS[0].replace('"answer_start": ', '"answer_start": 99')),
    ),
    "deep answers": (
        "a.jsonl",
        append_odd_row(QUESTIONS, json.dumps({"question": "a", "context": "b", "answers": DEEP})),
    ),
    "answers of odd kinds": (
        "a.jsonl",
        append_odd_row(QUESTIONS, '{"question": "a", "context": "b", "answers": [1, null, {}]}'),
    ),
    "a question of a million": (
        "a.jsonl",
        append_odd_row(QUESTIONS, json.dumps({"question": "was " * 250_000, "context": "good", "answers": ["good"]})),
    ),
    "a cut nest": ("a.json", SQUAD[:-40]),
    "a nest of others": ("a.json", SQUAD.replace('"qas": [', '"qas": [5, null, "x", [], ')),
    "a passage that is a list": ("a.json", SQUAD.replace('"context": "', '"context": ["x"], "other": "', 1)),
    "options of odd kinds": (
        "a.jsonl",
        append_odd_row(OPTIONS, '{"question": "a", "option1": 1, "option2": {}, "label": "A"}'),
    ),
    "options of nothing": ("a.jsonl", append_odd_row(OPTIONS, '{"question": "a", "option1": null, "label": "A"}')),
    "a label without end": (
        "a.jsonl",
        append_odd_row(OPTIONS, OPTIONS[0].replace('"label": "', '"label": "' + NUMBER)),
    ),
    "a label with two signs": ("a.jsonl", append_odd_row(OPTIONS, OPTIONS[0].replace('"label": "', '"label": "--5'))),
}


def check_outcome(action: Any) -> None:
    """Run an action, which must succeed or fail with a short printable message."""
    try:
        action()
    except ClearheadError as error:
        message = str(error)
        assert len(message) < 1500, message[:3000]
        assert all(len(line) < 400 for line in message.splitlines())
        assert all(letter.isprintable() or letter == "\n" for letter in message)


@pytest.mark.thin(5)
@pytest.mark.parametrize("case", FILES)
def test_malformed_files_have_short_messages(case: str, tiny: str, tmp_path: Path) -> None:
    name, text = FILES[case]
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    check_outcome(lambda: train(path, output=tmp_path / "run", model=tiny, epochs=1, **QUICK))
    check_outcome(lambda: inspect(path, model=None))
    run = tmp_path / "skipped"
    check_outcome(lambda: train(path, output=run, model=tiny, epochs=1, skip_bad_rows=True, learning_rate=3e-3))
    if (run / "report.html").is_file():
        assert "<script>alert(1)" not in (run / "report.html").read_text()
    if (run / "clearhead.json").is_file():
        check_outcome(lambda: evaluate(run, path))
        check_outcome(lambda: predict_file(run, path, tmp_path / "out.jsonl", skip_bad_rows=True))
        check_outcome(lambda: predict_file(run, path, tmp_path / "out.csv"))
