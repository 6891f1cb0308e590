"""Count the chunks of a text, words with their leading whitespace, which is the input of vocabulary training."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable

from clearhead.text.words import split_words_with_whitespace

MAX_CHARACTERS = 16_000_000  # of all distinct chunks: over a million words, 1-2 GB for training
MAX_CHARACTERS_UNIGRAM = 1_000_000  # lower, because unigram training takes superlinear time: minutes
MAX_CHUNK_LENGTH = 128  # characters; longer runs without whitespace are split


class ChunkCounter:
    """Counts the chunks of lines. When there are too many, only every second line is counted, later every fourth.

    All counts are halved at the same time, as if every second line had been skipped from the beginning. Words at the
    end of a text therefore have the same weight as those at its beginning, and the counts are deterministic.
    """

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self.counts: Counter[str] = Counter()
        self.line_count = 0  # lines passed to `add`
        self.sampling_interval = 1  # every n-th line is counted
        self._max_characters, self._characters = max_characters, 0

    def add(self, line: str) -> None:
        """Count the chunks of a line, or of a part of one."""
        self.line_count += 1
        if (self.line_count - 1) % self.sampling_interval:
            return
        chunks = split_chunks(line)
        # set.difference with a Counter would iterate over all counted chunks
        self._characters += sum(len(chunk) for chunk in set(chunks) if chunk not in self.counts)
        self.counts.update(chunks)
        while self._characters > self._max_characters:
            self._halve()

    def count_words(self) -> int:
        """Count the words: chunks that are not only whitespace."""
        return sum(count for chunk, count in self.counts.items() if not chunk.isspace())

    def _halve(self) -> None:
        self.sampling_interval *= 2
        halved: Counter[str] = Counter()
        for chunk, count in self.counts.items():
            # a checksum, which is equal in all processes, decides how an odd count is rounded
            half = count // 2 + (
                count % 2 and zlib.crc32(chunk.encode("utf-8", "replace")) // self.sampling_interval % 2
            )
            if half:
                halved[chunk] = half
        self.counts, self._characters = halved, sum(map(len, halved))


def split_chunks(line: str) -> list[str]:
    """Split a line into chunks; joined, they equal the line."""
    words = split_words_with_whitespace(line)  # whitespace is kept, because some vocabularies contain it
    if not words or max(map(len, words)) <= MAX_CHUNK_LENGTH:
        return words
    return [word[start : start + MAX_CHUNK_LENGTH] for word in words for start in range(0, len(word), MAX_CHUNK_LENGTH)]


def count_chunks(lines: Iterable[str], max_characters: int = MAX_CHARACTERS) -> ChunkCounter:
    """Count the chunks of lines."""
    counter = ChunkCounter(max_characters)
    for line in lines:
        counter.add(line)
    return counter
