"""Find near-duplicate texts: MinHash over word triples and locality-sensitive hashing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

from clearhead.data.split import splitmix64
from clearhead.text.words import split_shingle_words

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

# Jaccard similarity of the sets of word triples: 0.6 means that most of the text is the same. Two such texts agree
# in a band of 3 hashes with probability 0.6^3, and in at least one of 20 bands with probability 0.99.
BANDS, BAND_HASHES = 20, 3
HASHES = BANDS * BAND_HASHES
MIN_SIMILARITY = 0.6
MAX_WORDS = 100_000  # of one text
MAX_CACHED_WORDS = 200_000


class _WordHashes(dict[str, int]):
    def __missing__(self, word: str) -> int:
        value = crc32(word.encode("utf-8", "surrogatepass"))
        if len(self) < MAX_CACHED_WORDS:
            self[word] = value
        return value


class NearDuplicateIndex:
    """Stores a sketch of 140 bytes per text and finds groups of near duplicates."""

    def __init__(self) -> None:
        import numpy as np

        self._word_hashes = _WordHashes()
        self._bands: list[Array] = []  # (texts, BANDS) of uint32
        self._sketches: list[Array] = []  # (texts, HASHES) of uint8: one byte of each hash confirms a match
        self._has_triples: list[Array] = []  # (texts,) whether a text has at least three words
        self._factors = splitmix64(np.arange(HASHES, dtype=np.uint64), 11) | np.uint64(1)
        self._terms = splitmix64(np.arange(HASHES, dtype=np.uint64), 13)

    def add(self, texts: Sequence[str]) -> None:
        """Add the sketches of texts."""
        import numpy as np

        word_hashes = self._word_hashes
        words = [[word_hashes[word] for word in split_shingle_words(text.casefold())[:MAX_WORDS]] for text in texts]
        counts = np.array([max(len(hashes) - 2, 0) for hashes in words], np.int64)
        all_hashes = np.array([value for hashes in words if len(hashes) > 2 for value in hashes], np.uint64)
        has_triples = counts > 0
        min_hashes = np.zeros((len(texts), HASHES), np.uint32)
        if has_triples.any():
            triples, starts = _hash_triples(all_hashes, counts[has_triples])
            for hash_index in range(HASHES):
                hashed = (triples * self._factors[hash_index] + self._terms[hash_index]) >> np.uint64(32)
                min_hashes[has_triples, hash_index] = np.minimum.reduceat(hashed, starts)
        self._sketches.append((min_hashes & np.uint32(0xFF)).astype(np.uint8))
        bands = np.zeros((len(texts), BANDS), np.uint32)
        for band in range(BANDS):
            key = np.zeros(len(texts), np.uint64)
            for hash_index in range(band * BAND_HASHES, (band + 1) * BAND_HASHES):
                key = splitmix64(key ^ min_hashes[:, hash_index].astype(np.uint64), hash_index)
            bands[:, band] = (key >> np.uint64(32)).astype(np.uint32)
        self._bands.append(bands)
        self._has_triples.append(has_triples)

    def groups(self, candidates: Array) -> list[list[int]]:
        """Group the near duplicates among the candidates (indices); each text is in at most one group."""
        import numpy as np

        if not self._bands:
            return []
        self._bands = [np.concatenate(self._bands)]
        self._sketches = [np.concatenate(self._sketches)]
        bands, sketches = self._bands[0], self._sketches[0]
        candidates = candidates[np.concatenate(self._has_triples)[candidates]]
        edges: set[tuple[int, int]] = set()
        for band in range(BANDS):
            keys = bands[candidates, band]
            order = np.argsort(keys, kind="stable")
            sorted_keys, texts = keys[order], candidates[order]
            matches = np.flatnonzero(sorted_keys[1:] == sorted_keys[:-1]) + 1
            if not len(matches):
                continue
            # compare each text with its predecessor and with the first one of its bucket: linear in the bucket size
            bucket_starts = np.searchsorted(sorted_keys, sorted_keys[matches], side="left")
            for left in (texts[matches - 1], texts[bucket_starts]):
                edges.update(_find_similar(sketches, left, texts[matches]))
        return _merge_edges(edges)


def _hash_triples(words: Array, counts: Array) -> tuple[Array, Array]:
    """Hash all word triples within each text; also return the offset of the first triple of each text."""
    import numpy as np

    ends = np.cumsum(counts + 2)
    is_start = np.ones(len(words), np.bool_)
    is_start[ends - 1] = is_start[ends - 2] = False
    starts = np.flatnonzero(is_start)
    mixed_words = splitmix64(words, 3)
    triples = splitmix64(
        mixed_words[starts] + mixed_words[starts + 1] * np.uint64(3) + mixed_words[starts + 2] * np.uint64(7), 5
    )
    return triples, np.r_[0, np.cumsum(counts)[:-1]]


def _find_similar(sketches: Array, left: Array, right: Array) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for start in range(0, len(left), 1 << 16):
        first, second = left[start : start + (1 << 16)], right[start : start + (1 << 16)]
        is_similar = (sketches[first] == sketches[second]).mean(1) >= MIN_SIMILARITY
        pairs += zip(first[is_similar].tolist(), second[is_similar].tolist(), strict=True)
    return pairs


def _merge_edges(edges: set[tuple[int, int]]) -> list[list[int]]:
    parent: dict[int, int] = {}

    def root(text: int) -> int:
        while parent.setdefault(text, text) != text:
            parent[text] = parent[parent[text]]
            text = parent[text]
        return text

    for first, second in edges:
        first_root, second_root = root(first), root(second)
        parent[max(first_root, second_root)] = min(first_root, second_root)
    groups: dict[int, list[int]] = {}
    for text in sorted(parent):
        groups.setdefault(root(text), []).append(text)
    return [group for group in groups.values() if len(group) > 1]
