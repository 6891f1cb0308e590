"""Leaving words out finds those that an answer hangs on, within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import Columns
from clearhead.data.examples import TextRow
from clearhead.errors import InputError
from clearhead.explain import occlusion
from clearhead.explain.occlusion import MAX_GROUPS, MIN_GROUPS, occlude_row, occlude_rows
from clearhead.predict.scoring import Scores
from clearhead.tasks.occlusion import OcclusionPlan, WordSpan, group_words, omit_words, split_words
from tests.clock import Clock

ONE = Columns(text="text", label=None)


class Counting:
    """Answers 1 for each word `good`, minus 0.5 for each word `bad`; counts what it is asked."""

    def __init__(self, seconds: float = 0.0, clock: Clock | None = None) -> None:
        self.asked, self.seconds, self.clock = 0, seconds, clock or Clock()

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        self.asked += len(rows)
        self.clock.advance(self.seconds * len(rows))
        if any(not row.text for row in rows):
            raise InputError("A row has no tokens.")
        both = [f"{row.text} {row.text_b or ''}".split() for row in rows]
        made = np.array([[words.count("good") - 0.5 * words.count("bad")] for words in both])
        return Scores(made, np.zeros(len(rows), np.int32), np.ones(len(rows), np.int64))


def row(text: str, text_b: str | None = None) -> TextRow:
    return TextRow(1, text, text_b, None, None, None)


def watch(given_row: TextRow) -> OcclusionPlan:
    """All words may be left out; the one output is watched."""
    runs = (split_words(given_row.text), split_words(given_row.text_b or "", in_second_text=True))
    return OcclusionPlan(runs=runs, measure=lambda logits, _: logits[:, 0], omit=omit_words)


def occluded(scorer: Counting, given_row: TextRow, columns: Columns = ONE) -> Any:
    return occlude_row(scorer, given_row, columns, watch(given_row))


def pieces(given_row: TextRow, most: int = MAX_GROUPS) -> list[WordSpan]:
    return group_words(watch(given_row).runs, most)


def test_words_have_the_weight_that_they_have() -> None:
    found = occluded(Counting(), row("a good day, a bad night"))
    assert found is not None
    assert found.full_value == 0.5
    named = {"a good day, a bad night"[word.start : word.end]: word.weight for word in found.words}
    assert named == {"a": 0.0, "good": 1.0, "day,": 0.0, "bad": -0.5, "night": 0.0}
    assert found.scored == 7


def test_both_texts_are_taken_apart() -> None:
    found = occluded(Counting(), row("one two", "so good"), Columns(text="a", label=None, text_b="b"))
    assert found is not None
    assert [(word.in_second_text, word.weight) for word in found.words] == [
        (False, 0),
        (False, 0),
        (True, 0),
        (True, 1),
    ]


def test_long_texts_lose_groups_of_words() -> None:
    text = " ".join(["word"] * 500 + ["good"] + ["word"] * 500)
    scorer = Counting()
    found = occluded(scorer, row(text))
    assert found is not None
    assert len(found.words) <= MAX_GROUPS
    assert scorer.asked <= MAX_GROUPS + 1
    best = max(found.words, key=lambda word: word.weight)
    assert "good" in text[best.start : best.end]


def test_one_word_and_endless_texts_are_left_alone() -> None:
    assert occluded(Counting(), row("good")) is None
    scorer = Counting()
    assert occluded(scorer, row("good " * 10_000)) is None
    assert scorer.asked == 0


def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    clock.install(monkeypatch, occlusion)
    scorer = Counting(seconds=0.01, clock=clock)
    long = row(" ".join(f"word{place}" for place in range(30)))
    rows = [(long, watch(long))] * 20
    reported: list[int] = []
    found = occlude_rows(scorer, rows, ONE, seconds=0.5, progress=lambda _, done, __: reported.append(done))
    assert 0.25 < clock.now < 0.75
    assert len(found) == 20
    assert reported == list(range(1, 21))
    assert scorer.asked < 200
    slow = occlude_rows(Counting(seconds=0.05, clock=clock), rows[:3], ONE, seconds=0.2)
    assert any(one is None for one in slow)
    assert all(one is None or len(one.words) >= MIN_GROUPS for one in slow)


TEXTS = st.text("ab ,.\n\t日本กี é", min_size=1, max_size=80).filter(lambda text: bool(text.strip()))


@given(TEXTS, st.none() | TEXTS, st.integers(2, 12))
def test_pieces_cover_all_words_once(text: str, text_b: str | None, most: int) -> None:
    made = pieces(row(text, text_b), most)
    assert len(made) <= max(most, 2)
    for second, whole in ((False, text), (True, text_b or "")):
        own = [piece for piece in made if piece.in_second_text is second]
        assert [piece.start for piece in own] == sorted(piece.start for piece in own)
        covered = set[int]()
        for piece in own:
            span = set(range(piece.start, piece.end))
            assert span
            assert not span & covered
            covered |= span
        assert all(sign.isspace() for place, sign in enumerate(whole) if place not in covered)


@pytest.mark.parametrize(("text", "count"), [("a b", 2), ("日本語", 3), ("กี่", 1), ("안녕 하세요", 2), ("x-y, z", 2)])
def test_what_a_word_is(text: str, count: int) -> None:
    assert len(pieces(row(text))) == count


def test_no_space_is_left_behind() -> None:
    given_row = row("one two three")
    left = [omit_words(given_row, piece) for piece in pieces(given_row)]
    assert [one and one.text for one in left] == ["two three", "one three", "one two"]
