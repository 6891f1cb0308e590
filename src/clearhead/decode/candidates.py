"""Choosing among a vocabulary: the likeliest words, their log probabilities, and draws, in few passes over memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.decode.generation_config import DecodingPlan

Array = np.ndarray[Any, Any]
BLOCK = 128  # words whose largest score is looked at first


def log_sum_exp(logits: Array) -> Array:
    """log sum exp of each row, (rows, 1): what turns logits into log probabilities."""
    made = np.empty((len(logits), 1))
    space = np.empty(logits.shape[1], np.float32)
    for row, scores in enumerate(logits):  # one row at a time stays in the cache
        largest = scores.max()
        if not np.isfinite(largest):
            made[row] = largest
            continue
        np.subtract(scores, largest, out=space)
        np.exp(space, out=space)
        made[row] = np.log(float(space.sum())) + float(largest)
    return made


def select_top(scores: Array, count: int) -> tuple[Array, Array]:
    """The `count` highest scores of each row and their places, the highest first; of equals, the first.

    The highest words stand in the blocks with the highest maxima, so that only those are searched.
    """
    count = min(count, scores.shape[1])
    if scores.shape[1] <= BLOCK * (count + 1):
        return _sort_top(scores, np.broadcast_to(np.arange(scores.shape[1]), scores.shape), count)
    starts = np.arange(0, scores.shape[1], BLOCK)
    maxima = np.maximum.reduceat(scores, starts, axis=1)
    blocks = np.sort(np.argpartition(maxima, -count, axis=1)[:, -count:], axis=1)
    places = (blocks[:, :, None] * BLOCK + np.arange(BLOCK)).reshape(len(scores), -1)
    inside = np.minimum(places, scores.shape[1] - 1)
    found = np.take_along_axis(scores, inside, 1)
    found[places != inside] = -np.inf  # the last block may be short
    return _sort_top(found, inside, count)


def _sort_top(scores: Array, places: Array, count: int) -> tuple[Array, Array]:
    if count < scores.shape[1]:
        some = np.sort(np.argpartition(scores, -count, axis=1)[:, -count:], axis=1)
        scores, places = np.take_along_axis(scores, some, 1), np.take_along_axis(places, some, 1)
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(scores, order, 1), np.take_along_axis(places, order, 1)


def filter_candidates(scores: Array, plan: DecodingPlan) -> tuple[Array, Array]:
    """The words that a draw may give, (some,), and their probabilities in float64, which sum to one; perhaps none.

    p = softmax(scores / temperature), of which top_k, top_p and min_p keep the likeliest.
    """
    largest = float(scores.max())
    if not np.isfinite(largest):
        return np.zeros(0, np.int64), np.zeros(0)
    if plan.top_k:
        places = select_top(scores[None], plan.top_k)[1][0]
    elif plan.top_p < 1.0 or plan.min_p:
        places = _nucleus_candidates(scores, largest, plan)
    else:
        places = np.arange(len(scores))
    probs = np.exp((scores[places].astype(np.float64) - largest) / plan.temperature)
    if plan.top_p < 1.0:  # sorted: a word stays if those before it do not yet have top_p
        whole = probs.sum() if plan.top_k else _relative_probs(scores, largest, plan).sum(dtype=np.float64)
        stay = np.cumsum(probs) - probs < plan.top_p * whole
        stay[0] = True
        places, probs = places[stay], probs[stay]
    if plan.min_p:
        places, probs = places[probs >= plan.min_p], probs[probs >= plan.min_p]
    return places, probs / probs.sum()


def _relative_probs(scores: Array, largest: float, plan: DecodingPlan) -> Array:
    """How likely each word is beside the likeliest."""
    made: Array = np.exp((scores - np.float32(largest)) / np.float32(plan.temperature))
    return made


def _nucleus_candidates(scores: Array, largest: float, plan: DecodingPlan) -> Array:
    """Words that together have top_p, and a few more, the likeliest first: only these are sorted."""
    beside = _relative_probs(scores, largest, plan)
    needed, least = plan.top_p * beside.sum(dtype=np.float64), 0.5
    while plan.top_p < 1.0 and least > 1e-30 and beside[beside >= least].sum(dtype=np.float64) < needed:
        least /= 4
    # all that could count where there is no top_p, or where nothing short of everything is enough
    places = np.flatnonzero(beside >= (least if plan.top_p < 1.0 and least > 1e-30 else plan.min_p / 2))
    return places[np.argsort(-scores[places], kind="stable")]


def sample_token(places: Array, probs: Array, random: float) -> int:
    """The word at which the running sum of probabilities passes a random number from 0 to 1."""
    sums = np.cumsum(probs)
    place = int(np.searchsorted(sums, random * sums[-1], side="right"))
    return int(places[min(place, int(np.flatnonzero(probs)[-1]))])  # rounding never gives what cannot be
