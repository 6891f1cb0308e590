"""What may be said next: scores of words that were said, that are forbidden or that are forced, changed in place.

Each rule touches the few cells it is about, never the whole vocabulary. The order is that of `transformers`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.decode.generation_config import DecodingPlan

Array = np.ndarray[Any, Any]
NEVER = np.float32(-np.inf)


class LogitsProcessor:
    """The rules of one plan, for answers of at most `limit` new words."""

    def __init__(self, plan: DecodingPlan, limit: int) -> None:
        self.plan, self.limit = plan, limit
        self.ngram = plan.settings.no_repeat_ngram_size
        self.ends = np.array([end for end in plan.end_ids if end < plan.vocab], np.int64)
        single = sorted({ids[0] for ids in plan.bad_words if len(ids) == 1})
        self.single = np.array(single, np.int64)
        self.rows = _group_by_length([ids for ids in plan.bad_words if len(ids) > 1])

    def apply(self, logits: Array, history: Array, new: int, total: Array | None = None) -> None:
        """Apply every rule to (rows, vocab) logits before the word number `new`, counted from 0.

        `history` is (rows, length) of all words so far, -1 where a row has none. Where log probabilities are meant,
        `total` is the log of the sum of exp(logits), (rows, 1), and logits - total are the scores that count.
        """
        plan = self.plan
        if plan.repetition_penalty != 1.0:
            _penalize_repetition(logits, history, plan.repetition_penalty, total)
        if self.ngram:
            _forbid_repeated_ngrams(logits, history, self.ngram)
        if len(self.single):
            logits[:, self.single] = NEVER
        for before, last in self.rows:
            _forbid_continuations(logits, history, before, last)
        if len(self.ends):
            if new < plan.min_new_tokens:
                logits[:, self.ends] = NEVER
            elif plan.min_total_tokens:
                short = (history >= 0).sum(1) < plan.min_total_tokens
                logits[np.ix_(short, self.ends)] = NEVER
        if plan.forced_first is not None and new == 0:
            _force_tokens(logits, (history >= 0).sum(1) == 1, [plan.forced_first], total)
        if plan.forced_last and new == self.limit - 1:
            _force_tokens(logits, np.ones(len(logits), np.bool_), list(plan.forced_last), total)
        if plan.suppressed:
            logits[:, list(plan.suppressed)] = NEVER
        if plan.suppressed_first:
            lengths = (history >= 0).sum(1) - new  # of the prompts
            first = (lengths == 1) & (plan.forced_first is not None)
            logits[np.ix_(new == first.astype(np.int64), np.array(plan.suppressed_first))] = NEVER

    def changes_scores(self, new: int) -> bool:
        """Whether scores of words that may be said are other numbers afterwards."""
        forced = (self.plan.forced_first is not None and new == 0) or (self.plan.forced_last and new == self.limit - 1)
        return self.plan.repetition_penalty != 1.0 or bool(forced)


def _group_by_length(words: list[tuple[int, ...]]) -> list[tuple[Array, Array]]:
    """Words in a row, grouped by their number: all but the last (many, n - 1), and the last."""
    lengths = sorted({len(ids) for ids in words})
    groups = [np.array([ids for ids in words if len(ids) == length], np.int64) for length in lengths]
    return [(group[:, :-1], group[:, -1]) for group in groups]


def _penalize_repetition(logits: Array, history: Array, penalty: float, total: Array | None) -> None:
    """Words that were said, made less likely: a score above 0 is divided by the penalty, one below is multiplied."""
    rows, places = np.nonzero((history >= 0) & (history < logits.shape[1]))
    ids = history[rows, places]
    shift = np.float32(0) if total is None else total[rows, 0].astype(np.float32)
    score = logits[rows, ids] - shift
    logits[rows, ids] = np.where(score < 0, score * np.float32(penalty), score / np.float32(penalty)) + shift


def _forbid_repeated_ngrams(logits: Array, history: Array, size: int) -> None:
    """A word is forbidden if it would end a run of `size` words that was said before."""
    length = history.shape[1]
    if length < size:
        return
    seen = np.lib.stride_tricks.sliding_window_view(history, size, axis=1)  # (rows, runs, size)
    last = history[:, length + 1 - size :]
    match = (seen[:, :, :-1] == last[:, None]).all(2) & (seen[:, :, 0] >= 0)
    rows, runs = np.nonzero(match)
    ids = seen[rows, runs, -1]
    fits = ids < logits.shape[1]
    logits[rows[fits], ids[fits]] = NEVER


def _forbid_continuations(logits: Array, history: Array, before: Array, last: Array) -> None:
    """The last of several words in a row is forbidden where the others have just been said."""
    size = before.shape[1]
    if history.shape[1] >= size:
        rows, words = np.nonzero((history[:, None, -size:] == before[None]).all(2))
        logits[rows, last[words]] = NEVER


def _force_tokens(logits: Array, rows: Array, ids: list[int], total: Array | None) -> None:
    """These words and no others, with a score of 0."""
    logits[rows] = NEVER
    zero = np.zeros((int(rows.sum()), 1), np.float32) if total is None else total[rows].astype(np.float32)
    logits[np.ix_(rows, np.array(ids))] = zero
