"""Example cards, cells that open without a script, added sections, and pages with very many labels."""

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
from tests.report.samples import (
    HOSTILE,
    LABELS,
    class_evaluation,
    full_report,
    make_examples,
    multilabel_evaluation,
    number_evaluation,
    selection_options,
)


def read_report(evaluation: Any, examples: PartExamples | None = None, **fields: Any) -> Reader:
    data = ReportData(
        title="t",
        command="",
        parts={"test": evaluation},
        examples={"test": examples or make_examples(evaluation)},
        **fields,
    )
    return Reader(report_html(data))


@pytest.fixture(scope="module")
def full_page() -> Reader:
    return Reader(report_html(full_report()))


def test_worst_answers_are_cards(full_page: Reader) -> None:
    picks = full_report().parts["test"].picks
    assert picks is not None
    text = full_page.section_text("worst").partition("Results on the dev rows")[0]
    offsets = [
        text.index(f"Row {pick.row} true {pick.truth} predicted {pick.answer} confidence") for pick in picks.worst
    ]
    assert offsets == sorted(offsets)
    assert f"The 10 most confident of {picks.error_count} wrong predictions on the test rows" in text
    assert f"For {picks.worst[0].answer}: “number {picks.worst[0].row}” 0.400." in text
    assert f"Against {picks.worst[0].answer}: “where is the parcel” 0.080." in text
    assert "10 rows, 99 predictions" in text


def test_suspicious_rows_lead_to_their_cards(full_page: Reader) -> None:
    picks = full_report().parts["test"].picks
    assert picks is not None
    text = full_page.section_text("suspicious")
    assert f"Of the test rows, {picks.suspicious_count} ha" in text
    assert "mislabeled, ambiguous, or simply hard for this model" in text
    ids = {str(attributes["id"]) for _, attributes in full_page.tags if "id" in attributes}
    for pick in picks.suspicious:
        assert f"case-p0-{pick.row}" in ids
    unsuspicious = read_report(class_evaluation(60, seed=3, temperature=40.0, **selection_options(60)))
    assert "No suspicious labels on the test rows" in unsuspicious.section_text("suspicious")


def test_a_cell_leads_to_its_rows(full_page: Reader) -> None:
    evaluation = full_report().parts["test"]
    assert evaluation.picks is not None
    links = [str(link["href"]) for link in full_page.all("a")]
    panels = full_page.all("div", **{"class": "cellrows"})
    for cell in evaluation.picks.cells:
        assert f"#cell-p0-{cell.true}-{cell.predicted}" in links
        assert any(panel["id"] == f"cell-p0-{cell.true}-{cell.predicted}" for panel in panels)
    first = evaluation.picks.cells[0]
    text = full_page.section_text("confusion")
    shown_count = min(first.count, 5)
    row_count = f"all {first.count} rows" if shown_count == first.count else f"{shown_count} of {first.count} rows"
    assert (
        f"True label {LABELS[first.true]}, predicted {LABELS[first.predicted]}: {row_count}, most confident first."
        in text
    )


@pytest.mark.parametrize("labels", [77, 1000])
def test_very_many_labels_stay_small(labels: int) -> None:
    evaluation = class_evaluation(4000, labels=tuple(f"class {n}" for n in range(labels)), **selection_options(4000))
    examples = {"test": make_examples(evaluation, "x " * 500)}
    html = report_html(
        ReportData(title="t", command="", parts={"test": evaluation, "dev": evaluation}, examples=examples)
    )
    page = Reader(html)
    assert len(html.encode()) < 600_000
    assert f"There are {labels:,} labels, too many for a readable matrix" in page.section_text("confusion")
    assert "Most often confused" in page.section_text("confusion")
    assert 0 < len(page.all("div", **{"class": "cellrows"})) <= 20


def test_many_cells_keep_the_page_bounded() -> None:
    evaluation = class_evaluation(3000, labels=tuple(f"class {n}" for n in range(30)), **selection_options(3000))
    html = report_html(
        ReportData(title="t", command="", parts={"test": evaluation}, examples={"test": make_examples(evaluation)})
    )
    assert len(Reader(html).all("div", **{"class": "cellrows"})) == MAX_CELLS
    assert len(html.encode()) < 400_000


def test_other_kinds_of_labels() -> None:
    multilabel_page = read_report(multilabel_evaluation(200, **selection_options(200)))
    assert "Each row is shown with its most confident wrong label." in multilabel_page.section_text("worst")
    assert "confusion" not in multilabel_page.sections
    number_page = read_report(number_evaluation(150, **selection_options(150)))
    assert "The 10 largest errors on the test rows." in number_page.section_text("worst")
    assert re.search(r"Row \d+ true [\d.]+ predicted [−\d.]+ error [+−][\d.]+", number_page.section_text("worst"))
    assert "Raise the prediction: “number" in number_page.section_text("worst")
    assert "Mean absolute error (lower is better) on the test rows by text length" in number_page.section_text(
        "lengths"
    )


def test_a_second_text_spans_and_options() -> None:
    evaluation = class_evaluation(**selection_options(300))
    pair_page = read_report(evaluation, make_examples(evaluation, text_b="and the other text"))
    assert "and the other text" in pair_page.section_text("worst")
    spans = (
        LabeledSpan(start=0, end=4, label="PER", kind="both"),
        LabeledSpan(start=8, end=12, label="LOC", kind="predicted"),
    )
    example = Example(selected=SelectedRow(row=3, truth="Anna", answer="York", spans=spans), text="Anna in York")
    options = ("the door", "<b>x")
    choice_example = Example(
        selected=SelectedRow(row=4, truth="the door", answer="the roof", options=options), text="Close"
    )
    page = read_report(evaluation, PartExamples(worst=(example, choice_example)))
    assert "[true and predicted PER: Anna] in [predicted LOC: York]" in page.section_text("worst")
    assert "the door <b>x" in page.section_text("worst")


def test_important_words_combine_with_spans_and_options() -> None:
    evaluation = class_evaluation(**selection_options(300))
    text = "nothing " * 200 + "Anna lives <b>in</b> York"
    name_start = len("nothing ") * 200
    spans = (
        LabeledSpan(start=name_start, end=name_start + 4, label="PER", kind="both"),
        LabeledSpan(start=name_start + 21, end=name_start + 25, label="LOC", kind="predicted"),
    )
    words = (
        WordImportance(start=name_start + 5, end=name_start + 10, weight=0.5),
        WordImportance(start=name_start + 11, end=name_start + 20, weight=-0.2),
    )
    tag_example = Example(
        selected=SelectedRow(row=3, truth="1 PER", answer="1 PER, 1 LOC", spans=spans),
        text=text,
        words=words,
        full_value=0.8,
        target_name="“<York>” as LOC",
    )
    choice_example = Example(
        selected=SelectedRow(row=4, truth="a", answer="b", options=("a", "b"), option_indices=(0, 1)),
        text="was it good",
        words=(WordImportance(start=7, end=11, weight=0.3),),
        full_value=0.9,
    )
    page = read_report(evaluation, PartExamples(worst=(tag_example, choice_example), explained=2, scored=9))
    worst = page.section_text("worst")
    assert "lives <b>in</b> [predicted LOC: York]" in worst
    assert (
        "For “<York>” as LOC: “lives” 0.500. Against “<York>” as LOC: “<b>in</b>” 0.200. The text is shortened" in worst
    )
    assert "For b: “good” 0.300." in worst
    shaded = [(attributes["class"], attributes["title"]) for attributes in page.all("mark") if attributes.get("title")]
    assert shaded == [("above for3", "+0.500"), ("above against2", "−0.200"), ("for3", "+0.300")]


def test_unimportant_words_are_not_shaded() -> None:
    evaluation = class_evaluation(**selection_options(300))
    examples = make_examples(evaluation)
    weak_examples = [
        Example(
            selected=example.selected, text=example.text, words=tuple(_weaken(word) for word in example.words or ())
        )
        for example in examples.worst
    ]
    page = read_report(evaluation, PartExamples(worst=tuple(weak_examples), explained=1, scored=2))
    assert "No single word changes the probability by 0.02 or more." in page.section_text("worst")
    assert len([attributes for attributes in page.all("mark") if attributes.get("title")]) == 0


def _weaken(word: Any) -> Any:
    return type(word)(start=word.start, end=word.end, weight=word.weight / 50)


def test_lengths_are_in_ascending_order(full_page: Reader) -> None:
    text = full_page.section_text("lengths").partition("Results on the dev rows")[0]
    starts = [int(start) for start in re.findall(r"(\d+) to \d+ \d+ 0\.\d{3}", text)]
    assert starts == sorted(starts)
    assert len(starts) == 4


def test_added_sections_are_at_their_position() -> None:
    rows = [("tfidf", "0.81", "2 s"), (HOSTILE[0], HOSTILE[1], Markup("<em>3 s</em>"))]
    html = paragraph(f"Take {HOSTILE[0]}.") + table(
        ("Method", HOSTILE[2], "Time"), rows, label=HOSTILE[1], numbers=(1, 2), main=(0,)
    )
    ladder = Section(id="guests", title="The guests <b>", html=html, before="seeds")
    last = Section(id="later", title="Later", html=Markup("<p>s</p>"), before="nowhere")
    plain = Section(id="plain", title="Plain", html="<script>alert(1)</script>")  # type: ignore[arg-type]
    page = Reader(report_html(full_report(sections=[ladder, last, plain])))
    names = list(page.sections)
    assert names.index("seeds") == names.index("guests") + 1
    assert names.index("cost") == names.index("plain") + 1
    assert names[-1] == "later"
    assert [str(link["href"])[1:] for link in page.all("a")][: len(names)] == names
    assert "tfidf 0.81 2 s" in page.section_text("guests")
    assert HOSTILE[0] in page.section_text("guests")
    assert "<script>alert(1)</script>" in page.section_text("plain")
    assert not page.all("script")
    for sections in ([Section(id="metrics", title="t", html=Markup(""))], [ladder, ladder]):
        with pytest.raises(InputError, match="must have unique ids"):
            report_html(full_report(sections=sections))
    with pytest.raises(InputError, match="is not a valid section id"):
        Section(id='"><b>', title="t", html=Markup(""))


def test_many_rows_of_a_table_are_counted() -> None:
    assert "50 more rows are not shown." in table(("a",), [(n,) for n in range(250)], label="x")
