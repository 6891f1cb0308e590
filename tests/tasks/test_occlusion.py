"""Occlusion plans: which words are omitted, and which score is measured, for choice, span and tag rows."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from clearhead.data import Columns, LabelSpace, Row, TextRow
from clearhead.tasks import TASKS
from clearhead.tasks.examples import LabeledSpan, SelectedRow
from clearhead.tasks.occlusion import OcclusionPlan, WordSpan
from clearhead.tasks.ragged import to_ragged
from clearhead.tasks.span.decoding import Candidates
from clearhead.tasks.tag.examples import select_tag_errors
from clearhead.tasks.task import Answers, Calibration

TAGS = LabelSpace(names=("O", "B-PER", "I-PER"), kind="tags", scheme="spans")


def make_row(task: str, values: dict[str, Any], **columns: Any) -> TextRow:
    checked = TASKS[task].rows.check_row(Row(1, values), Columns(label=None, **columns), None)
    assert isinstance(checked, TextRow)
    return checked


def make_plan(task: str, selected: SelectedRow, row: TextRow, space: LabelSpace) -> OcclusionPlan:
    plan = TASKS[task].examples.plan_occlusion(
        selected, row, lambda logits: TASKS[task].decoding.decode(logits, space, Calibration())
    )
    assert plan is not None
    return plan


def list_words(text: str, plan: OcclusionPlan) -> list[list[str]]:
    return [[text[piece.start : piece.end] for piece in run] for run in plan.runs]


def test_words_of_passage_and_question_are_omitted_but_not_options() -> None:
    row_without_labels = make_row(
        "choice",
        {"p": "It rained all day.", "q": "Was it dry?", "o": ["yes", "no"]},
        text="p",
        text_b="q",
        options=("o",),
    )
    selected = SelectedRow(row=1, truth="1", answer="0", option_indices=(1, 0))
    plan = make_plan("choice", selected, row_without_labels, LabelSpace(kind="options", names=("0", "1")))
    assert list_words(row_without_labels.text, plan) == [["It", "rained", "all", "day."], ["Was", "it", "dry?"]]
    shortened = [plan.omit(row_without_labels, run[-1]) for run in plan.runs]
    assert [shortened_row.extra.items() for shortened_row in shortened if shortened_row is not None] == [
        [("It rained all", "Was it dry? yes"), ("It rained all", "Was it dry? no")],
        [("It rained all day.", "Was it yes"), ("It rained all day.", "Was it no")],
    ]
    value = plan.measure(to_ragged([[0.0, 0.0], [2.0, 0.0]], "float32"), [None, plan.runs[0][0]])
    assert value == pytest.approx([0.5, 1 / (1 + np.exp(-2))])
    row_without_passage = make_row("choice", {"q": "Dry?", "o": ["yes", "no"]}, text="q", options=("o",))
    plan = make_plan("choice", selected, row_without_passage, LabelSpace(kind="options", names=("0", "1")))
    assert plan.omit(row_without_passage, plan.runs[1][0]) is None  # the question would be empty


def test_an_answer_is_measured_at_any_rank() -> None:
    row_without_labels = make_row("span", {"q": "who wrote it", "c": "Anna and Ben wrote it"}, text="q", text_b="c")
    predicted = SelectedRow(
        row=1,
        truth="Ben",
        answer="Anna",
        spans=(
            LabeledSpan(start=9, end=12, label="true", kind="true"),
            LabeledSpan(start=0, end=4, label="answered", kind="predicted"),
        ),
    )
    space = LabelSpace(kind="answers", scheme="some")
    logits = Candidates(
        starts=np.array([[0, 9], [9, 0], [9, 5]]),
        ends=np.array([[4, 12], [12, 4], [12, 8]]),
        scores=np.log([[0.6, 0.2], [0.5, 0.3], [0.7, 0.1]]),
        no_answer=np.log([0.2, 0.2, 0.2]),
    )
    plan = make_plan("span", predicted, row_without_labels, space)
    assert list_words("who wrote it", plan) == [["who", "wrote", "it"]]
    assert plan.measure(logits, [None, *plan.runs[0][:2]]) == pytest.approx([0.6, 0.3, 0.0])
    shortened = plan.omit(row_without_labels, plan.runs[0][1])
    assert shortened is not None
    assert (shortened.text, shortened.text_b) == ("who it", row_without_labels.text_b)
    no_answer_plan = make_plan(
        "span",
        SelectedRow(row=1, truth="Ben", answer="(no answer)", spans=predicted.spans[:1]),
        row_without_labels,
        space,
    )
    assert no_answer_plan.measure(logits, [None] * 3) == pytest.approx([0.2, 0.2, 0.2])


@pytest.mark.parametrize(
    ("true", "predicted", "word_range", "name"),
    [
        ([0, 0, 1, 0], [0, 0, 1, 2], (2, 4), "“Ben today” as PER"),  # too long
        ([0, 0, 1, 0], [0, 0, 0, 0], (2, 3), "“Ben” as nothing"),  # missed
        ([0, 1, 2, 2], [0, 1, 0, 0], (2, 4), "“Ben today” as nothing"),  # its end is missed
        ([0, 0, 0, 0], [1, 0, 0, 0], (0, 1), "“we” as PER"),  # false positive
    ],
)
def test_words_of_the_error_are_not_omitted(
    true: list[int], predicted: list[int], word_range: tuple[int, int], name: str
) -> None:
    row_without_labels = make_row("tag", {"t": "we met Ben today"}, text="t")
    probs = np.full((4, 3), 0.1)
    probs[range(4), predicted] = 0.8
    answers = Answers(labels=to_ragged([predicted], "int64"), probs=to_ragged([probs.tolist()], "float64"))
    (selected,) = select_tag_errors(answers, to_ragged([true], "int64"), TAGS, [1]).worst
    assert (selected.word_range, selected.predicted_tags) == (word_range, tuple(predicted[slice(*word_range)]))
    plan = make_plan("tag", selected, row_without_labels, TAGS)
    assert plan.target_name == name
    all_words = row_without_labels.text.split()
    assert list_words(row_without_labels.text, plan) == [all_words[: word_range[0]], all_words[word_range[1] :]]
    full_value = plan.measure(to_ragged([np.log(probs).tolist()], "float64"), [None])
    assert full_value == pytest.approx(0.8 ** (word_range[1] - word_range[0]))


def test_tags_are_measured_at_shifted_words() -> None:
    row_without_labels = make_row("tag", {"t": "we met Ben today"}, text="t")
    plan = make_plan(
        "tag", SelectedRow(row=1, truth="", answer="", word_range=(2, 3), predicted_tags=(1,)), row_without_labels, TAGS
    )
    before, after = plan.runs
    probs = [[0.5, 0.3, 0.2], [0.2, 0.7, 0.1], [0.6, 0.2, 0.2]]
    logits = to_ragged([np.log(row_probs).tolist() for row_probs in (probs, probs, probs[:2])], "float64")
    word_pair = WordSpan(start=before[0].start, end=before[1].end)
    assert plan.measure(logits, [before[0], after[0], word_pair]) == pytest.approx([0.7, 0.2, 0.3])


@pytest.mark.parametrize("listed", [True, False])
def test_offsets_are_shifted_with_their_words(listed: bool) -> None:
    generator = Random(1)
    for _ in range(200):
        text = "".join(
            generator.choice(("ab", "c", " ", "  ", "-", "é", "日", ".")) for _ in range(generator.randint(3, 14))
        )
        if not text.strip():
            continue
        row_without_labels = make_row("tag", {"t": text.split() if listed else text}, text="t")
        words_of_row = [row_without_labels.text[start:end] for start, end in row_without_labels.extra.offsets]
        first = generator.randrange(len(words_of_row))
        plan = make_plan(
            "tag",
            SelectedRow(row=1, truth="", answer="", word_range=(first, first + 1), predicted_tags=(0,)),
            row_without_labels,
            TAGS,
        )
        for index, piece in enumerate((*plan.runs[0], *plan.runs[1])):
            shortened = plan.omit(row_without_labels, piece)
            assert shortened is not None
            omitted = index + (index >= first)
            remaining = [*words_of_row[:omitted], *words_of_row[omitted + 1 :]]
            assert [shortened.text[start:end] for start, end in shortened.extra.offsets] == remaining
            assert shortened.extra.tokens == (remaining if listed else None)
            assert "".join(shortened.text.split()) == "".join(remaining)


def test_omitted_punctuation_does_not_join_words() -> None:
    row_without_labels = make_row("tag", {"t": "a well-made film"}, text="t")
    plan = make_plan(
        "tag", SelectedRow(row=1, truth="", answer="", word_range=(0, 1), predicted_tags=(0,)), row_without_labels, TAGS
    )
    shortened = [plan.omit(row_without_labels, piece) for piece in plan.runs[1]]
    assert [shortened_row.text for shortened_row in shortened if shortened_row is not None] == [
        "a -made film",
        "a well made film",
        "a well- film",
        "a well-made ",
    ]


def test_word_ranges_outside_the_text_are_ignored() -> None:
    row_without_labels = make_row("tag", {"t": "we met"}, text="t")
    selected = SelectedRow(row=1, truth="", answer="", word_range=(2, 3), predicted_tags=(1,))
    assert TASKS["tag"].examples.plan_occlusion(selected, row_without_labels, lambda _: Answers(labels=None)) is None
    assert (
        TASKS["tag"].examples.plan_occlusion(
            SelectedRow(row=1, truth="", answer=""), row_without_labels, lambda _: Answers(labels=None)
        )
        is None
    )
