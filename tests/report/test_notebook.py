"""Results show themselves in a notebook as small tables, with nothing in them that runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clearhead.html import render_table
from clearhead.predict.files import PredictionSummary
from clearhead.train.finish import Run
from tests.report.pages import Reader
from tests.report.samples import HOSTILE, classes, inspected

SAFE = {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "small"}


def results(word: str) -> list[Any]:
    """One of each kind of result, with a name in it."""
    one = replace(classes(60), task=word, skipped={word: 2})
    run = Run(
        folder=Path("runs") / word.replace("/", "").replace("\0", "")[:50],
        task=word,
        method="tfidf",
        labels=(word,),
        columns={},
        rows={word: 3},
        evaluations={"test": one, "dev": classes(40)},
        seeds=(),
        notes=(word,),
    )
    done = PredictionSummary(
        output=word, rows=10, resumed=0, truncated=1, windowed=0, abstained=0, skipped={word: 4}, columns={}
    )
    found = replace(inspected(), sources=(word,), labels={word: 5})
    return [one, run, done, found]


@pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
def test_nothing_runs(word: str) -> None:
    for result in results(word):
        html = result._repr_html_()
        html.encode()
        page = Reader(html)
        assert {tag for tag, _ in page.tags} <= SAFE
        assert {name for _, own in page.tags for name in own} <= {"style", "scope"}
        assert len(html) < 20_000
        assert "\u202e" not in html


def test_what_they_say() -> None:
    one, run, done, found = (Reader(result._repr_html_()) for result in results("word"))
    value = classes(60).metrics["accuracy"]
    assert f"accuracy {value.value:.4f} {value.low:.4f} to {value.high:.4f}" in " ".join(one.text.split())
    assert "word on 60 rows" in one.text
    assert "test" in run.text
    assert "model: runs/word" in run.text
    assert "predictions in word" in done.text
    assert "skipped: word" in done.text
    assert "rows of word" in found.text
    assert "error: " in found.text or "warning: " in found.text


def test_long_tables_are_cut() -> None:
    assert "and 80 more" in render_table("t", ("a", "b"), [(n, n) for n in range(100)])
