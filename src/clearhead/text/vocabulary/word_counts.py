"""A text as a bag: which stretches between blanks occur, and how often; all that learning a vocabulary needs."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable

from clearhead.text.words import blank_led_words

MOST_LETTERS = 16_000_000  # of different stretches together: more than a million words, one or two gigabytes to learn
MOST_FOR_UNIGRAM = 1_000_000  # whose work grows faster than the words: minutes
MOST_STRETCH = 128  # characters; a longer run without a blank is cut


class Bag:
    """Counts the stretches of lines; when there are too many, every second line is taken from then on, and so forth.

    Halving all counts at that moment leaves the bag as if every second line had been taken from the beginning, so late
    words weigh as much as early ones, and the same lines always give the same bag.
    """

    def __init__(self, most: int = MOST_LETTERS) -> None:
        self.counts: Counter[str] = Counter()
        self.lines = 0  # that were offered
        self.every = 1  # which of them are taken
        self._most, self._letters = most, 0

    def add(self, line: str) -> None:
        """Count one line, or a piece of one."""
        self.lines += 1
        if (self.lines - 1) % self.every:
            return
        found = stretches(line)
        # not set.difference: with a Counter it would walk over every word that is known
        self._letters += sum(len(one) for one in set(found) if one not in self.counts)
        self.counts.update(found)
        while self._letters > self._most:
            self._halve()

    def words(self) -> int:
        """How many words were counted: stretches that are more than blanks."""
        return sum(count for stretch, count in self.counts.items() if not stretch.isspace())

    def _halve(self) -> None:
        self.every *= 2
        kept: Counter[str] = Counter()
        for stretch, count in self.counts.items():
            # of an odd count the last one stays or goes by a check sum, the same in every process
            half = count // 2 + (count % 2 and zlib.crc32(stretch.encode("utf-8", "replace")) // self.every % 2)
            if half:
                kept[stretch] = half
        self.counts, self._letters = kept, sum(map(len, kept))


def stretches(line: str) -> list[str]:
    """The stretches of a line; together they are the line."""
    found = blank_led_words(line)  # some vocabularies hold blanks
    if not found or max(map(len, found)) <= MOST_STRETCH:
        return found
    return [one[start : start + MOST_STRETCH] for one in found for start in range(0, len(one), MOST_STRETCH)]


def bag_of(lines: Iterable[str], most: int = MOST_LETTERS) -> Bag:
    """The bag of some lines."""
    bag = Bag(most)
    for line in lines:
        bag.add(line)
    return bag
