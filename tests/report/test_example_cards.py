"""Cards of rows, cells that open without script, sections of others, and what holds for very many labels."""

from __future__ import annotations

import re
from typing import Any

import pytest
from markupsafe import Markup

from clearhead.errors import InputError
from clearhead.report import ReportData, Section, report_html
from clearhead.report.sections import paragraph, table
from clearhead.tasks.examples import MAX_CELLS, Example, LabeledSpan, PartExamples, SelectedRow, WordImportance
from tests.report.pages import Reader
from tests.report.samples import HOSTILE, LABELS, classes, counted, looked, multilabel, numbers, whole


def page_of(one: Any, shown: PartExamples | None = None, **more: Any) -> Reader:
    data = ReportData(title="t", command="", parts={"test": one}, examples={"test": shown or looked(one)}, **more)
    return Reader(report_html(data))


@pytest.fixture(scope="module")
def full() -> Reader:
    return Reader(report_html(whole()))


def test_worst_answers_are_cards(full: Reader) -> None:
    picks = whole().parts["test"].picks
    assert picks is not None
    said = full.said("worst").partition("Results on the dev rows")[0]
    places = [
        said.index(f"Row {pick.row} true {pick.truth} predicted {pick.answer} confidence") for pick in picks.worst
    ]
    assert places == sorted(places)
    assert f"The 10 most confident of {picks.error_count} wrong predictions on the test rows" in said
    assert f"For {picks.worst[0].answer}: “number {picks.worst[0].row}” 0.400." in said
    assert f"Against {picks.worst[0].answer}: “where is the parcel” 0.080." in said
    assert "10 rows, 99 predictions" in said


def test_suspicious_rows_lead_to_their_cards(full: Reader) -> None:
    picks = whole().parts["test"].picks
    assert picks is not None
    said = full.said("suspicious")
    assert f"Of the test rows, {picks.suspicious_count} ha" in said
    assert "mislabeled, ambiguous, or simply hard for this model" in said
    ids = {str(own["id"]) for _, own in full.tags if "id" in own}
    for pick in picks.suspicious:
        assert f"case-p0-{pick.row}" in ids
    none = page_of(classes(60, seed=3, temperature=40.0, **counted(60)))
    assert "No suspicious labels on the test rows" in none.said("suspicious")


def test_a_cell_leads_to_its_rows(full: Reader) -> None:
    one = whole().parts["test"]
    assert one.picks is not None
    links = [str(link["href"]) for link in full.all("a")]
    panels = full.all("div", **{"class": "cellrows"})
    for cell in one.picks.cells:
        assert f"#cell-p0-{cell.true}-{cell.predicted}" in links
        assert any(own["id"] == f"cell-p0-{cell.true}-{cell.predicted}" for own in panels)
    first = one.picks.cells[0]
    said = full.said("confusion")
    shown = min(first.count, 5)
    many = f"all {first.count} rows" if shown == first.count else f"{shown} of {first.count} rows"
    assert (
        f"True label {LABELS[first.true]}, predicted {LABELS[first.predicted]}: {many}, most confident first." in said
    )


@pytest.mark.parametrize("labels", [77, 1000])
def test_very_many_labels_stay_small(labels: int) -> None:
    one = classes(4000, labels=tuple(f"class {n}" for n in range(labels)), **counted(4000))
    shown = {"test": looked(one, "x " * 500)}
    text = report_html(ReportData(title="t", command="", parts={"test": one, "dev": one}, examples=shown))
    page = Reader(text)
    assert len(text.encode()) < 600_000
    assert f"There are {labels:,} labels, too many for a readable matrix" in page.said("confusion")
    assert "Most often confused" in page.said("confusion")
    assert 0 < len(page.all("div", **{"class": "cellrows"})) <= 20


def test_many_cells_keep_the_page_bounded() -> None:
    one = classes(3000, labels=tuple(f"class {n}" for n in range(30)), **counted(3000))
    text = report_html(ReportData(title="t", command="", parts={"test": one}, examples={"test": looked(one)}))
    assert len(Reader(text).all("div", **{"class": "cellrows"})) == MAX_CELLS
    assert len(text.encode()) < 400_000


def test_other_kinds_of_labels() -> None:
    several = page_of(multilabel(200, **counted(200)))
    assert "Each row is shown with its most confident wrong label." in several.said("worst")
    assert "confusion" not in several.sections
    number = page_of(numbers(150, **counted(150)))
    assert "The 10 largest errors on the test rows." in number.said("worst")
    assert re.search(r"Row \d+ true [\d.]+ predicted [−\d.]+ error [+−][\d.]+", number.said("worst"))
    assert "Raise the prediction: “number" in number.said("worst")
    assert "Mean absolute error (lower is better) on the test rows by text length" in number.said("lengths")


def test_a_second_text_marks_and_options() -> None:
    one = classes(**counted(300))
    pair = page_of(one, looked(one, text_b="and the other text"))
    assert "and the other text" in pair.said("worst")
    marks = (
        LabeledSpan(start=0, end=4, label="PER", kind="both"),
        LabeledSpan(start=8, end=12, label="LOC", kind="predicted"),
    )
    example = Example(selected=SelectedRow(row=3, truth="Anna", answer="York", spans=marks), text="Anna in York")
    options = ("the door", "<b>x")
    chosen = Example(selected=SelectedRow(row=4, truth="the door", answer="the roof", options=options), text="Close")
    page = page_of(one, PartExamples(worst=(example, chosen)))
    assert "[true and predicted PER: Anna] in [predicted LOC: York]" in page.said("worst")
    assert "the door <b>x" in page.said("worst")


def test_words_that_mattered_stand_beside_marks_and_options() -> None:
    one = classes(**counted(300))
    text = "nothing " * 200 + "Anna lives <b>in</b> York"
    at = len("nothing ") * 200
    found, vain = (at, at + 4, "PER", "both"), (at + 21, at + 25, "LOC", "predicted")
    marks = tuple(LabeledSpan(start=a, end=b, label=name, kind=kind) for a, b, name, kind in (found, vain))  # type: ignore[arg-type]
    words = (
        WordImportance(start=at + 5, end=at + 10, weight=0.5),
        WordImportance(start=at + 11, end=at + 20, weight=-0.2),
    )
    tagged = Example(
        selected=SelectedRow(row=3, truth="1 PER", answer="1 PER, 1 LOC", spans=marks),
        text=text,
        words=words,
        full_value=0.8,
        target_name="“<York>” as LOC",
    )
    asked = Example(
        selected=SelectedRow(row=4, truth="a", answer="b", options=("a", "b"), option_indices=(0, 1)),
        text="was it good",
        words=(WordImportance(start=7, end=11, weight=0.3),),
        full_value=0.9,
    )
    page = page_of(one, PartExamples(worst=(tagged, asked), explained=2, scored=9))
    said = page.said("worst")
    assert "lives <b>in</b> [predicted LOC: York]" in said
    assert (
        "For “<York>” as LOC: “lives” 0.500. Against “<York>” as LOC: “<b>in</b>” 0.200. The text is shortened" in said
    )
    assert "For b: “good” 0.300." in said
    drawn = [(own["class"], own["title"]) for own in page.all("mark") if own.get("title")]
    assert drawn == [("above for3", "+0.500"), ("above against2", "−0.200"), ("for3", "+0.300")]


def test_words_that_matter_little_are_not_shaded() -> None:
    one = classes(**counted(300))
    shown = looked(one)
    weak = [
        Example(selected=each.selected, text=each.text, words=tuple(_weaker(word) for word in each.words or ()))
        for each in shown.worst
    ]
    page = page_of(one, PartExamples(worst=tuple(weak), explained=1, scored=2))
    assert "No single word changes the probability by 0.02 or more." in page.said("worst")
    assert len([own for own in page.all("mark") if own.get("title")]) == 0


def _weaker(word: Any) -> Any:
    return type(word)(start=word.start, end=word.end, weight=word.weight / 50)


def test_lengths_come_in_their_order(full: Reader) -> None:
    said = full.said("lengths").partition("Results on the dev rows")[0]
    begins = [int(begin) for begin in re.findall(r"(\d+) to \d+ \d+ 0\.\d{3}", said)]
    assert begins == sorted(begins)
    assert len(begins) == 4


def test_sections_of_others_stand_in_their_place() -> None:
    rows = [("tfidf", "0.81", "2 s"), (HOSTILE[0], HOSTILE[1], Markup("<em>3 s</em>"))]
    html = paragraph(f"Take {HOSTILE[0]}.") + table(
        ("Method", HOSTILE[2], "Time"), rows, label=HOSTILE[1], numbers=(1, 2), main=(0,)
    )
    ladder = Section(id="guests", title="The guests <b>", html=html, before="seeds")
    last = Section(id="later", title="Later", html=Markup("<p>s</p>"), before="nowhere")
    plain = Section(id="plain", title="Plain", html="<script>alert(1)</script>")  # type: ignore[arg-type]
    page = Reader(report_html(whole(sections=[ladder, last, plain])))
    names = list(page.sections)
    assert names.index("seeds") == names.index("guests") + 1
    assert names.index("cost") == names.index("plain") + 1
    assert names[-1] == "later"
    assert [str(link["href"])[1:] for link in page.all("a")][: len(names)] == names
    assert "tfidf 0.81 2 s" in page.said("guests")
    assert HOSTILE[0] in page.said("guests")
    assert "<script>alert(1)</script>" in page.said("plain")
    assert not page.all("script")
    for wrong in ([Section(id="metrics", title="t", html=Markup(""))], [ladder, ladder]):
        with pytest.raises(InputError, match="must have unique ids"):
            report_html(whole(sections=wrong))
    with pytest.raises(InputError, match="is not a valid section id"):
        Section(id='"><b>', title="t", html=Markup(""))


def test_many_rows_of_a_table_are_counted() -> None:
    assert "50 more rows are not shown." in table(("a",), [(n,) for n in range(250)], label="x")
