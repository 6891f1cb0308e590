"""A text as a bag: which stretches between blanks occur, and how often; all that learning a vocabulary needs."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable

from clearhead.text.words import split_words_with_blanks

MAX_CHARACTERS = 16_000_000  # of different stretches together: more than a million words, one or two gigabytes to learn
MAX_CHARACTERS_UNIGRAM = 1_000_000  # whose work grows faster than the words: minutes
MAX_CHUNK_LENGTH = 128  # characters; a longer run without a blank is cut


class ChunkCounter:
    """Counts the stretches of lines; when there are too many, every second line is taken from then on, and so forth.

    Halving all counts at that moment leaves the bag as if every second line had been taken from the beginning, so late
    words weigh as much as early ones, and the same lines always give the same bag.
    """

    def __init__(self, most: int = MAX_CHARACTERS) -> None:
        self.counts: Counter[str] = Counter()
        self.lines = 0  # that were offered
        self.sampling_interval = 1  # which of them are taken
        self._most, self._letters = most, 0

    def add(self, line: str) -> None:
        """Count one line, or a piece of one."""
        self.lines += 1
        if (self.lines - 1) % self.sampling_interval:
            return
        found = split_chunks(line)
        # not set.difference: with a Counter it would walk over every word that is known
        self._letters += sum(len(one) for one in set(found) if one not in self.counts)
        self.counts.update(found)
        while self._letters > self._most:
            self._halve()

    def count_words(self) -> int:
        """How many words were counted: stretches that are more than blanks."""
        return sum(count for stretch, count in self.counts.items() if not stretch.isspace())

    def _halve(self) -> None:
        self.sampling_interval *= 2
        kept: Counter[str] = Counter()
        for stretch, count in self.counts.items():
            # of an odd count the last one stays or goes by a check sum, the same in every process
            half = count // 2 + (
                count % 2 and zlib.crc32(stretch.encode("utf-8", "replace")) // self.sampling_interval % 2
            )
            if half:
                kept[stretch] = half
        self.counts, self._letters = kept, sum(map(len, kept))


def split_chunks(line: str) -> list[str]:
    """The stretches of a line; together they are the line."""
    found = split_words_with_blanks(line)  # some vocabularies hold blanks
    if not found or max(map(len, found)) <= MAX_CHUNK_LENGTH:
        return found
    return [one[start : start + MAX_CHUNK_LENGTH] for one in found for start in range(0, len(one), MAX_CHUNK_LENGTH)]


def count_chunks(lines: Iterable[str], most: int = MAX_CHARACTERS) -> ChunkCounter:
    """The bag of some lines."""
    bag = ChunkCounter(most)
    for line in lines:
        bag.add(line)
    return bag
