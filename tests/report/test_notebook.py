"""Results are displayed in a notebook as small tables without scripts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clearhead.html import render_table
from clearhead.predict.files import PredictionSummary
from clearhead.train.finish import Run
from tests.report.pages import Reader
from tests.report.samples import HOSTILE, class_evaluation, make_inspection

SAFE = {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "small"}


def results(word: str) -> list[Any]:
    """Return a result of each kind that contains `word`."""
    evaluation = replace(class_evaluation(60), task=word, skipped={word: 2})
    run = Run(
        folder=Path("runs") / word.replace("/", "").replace("\0", "")[:50],
        task=word,
        method="tfidf",
        labels=(word,),
        columns={},
        rows={word: 3},
        evaluations={"test": evaluation, "dev": class_evaluation(40)},
        seeds=(),
        notes=(word,),
    )
    summary = PredictionSummary(
        output=word, rows=10, resumed=0, truncated=1, windowed=0, abstained=0, skipped={word: 4}, columns={}
    )
    inspection = replace(make_inspection(), sources=(word,), labels={word: 5})
    return [evaluation, run, summary, inspection]


@pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
def test_nothing_runs(word: str) -> None:
    for result in results(word):
        html = result._repr_html_()
        html.encode()
        page = Reader(html)
        assert {tag for tag, _ in page.tags} <= SAFE
        assert {name for _, attributes in page.tags for name in attributes} <= {"style", "scope"}
        assert len(html) < 20_000
        assert "\u202e" not in html


def test_their_texts() -> None:
    evaluation, run, summary, inspection = (Reader(result._repr_html_()) for result in results("word"))
    accuracy = class_evaluation(60).metrics["accuracy"]
    assert f"accuracy {accuracy.value:.4f} {accuracy.low:.4f} to {accuracy.high:.4f}" in " ".join(
        evaluation.text.split()
    )
    assert "word on 60 rows" in evaluation.text
    assert "test" in run.text
    assert "model: runs/word" in run.text
    assert "predictions in word" in summary.text
    assert "skipped: word" in summary.text
    assert "rows of word" in inspection.text
    assert "error: " in inspection.text or "warning: " in inspection.text


def test_long_tables_are_cut() -> None:
    assert "and 80 more" in render_table("t", ("a", "b"), [(n, n) for n in range(100)])
