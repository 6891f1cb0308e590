"""Logits processors: penalize repetition, and forbid or force tokens, in place.

Each rule changes only the affected cells, never the whole vocabulary. The order is that of `transformers`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.decode.generation_config import DecodingPlan

Array = np.ndarray[Any, Any]
FORBIDDEN = np.float32(-np.inf)


class LogitsProcessor:
    """The rules of a plan, for answers of at most `max_new_tokens` tokens."""

    def __init__(self, plan: DecodingPlan, max_new_tokens: int) -> None:
        self.plan, self.max_new_tokens = plan, max_new_tokens
        self.ngram_size = plan.settings.no_repeat_ngram_size
        self.end_ids = np.array([end_id for end_id in plan.end_ids if end_id < plan.vocab], np.int64)
        single_ids = sorted({ids[0] for ids in plan.bad_words if len(ids) == 1})
        self.single_ids = np.array(single_ids, np.int64)
        self.sequence_groups = _group_by_length([ids for ids in plan.bad_words if len(ids) > 1])

    def apply(self, logits: Array, history: Array, step: int, log_sums: Array | None = None) -> None:
        """Apply every rule to (rows, vocab) logits before new token number `step`, counted from 0.

        `history` is (rows, length) of all tokens so far, -1 for padding. If the rules apply to log probabilities,
        `log_sums` is log sum exp of the logits, (rows, 1), and logits - log_sums are the scores.
        """
        plan = self.plan
        if plan.repetition_penalty != 1.0:
            _penalize_repetition(logits, history, plan.repetition_penalty, log_sums)
        if self.ngram_size:
            _forbid_repeated_ngrams(logits, history, self.ngram_size)
        if len(self.single_ids):
            logits[:, self.single_ids] = FORBIDDEN
        for prefixes, last_ids in self.sequence_groups:
            _forbid_continuations(logits, history, prefixes, last_ids)
        if len(self.end_ids):
            if step < plan.min_new_tokens:
                logits[:, self.end_ids] = FORBIDDEN
            elif plan.min_total_tokens:
                is_too_short = (history >= 0).sum(1) < plan.min_total_tokens
                logits[np.ix_(is_too_short, self.end_ids)] = FORBIDDEN
        if plan.forced_first is not None and step == 0:
            _force_tokens(logits, (history >= 0).sum(1) == 1, [plan.forced_first], log_sums)
        if plan.forced_last and step == self.max_new_tokens - 1:
            _force_tokens(logits, np.ones(len(logits), np.bool_), list(plan.forced_last), log_sums)
        if plan.suppressed:
            logits[:, list(plan.suppressed)] = FORBIDDEN
        if plan.suppressed_first:
            prompt_lengths = (history >= 0).sum(1) - step
            forces_first = (prompt_lengths == 1) & (plan.forced_first is not None)
            logits[np.ix_(step == forces_first.astype(np.int64), np.array(plan.suppressed_first))] = FORBIDDEN

    def changes_scores(self, step: int) -> bool:
        """Whether the rules change scores of tokens that are still allowed."""
        forces_first = self.plan.forced_first is not None and step == 0
        forces_last = bool(self.plan.forced_last) and step == self.max_new_tokens - 1
        return self.plan.repetition_penalty != 1.0 or forces_first or forces_last


def _group_by_length(sequences: list[tuple[int, ...]]) -> list[tuple[Array, Array]]:
    """Group sequences by length n: their prefixes (count, n - 1), and their last tokens (count,)."""
    lengths = sorted({len(ids) for ids in sequences})
    groups = [np.array([ids for ids in sequences if len(ids) == length], np.int64) for length in lengths]
    return [(group[:, :-1], group[:, -1]) for group in groups]


def _penalize_repetition(logits: Array, history: Array, penalty: float, log_sums: Array | None) -> None:
    """Make tokens of the history less likely: divide positive scores by the penalty, multiply negative ones."""
    rows, positions = np.nonzero((history >= 0) & (history < logits.shape[1]))
    ids = history[rows, positions]
    shift = np.float32(0) if log_sums is None else log_sums[rows, 0].astype(np.float32)
    score = logits[rows, ids] - shift
    logits[rows, ids] = np.where(score < 0, score * np.float32(penalty), score / np.float32(penalty)) + shift


def _forbid_repeated_ngrams(logits: Array, history: Array, size: int) -> None:
    """Forbid tokens that would complete an n-gram of the history."""
    length = history.shape[1]
    if length < size:
        return
    ngrams = np.lib.stride_tricks.sliding_window_view(history, size, axis=1)  # (rows, ngrams, size)
    current_ngram = history[:, length + 1 - size :]
    is_match = (ngrams[:, :, :-1] == current_ngram[:, None]).all(2) & (ngrams[:, :, 0] >= 0)
    rows, ngram_indices = np.nonzero(is_match)
    ids = ngrams[rows, ngram_indices, -1]
    is_in_vocabulary = ids < logits.shape[1]
    logits[rows[is_in_vocabulary], ids[is_in_vocabulary]] = FORBIDDEN


def _forbid_continuations(logits: Array, history: Array, prefixes: Array, last_ids: Array) -> None:
    """Forbid the last token of a sequence if the history ends with its prefix."""
    size = prefixes.shape[1]
    if history.shape[1] >= size:
        rows, sequences = np.nonzero((history[:, None, -size:] == prefixes[None]).all(2))
        logits[rows, last_ids[sequences]] = FORBIDDEN


def _force_tokens(logits: Array, is_forced: Array, ids: list[int], log_sums: Array | None) -> None:
    """Allow only these tokens, with a score of 0."""
    logits[is_forced] = FORBIDDEN
    forced_scores = (
        np.zeros((int(is_forced.sum()), 1), np.float32) if log_sums is None else log_sums[is_forced].astype(np.float32)
    )
    logits[np.ix_(is_forced, np.array(ids))] = forced_scores
