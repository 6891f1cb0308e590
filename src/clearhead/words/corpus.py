"""A text as word numbers in a temporary file: read once, memory bounded by the number of different words."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.data.sources.lines import read_line_texts
from clearhead.errors import InputError
from clearhead.files import to_printable
from clearhead.metrics.checks import Array
from clearhead.progress import Progress, no_progress
from clearhead.text.words import split_vector_words

MOST_COUNTED = 8_000_000  # different words that are counted at a time: about 1 GB
CHUNK = 1 << 16  # words that are learned from between two looks at the rate and at who is watching
REPORTED = 20_000  # sentences between two reports of progress
MOST_LETTERS = 100  # of a word; what is longer is no word that comes again
END = -1  # of a sentence, in the file


@dataclass(frozen=True, kw_only=True, eq=False)
class Corpus:
    """The words that come often enough, most frequent first, and the text as their numbers."""

    words: tuple[str, ...]
    counts: Array  # (words,)
    numbers: Array  # int32, in the order of first sight, END after each sentence; a file that has no name any more
    lookup: Array  # from such a number to the word's place here; -1: it is too rare
    read: int  # words of the text, rare ones too
    different: int
    sentences: int

    @property
    def chunks(self) -> int:
        """In how many pieces the text is learned from."""
        return -(-(self.read + self.sentences) // CHUNK)

    def chunk(self, number: int) -> tuple[Array, Array, int]:
        """The words of one piece that are kept, the sentence of each, and how many words were there before that."""
        raw = np.asarray(self.numbers[number * CHUNK : (number + 1) * CHUNK])
        places = self.lookup[raw]  # END is the last of them
        sentence = np.cumsum(raw == END, dtype=np.int32)
        kept = places >= 0
        return places[kept], sentence[kept], len(raw) - int(sentence[-1])


def read_corpus(
    sentences: Iterable[Sequence[str]], file: Path, *, min_count: int, progress: Progress = no_progress
) -> Corpus:
    """Count the words of all sentences and write them down as numbers."""
    seen: dict[str, int] = {}
    counts = array("q")
    total = number = 0
    with file.open("wb") as out:
        for number, sentence in enumerate(_checked(sentences), 1):
            row = array("i")
            for word in sentence:
                place = seen.get(word)
                if place is None:
                    if len(word) > MOST_LETTERS:
                        continue
                    place = seen[word] = len(counts)
                    counts.append(0)
                counts[place] += 1
                row.append(place)
            total += len(row)
            row.append(END)
            row.tofile(out)
            if len(seen) > MOST_COUNTED:
                seen = _frequent(seen, counts)
            if number % REPORTED == 0:
                progress("reading sentences", number, None)
    if not total:
        raise InputError("There is no text to learn from.")
    every = np.array(counts, np.int64)
    often = [word for word, place in seen.items() if every[place] >= min_count]
    kept = sorted(often, key=lambda word: (-every[seen[word]], word))
    if len(kept) < 2:
        raise InputError(
            f"{len(kept)} of {len(seen):,} different words come {min_count:,} times or more, and 2 are needed: give "
            "more text, or a lower min_count."
        )
    places = np.array([seen[word] for word in kept])
    lookup = np.full(len(counts) + 1, -1, np.int32)
    lookup[places] = np.arange(len(kept), dtype=np.int32)
    numbers = np.memmap(file, np.int32, "r")
    file.unlink()  # it is there as long as it is mapped, and gone with this process however that ends
    return Corpus(
        words=tuple(kept),
        counts=every[places],
        numbers=numbers,
        lookup=lookup,
        read=total,
        different=len(seen),
        sentences=number,
    )


def file_sentences(
    files: Sequence[Any], columns: str | Sequence[str] | None, encoding: str | None, notes: list[str]
) -> Iterator[list[str]]:
    """The lines of files, each as its words in small letters; what people should know is added to `notes`."""
    for line in read_line_texts(files, columns, encoding, notes):
        if words := split_vector_words(line.lower()):
            yield words


def _frequent(seen: dict[str, int], counts: array[int]) -> dict[str, int]:
    """Forget the rarest words, at least half; those that come again are counted anew."""
    least = 1
    while len(seen) > MOST_COUNTED // 2:
        least += 1
        seen = {word: place for word, place in seen.items() if counts[place] >= least}
    return seen


def _checked(sentences: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    for number, sentence in enumerate(sentences):
        if isinstance(sentence, str) or not all(isinstance(word, str) for word in sentence):
            raise InputError(f"Sentence {number} is {to_printable(sentence, 40)!r}, expected a list of words.")
        yield sentence
