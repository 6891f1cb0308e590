"""Answers are scored by the published rules of SQuAD, here written out a second time, slowly and plainly."""

from __future__ import annotations

import re
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import InputError
from clearhead.metrics import (
    answer_f1,
    answer_scores,
    best_no_answer_threshold,
    exact_match,
    measure_answers,
    normalize_answer,
)
from tests.metrics.rows import Array

WORDS = [
    "the",
    "a",
    "An",
    "THE",
    "Denver",
    "Broncos",
    "co-op",
    "u.s.",
    "1,000",
    "a.m.",
    "theatre",
    "Ärger",
    "İ",
    "ß",
    "—",
    "…",
    "東京",
    "e\u0301",
    "🙂",
    "?!",
    "'s",
    "\u00a0",
    "\u3000",
    "the_",
    "a1",
    "‘a’",
]
texts = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join),
    st.text(alphabet="athen .,-'’\tÅ\u00a0", max_size=10),
    st.text(max_size=8),
    st.just(""),
)


def plain(text: str) -> str:
    """Lower case, then no punctuation, then no articles, then single spaces."""
    kept = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
    words = re.split(r"(\W+)", kept)  # words at even places: where \b finds its borders
    return " ".join("".join(" " if word in ("a", "an", "the") else word for word in words).split())


def overlap(said: str, true: str) -> float:
    """F1 of the words of two answers, each word used once."""
    left, right = plain(said).split(), plain(true).split()
    if not left or not right:
        return float(left == right)
    rest, same = list(right), 0
    for word in left:
        if word in rest:
            rest.remove(word)
            same += 1
    if same == 0:
        return 0.0
    precision, recall = same / len(left), same / len(right)
    return 2 * precision * recall / (precision + recall)


@given(texts)
def test_answers_are_normalised_by_the_rules(text: str) -> None:
    assert normalize_answer(text) == plain(text)
    assert exact_match(text, f"  {text}\n") == 1 == answer_f1(text, text)


@given(texts, texts)
def test_two_answers_are_compared_by_the_rules(one: str, other: str) -> None:
    assert answer_f1(one, other) == pytest.approx(overlap(one, other))
    assert exact_match(one, other) == (plain(one) == plain(other))


@given(st.lists(st.tuples(texts, st.lists(texts, max_size=4)), max_size=6))
def test_the_best_gold_answer_counts(rows: list[tuple[str, list[str]]]) -> None:
    em, f1 = answer_scores([answer for answer, _ in rows], [gold for _, gold in rows])
    for (answer, given_golds), exact, shared in zip(rows, em, f1, strict=True):
        golds = [gold for gold in given_golds if plain(gold)] or [""]
        assert exact == max(plain(answer) == plain(gold) for gold in golds)
        assert shared == pytest.approx(max(overlap(answer, gold) for gold in golds))


def test_known_answers() -> None:
    em, f1 = answer_scores(
        ["The Denver Broncos!", "Denver", "", "Paris", "", "an apple  a day"],
        [["Denver Broncos"], ["Denver Broncos", "Broncos"], [], [], ["x"], ["apple day"]],
    )
    assert em.tolist() == [1, 0, 1, 0, 0, 1]
    assert f1 == pytest.approx([1, 2 / 3, 1, 0, 0, 1])


def walked(no_answer: Array, scores: Array, has: Array) -> tuple[float, float]:
    """The official walk: start with no answers at all, then answer one question more at a time."""
    now = best = float(np.sum(~has))
    threshold = 0.0
    for row in sorted(range(len(has)), key=lambda row: no_answer[row]):
        now += scores[row] if has[row] else scores[row] - 1
        if now > best:
            best, threshold = now, float(no_answer[row])
    return threshold, best / len(has)


@given(st.data(), st.integers(1, 30))
def test_the_threshold_is_that_of_the_official_walk(data: st.DataObject, rows: int) -> None:
    numbers = st.lists(st.integers(1, 10**6), min_size=rows, max_size=rows, unique=True)
    no_answer = np.array(data.draw(numbers)) / 1000
    has = np.array(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
    share = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    scores = np.where(has, data.draw(st.lists(share, min_size=rows, max_size=rows)), 0.0)
    made = best_no_answer_threshold(no_answer, scores, has)
    official, value = walked(no_answer, scores, has)
    assert made.value == value
    assert ((no_answer <= made.threshold) == (no_answer <= official)).all()  # the same rows are answered
    assert np.abs(no_answer - made.threshold).min() > 1e-4  # and none of them by its last digit


@given(st.data(), st.integers(1, 20))
def test_the_threshold_gives_the_score_it_promises(data: st.DataObject, rows: int) -> None:
    no_answer = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=rows, max_size=rows)), float)
    has = np.array(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
    scores = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=rows, max_size=rows)))
    made = best_no_answer_threshold(no_answer, scores, has)

    def score(threshold: float) -> float:
        return float(np.where(no_answer > threshold, ~has, scores).mean())

    assert score(made.threshold) == pytest.approx(made.value)
    assert made.value == pytest.approx(max(score(threshold) for threshold in (-9.0, *no_answer)))


def test_measures_have_intervals_by_kind_of_question() -> None:
    rng = np.random.default_rng(0)
    has = rng.random(300) < 0.7
    em = rng.random(300) < 0.6
    f1 = np.maximum(em, rng.random(300))
    made = measure_answers(em, f1, has, n=200)
    assert list(made) == ["exact_match", "f1", "has_answer_exact", "has_answer_f1", "no_answer_accuracy"]
    assert made["f1"].value == pytest.approx(f1.mean())
    assert made["has_answer_f1"].value == pytest.approx(f1[has].mean())
    assert made["no_answer_accuracy"].value == pytest.approx(em[~has].mean())
    assert all(one.low < one.value < one.high for one in made.values())
    assert list(measure_answers(em, f1, n=10)) == ["exact_match", "f1"]
    assert list(measure_answers(em, f1, np.zeros(300), n=10)) == ["exact_match", "f1", "no_answer_accuracy"]
    wide = measure_answers(em, f1, has, n=200, groups=np.arange(300) // 60)
    assert wide["f1"].value == pytest.approx(made["f1"].value)
    assert wide["f1"].low != made["f1"].low
    assert measure_answers([1, 1], [1, 1])["exact_match"].method == "wilson"


def test_mistakes_are_refused() -> None:
    with pytest.raises(InputError, match="There are 1 answers and 2 questions"):
        answer_scores(["a"], [["a"], ["b"]])
    with pytest.raises(InputError, match=r"golds\[0\] is a string"):
        answer_scores(["a"], ["a"])
    with pytest.raises(InputError, match="only 0 and 1"):
        measure_answers([0.5], [0.5])
    with pytest.raises(InputError, match="groups must name one group per row"):
        measure_answers([1, 0], [1, 0], [1, 0], groups=[1])
    with pytest.raises(InputError, match="empty"):
        best_no_answer_threshold([], [], [])
