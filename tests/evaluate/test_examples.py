"""Error examples in reports of real runs, with the most relevant words, for every task and method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clearhead.api import evaluate, load_predictor, train
from clearhead.data import Source, open_source
from clearhead.data.sources.source import Row
from clearhead.evaluate.examples import MAX_CELL_CHARACTERS, MAX_TEXT_CHARACTERS, show_examples
from clearhead.explain.occlusion import MAX_CHARACTERS
from clearhead.report import ReportData, report_html
from clearhead.tasks.examples import LabeledSpan, RowSelection, SelectedRow
from clearhead.train.finish import Run
from tests.report.pages import Reader
from tests.rows import QUICK, make_multilabel_rows, make_pair_rows, make_scored_rows
from tests.tiny_models import NEGATIVE_WORDS, POSITIVE_WORDS, make_sentiment_rows, write_csv


def plant_wrong_labels(count: int = 120) -> list[dict[str, Any]]:
    """Make rows of which two have the wrong label."""
    rows = make_sentiment_rows(count, seed=5)
    for index in (10, 20):
        rows[index]["label"] = "good" if rows[index]["label"] == "bad" else "bad"
    return rows


@pytest.mark.parametrize("kind", ["fine_tuned_run", "tfidf_run", "features"])
def test_planted_errors_and_the_words_that_gave_them_away(
    kind: str, tiny: str, reviews: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "features":
        run = train(reviews, output=tmp_path / "run", method="features", model=tiny, C=10.0)
    else:
        run = request.getfixturevalue(kind)
    predictor = load_predictor(run.folder)
    source = open_source(plant_wrong_labels())
    evaluation = evaluate(predictor, plant_wrong_labels())
    assert evaluation.picks is not None
    examples = show_examples(predictor, source, predictor.resolve_columns(source), evaluation.picks, seconds=20)
    rows = {example.selected.row: example for example in (*examples.worst, *examples.suspicious)}
    assert kind != "fine_tuned_run" or {11, 21} <= {example.selected.row for example in examples.suspicious}
    explained = []
    for number in {11, 21} & rows.keys():
        example = rows[number]
        assert example.text == plant_wrong_labels()[number - 1]["text"]
        assert example.words
        strongest = max(example.words, key=lambda word: word.weight)
        sentiment_words = POSITIVE_WORDS if example.selected.answer == "good" else NEGATIVE_WORDS
        if strongest.weight > 0.1:  # a model that only knows negative words predicts good for all other texts
            assert example.text[strongest.start : strongest.end] in sentiment_words
            explained.append(number)
        assert example.full_value == pytest.approx(example.selected.confidence, abs=1e-4)
    assert explained
    assert examples.explained == len(rows)
    assert examples.scored > len(rows)


def test_report_of_a_run(fine_tuned_run: Run, reviews: Path, tmp_path: Path) -> None:
    assert fine_tuned_run.report is not None
    page = Reader(fine_tuned_run.report.read_text())
    cost_text = page.section_text("cost")
    assert "Latency of one text (median)" in cost_text
    assert "Model size on disk" in cost_text
    assert fine_tuned_run.cost["latency of one text ms"] > 0
    assert 0 < fine_tuned_run.cost["size on disk MB"] < 1
    path = tmp_path / "page.html"
    evaluate(fine_tuned_run.folder, plant_wrong_labels(), report=path)
    page = Reader(path.read_text())
    assert {"worst", "suspicious", "confusion", "lengths", "cost"} <= set(page.sections)
    assert plant_wrong_labels()[10]["text"] in page.section_text("worst")
    assert "“" in page.section_text("worst")


@pytest.mark.parametrize(
    ("kind", "rows"),
    [("multilabel_run", make_multilabel_rows), ("pair_run", make_pair_rows), ("regression_run", make_scored_rows)],
)
def test_every_task_shows_its_worst(kind: str, rows: Any, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(kind)
    path = tmp_path / "page.html"
    evaluation = evaluate(run.folder, rows(90, seed=9), report=path)
    assert evaluation.picks is not None
    page = Reader(path.read_text())
    if evaluation.picks.worst:
        first = rows(90, seed=9)[evaluation.picks.worst[0].row - 1]
        texts = [value for value in first.values() if isinstance(value, str) and " " in value]
        assert all(text in page.section_text("worst") for text in texts)
        assert "Word importance by occlusion" in page.section_text("worst")
    else:
        assert "worst" not in page.sections


def test_only_what_is_shown_is_kept(tfidf_run: Run) -> None:
    predictor = load_predictor(tfidf_run.folder)
    long_text = "good " * 30_000
    rows = [{"text": f"{long_text} {index}", "label": ("good", "bad")[index % 2]} for index in range(40)]
    evaluation = evaluate(predictor, rows)
    assert evaluation.picks is not None
    source = open_source(rows)
    examples = show_examples(predictor, source, predictor.resolve_columns(source), evaluation.picks)
    assert examples.explained == 0  # too long for occlusion
    assert all(len(example.text) == MAX_TEXT_CHARACTERS and example.is_truncated for example in examples.worst)
    assert all(example.words is None for example in examples.worst)
    assert all(len(example.text) == MAX_CELL_CHARACTERS for cell in examples.cells for example in cell.examples)
    assert MAX_TEXT_CHARACTERS < MAX_CHARACTERS


def test_the_second_pass_ends_with_the_last_row(tfidf_run: Run) -> None:
    predictor = load_predictor(tfidf_run.folder)
    rows = plant_wrong_labels()
    evaluation = evaluate(predictor, rows[:30])
    assert evaluation.picks is not None
    rows_read: list[int] = []

    def open_rows() -> Any:
        for number, row in enumerate(rows, 1):
            rows_read.append(number)
            yield Row(number, row)

    source = Source(name="rows", kind="list", columns=("id", "text", "label"), open=open_rows)
    columns = predictor.resolve_columns(source)
    rows_read.clear()
    show_examples(predictor, source, columns, evaluation.picks)
    assert max(rows_read) <= 30


def test_what_can_be_read_once_shows_no_rows(tfidf_run: Run, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    evaluate(tfidf_run.folder, (row for row in plant_wrong_labels()), report=path)
    page = Reader(path.read_text())
    assert "worst" not in page.sections
    assert "can be read only once; the report shows no rows" in page.section_text("notes")


def test_dev_and_test_are_both_shown(tiny: str, tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", plant_wrong_labels(200))
    run = train(rows, output=tmp_path / "run", model=tiny, epochs=4, **QUICK)
    assert run.report is not None
    page = Reader(run.report.read_text())
    for section in ("labels", "confusion", "lengths"):
        assert "Results on the dev rows" in page.section_text(section)


def test_marks_of_a_pick_reach_the_example(tfidf_run: Run) -> None:
    predictor = load_predictor(tfidf_run.folder)
    source = open_source([{"text": "nothing " * 400 + "Anna", "label": "good"}])
    span = LabeledSpan(start=3200, end=3204, label="PER", kind="true")
    picks = RowSelection(worst=(SelectedRow(row=1, truth="PER", answer="none", spans=(span,)),))
    examples = show_examples(predictor, source, predictor.resolve_columns(source), picks)
    (example,) = examples.worst
    assert example.text[span.start : span.end] == "Anna"
    assert example.spans == (span,)
    assert example.words is None
    data = ReportData(title="t", command="", parts={"test": tfidf_run.evaluations["test"]}, examples={"test": examples})
    assert "[true PER: Anna]" in Reader(report_html(data)).section_text("worst")
