"""Candidate tokens: the most likely ones, their log probabilities, and sampling, in few passes over memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.decode.generation_config import DecodingPlan

Array = np.ndarray[Any, Any]
BLOCK_SIZE = 128  # tokens per block in the search for the highest scores


def log_sum_exp(logits: Array) -> Array:
    """Compute log sum exp of each row, (rows, 1), the difference between logits and log probabilities."""
    log_sums = np.empty((len(logits), 1))
    buffer = np.empty(logits.shape[1], np.float32)
    for row, scores in enumerate(logits):  # one row at a time stays in the cache
        largest = scores.max()
        if not np.isfinite(largest):
            log_sums[row] = largest
            continue
        np.subtract(scores, largest, out=buffer)
        np.exp(buffer, out=buffer)
        log_sums[row] = np.log(float(buffer.sum())) + float(largest)
    return log_sums


def select_top(scores: Array, count: int) -> tuple[Array, Array]:
    """Select the `count` highest scores of each row and their indices, in descending order; ties by index.

    The highest scores are in the blocks with the highest maxima, so only these are searched.
    """
    count = min(count, scores.shape[1])
    if scores.shape[1] <= BLOCK_SIZE * (count + 1):
        return _sort_top(scores, np.broadcast_to(np.arange(scores.shape[1]), scores.shape), count)
    starts = np.arange(0, scores.shape[1], BLOCK_SIZE)
    maxima = np.maximum.reduceat(scores, starts, axis=1)
    blocks = np.sort(np.argpartition(maxima, -count, axis=1)[:, -count:], axis=1)
    indices = (blocks[:, :, None] * BLOCK_SIZE + np.arange(BLOCK_SIZE)).reshape(len(scores), -1)
    valid_indices = np.minimum(indices, scores.shape[1] - 1)
    candidates = np.take_along_axis(scores, valid_indices, 1)
    candidates[indices != valid_indices] = -np.inf  # the last block may be short
    return _sort_top(candidates, valid_indices, count)


def _sort_top(scores: Array, indices: Array, count: int) -> tuple[Array, Array]:
    if count < scores.shape[1]:
        top = np.sort(np.argpartition(scores, -count, axis=1)[:, -count:], axis=1)
        scores, indices = np.take_along_axis(scores, top, 1), np.take_along_axis(indices, top, 1)
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(scores, order, 1), np.take_along_axis(indices, order, 1)


def filter_candidates(scores: Array, plan: DecodingPlan) -> tuple[Array, Array]:
    """Filter the tokens that may be sampled, possibly none, and compute their probabilities in float64, summing to 1.

    p = softmax(scores / temperature), restricted by top_k, top_p and min_p to the most likely tokens.
    """
    largest = float(scores.max())
    if not np.isfinite(largest):
        return np.zeros(0, np.int64), np.zeros(0)
    if plan.top_k:
        token_ids = select_top(scores[None], plan.top_k)[1][0]
    elif plan.top_p < 1.0 or plan.min_p:
        token_ids = _nucleus_candidates(scores, largest, plan)
    else:
        token_ids = np.arange(len(scores))
    probs = np.exp((scores[token_ids].astype(np.float64) - largest) / plan.temperature)
    if plan.top_p < 1.0:  # sorted: a token is kept if those before it sum to less than top_p
        total = probs.sum() if plan.top_k else _relative_probs(scores, largest, plan).sum(dtype=np.float64)
        is_kept = np.cumsum(probs) - probs < plan.top_p * total
        is_kept[0] = True
        token_ids, probs = token_ids[is_kept], probs[is_kept]
    if plan.min_p:
        token_ids, probs = token_ids[probs >= plan.min_p], probs[probs >= plan.min_p]
    return token_ids, probs / probs.sum()


def _relative_probs(scores: Array, largest: float, plan: DecodingPlan) -> Array:
    """The probability of each token relative to the most likely one."""
    probs: Array = np.exp((scores - np.float32(largest)) / np.float32(plan.temperature))
    return probs


def _nucleus_candidates(scores: Array, largest: float, plan: DecodingPlan) -> Array:
    """Tokens whose probabilities sum to at least top_p, and a few more, in descending order; only these are sorted."""
    relative_probs = _relative_probs(scores, largest, plan)
    required, min_prob = plan.top_p * relative_probs.sum(dtype=np.float64), 0.5
    if plan.top_p < 1.0:
        while min_prob > 1e-30 and relative_probs[relative_probs >= min_prob].sum(dtype=np.float64) < required:
            min_prob /= 4
    # without top_p, or if it needs every token, min_p is the only limit
    limit = min_prob if plan.top_p < 1.0 and min_prob > 1e-30 else plan.min_p / 2
    token_ids = np.flatnonzero(relative_probs >= limit)
    return token_ids[np.argsort(-scores[token_ids], kind="stable")]


def sample_token(token_ids: Array, probs: Array, uniform: float) -> int:
    """The token at which the cumulative probability exceeds a uniform random number from 0 to 1."""
    cumulative = np.cumsum(probs)
    index = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
    return int(token_ids[min(index, int(np.flatnonzero(probs)[-1]))])  # rounding never selects an impossible token
