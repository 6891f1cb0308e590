"""Baselines that a model must beat: token frequencies (unigram), and frequencies after the previous token (bigram)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.pretraining.corpus_subset import CorpusSubset

Array = np.ndarray[Any, Any]
COUNTED_TOKENS = 4_000_000  # tokens in which pairs are counted, evenly distributed over the text
TRUST_COUNTS = (
    1,
    3,
    10,
    30,
    100,
    300,
    1000,
    3000,
)  # occurrences of a token at which the bigram gets half of the weight


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Mean loss and accuracy of a baseline."""

    loss: float
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class TokenCounts:
    """Frequencies of tokens and token pairs in the training text."""

    tokens: Array  # (vocabulary,), with add-one smoothing
    pairs: Array  # previous * vocabulary + token, sorted, unique
    pair_counts: Array
    followed: Array  # (vocabulary,): how often each token is followed by another

    @property
    def probs(self) -> Array:
        """The probability of every token."""
        probs: Array = self.tokens / self.tokens.sum()
        return probs


def count_tokens(subset: CorpusSubset, vocab_size: int) -> TokenCounts:
    """Count tokens and pairs in one pass over the text."""
    token_counts = np.ones(vocab_size)
    share = min(1.0, COUNTED_TOKENS / max(subset.corpus.tokens, 1))
    rng = np.random.default_rng(0)
    pair_keys: list[Array] = []
    for index in range(len(subset)):
        bounds = subset.sentence_bounds(index)
        start, end = int(bounds[0]), int(bounds[-1])
        for chunk_start in range(start, end, 1 << 16):
            ids = subset.corpus.ids(chunk_start, min(1 << 16, end - chunk_start))
            token_counts += np.bincount(ids, minlength=vocab_size)[:vocab_size]
            if share == 1.0 or rng.random() < share:
                pair_keys.append(ids[:-1] * vocab_size + ids[1:])
    keys, pair_counts = np.unique(np.concatenate(pair_keys) if pair_keys else np.zeros(0, np.int64), return_counts=True)
    followed = np.bincount(keys // vocab_size, pair_counts, vocab_size)
    return TokenCounts(tokens=token_counts, pairs=keys, pair_counts=pair_counts, followed=followed)


def score_unigram(counts: TokenCounts, labels: Array) -> Baseline:
    """Score the token frequencies; the prediction is always the most frequent token."""
    probs = counts.probs
    return Baseline(loss=float(-np.log(probs[labels]).mean()), accuracy=float((labels == probs.argmax()).mean()))


def score_bigram(counts: TokenCounts, labels: Array, previous_ids: Array) -> Baseline:
    """Score p(token | previous token), interpolated with the unigram by the count of the previous token.

    The interpolation weight is fitted on the scored tokens themselves, so the baseline is optimistic.
    """
    vocab_size, probs = len(counts.tokens), counts.probs
    contexts = np.where(previous_ids >= 0, previous_ids, 0)
    context_counts = np.where(previous_ids >= 0, counts.followed[contexts], 0.0)
    keys = contexts * vocab_size + labels
    positions = np.minimum(np.searchsorted(counts.pairs, keys), max(len(counts.pairs) - 1, 0))
    pair_counts = np.zeros(len(labels))
    if len(counts.pairs):
        pair_counts = np.where(
            (counts.pairs[positions] == keys) & (previous_ids >= 0), counts.pair_counts[positions], 0
        )
    bigram_probs = pair_counts / np.maximum(context_counts, 1)
    best_loss = np.inf
    for trust_count in TRUST_COUNTS:
        weight = context_counts / (context_counts + trust_count)
        best_loss = min(best_loss, float(-np.log(weight * bigram_probs + (1 - weight) * probs[labels]).mean()))
    return Baseline(
        loss=best_loss, accuracy=float((_most_frequent_next(counts, contexts, context_counts) == labels).mean())
    )


def _most_frequent_next(counts: TokenCounts, contexts: Array, context_counts: Array) -> Array:
    """Return the most frequent successor of each token, or the most frequent token after unseen ones."""
    vocab_size = len(counts.tokens)
    order = np.lexsort((counts.pair_counts, counts.pairs // vocab_size)) if len(counts.pairs) else np.zeros(0, np.int64)
    previous_ids = counts.pairs[order] // vocab_size
    next_ids = np.full(vocab_size, int(counts.tokens.argmax()))
    next_ids[previous_ids] = (
        counts.pairs[order] % vocab_size
    )  # sorted by count: the last write is the most frequent one
    guesses: Array = np.where(context_counts > 0, next_ids[contexts], int(counts.tokens.argmax()))
    return guesses


def majority_share(labels: Sequence[Array]) -> float:
    """Return the accuracy of always predicting the more frequent of two labels."""
    all_labels = np.concatenate(list(labels))
    return float(max((all_labels == 0).mean(), (all_labels == 1).mean()))
