"""The report tells what was measured, on which rows, and leaves out what there is not."""

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
from tests.report.samples import LABELS, classes, inspected, log_lines, multilabel, numbers, sliced, whole


@pytest.fixture(scope="module")
def full() -> Reader:
    return Reader(report_html(whole()))


def bare(**parts: Evaluation) -> Reader:
    return Reader(report_html(ReportData(title="A run", command="", parts=parts)))


def test_every_section_is_there_and_in_the_contents(full: Reader) -> None:
    assert list(full.sections) == ["headline", *SECTIONS]
    links = [link["href"] for link in full.all("a")]
    assert links[: len(full.sections)] == [f"#{name}" for name in full.sections]
    ids = [own["id"] for _, own in full.tags if "id" in own]
    assert len(ids) == len(set(ids))
    assert {str(link)[1:] for link in links} <= set(ids)


def test_what_there_is_not_is_left_out() -> None:
    assert list(bare(test=numbers()).sections) == ["headline", "metrics"]
    assert list(bare(test=multilabel()).sections) == [
        "headline",
        "metrics",
        "labels",
        "calibration",
        "coverage",
    ]
    nothing = bare()
    assert list(nothing.sections) == ["headline"]
    assert "No evaluation results." in nothing.said("headline")


def test_headline_of_test_rows(full: Reader) -> None:
    one, said = whole().parts["test"], full.said("headline")
    interval = one.metrics["accuracy"]
    assert f"Accuracy is {interval.value:.3f}, measured on 300 rows held out for testing" in said
    assert f"between {interval.low:.3f} and {interval.high:.3f} (95% interval)" in said
    most = max(one.label_scores, key=lambda score: score.rows)
    assert f"Always predicting “{most.label}” reaches {most.rows / 300:.3f}" in said
    assert "2 rows could not be used" in said
    assert "1 text occurs in more than one part of the data, so the value may be optimistic." in said
    assert "not a test result" not in said


def test_headline_without_test_rows_says_so() -> None:
    page = bare(dev=classes())
    said = page.said("headline")
    assert "There is no test result" in said
    assert "not a test result" in said
    assert DEV_USE in said
    for section in ("metrics", "labels", "confusion", "calibration", "coverage"):
        assert DEV_USE in page.said(section)


def test_dev_never_goes_without_its_mark(full: Reader) -> None:
    for section in ("metrics", "seeds"):
        assert DEV_USE in full.said(section)
    assert "not a test result" in full.said("curves")
    for section in PER_PART:
        first, _, folded = full.said(section).partition("Results on the dev rows")
        assert re.search("(on|of|among) the test rows", first, re.IGNORECASE)
        assert DEV_USE not in first
        assert not folded or folded.startswith(f" ({DEV_USE})")
        assert folded or section == "slices"  # the dev rows of this run have none


def test_rows_of_somebody_else() -> None:
    said = bare(rows=classes(40)).said("headline")
    assert "the 40 rows given; whether they overlap with the training rows is not known" in said
    assert "40 rows are few" in said


def test_metrics_stand_in_the_table(full: Reader) -> None:
    data, said = whole(), full.said("metrics")
    for part in ("test", "dev"):
        for interval in data.parts[part].metrics.values():
            assert f"{interval.value:.3f} {interval.low:.3f} to {interval.high:.3f}" in said
    assert "5 rows split into windows; 2 rows truncated" in said
    assert "Skipped: empty text (2)." in said
    picture = full.all("svg", **{"aria-labelledby": "whiskers-title whiskers-desc"})
    assert len(picture) == 1
    alone = Reader(report_html(whole(ladder=None, sweep=())))  # which have points, too
    assert len(alone.all("circle", **{"class": "point plain"})) == 8  # log loss is no score of at most 1
    assert len(alone.all("circle", **{"class": "point chosen"})) == 8


def test_a_metric_that_is_not_defined() -> None:
    one = classes(50)
    unknown = Interval(value=math.nan, low=math.nan, high=math.nan)
    page = bare(test=replace(one, metrics=dict.fromkeys(one.metrics, unknown)))
    assert "Accuracy is not defined on these rows" in page.said("headline")
    assert "nan" not in page.text.lower()
    assert not page.all("circle", **{"class": "point plain"})
    without = Interval(value=0.5, low=math.nan, high=math.nan)
    assert "No confidence interval is available." in bare(test=replace(one, metrics={"accuracy": without})).said(
        "headline"
    )


def test_one_class_only() -> None:
    one = classes(30, labels=("yes", "no"))
    scores = tuple(replace(score, precision=math.nan, recall=math.nan, f1=math.nan) for score in one.label_scores)
    page = bare(test=replace(one, label_scores=scores, confusion=((0, 0), (0, 30))))
    assert "nan" not in page.text.lower()
    assert "All rows are classified correctly." in page.said("confusion")


def test_confusion_of_few_and_of_many(full: Reader) -> None:
    one = whole().parts["test"]
    assert one.confusion is not None
    said = full.said("confusion")
    for label, row in zip(LABELS, one.confusion, strict=True):
        assert f"{label} {' '.join(map(str, row))} {sum(row)}".replace(" ", "") in said.replace(" ", "")
    worst = max(
        (count, one.labels[true], one.labels[answered])
        for true, row in enumerate(one.confusion)
        for answered, count in enumerate(row)
        if true != answered
    )
    assert f"{worst[1]} {worst[2]} {worst[0]}" in said
    many = bare(test=classes(900, labels=tuple(f"class {n}" for n in range(31))))
    assert "There are 31 labels, too many for a readable matrix" in many.said("confusion")
    assert "Most often confused" in many.said("confusion")
    assert not many.all("table", **{"class": "heat"})


def test_very_many_labels_stay_readable() -> None:
    names = tuple(f"class {number}" for number in range(400))
    page = report_html(ReportData(title="t", command="", parts={"test": classes(2000, labels=names)}))
    assert "Showing the 100 most frequent of 400 labels." in Reader(page).said("labels")
    assert "confusion" not in Reader(page).sections


def test_calibration_before_and_after(full: Reader) -> None:
    found = whole().parts["test"].calibration
    assert found is not None
    said = full.said("calibration")
    assert f"is {found.before:.3f} before and {found.after:.3f} after" in said
    assert "temperature 1.600" in said
    same = bare(test=classes(temperature=1.0)).said("calibration")
    assert "The temperature is 1: confidences are not scaled." in same


def test_slices_worst_first_and_small_ones_flagged(full: Reader) -> None:
    found = [each for each in whole().parts["test"].slices if not each.column.startswith("length in")]
    said = full.said("slices")
    places = [said.index(f" {each.name} " if not each.small else f" {each.name} few rows") for each in found]
    assert places == sorted(places)
    parts = whole().parts.values()
    flags = full.all("tr", **{"class": "small"})
    assert len(flags) == sum(each.small for one in parts for each in one.slices)
    assert sum(each.small for each in found) == 1
    errors = bare(test=numbers(slices=sliced(150))).said("slices")
    assert "Mean absolute error (lower is better)" in errors
    assert "starts above" in errors


def test_data_page(full: Reader) -> None:
    found, said = inspected(), full.said("data")
    assert f"{found.rows:,} rows usable" in said
    for finding in found.findings:
        assert f"{finding.severity.capitalize()} {finding.sentence[:1].upper()}{finding.sentence[1:]}" in said
    for label, count in found.labels.items():
        assert f"{label} {count:,} {count / found.rows:.1%}" in said
    assert "Exact duplicates across parts 1 1 train row 6, test row 1" in said
    assert "empty text 1" in said
    widths = [own["style"] for own in full.all("span", **{"class": "bar"})][: len(found.labels)]
    assert widths[0] == "width:100.0%"
    estimated = replace(found, estimate={"training seconds": 75, "memory": {"peak MB": 900}})
    again = Reader(report_html(whole(inspection=estimated))).said("data")
    assert "training seconds 75 memory · peak MB 900" in again


def test_data_without_labels_or_with_numbers() -> None:
    found = inspected()
    scores = replace(
        found,
        kind="number",
        labels={},
        numbers=(0.0, 2.5, 5.0),
        findings=[],
        exact=found.near,
        conflicts=found.near,
        leaks=found.near,
        parts={"all": found.rows},
    )
    said = Reader(report_html(whole(inspection=scores))).said("data")
    assert "Labels are numbers from 0.000 to 5.000 (mean 2.500)." in said
    assert "No problems found." in said
    assert "None found." in said
    assert "leaks between parts cannot be detected" in said


def test_seeds(full: Reader) -> None:
    said = full.said("seeds")
    assert "Accuracy on the test rows over 3 seeds: 0.885 on average, standard deviation 0.005" in said
    one = Reader(report_html(whole(seeds=[{"seed": 0, "dev": 0.9, "test": 0.9}])))
    assert "seeds" not in one.sections
    odd = Reader(report_html(whole(seeds=[{"seed": 0, "dev": None, "test": math.nan}, {"seed": 1, "test": 0.5}])))
    assert "over 1 seed: 0.500" in odd.said("seeds")


def test_run_as_it_was(full: Reader) -> None:
    data = whole()
    assert full.said("command") == f"Command {data.command}"
    assert "rate 5e-5" in full.said("settings")
    assert "Tokens per second 4,321 Peak memory 812 MB" in full.said("cost")
    assert data.notes[0] in full.said("notes")
    assert '"task": "classify"' in full.said("passport")


def test_against_another_model() -> None:
    paired = PairedResult(difference=-0.021, low=-0.05, high=0.01, p=0.21)
    said = bare(test=replace(classes(), against={"accuracy": paired})).said("metrics")
    assert "Accuracy −0.021 −0.050 to 0.010 0.210" in said


def test_pictures_have_words(full: Reader) -> None:
    pictures = full.all("svg")
    assert len(pictures) == 13
    ids = {own.get("id") for _, own in full.tags}
    for own in pictures:
        assert own["role"] == "img"
        assert set(str(own["aria-labelledby"]).split()) <= ids
    assert "The loss starts at about" in full.text


def test_no_log_and_a_log_without_numbers() -> None:
    logs: list[list[dict[str, float | None]]]
    logs = [[], [{"step": 1, "loss": math.nan}], [{"step": None}], [{"loss": 1.0}], [{}]]
    for log in logs:
        assert "curves" not in Reader(report_html(whole(log=log))).sections
    broken = [*log_lines(30), {"step": 31, "epoch": 2, "loss": math.inf, "rate": 0.0}]
    said = Reader(report_html(whole(log=broken))).said("curves")
    assert "1 step had a non-finite loss." in said


def test_long_logs_are_thinned() -> None:
    short, long = (report_html(whole(log=log_lines(steps, 40))) for steps in (1000, 100_000))
    assert len(long.encode()) < 200_000
    assert abs(len(long) - len(short)) < 10_000


def test_saving(tmp_path: Path) -> None:
    path = save_report(whole(), tmp_path / "new" / "report.html")
    assert path.read_text("utf-8") == report_html(whole())
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]
    with pytest.raises(InputError, match="is a folder"):
        save_report(whole(), tmp_path)
    with pytest.raises(ClearheadError, match="cannot be written"):
        save_report(whole(), path / "under-a-file.html")
