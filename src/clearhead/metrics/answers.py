"""Metrics of extractive question answering as defined by SQuAD: exact match, token F1 and the no-answer threshold.

The rules are those of version 2.0, where the empty string means that the passage has no answer. If every question has
an answer with at least one word, they are equal to those of version 1.1.

Text is split into words as in the official script, which is part of the metric, not by `clearhead.text.words`.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike, check_binary, check_one_per_row, check_reals, check_same_rows
from clearhead.metrics.classification import proportion
from clearhead.metrics.intervals import Interval, bootstrap
from clearhead.metrics.resamples import row_units
from clearhead.metrics.thresholds import Threshold
from clearhead.metrics.weights import WeightedMetric, metric, weighted_mean

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)  # ASCII only, as in the official script


def normalize_answer(answer: str) -> str:
    """Remove case, punctuation, English articles and extra whitespace from an answer."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> float:
    """1 if two normalized answers are equal, else 0."""
    return float(normalize_answer(answer) == normalize_answer(gold))


def answer_f1(answer: str, gold: str) -> float:
    """Token F1 of two answers; if one has no words, 1 if neither has any, else 0."""
    return _token_f1(normalize_answer(answer).split(), normalize_answer(gold).split())


def answer_scores(predictions: Sequence[str], golds: Sequence[Sequence[str]]) -> tuple[Array, Array]:
    """Exact match and F1 of each answer with its best-matching gold answer; an empty gold list means no answer."""
    if len(predictions) != len(golds):
        raise InputError(
            f"There are {len(predictions)} answers and {len(golds)} questions; expected one answer per question."
        )
    scores = np.zeros((2, len(predictions)))
    for row, (answer, gold_answers) in enumerate(zip(predictions, golds, strict=True)):
        if isinstance(gold_answers, str):
            raise InputError(f"golds[{row}] is a string; expected a list of gold answers, empty for none.")
        normalized = normalize_answer(answer)
        # a gold answer that is empty after normalization does not count, as in the official script
        normalized_golds = [gold for gold in map(normalize_answer, gold_answers) if gold] or [""]
        scores[0, row] = normalized in normalized_golds
        scores[1, row] = max(_token_f1(normalized.split(), gold.split()) for gold in normalized_golds)
    return scores[0], scores[1]


@metric(is_discrete=True)
def mean(values: ArrayLike) -> WeightedMetric:
    """Mean of one number per row."""
    return weighted_mean(check_reals(values, "values"))


def measure_answers(
    em: ArrayLike,
    f1: ArrayLike,
    has_answer: ArrayLike | None = None,
    *,
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    groups: ArrayLike | None = None,
) -> dict[str, Interval]:
    """Compute `exact_match` and `f1` with confidence intervals, also by answerability if some have no answer.

    Questions about the same passage are correlated: pass the passages as `groups` to resample whole passages.
    """
    is_match, f1_scores = check_one_per_row(check_binary(em, "em"), "em"), check_reals(f1, "f1")
    is_answerable = (
        np.ones(len(is_match), bool)
        if has_answer is None
        else check_one_per_row(check_binary(has_answer, "has_answer"), "has_answer")
    )
    check_same_rows(em=is_match, f1=f1_scores, has_answer=is_answerable)
    all_rows = np.ones(len(is_answerable), bool)
    subsets: list[tuple[str, Callable[..., float], Array, Array]] = [
        ("exact_match", proportion, is_match, all_rows),
        ("f1", mean, f1_scores, all_rows),
    ]
    if is_answerable.any() and not is_answerable.all():
        subsets += [
            ("has_answer_exact", proportion, is_match, is_answerable),
            ("has_answer_f1", mean, f1_scores, is_answerable),
        ]
    if not is_answerable.all():
        subsets.append(("no_answer_accuracy", proportion, is_match, ~is_answerable))
    group_ids = None if groups is None else row_units(len(is_answerable), groups).groups
    measures: dict[str, Interval] = {}
    for name, metric_function, values, rows in subsets:
        subset_groups = None if group_ids is None else group_ids[rows]
        measures[name] = bootstrap(metric_function, values[rows], n=n, level=level, seed=seed, groups=subset_groups)
    return measures


def best_no_answer_threshold(no_answer: ArrayLike, scores: ArrayLike, has_answer: ArrayLike) -> Threshold:
    """Find the no-answer score up to which to answer, and the mean score of these rows at that threshold.

    `no_answer` is the margin of "no answer" over the best answer; `scores` are the exact matches or F1 of the best
    answers if all were given. The answered rows are those of the official script, which visits the rows in the order of
    `no_answer` and takes the first of equally good thresholds; rows with equal `no_answer`, which no threshold can
    separate, stay together. The threshold is midway between the last answered row and the next, so that the last digits
    of a score, which depend on the machine, cannot change a decision. If all rows or none are answered, it is 0 where
    possible, otherwise 1 beyond the last (or first) row.
    """
    margins, points_if_answered = check_reals(no_answer, "no_answer"), check_reals(scores, "scores")
    is_answerable = check_one_per_row(check_binary(has_answer, "has_answer"), "has_answer")
    check_same_rows(no_answer=margins, scores=points_if_answered, has_answer=is_answerable)
    order = np.argsort(margins, kind="stable")
    ranked = margins[order]
    # answering an unanswerable question loses the point that abstaining earns
    gains = np.where(is_answerable, points_if_answered, points_if_answered - 1)[order]
    totals = np.cumsum(np.concatenate([[float((~is_answerable).sum())], gains]))
    is_last_of_tie = np.concatenate([ranked[1:] != ranked[:-1], [True]])
    reachable_totals = np.where(np.concatenate([[True], is_last_of_tie]), totals, -np.inf)
    best = int(np.argmax(reachable_totals))
    if best == 0:
        threshold = min(0.0, float(ranked[0]) - 1)
    elif best == len(ranked):
        threshold = max(0.0, float(ranked[-1]) + 1)
    else:
        lower, upper = float(ranked[best - 1]), float(ranked[best])
        middle = lower + (upper - lower) / 2
        threshold = middle if middle < upper else lower
    return Threshold(threshold=threshold, value=float(reachable_totals[best] / len(is_answerable)))


def _token_f1(predicted_tokens: list[str], gold_tokens: list[str]) -> float:
    """F1 of two lists of tokens."""
    if not predicted_tokens or not gold_tokens:
        return float(predicted_tokens == gold_tokens)
    shared_count = (Counter(predicted_tokens) & Counter(gold_tokens)).total()
    return 2 * shared_count / (len(predicted_tokens) + len(gold_tokens))
