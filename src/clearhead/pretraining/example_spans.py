"""The spans of an example: some tokens of one document, or two spans that follow each other or do not.

A table of them is made anew for every epoch, a pure function of (seed, epoch); it lies on disk, a row for an example:
the first text's start and length, the second one's, and a label: whether they belong together (0) or not (1).
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
MIN_SPAN = 8  # tokens of a piece at the end of a document that is worth an example
EXCHANGE_BLOCKS = 8192  # pairs that exchange their second texts with each other, ...
EXCHANGE_REGIONS = 16  # ... from so many places of the text
SHORT_RATE = 0.1  # of the pairs are shorter than they could be, so that short texts are seen as well
WRITE_ROWS = 1 << 16  # rows at a time


def sample_texts(subset: CorpusSubset, room: int, rng: np.random.Generator) -> Iterator[ExampleSpans]:
    """Every token once, so many in a row; where a long document is first cut changes with the epoch.

    The last column is 1 where a document ends.
    """
    for place in range(len(subset)):
        bounds = subset.sentence_bounds(place)
        start, end = int(bounds[0]), int(bounds[-1])
        if end - start > room:
            phase = int(rng.integers(room))
            if phase >= MIN_SPAN:
                yield start, phase, 0, 0, 0
            start += phase
        first, whole = True, subset.includes_end(place)
        while end - start >= (1 if first else MIN_SPAN):
            length = min(room, end - start)
            yield start, length, 0, 0, int(whole and start + length == end)
            start, first = start + length, False


@dataclass(frozen=True, slots=True)
class _SpanPair:
    """Two spans of a document that follow each other."""

    first: tuple[int, int]  # where it begins, and its length
    second: tuple[int, int]
    document: int  # the document
    ends_document: bool  # with its document


def sample_pairs(subset: CorpusSubset, room: int, rng: np.random.Generator) -> Iterator[ExampleSpans]:
    """Next sentence: half of the second texts follow the first, half are from another document.

    Nothing but the words tells which. Every text is cut into pairs that follow each other, and then some of them
    exchange their second texts: those whose lengths are the same, or nearly so where there are few. A stranger is what
    follows some other text, so that there is nothing to tell it by: its length, its sentences, or that a document ends.
    """
    count = len(subset)
    ranges = np.array_split(np.arange(count), min(EXCHANGE_REGIONS, max(count, 1)))
    texts = [_split_blocks(subset, [int(place) for place in some], room, rng) for some in ranges]
    sizes = [subset.count_sentences(place) for place in range(count)]
    most = max(range(count), key=sizes.__getitem__, default=0)
    whole = most if count and 2 * sizes[most] > sum(sizes) else -1  # nearly everything: other places of it must do
    while some := list(islice(_interleave(texts), EXCHANGE_BLOCKS)):
        yield from _exchange_seconds(some, whole, room, rng)


def _interleave(texts: list[Iterator[_SpanPair]]) -> Iterator[_SpanPair]:
    """One of each, again and again, so that documents which are far from each other meet."""
    while texts:
        for text in list(texts):
            block = next(text, None)
            if block is None:
                texts.remove(text)
            else:
                yield block


def _split_blocks(subset: CorpusSubset, places: list[int], room: int, rng: np.random.Generator) -> Iterator[_SpanPair]:
    """Every sentence of the documents of two and more, in pairs of chunks."""
    for place in places:
        bounds = subset.sentence_bounds(place)
        first, count = 0, len(bounds) - 1
        while count > 1 and first < count:
            first = min(first, count - 2)  # where one sentence is left, the one before it is read again
            target = room if rng.random() >= SHORT_RATE else int(rng.integers(2, room + 1))
            last = max(_last_fitting_sentence(bounds, first, count, target), first + 2)
            split = int(rng.integers(first + 1, last))
            start, middle, end = int(bounds[first]), int(bounds[split]), int(bounds[last])
            yield _SpanPair((start, middle - start), (middle, end - middle), place, last == count)
            first = last


def _exchange_seconds(
    blocks: list[_SpanPair], whole: int, room: int, rng: np.random.Generator
) -> Iterator[ExampleSpans]:
    """Two of every four that are most alike exchange their second texts, if they are of different documents."""
    luck = rng.random(len(blocks))
    order = sorted(range(len(blocks)), key=lambda n: (blocks[n].second[1], blocks[n].ends_document, luck[n]))
    for begin in range(0, len(order), 4):
        four = [blocks[n] for n in order[begin : begin + 4]]
        able = [
            (i, j)
            for i, one in enumerate(four)
            for j, other in enumerate(four)
            if i < j and (one.document != other.document or one.document == whole)
        ]
        seconds, labels = [one.second for one in four], [0] * len(four)
        if able and (len(four) == 4 or rng.random() < 0.5):
            i, j = able[int(rng.integers(len(able)))]
            seconds[i], seconds[j] = seconds[j], seconds[i]
            labels[i] = labels[j] = 1
        for one, second, label in zip(four, seconds, labels, strict=True):
            yield (*_truncate_pair(one.first, second, room, rng), label)


def sample_ordered_pairs(subset: CorpusSubset, room: int, rng: np.random.Generator) -> Iterator[ExampleSpans]:
    """Sentence order: two chunks that follow each other, half of them swapped."""
    for place in range(len(subset)):
        bounds = subset.sentence_bounds(place)
        first, count = 0, len(bounds) - 1
        while first + 1 < count:
            target = room if rng.random() >= SHORT_RATE else int(rng.integers(2, room + 1))
            last = max(_last_fitting_sentence(bounds, first, count, target), first + 2)
            split = int(rng.integers(first + 1, last))
            a = int(bounds[first]), int(bounds[split] - bounds[first])
            b = int(bounds[split]), int(bounds[last] - bounds[split])
            swapped = bool(rng.random() < 0.5)
            yield (*_truncate_pair(*((b, a) if swapped else (a, b)), room, rng), int(swapped))
            first = last


def _last_fitting_sentence(bounds: Array, first: int, count: int, target: int) -> int:
    """The sentence up to which a chunk has at most the wanted length; it has at least one."""
    last = int(np.searchsorted(bounds, int(bounds[first]) + target, "right")) - 1
    return min(max(last, first + 1), count)


def _truncate_pair(
    a: tuple[int, int], b: tuple[int, int], room: int, rng: np.random.Generator
) -> tuple[int, int, int, int]:
    """The longer text loses tokens at either end until both fit."""
    parts = [list(a), list(b)]
    while (over := parts[0][1] + parts[1][1] - room) > 0:
        longer, shorter = sorted(parts, key=lambda part: -part[1])
        cut = min(over, max(longer[1] - shorter[1], (over + 1) // 2))
        front = int(rng.integers(cut + 1))
        longer[0], longer[1] = longer[0] + front, longer[1] - cut
    return parts[0][0], parts[0][1], parts[1][0], parts[1][1]


def make_span_table(path: Path, cutter: SpanSampler, subset: CorpusSubset, room: int, seed: int, epoch: int) -> Array:
    """The cuts of an epoch, written down a part at a time and mapped; made before, they are made again the same."""
    made = cutter(subset, room, np.random.default_rng((seed, epoch, 1)))
    part = path.with_name(f".{path.name}.part")
    with explain_write_errors(path):
        with part.open("wb") as file:
            while some := list(islice(made, WRITE_ROWS)):
                file.write(np.array(some, "<i8").tobytes())
        part.replace(path)
    if not path.stat().st_size:
        return np.zeros((0, COLUMNS), np.int64)
    return np.memmap(path, np.dtype("<i8"), "r").reshape(-1, COLUMNS)


def shuffle_positions(places: Array, count: int, seed: int, epoch: int) -> Array:
    """Where a shuffle of `count` things puts some of them, without ever writing the whole shuffle down.

    A Feistel network is a shuffle of 0 ... 4^k - 1; what falls beyond `count` goes through it again.
    """
    half = max(1, (max(count - 1, 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    keys = np.random.default_rng((seed, epoch, 2)).integers(1, 1 << 31, 4).astype(np.uint64)
    found = np.asarray(places, np.uint64)
    beyond = np.ones(len(found), bool)
    while beyond.any():
        left, right = found[beyond] >> np.uint64(half), found[beyond] & np.uint64(mask)
        for key in keys:
            left, right = right, left ^ (_mix_bits(right + key) & np.uint64(mask))
        found[beyond] = (left << np.uint64(half)) | right
        beyond = found >= count
    return found.astype(np.int64)


def _mix_bits(x: Array) -> Array:
    """The finaliser of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = x ^ (x >> np.uint64(31))
    return mixed
