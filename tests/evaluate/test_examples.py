"""Reports of real runs show rows: the right ones, with the words that an answer hangs on, for every task and method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clearhead.api import evaluate, load_predictor, train
from clearhead.data import Source, open_source
from clearhead.data.sources.source import Row
from clearhead.evaluate.examples import MAX_CELL_CHARACTERS, MAX_TEXT_CHARACTERS, show_examples
from clearhead.explain.occlusion import MOST_CHARACTERS
from clearhead.report import ReportData, report_html
from clearhead.tasks.examples import LabeledSpan, RowSelection, SelectedRow
from clearhead.train.finish import Run
from tests.report.pages import Reader
from tests.rows import QUICK, paired, scored, tagged
from tests.tiny_models import NEGATIVE_WORDS, POSITIVE_WORDS, labelled, write_csv


def planted(count: int = 120) -> list[dict[str, Any]]:
    """Rows of which two have the label of the others."""
    rows = labelled(count, seed=5)
    for place in (10, 20):
        rows[place]["label"] = "good" if rows[place]["label"] == "bad" else "bad"
    return rows


@pytest.mark.parametrize("kind", ["fitted", "words", "features"])
def test_planted_errors_and_the_words_that_gave_them_away(
    kind: str, tiny: str, reviews: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "features":
        run = train(reviews, output=tmp_path / "run", method="features", model=tiny, C=10.0)
    else:
        run = request.getfixturevalue(kind)
    predictor = load_predictor(run.folder)
    source = open_source(planted())
    made = evaluate(predictor, planted())
    assert made.picks is not None
    found = show_examples(predictor, source, predictor.resolve_columns(source), made.picks, seconds=20)
    rows = {example.selected.row: example for example in (*found.worst, *found.suspicious)}
    assert kind != "fitted" or {11, 21} <= {example.selected.row for example in found.suspicious}
    hanging = []
    for number in {11, 21} & rows.keys():
        example = rows[number]
        assert example.text == planted()[number - 1]["text"]
        assert example.words
        best = max(example.words, key=lambda word: word.weight)
        said = POSITIVE_WORDS if example.selected.answer == "good" else NEGATIVE_WORDS
        if best.weight > 0.1:  # who knows the bad words alone takes any other text for good, whatever is left out
            assert example.text[best.start : best.end] in said
            hanging.append(number)
        assert example.full_value == pytest.approx(example.selected.confidence, abs=1e-4)
    assert hanging
    assert found.explained == len(rows)
    assert found.scored > len(rows)


def test_report_of_a_run(fitted: Run, reviews: Path, tmp_path: Path) -> None:
    assert fitted.report is not None
    page = Reader(fitted.report.read_text())
    said = page.said("cost")
    assert "One text alone, median" in said
    assert "The model on disk" in said
    assert fitted.cost["latency of one text ms"] > 0
    assert 0 < fitted.cost["size on disk MB"] < 1
    path = tmp_path / "page.html"
    evaluate(fitted.folder, planted(), report=path)
    page = Reader(path.read_text())
    assert {"worst", "suspicious", "confusion", "lengths", "cost"} <= set(page.sections)
    assert planted()[10]["text"] in page.said("worst")
    assert "“" in page.said("worst")


@pytest.mark.parametrize(("kind", "rows"), [("several", tagged), ("pair", paired), ("number", scored)])
def test_every_task_shows_its_worst(kind: str, rows: Any, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(kind)
    path = tmp_path / "page.html"
    made = evaluate(run.folder, rows(90, seed=9), report=path)
    assert made.picks is not None
    page = Reader(path.read_text())
    if made.picks.worst:
        first = rows(90, seed=9)[made.picks.worst[0].row - 1]
        texts = [value for value in first.values() if isinstance(value, str) and " " in value]
        assert all(text in page.said("worst") for text in texts)
        assert "Which words mattered" in page.said("worst")
    else:
        assert "worst" not in page.sections


def test_only_what_is_shown_is_kept(words: Run) -> None:
    predictor = load_predictor(words.folder)
    long = "good " * 30_000
    rows = [{"text": f"{long} {place}", "label": ("good", "bad")[place % 2]} for place in range(40)]
    made = evaluate(predictor, rows)
    assert made.picks is not None
    source = open_source(rows)
    found = show_examples(predictor, source, predictor.resolve_columns(source), made.picks)
    assert found.explained == 0  # too long to be taken apart
    assert all(len(example.text) == MAX_TEXT_CHARACTERS and example.is_truncated for example in found.worst)
    assert all(example.words is None for example in found.worst)
    assert all(len(example.text) == MAX_CELL_CHARACTERS for cell in found.cells for example in cell.examples)
    assert MAX_TEXT_CHARACTERS < MOST_CHARACTERS


def test_the_second_pass_ends_with_the_last_row(words: Run) -> None:
    predictor = load_predictor(words.folder)
    rows = planted()
    made = evaluate(predictor, rows[:30])
    assert made.picks is not None
    read: list[int] = []

    def opened() -> Any:
        for number, row in enumerate(rows, 1):
            read.append(number)
            yield Row(number, row)

    source = Source(name="rows", kind="list", columns=("id", "text", "label"), open=opened)
    columns = predictor.resolve_columns(source)
    read.clear()
    show_examples(predictor, source, columns, made.picks)
    assert max(read) <= 30


def test_what_can_be_read_once_shows_no_rows(words: Run, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    evaluate(words.folder, (row for row in planted()), report=path)
    page = Reader(path.read_text())
    assert "worst" not in page.sections
    assert "can be read only once; the report shows no rows" in page.said("notes")


def test_dev_and_test_are_both_shown(tiny: str, tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", planted(200))
    run = train(rows, output=tmp_path / "run", model=tiny, epochs=4, **QUICK)
    assert run.report is not None
    page = Reader(run.report.read_text())
    for section in ("labels", "confusion", "lengths"):
        assert "The same for the dev rows" in page.said(section)


def test_marks_of_a_pick_reach_the_example(words: Run) -> None:
    predictor = load_predictor(words.folder)
    source = open_source([{"text": "nothing " * 400 + "Anna", "label": "good"}])
    mark = LabeledSpan(start=3200, end=3204, label="PER", kind="true")
    picks = RowSelection(worst=(SelectedRow(row=1, truth="PER", answer="none", spans=(mark,)),))
    found = show_examples(predictor, source, predictor.resolve_columns(source), picks)
    (example,) = found.worst
    assert example.text[mark.start : mark.end] == "Anna"
    assert example.spans == (mark,)
    assert example.words is None
    data = ReportData(title="t", command="", parts={"test": words.evaluations["test"]}, examples={"test": found})
    assert "[true PER: Anna]" in Reader(report_html(data)).said("worst")
