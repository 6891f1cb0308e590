"""Choosing among a vocabulary: the likeliest words, their log probabilities, and draws, in few passes over memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.decode.folder import Plan

Array = np.ndarray[Any, Any]
BLOCK = 128  # words whose largest score is looked at first
FIRST = 256  # words that are sorted at first for top_p: they nearly always hold enough


def log_total(logits: Array) -> Array:
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


def top(scores: Array, count: int) -> tuple[Array, Array]:
    """The `count` highest scores of each row and their places, the highest first; of equals, the first.

    The highest words stand in the blocks with the highest maxima, so that only those are searched.
    """
    count = min(count, scores.shape[1])
    if scores.shape[1] <= BLOCK * (count + 1):
        return _sorted(scores, np.broadcast_to(np.arange(scores.shape[1]), scores.shape), count)
    starts = np.arange(0, scores.shape[1], BLOCK)
    maxima = np.maximum.reduceat(scores, starts, axis=1)
    blocks = np.sort(np.argpartition(maxima, -count, axis=1)[:, -count:], axis=1)
    places = (blocks[:, :, None] * BLOCK + np.arange(BLOCK)).reshape(len(scores), -1)
    inside = np.minimum(places, scores.shape[1] - 1)
    found = np.take_along_axis(scores, inside, 1)
    found[places != inside] = -np.inf  # the last block may be short
    return _sorted(found, inside, count)


def _sorted(scores: Array, places: Array, count: int) -> tuple[Array, Array]:
    if count < scores.shape[1]:
        some = np.sort(np.argpartition(scores, -count, axis=1)[:, -count:], axis=1)
        scores, places = np.take_along_axis(scores, some, 1), np.take_along_axis(places, some, 1)
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(scores, order, 1), np.take_along_axis(places, order, 1)


def likely(logits: Array, plan: Plan) -> tuple[Array, Array]:
    """The words that a draw may give, and their probabilities: (rows, some) places and float64 that sum to one.

    p = softmax(logits / temperature), of which top_k, top_p and min_p keep the likeliest.
    """
    if plan.top_k:
        scores, places = top(logits, plan.top_k)
    elif plan.top_p < 1.0:
        scores, places = _nucleus(logits, plan)
    else:
        scores, places = logits, np.broadcast_to(np.arange(logits.shape[1]), logits.shape)
    scores = scores.astype(np.float64) / plan.temperature
    largest = scores.max(1, keepdims=True)
    probs = np.exp(scores - np.where(np.isfinite(largest), largest, 0.0))
    if plan.top_p < 1.0:  # sorted: a word stays if those before it do not yet have top_p
        whole = probs.sum(1, keepdims=True) if plan.top_k else _whole(logits, plan)
        before = np.cumsum(probs, axis=1) - probs
        keep = before < plan.top_p * whole
        keep[:, 0] = True
        probs = np.where(keep, probs, 0.0)
    if plan.min_p:
        probs = np.where(probs >= plan.min_p * probs.max(1, keepdims=True), probs, 0.0)
    sums = probs.sum(1, keepdims=True)
    return places, np.divide(probs, sums, out=np.zeros_like(probs), where=sums > 0)


def _whole(logits: Array, plan: Plan) -> Array:
    """The sum of exp((logits - largest) / temperature) over all words."""
    scaled = logits / np.float32(plan.temperature)
    whole: Array = np.exp(log_total(scaled) - scaled.max(1, keepdims=True))
    return whole


def _nucleus(logits: Array, plan: Plan) -> tuple[Array, Array]:
    """As many of the likeliest words as top_p could need in any row, sorted."""
    count, whole = FIRST, _whole(logits, plan)
    while True:
        scores, places = top(logits, count)
        probs = np.exp((scores.astype(np.float64) - scores[:, :1]) / plan.temperature)
        if count >= logits.shape[1] or (probs.sum(1, keepdims=True) >= plan.top_p * whole).all():
            return scores, places
        count *= 8


def draw(places: Array, probs: Array, random: Array) -> Array:
    """One word for each row: where the running sum of probabilities passes a random number from 0 to 1."""
    sums = np.cumsum(probs, axis=1)
    chosen = (sums <= random[:, None] * sums[:, -1:]).sum(1)
    last = probs.shape[1] - 1 - np.argmax(probs[:, ::-1] > 0, axis=1)  # rounding never gives what cannot be
    return np.take_along_axis(places, np.minimum(chosen, last)[:, None], 1)[:, 0]
