"""Texts that are nearly the same: MinHash over triples of words, found by locality-sensitive hashing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

from clearhead.data.split import splitmix64
from clearhead.text.words import split_shingle_words

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

# Jaccard similarity of the sets of word triples: 0.6 means that most of the text is the same. Texts that share it agree
# in a band of 3 hashes with probability 0.6^3, and in one of 20 bands with 0.99.
BANDS, BAND_HASHES = 20, 3
HASHES = BANDS * BAND_HASHES
MIN_SIMILARITY = 0.6
MAX_WORDS = 100_000  # of one text
MAX_CACHED_WORDS = 200_000  # words whose hash is remembered


class _WordHashes(dict[str, int]):
    def __missing__(self, word: str) -> int:
        value = crc32(word.encode("utf-8", "surrogatepass"))
        if len(self) < MAX_CACHED_WORDS:
            self[word] = value
        return value


class NearDuplicateIndex:
    """A sketch of 140 bytes for each text, from which groups of near duplicates are found."""

    def __init__(self) -> None:
        import numpy as np

        self._known = _WordHashes()
        self._bands: list[Array] = []  # (texts, BANDS) of uint32
        self._sketches: list[Array] = []  # (texts, HASHES) of uint8: a byte of each hash tells chance from likeness
        self._long: list[Array] = []  # (texts,) whether there are three words at all
        self._factors = splitmix64(np.arange(HASHES, dtype=np.uint64), 11) | np.uint64(1)
        self._terms = splitmix64(np.arange(HASHES, dtype=np.uint64), 13)

    def add(self, texts: Sequence[str]) -> None:
        """Sketch more texts."""
        import numpy as np

        known = self._known
        words = [[known[word] for word in split_shingle_words(text.casefold())[:MAX_WORDS]] for text in texts]
        counts = np.array([max(len(found) - 2, 0) for found in words], np.int64)
        flat = np.array([value for found in words if len(found) > 2 for value in found], np.uint64)
        long = counts > 0
        least = np.zeros((len(texts), HASHES), np.uint32)
        if long.any():
            triples, starts = _hash_triples(flat, counts[long])
            for place in range(HASHES):
                hashed = (triples * self._factors[place] + self._terms[place]) >> np.uint64(32)
                least[long, place] = np.minimum.reduceat(hashed, starts)
        self._sketches.append((least & np.uint32(0xFF)).astype(np.uint8))
        bands = np.zeros((len(texts), BANDS), np.uint32)
        for band in range(BANDS):
            key = np.zeros(len(texts), np.uint64)
            for place in range(band * BAND_HASHES, (band + 1) * BAND_HASHES):
                key = splitmix64(key ^ least[:, place].astype(np.uint64), place)
            bands[:, band] = (key >> np.uint64(32)).astype(np.uint32)
        self._bands.append(bands)
        self._long.append(long)

    def groups(self, chosen: Array) -> list[list[int]]:
        """Groups of the chosen texts (by place) that are alike, each text in at most one."""
        import numpy as np

        if not self._bands:
            return []
        self._bands = [np.concatenate(self._bands)]
        self._sketches = [np.concatenate(self._sketches)]
        bands, sketches = self._bands[0], self._sketches[0]
        chosen = chosen[np.concatenate(self._long)[chosen]]
        edges: set[tuple[int, int]] = set()
        for band in range(BANDS):
            keys = bands[chosen, band]
            order = np.argsort(keys, kind="stable")
            ranked, places = keys[order], chosen[order]
            same = np.flatnonzero(ranked[1:] == ranked[:-1]) + 1
            if not len(same):
                continue
            # each text is compared with the one before it and with the first of its bucket: linear, whatever the size
            firsts = np.searchsorted(ranked, ranked[same], side="left")
            for left in (places[same - 1], places[firsts]):
                edges.update(_find_similar(sketches, left, places[same]))
        return _merge_edges(edges)


def _hash_triples(words: Array, counts: Array) -> tuple[Array, Array]:
    """Hashes of all runs of three words that stay within a text, and where each text's begin."""
    import numpy as np

    ends = np.cumsum(counts + 2)
    inside = np.ones(len(words), np.bool_)
    inside[ends - 1] = inside[ends - 2] = False
    at = np.flatnonzero(inside)
    spread = splitmix64(words, 3)
    found = splitmix64(spread[at] + spread[at + 1] * np.uint64(3) + spread[at + 2] * np.uint64(7), 5)
    return found, np.r_[0, np.cumsum(counts)[:-1]]


def _find_similar(sketches: Array, left: Array, right: Array) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start in range(0, len(left), 1 << 16):
        one, two = left[start : start + (1 << 16)], right[start : start + (1 << 16)]
        close = (sketches[one] == sketches[two]).mean(1) >= MIN_SIMILARITY
        found += zip(one[close].tolist(), two[close].tolist(), strict=True)
    return found


def _merge_edges(edges: set[tuple[int, int]]) -> list[list[int]]:
    parent: dict[int, int] = {}

    def root(place: int) -> int:
        while parent.setdefault(place, place) != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for one, two in edges:
        left, right = root(one), root(two)
        parent[max(left, right)] = min(left, right)
    groups: dict[int, list[int]] = {}
    for place in sorted(parent):
        groups.setdefault(root(place), []).append(place)
    return [group for group in groups.values() if len(group) > 1]
