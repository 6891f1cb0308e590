"""Files of tags, answers and options that nobody should have: read, or refused in a sentence, and never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import evaluate, inspect, predict_file, train
from clearhead.errors import ClearheadError
from tests.task_rows import QUICK, conll, options, questions, spans, squad, words_and_tags

DEEP = "[" * 60_000
NUMBER = "9" * 6000
TAGS = conll(words_and_tags(12))
SPANS = [json.dumps(row) for row in spans(words_and_tags(12))]
ASKED = [json.dumps(row) for row in questions(12)]
OPTIONS = [json.dumps(row) for row in options(12)]
NEST = json.dumps(squad(questions(12)))


def lines(rows: list[str], odd: str) -> str:
    return "\n".join([*rows, odd]) + "\n"


FILES: dict[str, tuple[str, str]] = {
    "a NUL byte in a token": ("a.conll", TAGS + "\nbad\0\tO\n"),
    "half a character in a token": ("a.conll", TAGS + "\n\ud800\tO\n"),
    "a token of a million": ("a.conll", TAGS + f"\n{'good' * 250_000}\tO\n"),
    "no blank lines": ("a.conll", TAGS.replace("\n\n", "\n")),
    "other columns": ("a.conll", TAGS + "\ngood\tO\tO\n"),
    "mixed schemes": ("a.conll", TAGS + "\ngood\tNOUN\n"),
    "documents alone": ("a.conll", "-DOCSTART- O\n\n" * 5),
    "tags that inject": ("a.conll", TAGS + "\ngood\tB-<script>alert(1)</script>\n"),
    "deep spans": ("a.jsonl", lines(SPANS, '{"text": "good film", "spans": ' + DEEP + "}")),
    "deep spans in a cell": ("a.jsonl", lines(SPANS, json.dumps({"text": "good film", "spans": DEEP}))),
    "a huge start": ("a.jsonl", lines(SPANS, '{"text": "good", "spans": [[' + NUMBER + ', 4, "X"]]}')),
    "a huge start in a cell": ("a.jsonl", lines(SPANS, json.dumps({"text": "a", "spans": f'[[{NUMBER}, 4, "X"]]'}))),
    "odd spans": ("a.jsonl", lines(SPANS, '{"text": "good", "spans": [null, 1, "x", [], {}, [true, false, null]]}')),
    "a label that is a surrogate": ("a.jsonl", lines(SPANS, '{"text": "good", "spans": [[0, 4, "\\ud800"]]}')),
    "a text that is a surrogate": ("a.jsonl", lines(SPANS, '{"text": "\\ud800", "spans": []}')),
    "a text of a million": ("a.jsonl", lines(SPANS, json.dumps({"text": "x" * 1_000_000, "spans": []}))),
    "a huge answer start": ("a.jsonl", lines(ASKED, ASKED[0].replace('"answer_start": ', '"answer_start": ' + NUMBER))),
    "an answer beyond": ("a.jsonl", lines(ASKED, ASKED[0].replace('"answer_start": ', '"answer_start": 99'))),
    "deep answers": ("a.jsonl", lines(ASKED, json.dumps({"question": "a", "context": "b", "answers": DEEP}))),
    "answers of odd kinds": ("a.jsonl", lines(ASKED, '{"question": "a", "context": "b", "answers": [1, null, {}]}')),
    "a question of a million": (
        "a.jsonl",
        lines(ASKED, json.dumps({"question": "was " * 250_000, "context": "good", "answers": ["good"]})),
    ),
    "a cut nest": ("a.json", NEST[:-40]),
    "a nest of others": ("a.json", NEST.replace('"qas": [', '"qas": [5, null, "x", [], ')),
    "a passage that is a list": ("a.json", NEST.replace('"context": "', '"context": ["x"], "other": "', 1)),
    "options of odd kinds": ("a.jsonl", lines(OPTIONS, '{"question": "a", "option1": 1, "option2": {}, "label": "A"}')),
    "options of nothing": ("a.jsonl", lines(OPTIONS, '{"question": "a", "option1": null, "label": "A"}')),
    "a label without end": ("a.jsonl", lines(OPTIONS, OPTIONS[0].replace('"label": "', '"label": "' + NUMBER))),
    "a label with two signs": ("a.jsonl", lines(OPTIONS, OPTIONS[0].replace('"label": "', '"label": "--5'))),
}


def told(job: Any) -> None:
    """It works, or says in a few words why not."""
    try:
        job()
    except ClearheadError as error:
        text = str(error)
        assert len(text) < 1500, text[:3000]
        assert all(len(line) < 400 for line in text.splitlines())
        assert all(letter.isprintable() or letter == "\n" for letter in text)


@pytest.mark.thin(5)
@pytest.mark.parametrize("what", FILES)
def test_nothing_but_sentences(what: str, tiny: str, tmp_path: Path) -> None:
    name, text = FILES[what]
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    told(lambda: train(path, output=tmp_path / "run", model=tiny, epochs=1, **QUICK))
    told(lambda: inspect(path, model=None))
    run = tmp_path / "skipped"
    told(lambda: train(path, output=run, model=tiny, epochs=1, skip_bad_rows=True, learning_rate=3e-3))
    if (run / "report.html").is_file():
        assert "<script>alert(1)" not in (run / "report.html").read_text()
    if (run / "clearhead.json").is_file():
        told(lambda: evaluate(run, path))
        told(lambda: predict_file(run, path, tmp_path / "out.jsonl", skip_bad_rows=True))
        told(lambda: predict_file(run, path, tmp_path / "out.csv"))
