"""What a model must beat: words by how frequent they are (unigram), and by the word before them (bigram)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.pretraining.corpus_subset import CorpusSubset

Array = np.ndarray[Any, Any]
COUNTED_TOKENS = 4_000_000  # tokens that pairs of words are counted in, evenly spread over the text
TRUST_COUNTS = (1, 3, 10, 30, 100, 300, 1000, 3000)  # how many sightings of a word make its own followers count half


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The mean loss of some words, and how many of them are guessed."""

    loss: float
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class TokenCounts:
    """How often words and pairs of words occur in the training text."""

    tokens: Array  # (vocabulary,), with one added to each
    pairs: Array  # before * vocabulary + word, sorted, each once
    pair_counts: Array
    followed: Array  # (vocabulary,): how often each word stands before another

    @property
    def probs(self) -> Array:
        """The share of every word."""
        share: Array = self.tokens / self.tokens.sum()
        return share


def count_tokens(subset: CorpusSubset, vocabulary: int) -> TokenCounts:
    """One pass over the text."""
    words = np.ones(vocabulary)
    share = min(1.0, COUNTED_TOKENS / max(subset.corpus.tokens, 1))
    rng = np.random.default_rng(0)
    found: list[Array] = []
    for place in range(len(subset)):
        bounds = subset.sentence_bounds(place)
        start, end = int(bounds[0]), int(bounds[-1])
        for begin in range(start, end, 1 << 16):
            ids = subset.corpus.ids(begin, min(1 << 16, end - begin))
            words += np.bincount(ids, minlength=vocabulary)[:vocabulary]
            if share == 1.0 or rng.random() < share:
                found.append(ids[:-1] * vocabulary + ids[1:])
    keys, counts = np.unique(np.concatenate(found) if found else np.zeros(0, np.int64), return_counts=True)
    befores = np.bincount(keys // vocabulary, counts, vocabulary)
    return TokenCounts(tokens=words, pairs=keys, pair_counts=counts, followed=befores)


def score_unigram(counts: TokenCounts, words: Array) -> Baseline:
    """Always the same guess: the most frequent word."""
    probs = counts.probs
    return Baseline(loss=float(-np.log(probs[words]).mean()), accuracy=float((words == probs.argmax()).mean()))


def score_bigram(counts: TokenCounts, words: Array, before: Array) -> Baseline:
    """p(word | word before), mixed with the unigram by how often the word before was seen.

    How much to trust a word's followers is chosen on the very words that are measured: the baseline is flattered.
    """
    size, probs = len(counts.tokens), counts.probs
    known = np.where(before >= 0, before, 0)
    seen = np.where(before >= 0, counts.followed[known], 0.0)
    keys = known * size + words
    places = np.minimum(np.searchsorted(counts.pairs, keys), max(len(counts.pairs) - 1, 0))
    together = np.zeros(len(words))
    if len(counts.pairs):
        together = np.where((counts.pairs[places] == keys) & (before >= 0), counts.pair_counts[places], 0)
    own = together / np.maximum(seen, 1)
    best = np.inf
    for trust in TRUST_COUNTS:
        weight = seen / (seen + trust)
        best = min(best, float(-np.log(weight * own + (1 - weight) * probs[words]).mean()))
    return Baseline(loss=best, accuracy=float((_most_frequent_next(counts, known, seen) == words).mean()))


def _most_frequent_next(counts: TokenCounts, known: Array, seen: Array) -> Array:
    """The word that most often follows each; the most frequent one where nothing is known."""
    size = len(counts.tokens)
    order = np.lexsort((counts.pair_counts, counts.pairs // size)) if len(counts.pairs) else np.zeros(0, np.int64)
    firsts = counts.pairs[order] // size
    after = np.full(size, int(counts.tokens.argmax()))
    after[firsts] = counts.pairs[order] % size  # the last one written is the most frequent
    made: Array = np.where(seen > 0, after[known], int(counts.tokens.argmax()))
    return made


def majority_share(labels: Sequence[Array]) -> float:
    """How often the more frequent of two answers is right."""
    every = np.concatenate(list(labels))
    return float(max((every == 0).mean(), (every == 1).mean()))
