"""The report states what was measured on which rows, and omits missing results."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from clearhead.errors import ClearheadError, InputError
from clearhead.metrics import Interval, PairedResult
from clearhead.report import ReportData, report_html, save_report
from clearhead.report.headline import DEV_USE
from clearhead.report.page import SECTIONS
from clearhead.report.part_views import PER_PART
from clearhead.tasks.evaluation import Evaluation
from tests.report.pages import Reader
from tests.report.samples import (
    LABELS,
    class_evaluation,
    full_report,
    make_inspection,
    make_log,
    multilabel_evaluation,
    number_evaluation,
    slice_columns,
)


@pytest.fixture(scope="module")
def full_page() -> Reader:
    return Reader(report_html(full_report()))


def read_bare_report(**parts: Evaluation) -> Reader:
    return Reader(report_html(ReportData(title="A run", command="", parts=parts)))


def test_every_section_is_there_and_in_the_contents(full_page: Reader) -> None:
    assert list(full_page.sections) == ["headline", *SECTIONS]
    links = [link["href"] for link in full_page.all("a")]
    assert links[: len(full_page.sections)] == [f"#{name}" for name in full_page.sections]
    ids = [attributes["id"] for _, attributes in full_page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {str(link)[1:] for link in links} <= set(ids)


def test_missing_results_are_left_out() -> None:
    assert list(read_bare_report(test=number_evaluation()).sections) == ["headline", "metrics"]
    assert list(read_bare_report(test=multilabel_evaluation()).sections) == [
        "headline",
        "metrics",
        "labels",
        "calibration",
        "coverage",
    ]
    empty_page = read_bare_report()
    assert list(empty_page.sections) == ["headline"]
    assert "No evaluation results." in empty_page.section_text("headline")


def test_headline_of_test_rows(full_page: Reader) -> None:
    evaluation, text = full_report().parts["test"], full_page.section_text("headline")
    interval = evaluation.metrics["accuracy"]
    assert f"Accuracy is {interval.value:.3f}, measured on 300 rows held out for testing" in text
    assert f"between {interval.low:.3f} and {interval.high:.3f} (95% interval)" in text
    majority = max(evaluation.label_scores, key=lambda score: score.rows)
    assert f"Always predicting “{majority.label}” reaches {majority.rows / 300:.3f}" in text
    assert "2 rows could not be used" in text
    assert "1 text occurs in more than one part of the data, so the value may be optimistic." in text
    assert "not a test result" not in text


def test_headline_without_test_rows_says_so() -> None:
    page = read_bare_report(dev=class_evaluation())
    text = page.section_text("headline")
    assert "There is no test result" in text
    assert "not a test result" in text
    assert DEV_USE in text
    for section in ("metrics", "labels", "confusion", "calibration", "coverage"):
        assert DEV_USE in page.section_text(section)


def test_dev_results_are_always_labeled(full_page: Reader) -> None:
    for section in ("metrics", "seeds"):
        assert DEV_USE in full_page.section_text(section)
    assert "not a test result" in full_page.section_text("curves")
    for section in PER_PART:
        first_text, _, folded_text = full_page.section_text(section).partition("Results on the dev rows")
        assert re.search("(on|of|among) the test rows", first_text, re.IGNORECASE)
        assert DEV_USE not in first_text
        assert not folded_text or folded_text.startswith(f" ({DEV_USE})")
        assert folded_text or section == "slices"  # the dev rows of this run have no slices


def test_rows_of_another_file() -> None:
    text = read_bare_report(rows=class_evaluation(40)).section_text("headline")
    assert "the 40 rows given; whether they overlap with the training rows is not known" in text
    assert "40 rows are few" in text


def test_metrics_are_in_the_table(full_page: Reader) -> None:
    data, text = full_report(), full_page.section_text("metrics")
    for part in ("test", "dev"):
        for interval in data.parts[part].metrics.values():
            assert f"{interval.value:.3f} {interval.low:.3f} to {interval.high:.3f}" in text
    assert "5 rows split into windows; 2 rows truncated" in text
    assert "Skipped: empty text (2)." in text
    picture = full_page.all("svg", **{"aria-labelledby": "whiskers-title whiskers-desc"})
    assert len(picture) == 1
    metrics_only = Reader(report_html(full_report(ladder=None, sweep=())))  # these figures have points, too
    assert len(metrics_only.all("circle", **{"class": "point plain"})) == 8  # log loss is not bounded by 1
    assert len(metrics_only.all("circle", **{"class": "point chosen"})) == 8


def test_a_metric_that_is_not_defined() -> None:
    evaluation = class_evaluation(50)
    undefined = Interval(value=math.nan, low=math.nan, high=math.nan)
    page = read_bare_report(test=replace(evaluation, metrics=dict.fromkeys(evaluation.metrics, undefined)))
    assert "Accuracy is not defined on these rows" in page.section_text("headline")
    assert "nan" not in page.text.lower()
    assert not page.all("circle", **{"class": "point plain"})
    unbounded = Interval(value=0.5, low=math.nan, high=math.nan)
    assert "No confidence interval is available." in read_bare_report(
        test=replace(evaluation, metrics={"accuracy": unbounded})
    ).section_text("headline")


def test_rows_of_a_single_class() -> None:
    evaluation = class_evaluation(30, labels=("yes", "no"))
    scores = tuple(
        replace(score, precision=math.nan, recall=math.nan, f1=math.nan) for score in evaluation.label_scores
    )
    page = read_bare_report(test=replace(evaluation, label_scores=scores, confusion=((0, 0), (0, 30))))
    assert "nan" not in page.text.lower()
    assert "All rows are classified correctly." in page.section_text("confusion")


def test_confusion_of_few_and_of_many(full_page: Reader) -> None:
    evaluation = full_report().parts["test"]
    assert evaluation.confusion is not None
    text = full_page.section_text("confusion")
    for label, row in zip(LABELS, evaluation.confusion, strict=True):
        assert f"{label} {' '.join(map(str, row))} {sum(row)}".replace(" ", "") in text.replace(" ", "")
    worst = max(
        (count, evaluation.labels[true], evaluation.labels[predicted])
        for true, row in enumerate(evaluation.confusion)
        for predicted, count in enumerate(row)
        if true != predicted
    )
    assert f"{worst[1]} {worst[2]} {worst[0]}" in text
    many_labels = read_bare_report(test=class_evaluation(900, labels=tuple(f"class {n}" for n in range(31))))
    assert "There are 31 labels, too many for a readable matrix" in many_labels.section_text("confusion")
    assert "Most often confused" in many_labels.section_text("confusion")
    assert not many_labels.all("table", **{"class": "heat"})


def test_very_many_labels_stay_readable() -> None:
    names = tuple(f"class {number}" for number in range(400))
    page = report_html(ReportData(title="t", command="", parts={"test": class_evaluation(2000, labels=names)}))
    assert "Showing the 100 most frequent of 400 labels." in Reader(page).section_text("labels")
    assert "confusion" not in Reader(page).sections


def test_calibration_before_and_after(full_page: Reader) -> None:
    calibration = full_report().parts["test"].calibration
    assert calibration is not None
    text = full_page.section_text("calibration")
    assert f"is {calibration.before:.3f} before and {calibration.after:.3f} after" in text
    assert "temperature 1.600" in text
    unscaled = read_bare_report(test=class_evaluation(temperature=1.0)).section_text("calibration")
    assert "The temperature is 1: confidences are not scaled." in unscaled


def test_slices_worst_first_and_small_ones_flagged(full_page: Reader) -> None:
    slices = [
        slice_score
        for slice_score in full_report().parts["test"].slices
        if not slice_score.column.startswith("length in")
    ]
    text = full_page.section_text("slices")
    offsets = [
        text.index(f" {slice_score.name} " if not slice_score.small else f" {slice_score.name} few rows")
        for slice_score in slices
    ]
    assert offsets == sorted(offsets)
    evaluations = full_report().parts.values()
    flags = full_page.all("tr", **{"class": "small"})
    assert len(flags) == sum(slice_score.small for evaluation in evaluations for slice_score in evaluation.slices)
    assert sum(slice_score.small for slice_score in slices) == 1
    errors = read_bare_report(test=number_evaluation(slices=slice_columns(150))).section_text("slices")
    assert "Mean absolute error (lower is better)" in errors
    assert "starts above" in errors


def test_data_page(full_page: Reader) -> None:
    inspection, text = make_inspection(), full_page.section_text("data")
    assert f"{inspection.rows:,} rows usable" in text
    for finding in inspection.findings:
        assert f"{finding.severity.capitalize()} {finding.sentence[:1].upper()}{finding.sentence[1:]}" in text
    for label, count in inspection.labels.items():
        assert f"{label} {count:,} {count / inspection.rows:.1%}" in text
    assert "Exact duplicates across parts 1 1 train row 6, test row 1" in text
    assert "empty text 1" in text
    widths = [attributes["style"] for attributes in full_page.all("span", **{"class": "bar"})][: len(inspection.labels)]
    assert widths[0] == "width:100.0%"
    estimated = replace(inspection, estimate={"training seconds": 75, "memory": {"peak MB": 900}})
    estimate_text = Reader(report_html(full_report(inspection=estimated))).section_text("data")
    assert "training seconds 75 memory · peak MB 900" in estimate_text


def test_data_without_labels_or_with_numbers() -> None:
    inspection = make_inspection()
    number_inspection = replace(
        inspection,
        kind="number",
        labels={},
        numbers=(0.0, 2.5, 5.0),
        findings=[],
        exact=inspection.near,
        conflicts=inspection.near,
        leaks=inspection.near,
        parts={"all": inspection.rows},
    )
    text = Reader(report_html(full_report(inspection=number_inspection))).section_text("data")
    assert "Labels are numbers from 0.000 to 5.000 (mean 2.500)." in text
    assert "No problems found." in text
    assert "None found." in text
    assert "leaks between parts cannot be detected" in text


def test_seeds(full_page: Reader) -> None:
    text = full_page.section_text("seeds")
    assert "Accuracy on the test rows over 3 seeds: 0.885 on average, standard deviation 0.005" in text
    one_seed = Reader(report_html(full_report(seeds=[{"seed": 0, "dev": 0.9, "test": 0.9}])))
    assert "seeds" not in one_seed.sections
    incomplete = Reader(
        report_html(full_report(seeds=[{"seed": 0, "dev": None, "test": math.nan}, {"seed": 1, "test": 0.5}]))
    )
    assert "over 1 seed: 0.500" in incomplete.section_text("seeds")


def test_run_details(full_page: Reader) -> None:
    data = full_report()
    assert full_page.section_text("command") == f"Command {data.command}"
    assert "rate 5e-5" in full_page.section_text("settings")
    assert "Tokens per second 4,321 Peak memory 812 MB" in full_page.section_text("cost")
    assert data.notes[0] in full_page.section_text("notes")
    assert '"task": "classify"' in full_page.section_text("passport")


def test_against_another_model() -> None:
    paired = PairedResult(difference=-0.021, low=-0.05, high=0.01, p=0.21)
    text = read_bare_report(test=replace(class_evaluation(), against={"accuracy": paired})).section_text("metrics")
    assert "Accuracy −0.021 −0.050 to 0.010 0.210" in text


def test_pictures_have_descriptions(full_page: Reader) -> None:
    pictures = full_page.all("svg")
    assert len(pictures) == 13
    ids = {attributes.get("id") for _, attributes in full_page.tags}
    for attributes in pictures:
        assert attributes["role"] == "img"
        assert set(str(attributes["aria-labelledby"]).split()) <= ids
    assert "The loss starts at about" in full_page.text


def test_no_log_and_a_log_without_numbers() -> None:
    logs: list[list[dict[str, float | None]]]
    logs = [[], [{"step": 1, "loss": math.nan}], [{"step": None}], [{"loss": 1.0}], [{}]]
    for log in logs:
        assert "curves" not in Reader(report_html(full_report(log=log))).sections
    broken_log = [*make_log(30), {"step": 31, "epoch": 2, "loss": math.inf, "rate": 0.0}]
    text = Reader(report_html(full_report(log=broken_log))).section_text("curves")
    assert "1 step had a non-finite loss." in text


def test_long_logs_are_thinned() -> None:
    short, long = (report_html(full_report(log=make_log(steps, 40))) for steps in (1000, 100_000))
    assert len(long.encode()) < 200_000
    assert abs(len(long) - len(short)) < 10_000


def test_saving(tmp_path: Path) -> None:
    path = save_report(full_report(), tmp_path / "new" / "report.html")
    assert path.read_text("utf-8") == report_html(full_report())
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]
    with pytest.raises(InputError, match="is a folder"):
        save_report(full_report(), tmp_path)
    with pytest.raises(ClearheadError, match="cannot be written"):
        save_report(full_report(), path / "under-a-file.html")
