"""What is left out of a row and what is watched: of options, of questions, of tagged words."""

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


def row(task: str, values: dict[str, Any], **columns: Any) -> TextRow:
    made = TASKS[task].rows.check_row(Row(1, values), Columns(label=None, **columns), None)
    assert isinstance(made, TextRow)
    return made


def watching(task: str, pick: SelectedRow, given: TextRow, space: LabelSpace) -> OcclusionPlan:
    made = TASKS[task].examples.plan_occlusion(
        pick, given, lambda logits: TASKS[task].decoding.decode(logits, space, Calibration())
    )
    assert made is not None
    return made


def words(text: str, made: OcclusionPlan) -> list[list[str]]:
    return [[text[piece.start : piece.end] for piece in run] for run in made.runs]


def test_words_of_passage_and_question_are_left_out_and_no_option() -> None:
    given = row(
        "choice",
        {"p": "It rained all day.", "q": "Was it dry?", "o": ["yes", "no"]},
        text="p",
        text_b="q",
        options=("o",),
    )
    pick = SelectedRow(row=1, truth="1", answer="0", option_indices=(1, 0))
    made = watching("choice", pick, given, LabelSpace(kind="options", names=("0", "1")))
    assert words(given.text, made) == [["It", "rained", "all", "day."], ["Was", "it", "dry?"]]
    left = [made.omit(given, run[-1]) for run in made.runs]
    assert [one.extra.items() for one in left if one is not None] == [
        [("It rained all", "Was it dry? yes"), ("It rained all", "Was it dry? no")],
        [("It rained all day.", "Was it yes"), ("It rained all day.", "Was it no")],
    ]
    value = made.measure(to_ragged([[0.0, 0.0], [2.0, 0.0]], "float32"), [None, made.runs[0][0]])
    assert value == pytest.approx([0.5, 1 / (1 + np.exp(-2))])
    bare = row("choice", {"q": "Dry?", "o": ["yes", "no"]}, text="q", options=("o",))
    made = watching("choice", pick, bare, LabelSpace(kind="options", names=("0", "1")))
    assert made.omit(bare, made.runs[1][0]) is None  # nothing would be asked


def test_an_answer_is_followed_wherever_it_ranks() -> None:
    given = row("span", {"q": "who wrote it", "c": "Anna and Ben wrote it"}, text="q", text_b="c")
    said = SelectedRow(
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
    made = watching("span", said, given, space)
    assert words("who wrote it", made) == [["who", "wrote", "it"]]
    assert made.measure(logits, [None, *made.runs[0][:2]]) == pytest.approx([0.6, 0.3, 0.0])
    left = made.omit(given, made.runs[0][1])
    assert left is not None
    assert (left.text, left.text_b) == ("who it", given.text_b)
    none = watching("span", SelectedRow(row=1, truth="Ben", answer="(no answer)", spans=said.spans[:1]), given, space)
    assert none.measure(logits, [None] * 3) == pytest.approx([0.2, 0.2, 0.2])


@pytest.mark.parametrize(
    ("true", "said", "place", "name"),
    [
        ([0, 0, 1, 0], [0, 0, 1, 2], (2, 4), "“Ben today” as PER"),  # too long
        ([0, 0, 1, 0], [0, 0, 0, 0], (2, 3), "“Ben” as nothing"),  # missed
        ([0, 1, 2, 2], [0, 1, 0, 0], (2, 4), "“Ben today” as nothing"),  # the end of it missed
        ([0, 0, 0, 0], [1, 0, 0, 0], (0, 1), "“we” as PER"),  # found in vain
    ],
)
def test_the_words_of_the_surest_mistake_stay(
    true: list[int], said: list[int], place: tuple[int, int], name: str
) -> None:
    given = row("tag", {"t": "we met Ben today"}, text="t")
    probs = np.full((4, 3), 0.1)
    probs[range(4), said] = 0.8
    answers = Answers(labels=to_ragged([said], "int64"), probs=to_ragged([probs.tolist()], "float64"))
    (pick,) = select_tag_errors(answers, to_ragged([true], "int64"), TAGS, [1]).worst
    assert (pick.word_range, pick.predicted_tags) == (place, tuple(said[slice(*place)]))
    made = watching("tag", pick, given, TAGS)
    assert made.target_name == name
    every = given.text.split()
    assert words(given.text, made) == [every[: place[0]], every[place[1] :]]
    whole = made.measure(to_ragged([np.log(probs).tolist()], "float64"), [None])
    assert whole == pytest.approx(0.8 ** (place[1] - place[0]))


def test_tags_are_watched_where_their_words_then_stand() -> None:
    given = row("tag", {"t": "we met Ben today"}, text="t")
    made = watching("tag", SelectedRow(row=1, truth="", answer="", word_range=(2, 3), predicted_tags=(1,)), given, TAGS)
    before, after = made.runs
    probs = [[0.5, 0.3, 0.2], [0.2, 0.7, 0.1], [0.6, 0.2, 0.2]]
    logits = to_ragged([np.log(some).tolist() for some in (probs, probs, probs[:2])], "float64")
    two = WordSpan(start=before[0].start, end=before[1].end)
    assert made.measure(logits, [before[0], after[0], two]) == pytest.approx([0.7, 0.2, 0.3])


@pytest.mark.parametrize("listed", [True, False])
def test_borders_go_with_their_words(listed: bool) -> None:
    draw = Random(1)
    for _ in range(200):
        text = "".join(draw.choice(("ab", "c", " ", "  ", "-", "é", "日", ".")) for _ in range(draw.randint(3, 14)))
        if not text.strip():
            continue
        given = row("tag", {"t": text.split() if listed else text}, text="t")
        named = [given.text[a:b] for a, b in given.extra.offsets]
        first = draw.randrange(len(named))
        made = watching(
            "tag",
            SelectedRow(row=1, truth="", answer="", word_range=(first, first + 1), predicted_tags=(0,)),
            given,
            TAGS,
        )
        for place, piece in enumerate((*made.runs[0], *made.runs[1])):
            left = made.omit(given, piece)
            assert left is not None
            gone = place + (place >= first)
            kept = [*named[:gone], *named[gone + 1 :]]
            assert [left.text[a:b] for a, b in left.extra.offsets] == kept
            assert left.extra.tokens == (kept if listed else None)
            assert "".join(left.text.split()) == "".join(kept)


def test_a_sign_that_is_left_out_does_not_join_words() -> None:
    given = row("tag", {"t": "a well-made film"}, text="t")
    made = watching("tag", SelectedRow(row=1, truth="", answer="", word_range=(0, 1), predicted_tags=(0,)), given, TAGS)
    left = [made.omit(given, piece) for piece in made.runs[1]]
    assert [one.text for one in left if one is not None] == [
        "a -made film",
        "a well made film",
        "a well- film",
        "a well-made ",
    ]


def test_places_beyond_the_words_are_left_alone() -> None:
    given = row("tag", {"t": "we met"}, text="t")
    pick = SelectedRow(row=1, truth="", answer="", word_range=(2, 3), predicted_tags=(1,))
    assert TASKS["tag"].examples.plan_occlusion(pick, given, lambda _: Answers(labels=None)) is None
    assert (
        TASKS["tag"].examples.plan_occlusion(
            SelectedRow(row=1, truth="", answer=""), given, lambda _: Answers(labels=None)
        )
        is None
    )
