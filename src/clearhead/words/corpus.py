"""Text as word ids in a temporary file: read once, with memory bounded by the number of distinct words."""

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

MAX_DISTINCT_WORDS = 8_000_000  # distinct words that are counted at a time: about 1 GB
CHUNK_WORDS = 1 << 16  # words between updates of the learning rate and of the progress
PROGRESS_SENTENCES = 20_000  # sentences between progress reports
MAX_WORD_LENGTH = 100  # characters; longer words are ignored
SENTENCE_END = -1  # marks the end of a sentence in the file


@dataclass(frozen=True, kw_only=True, eq=False)
class WordCorpus:
    """The frequent words, most frequent first, and the text as word ids."""

    words: tuple[str, ...]
    counts: Array  # (words,)
    word_ids: Array  # int32, in order of first occurrence, SENTENCE_END after each sentence; an unlinked file
    rank_of_id: Array  # from a word id to the index in `words`, -1 for rare words
    words_read: int  # including rare words
    distinct_words: int
    sentences: int

    @property
    def chunk_count(self) -> int:
        """Number of chunks of the text."""
        return -(-(self.words_read + self.sentences) // CHUNK_WORDS)

    def read_chunk(self, index: int) -> tuple[Array, Array, int]:
        """Return the frequent words of a chunk, the sentence of each, and the number of words in the chunk."""
        word_ids = np.asarray(self.word_ids[index * CHUNK_WORDS : (index + 1) * CHUNK_WORDS])
        ranks = self.rank_of_id[word_ids]  # SENTENCE_END maps to the last entry, -1
        sentence_index = np.cumsum(word_ids == SENTENCE_END, dtype=np.int32)
        is_frequent = ranks >= 0
        return ranks[is_frequent], sentence_index[is_frequent], len(word_ids) - int(sentence_index[-1])


def read_corpus(
    sentences: Iterable[Sequence[str]], file: Path, *, min_count: int, progress: Progress = no_progress
) -> WordCorpus:
    """Count the words of all sentences, and write their ids to a file."""
    id_of_word: dict[str, int] = {}
    counts = array("q")
    words_read = sentence_count = 0
    with file.open("wb") as stream:
        for sentence_count, sentence in enumerate(_check_sentences(sentences), 1):
            sentence_ids = array("i")
            for word in sentence:
                word_id = id_of_word.get(word)
                if word_id is None:
                    if len(word) > MAX_WORD_LENGTH:
                        continue
                    word_id = id_of_word[word] = len(counts)
                    counts.append(0)
                counts[word_id] += 1
                sentence_ids.append(word_id)
            words_read += len(sentence_ids)
            sentence_ids.append(SENTENCE_END)
            sentence_ids.tofile(stream)
            if len(id_of_word) > MAX_DISTINCT_WORDS:
                id_of_word = _drop_rare_words(id_of_word, counts)
            if sentence_count % PROGRESS_SENTENCES == 0:
                progress("reading sentences", sentence_count, None)
    if not words_read:
        raise InputError("The training text is empty.")
    all_counts = np.array(counts, np.int64)
    frequent = [word for word, word_id in id_of_word.items() if all_counts[word_id] >= min_count]
    words = sorted(frequent, key=lambda word: (-all_counts[id_of_word[word]], word))
    if len(words) < 2:
        raise InputError(
            f"{len(words)} of {len(id_of_word):,} distinct words occur at least {min_count:,} times, but 2 are needed: "
            "use more text or a lower min_count."
        )
    ids = np.array([id_of_word[word] for word in words])
    rank_of_id = np.full(len(counts) + 1, -1, np.int32)
    rank_of_id[ids] = np.arange(len(words), dtype=np.int32)
    word_ids = np.memmap(file, np.int32, "r")
    file.unlink()  # stays readable while it is mapped, and is removed with the process
    return WordCorpus(
        words=tuple(words),
        counts=all_counts[ids],
        word_ids=word_ids,
        rank_of_id=rank_of_id,
        words_read=words_read,
        distinct_words=len(id_of_word),
        sentences=sentence_count,
    )


def read_file_sentences(
    files: Sequence[Any], columns: str | Sequence[str] | None, encoding: str | None, notes: list[str]
) -> Iterator[list[str]]:
    """Iterate over the lines of files as lists of lower-case words; messages are added to `notes`."""
    for line in read_line_texts(files, columns, encoding, notes):
        if words := split_vector_words(line.lower()):
            yield words


def _drop_rare_words(id_of_word: dict[str, int], counts: array[int]) -> dict[str, int]:
    """Drop the rarest words, at least half of them; later occurrences are counted from zero."""
    min_count = 1
    while len(id_of_word) > MAX_DISTINCT_WORDS // 2:
        min_count += 1
        id_of_word = {word: word_id for word, word_id in id_of_word.items() if counts[word_id] >= min_count}
    return id_of_word


def _check_sentences(sentences: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    for index, sentence in enumerate(sentences):
        if isinstance(sentence, str) or not all(isinstance(word, str) for word in sentence):
            raise InputError(f"Sentence {index} is {to_printable(sentence, 40)!r}, expected a list of words.")
        yield sentence
