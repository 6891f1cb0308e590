"""Occlusion finds the words that a prediction depends on, within bounds of time and size."""

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

COLUMNS = Columns(text="text", label=None)


class CountingScorer:
    """Scores 1 for each word `good` and -0.5 for each word `bad`; counts the scored rows."""

    def __init__(self, seconds: float = 0.0, clock: Clock | None = None) -> None:
        self.scored_rows, self.seconds, self.clock = 0, seconds, clock or Clock()

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        self.scored_rows += len(rows)
        self.clock.advance(self.seconds * len(rows))
        if any(not row.text for row in rows):
            raise InputError("A row has no tokens.")
        words_per_row = [f"{row.text} {row.text_b or ''}".split() for row in rows]
        logits = np.array([[words.count("good") - 0.5 * words.count("bad")] for words in words_per_row])
        return Scores(logits, np.zeros(len(rows), np.int32), np.ones(len(rows), np.int64))


def make_row(text: str, text_b: str | None = None) -> TextRow:
    return TextRow(1, text, text_b, None, None, None)


def make_plan(row: TextRow) -> OcclusionPlan:
    """Return a plan that may omit every word and measures the only output."""
    words = (split_words(row.text), split_words(row.text_b or "", in_second_text=True))
    return OcclusionPlan(runs=words, measure=lambda logits, _: logits[:, 0], omit=omit_words)


def occlude(scorer: CountingScorer, row: TextRow, columns: Columns = COLUMNS) -> Any:
    return occlude_row(scorer, row, columns, make_plan(row))


def word_groups(row: TextRow, max_groups: int = MAX_GROUPS) -> list[WordSpan]:
    return group_words(make_plan(row).runs, max_groups)


def test_weights_are_the_drops_of_the_output() -> None:
    occlusion_result = occlude(CountingScorer(), make_row("a good day, a bad night"))
    assert occlusion_result is not None
    assert occlusion_result.full_value == 0.5
    weights = {"a good day, a bad night"[word.start : word.end]: word.weight for word in occlusion_result.words}
    assert weights == {"a": 0.0, "good": 1.0, "day,": 0.0, "bad": -0.5, "night": 0.0}
    assert occlusion_result.scored == 7


def test_words_of_both_texts_are_occluded() -> None:
    occlusion_result = occlude(
        CountingScorer(), make_row("one two", "so good"), Columns(text="a", label=None, text_b="b")
    )
    assert occlusion_result is not None
    assert [(word.in_second_text, word.weight) for word in occlusion_result.words] == [
        (False, 0),
        (False, 0),
        (True, 0),
        (True, 1),
    ]


def test_long_texts_lose_groups_of_words() -> None:
    text = " ".join(["word"] * 500 + ["good"] + ["word"] * 500)
    scorer = CountingScorer()
    occlusion_result = occlude(scorer, make_row(text))
    assert occlusion_result is not None
    assert len(occlusion_result.words) <= MAX_GROUPS
    assert scorer.scored_rows <= MAX_GROUPS + 1
    strongest = max(occlusion_result.words, key=lambda word: word.weight)
    assert "good" in text[strongest.start : strongest.end]


def test_one_word_and_endless_texts_are_not_occluded() -> None:
    assert occlude(CountingScorer(), make_row("good")) is None
    scorer = CountingScorer()
    assert occlude(scorer, make_row("good " * 10_000)) is None
    assert scorer.scored_rows == 0


def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    clock.install(monkeypatch, occlusion)
    scorer = CountingScorer(seconds=0.01, clock=clock)
    long_row = make_row(" ".join(f"word{number}" for number in range(30)))
    rows = [(long_row, make_plan(long_row))] * 20
    reported: list[int] = []
    occlusions = occlude_rows(scorer, rows, COLUMNS, seconds=0.5, progress=lambda _, done, __: reported.append(done))
    assert 0.25 < clock.now < 0.75
    assert len(occlusions) == 20
    assert reported == list(range(1, 21))
    assert scorer.scored_rows < 200
    partial = occlude_rows(CountingScorer(seconds=0.05, clock=clock), rows[:3], COLUMNS, seconds=0.2)
    assert any(occluded is None for occluded in partial)
    assert all(occluded is None or len(occluded.words) >= MIN_GROUPS for occluded in partial)


TEXTS = st.text("ab ,.\n\t日本กี é", min_size=1, max_size=80).filter(lambda text: bool(text.strip()))


@given(TEXTS, st.none() | TEXTS, st.integers(2, 12))
def test_groups_cover_all_words_once(text: str, text_b: str | None, max_groups: int) -> None:
    groups = word_groups(make_row(text, text_b), max_groups)
    assert len(groups) <= max(max_groups, 2)
    for in_second_text, full_text in ((False, text), (True, text_b or "")):
        text_groups = [group for group in groups if group.in_second_text is in_second_text]
        assert [group.start for group in text_groups] == sorted(group.start for group in text_groups)
        covered = set[int]()
        for group in text_groups:
            span = set(range(group.start, group.end))
            assert span
            assert not span & covered
            covered |= span
        assert all(character.isspace() for offset, character in enumerate(full_text) if offset not in covered)


@pytest.mark.parametrize(("text", "count"), [("a b", 2), ("日本語", 3), ("กี่", 1), ("안녕 하세요", 2), ("x-y, z", 2)])
def test_what_a_word_is(text: str, count: int) -> None:
    assert len(word_groups(make_row(text))) == count


def test_no_space_is_left_behind() -> None:
    row = make_row("one two three")
    shortened = [omit_words(row, group) for group in word_groups(row)]
    assert [shorter and shorter.text for shorter in shortened] == ["two three", "one three", "one two"]
