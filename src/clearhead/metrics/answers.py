"""Answers out of passages, measured by the rules of SQuAD: exact match, F1 of words, and when not to answer.

These are the rules of version 2.0, where the empty string says that the passage holds no answer. On questions that all
have an answer with a word in it they are those of version 1.1.

Words are those of the official script, which are part of the metric, and not those of `clearhead.text.words`.
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
PUNCTUATION = str.maketrans("", "", string.punctuation)  # ASCII only, as the official script has it


def normalize_answer(answer: str) -> str:
    """An answer without case, punctuation, English articles and spare white space."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> float:
    """1 if two answers are the same once normalised, else 0."""
    return float(normalize_answer(answer) == normalize_answer(gold))


def answer_f1(answer: str, gold: str) -> float:
    """F1 of the words that two answers share; where one has no words, 1 if neither has."""
    return _token_f1(normalize_answer(answer).split(), normalize_answer(gold).split())


def answer_scores(predictions: Sequence[str], golds: Sequence[Sequence[str]]) -> tuple[Array, Array]:
    """Exact match and F1 of each answer with the gold answer that suits it best; no gold answers mean no answer."""
    if len(predictions) != len(golds):
        raise InputError(f"There are {len(predictions)} answers and {len(golds)} questions; give one answer for each.")
    made = np.zeros((2, len(predictions)))
    for row, (answer, wanted) in enumerate(zip(predictions, golds, strict=True)):
        if isinstance(wanted, str):
            raise InputError(f"golds[{row}] is a string; give a list of the right answers, empty for none.")
        said = normalize_answer(answer)
        # a gold answer of which nothing is left is none, as in the official script
        kept = [text for text in map(normalize_answer, wanted) if text] or [""]
        made[0, row] = said in kept
        made[1, row] = max(_token_f1(said.split(), text.split()) for text in kept)
    return made[0], made[1]


@metric(discrete=True)
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
    """`exact_match` and `f1` with intervals; where some questions have no answer, also for each kind of question.

    Questions about one passage are alike: give the passage as `groups` and whole passages are drawn.
    """
    matched, shared = check_one_per_row(check_binary(em, "em"), "em"), check_reals(f1, "f1")
    has = (
        np.ones(len(matched), bool)
        if has_answer is None
        else check_one_per_row(check_binary(has_answer, "has_answer"), "has_answer")
    )
    check_same_rows(em=matched, f1=shared, has_answer=has)
    every = np.ones(len(has), bool)
    parts: list[tuple[str, Callable[..., float], Array, Array]] = [
        ("exact_match", proportion, matched, every),
        ("f1", mean, shared, every),
    ]
    if has.any() and not has.all():
        parts += [("has_answer_exact", proportion, matched, has), ("has_answer_f1", mean, shared, has)]
    if not has.all():
        parts.append(("no_answer_accuracy", proportion, matched, ~has))
    among = None if groups is None else row_units(len(has), groups).groups
    made: dict[str, Interval] = {}
    for name, score, values, rows in parts:
        kept = None if among is None else among[rows]
        made[name] = bootstrap(score, values[rows], n=n, level=level, seed=seed, groups=kept)
    return made


def best_no_answer_threshold(no_answer: ArrayLike, scores: ArrayLike, has_answer: ArrayLike) -> Threshold:
    """Up to which score of "no answer" to answer, and the mean score that this gives on these rows.

    `no_answer` is how much better no answer looks than the best answer; `scores` are the exact matches or F1 of the
    best answers, were they all given. The rows that are answered are those of the official script, which walks over
    the rows in order of `no_answer` and takes the first of equally good thresholds; only rows of equal `no_answer`,
    which no threshold separates, are taken together. The threshold lies midway between the last row that is answered
    and the next one, so that the last digit of a score, which depends on the machine, decides nothing. Where all rows
    or none are answered, it is 0 if 0 does so, and otherwise 1 beyond the last row.
    """
    doubts, gains = check_reals(no_answer, "no_answer"), check_reals(scores, "scores")
    has = check_one_per_row(check_binary(has_answer, "has_answer"), "has_answer")
    check_same_rows(no_answer=doubts, scores=gains, has_answer=has)
    order = np.argsort(doubts, kind="stable")
    ranked = doubts[order]
    # answering a question that has none loses the point that silence earns
    steps = np.where(has, gains, gains - 1)[order]
    totals = np.cumsum(np.concatenate([[float((~has).sum())], steps]))
    last = np.concatenate([ranked[1:] != ranked[:-1], [True]])
    reached = np.where(np.concatenate([[True], last]), totals, -np.inf)
    best = int(np.argmax(reached))
    if best == 0:
        threshold = min(0.0, float(ranked[0]) - 1)
    elif best == len(ranked):
        threshold = max(0.0, float(ranked[-1]) + 1)
    else:
        lower, upper = float(ranked[best - 1]), float(ranked[best])
        middle = lower + (upper - lower) / 2
        threshold = middle if middle < upper else lower
    return Threshold(threshold=threshold, value=float(reached[best] / len(has)))


def _token_f1(said: list[str], true: list[str]) -> float:
    """F1 of two lists of words."""
    if not said or not true:
        return float(said == true)
    both = (Counter(said) & Counter(true)).total()
    return 2 * both / (len(said) + len(true))
