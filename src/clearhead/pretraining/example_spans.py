"""The token spans of examples: one span of a document, or two spans that are consecutive or not.

The table of an epoch is a pure function of (seed, epoch). It is stored on disk with one row per example: start and
length of the first text, start and length of the second, and a label: 0 if they belong together, else 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.files import explain_write_errors
from clearhead.pretraining.corpus_subset import CorpusSubset

Array = np.ndarray[Any, Any]
ExampleSpans = tuple[int, int, int, int, int]
SpanSampler = Callable[[CorpusSubset, int, np.random.Generator], Iterator[ExampleSpans]]

COLUMNS = 5
MIN_SPAN = 8  # tokens of the shortest example at the end of a document
EXCHANGE_BLOCKS = 8192  # pairs among which second texts are exchanged, ...
EXCHANGE_REGIONS = 16  # ... from this number of regions of the text
SHORT_RATE = 0.1  # of the pairs are shorter than necessary, so that the model sees short texts, too
WRITE_ROWS = 1 << 16  # rows at a time


def sample_texts(subset: CorpusSubset, max_tokens: int, rng: np.random.Generator) -> Iterator[ExampleSpans]:
    """Sample spans of up to `max_tokens` that contain every token once; the first cut of a document is random.

    The last column is 1 at the end of a document.
    """
    for index in range(len(subset)):
        bounds = subset.sentence_bounds(index)
        start, end = int(bounds[0]), int(bounds[-1])
        if end - start > max_tokens:
            first_length = int(rng.integers(max_tokens))
            if first_length >= MIN_SPAN:
                yield start, first_length, 0, 0, 0
            start += first_length
        is_first, includes_end = True, subset.includes_end(index)
        while end - start >= (1 if is_first else MIN_SPAN):
            length = min(max_tokens, end - start)
            yield start, length, 0, 0, int(includes_end and start + length == end)
            start, is_first = start + length, False


@dataclass(frozen=True, slots=True)
class _SpanPair:
    """Two consecutive spans of a document."""

    first: tuple[int, int]  # start and length
    second: tuple[int, int]
    document: int
    ends_document: bool  # whether the second span is the end of its document


def sample_pairs(subset: CorpusSubset, max_tokens: int, rng: np.random.Generator) -> Iterator[ExampleSpans]:
    """Sample pairs for next sentence prediction: half of the second texts are from another document.

    Only the words reveal the label. All text is split into consecutive pairs, and half of them exchange their second
    texts with pairs whose second text has the same, or nearly the same, length. Every negative is the continuation of
    some other text, so neither its length, its number of sentences, nor the end of a document gives it away.
    """
    count = len(subset)
    regions = np.array_split(np.arange(count), min(EXCHANGE_REGIONS, max(count, 1)))
    streams = [_split_blocks(subset, [int(index) for index in documents], max_tokens, rng) for documents in regions]
    sizes = [subset.count_sentences(index) for index in range(count)]
    longest = max(range(count), key=sizes.__getitem__, default=0)
    dominant = (
        longest if count and 2 * sizes[longest] > sum(sizes) else -1
    )  # most of the text: its pairs may exchange with each other
    while documents := list(islice(_interleave(streams), EXCHANGE_BLOCKS)):
        yield from _exchange_seconds(documents, dominant, max_tokens, rng)


def _interleave(streams: list[Iterator[_SpanPair]]) -> Iterator[_SpanPair]:
    """Take one pair of each stream in turn, so that distant documents can exchange texts."""
    while streams:
        for stream in list(streams):
            pair = next(stream, None)
            if pair is None:
                streams.remove(stream)
            else:
                yield pair


def _split_blocks(
    subset: CorpusSubset, documents: list[int], max_tokens: int, rng: np.random.Generator
) -> Iterator[_SpanPair]:
    """Split documents of at least two sentences into pairs of consecutive spans."""
    for document in documents:
        bounds = subset.sentence_bounds(document)
        first, count = 0, len(bounds) - 1
        while count > 1 and first < count:
            first = min(first, count - 2)  # a single remaining sentence is paired with the one before it
            target = max_tokens if rng.random() >= SHORT_RATE else int(rng.integers(2, max_tokens + 1))
            last = max(_last_fitting_sentence(bounds, first, count, target), first + 2)
            split = int(rng.integers(first + 1, last))
            start, middle, end = int(bounds[first]), int(bounds[split]), int(bounds[last])
            yield _SpanPair((start, middle - start), (middle, end - middle), document, last == count)
            first = last


def _exchange_seconds(
    pairs: list[_SpanPair], dominant: int, max_tokens: int, rng: np.random.Generator
) -> Iterator[ExampleSpans]:
    """Exchange the second texts of two pairs in every four of similar length, if they are of different documents."""
    tie_breaks = rng.random(len(pairs))
    order = sorted(range(len(pairs)), key=lambda n: (pairs[n].second[1], pairs[n].ends_document, tie_breaks[n]))
    for start in range(0, len(order), 4):
        four = [pairs[n] for n in order[start : start + 4]]
        exchangeable = [
            (i, j)
            for i, pair in enumerate(four)
            for j, other_pair in enumerate(four)
            if i < j and (pair.document != other_pair.document or pair.document == dominant)
        ]
        seconds, labels = [pair.second for pair in four], [0] * len(four)
        if exchangeable and (len(four) == 4 or rng.random() < 0.5):
            i, j = exchangeable[int(rng.integers(len(exchangeable)))]
            seconds[i], seconds[j] = seconds[j], seconds[i]
            labels[i] = labels[j] = 1
        for pair, second, label in zip(four, seconds, labels, strict=True):
            yield (*_truncate_pair(pair.first, second, max_tokens, rng), label)


def sample_ordered_pairs(subset: CorpusSubset, max_tokens: int, rng: np.random.Generator) -> Iterator[ExampleSpans]:
    """Sample pairs for sentence order prediction: two consecutive spans, half of them swapped."""
    for index in range(len(subset)):
        bounds = subset.sentence_bounds(index)
        first, count = 0, len(bounds) - 1
        while first + 1 < count:
            target = max_tokens if rng.random() >= SHORT_RATE else int(rng.integers(2, max_tokens + 1))
            last = max(_last_fitting_sentence(bounds, first, count, target), first + 2)
            split = int(rng.integers(first + 1, last))
            a = int(bounds[first]), int(bounds[split] - bounds[first])
            b = int(bounds[split]), int(bounds[last] - bounds[split])
            is_swapped = bool(rng.random() < 0.5)
            yield (*_truncate_pair(*((b, a) if is_swapped else (a, b)), max_tokens, rng), int(is_swapped))
            first = last


def _last_fitting_sentence(bounds: Array, first: int, count: int, target: int) -> int:
    """Return the end of a span of at most `target` tokens, which has at least one sentence."""
    last = int(np.searchsorted(bounds, int(bounds[first]) + target, "right")) - 1
    return min(max(last, first + 1), count)


def _truncate_pair(
    a: tuple[int, int], b: tuple[int, int], max_tokens: int, rng: np.random.Generator
) -> tuple[int, int, int, int]:
    """Truncate the longer text at both ends until both fit into `max_tokens`."""
    parts = [list(a), list(b)]
    while (excess := parts[0][1] + parts[1][1] - max_tokens) > 0:
        longer, shorter = sorted(parts, key=lambda part: -part[1])
        cut = min(excess, max(longer[1] - shorter[1], (excess + 1) // 2))
        front = int(rng.integers(cut + 1))
        longer[0], longer[1] = longer[0] + front, longer[1] - cut
    return parts[0][0], parts[0][1], parts[1][0], parts[1][1]


def make_span_table(
    path: Path, sampler: SpanSampler, subset: CorpusSubset, max_tokens: int, seed: int, epoch: int
) -> Array:
    """Write the span table of an epoch in chunks, and map it into memory; it is deterministic."""
    spans = sampler(subset, max_tokens, np.random.default_rng((seed, epoch, 1)))
    partial = path.with_name(f".{path.name}.part")
    with explain_write_errors(path):
        with partial.open("wb") as file:
            while rows := list(islice(spans, WRITE_ROWS)):
                file.write(np.array(rows, "<i8").tobytes())
        partial.replace(path)
    if not path.stat().st_size:
        return np.zeros((0, COLUMNS), np.int64)
    return np.memmap(path, np.dtype("<i8"), "r").reshape(-1, COLUMNS)


def shuffle_positions(positions: Array, count: int, seed: int, epoch: int) -> Array:
    """Map positions through a pseudorandom permutation of 0 ... count - 1 without storing it.

    A Feistel network permutes 0 ... 4^k - 1; results of `count` and above are mapped again.
    """
    half_bits = max(1, (max(count - 1, 1).bit_length() + 1) // 2)
    mask = (1 << half_bits) - 1
    keys = np.random.default_rng((seed, epoch, 2)).integers(1, 1 << 31, 4).astype(np.uint64)
    shuffled = np.asarray(positions, np.uint64)
    is_outside = np.ones(len(shuffled), bool)
    while is_outside.any():
        high, low = shuffled[is_outside] >> np.uint64(half_bits), shuffled[is_outside] & np.uint64(mask)
        for key in keys:
            high, low = low, high ^ (_mix_bits(low + key) & np.uint64(mask))
        shuffled[is_outside] = (high << np.uint64(half_bits)) | low
        is_outside = shuffled >= count
    return shuffled.astype(np.int64)


def _mix_bits(x: Array) -> Array:
    """Apply the finalizer of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = x ^ (x >> np.uint64(31))
    return mixed
