"""Answers are scored by the rules of SQuAD; the tests implement them a second time, slowly and plainly."""

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


def normalize_plainly(text: str) -> str:
    """Lower case, then no punctuation, then no articles, then single spaces."""
    unpunctuated = "".join(char for char in text.lower() if char not in set(string.punctuation))
    words = re.split(r"(\W+)", unpunctuated)  # splits where \b matches
    return " ".join("".join(" " if word in ("a", "an", "the") else word for word in words).split())


def compute_f1_plainly(predicted: str, gold: str) -> float:
    """F1 of the words of two answers, each word used once."""
    predicted_words, gold_words = normalize_plainly(predicted).split(), normalize_plainly(gold).split()
    if not predicted_words or not gold_words:
        return float(predicted_words == gold_words)
    unmatched, shared = list(gold_words), 0
    for word in predicted_words:
        if word in unmatched:
            unmatched.remove(word)
            shared += 1
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted_words), shared / len(gold_words)
    return 2 * precision * recall / (precision + recall)


@given(texts)
def test_answers_are_normalized_by_the_rules(text: str) -> None:
    assert normalize_answer(text) == normalize_plainly(text)
    assert exact_match(text, f"  {text}\n") == 1 == answer_f1(text, text)


@given(texts, texts)
def test_two_answers_are_compared_by_the_rules(answer: str, gold: str) -> None:
    assert answer_f1(answer, gold) == pytest.approx(compute_f1_plainly(answer, gold))
    assert exact_match(answer, gold) == (normalize_plainly(answer) == normalize_plainly(gold))


@given(st.lists(st.tuples(texts, st.lists(texts, max_size=4)), max_size=6))
def test_the_best_gold_answer_counts(rows: list[tuple[str, list[str]]]) -> None:
    em, f1 = answer_scores([answer for answer, _ in rows], [gold for _, gold in rows])
    for (answer, given_golds), is_exact, f1_score in zip(rows, em, f1, strict=True):
        golds = [gold for gold in given_golds if normalize_plainly(gold)] or [""]
        assert is_exact == max(normalize_plainly(answer) == normalize_plainly(gold) for gold in golds)
        assert f1_score == pytest.approx(max(compute_f1_plainly(answer, gold) for gold in golds))


def test_known_answers() -> None:
    em, f1 = answer_scores(
        ["The Denver Broncos!", "Denver", "", "Paris", "", "an apple  a day"],
        [["Denver Broncos"], ["Denver Broncos", "Broncos"], [], [], ["x"], ["apple day"]],
    )
    assert em.tolist() == [1, 0, 1, 0, 0, 1]
    assert f1 == pytest.approx([1, 2 / 3, 1, 0, 0, 1])


def find_threshold_officially(no_answer: Array, scores: Array, is_answerable: Array) -> tuple[float, float]:
    """The official algorithm: start with no answers, then answer one more question at a time."""
    total = best_total = float(np.sum(~is_answerable))
    threshold = 0.0
    for row in sorted(range(len(is_answerable)), key=lambda row: no_answer[row]):
        total += scores[row] if is_answerable[row] else scores[row] - 1
        if total > best_total:
            best_total, threshold = total, float(no_answer[row])
    return threshold, best_total / len(is_answerable)


@given(st.data(), st.integers(1, 30))
def test_the_threshold_is_that_of_the_official_walk(data: st.DataObject, rows: int) -> None:
    distinct_margins = st.lists(st.integers(1, 10**6), min_size=rows, max_size=rows, unique=True)
    no_answer = np.array(data.draw(distinct_margins)) / 1000
    is_answerable = np.array(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
    points = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    scores = np.where(is_answerable, data.draw(st.lists(points, min_size=rows, max_size=rows)), 0.0)
    best = best_no_answer_threshold(no_answer, scores, is_answerable)
    official, value = find_threshold_officially(no_answer, scores, is_answerable)
    assert best.value == value
    assert ((no_answer <= best.threshold) == (no_answer <= official)).all()  # the same rows are answered
    assert np.abs(no_answer - best.threshold).min() > 1e-4  # and no last digit decides


@given(st.data(), st.integers(1, 20))
def test_the_threshold_gives_the_score_it_promises(data: st.DataObject, rows: int) -> None:
    no_answer = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=rows, max_size=rows)), float)
    is_answerable = np.array(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
    scores = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=rows, max_size=rows)))
    best = best_no_answer_threshold(no_answer, scores, is_answerable)

    def score(threshold: float) -> float:
        return float(np.where(no_answer > threshold, ~is_answerable, scores).mean())

    assert score(best.threshold) == pytest.approx(best.value)
    assert best.value == pytest.approx(max(score(threshold) for threshold in (-9.0, *no_answer)))


def test_measures_have_intervals_by_kind_of_question() -> None:
    rng = np.random.default_rng(0)
    is_answerable = rng.random(300) < 0.7
    em = rng.random(300) < 0.6
    f1 = np.maximum(em, rng.random(300))
    measures = measure_answers(em, f1, is_answerable, n=200)
    assert list(measures) == ["exact_match", "f1", "has_answer_exact", "has_answer_f1", "no_answer_accuracy"]
    assert measures["f1"].value == pytest.approx(f1.mean())
    assert measures["has_answer_f1"].value == pytest.approx(f1[is_answerable].mean())
    assert measures["no_answer_accuracy"].value == pytest.approx(em[~is_answerable].mean())
    assert all(interval.low < interval.value < interval.high for interval in measures.values())
    assert list(measure_answers(em, f1, n=10)) == ["exact_match", "f1"]
    assert list(measure_answers(em, f1, np.zeros(300), n=10)) == ["exact_match", "f1", "no_answer_accuracy"]
    grouped = measure_answers(em, f1, is_answerable, n=200, groups=np.arange(300) // 60)
    assert grouped["f1"].value == pytest.approx(measures["f1"].value)
    assert grouped["f1"].low != measures["f1"].low
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
