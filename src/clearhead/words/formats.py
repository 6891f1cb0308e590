"""The files of others: GloVe and word2vec as text, word2vec in binary; what is wrong in them is counted or refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from clearhead.data.sources.files import STREAM_ERRORS, Blob, open_path
from clearhead.errors import InputError
from clearhead.files import atomic_file, to_printable
from clearhead.metrics.checks import Array
from clearhead.progress import Progress, no_progress
from clearhead.words.vectors import WordVectors

MOST_WIDTH = 1 << 14
MOST_LINE = 1 << 19  # bytes: more than the widest vector takes in text
MOST_WORD = 1 << 10  # bytes
MOST_NUMBERS = 1 << 30  # of one file, 4 GB: three million words of width 300 fit
MOST_BAD = 0.1  # share of rows that cannot be read, beyond which a file is refused
LARGEST = 1e15  # of any number, so that lengths stay finite
ENOUGH = 100_000  # rows after which a file that is mostly bad is not read on
GROUP = 4096  # rows that are put together at a time
READ = 1 << 22  # bytes of a binary file at a time
FIRST_ROWS = 10  # that tell vectors from other files
LOOKED = 4096  # bytes that tell text from binary
REPORTED = 10_000  # rows between two reports of progress
MARK = b"\xef\xbb\xbf"  # that some programs put before UTF-8
CONTROL = bytes(byte for byte in range(32) if byte not in b"\t\n\r")

Row = tuple[bytes, Array]  # a word and its numbers

LENGTH, LETTERS, NUMBERS, TWICE, NO_WORD = (
    "another number of values",
    "a word that is not UTF-8",
    "NaN, infinity or numbers beyond reason",
    "a word that was there before",
    "no word",
)


class Gathered:
    """Rows that were read so far: what fits is kept, the rest is counted by what is wrong with it."""

    def __init__(self, name: str, width: int, progress: Progress, total: int | None) -> None:
        self.name, self.width, self.progress, self.total = name, width, progress, total
        self.words: dict[str, None] = {}
        self.groups: list[Array] = []
        self.rows = np.empty((GROUP, width), np.float32)
        self.filled = self.seen = 0
        self.bad: Counter[str] = Counter()
        self.first: dict[str, int] = {}

    def skip(self, problem: str) -> None:
        """Count a row that is passed over."""
        self.seen += 1
        self.bad[problem] += 1
        self.first.setdefault(problem, self.seen)
        if self.seen % ENOUGH == 0 and self.bad.total() > self.seen / 2:  # however long it goes on
            raise InputError(f"{self.name} is no file of word vectors: most of {self.seen:,} rows are no use.")

    def add(self, word: bytes, numbers: Array) -> None:
        """Keep a row if it is sound."""
        try:
            said = word.decode("utf-8")
        except UnicodeDecodeError:
            return self.skip(LETTERS)
        if not said.strip():
            return self.skip(NO_WORD)
        if len(word) > MOST_WORD:
            return self.skip(LETTERS)
        if not np.abs(numbers).max() <= LARGEST:  # NaN is neither
            return self.skip(NUMBERS)
        if said in self.words:
            return self.skip(TWICE)
        if (len(self.words) + 1) * self.width > MOST_NUMBERS:
            raise InputError(f"{self.name} holds more than {MOST_NUMBERS:,} numbers; read a part of it (limit=).")
        self.words[said] = None
        self.rows[self.filled] = numbers
        self.filled += 1
        self.seen += 1
        if self.filled == GROUP:
            self.groups.append(self.rows)
            self.rows, self.filled = np.empty((GROUP, self.width), np.float32), 0
        if self.seen % REPORTED == 0:
            self.progress("reading vectors", self.seen, self.total)
        return None

    def finish(self, promised: int | None, limit: int | None) -> WordVectors:
        """All that was kept, with a note on what was not; too much of that refuses the file."""
        worst = sum(count for problem, count in self.bad.items() if problem != TWICE)
        said = (f"{n:,} with {problem} (first: row {self.first[problem]:,})" for problem, n in self.bad.items())
        listed = ", ".join(said)
        if not self.words or worst > MOST_BAD * self.seen:
            what = f"of {self.seen:,} rows {listed}" if listed else "there is not one row in it"
            raise InputError(f"{self.name} is no file of word vectors of width {self.width}: {what}.")
        notes = [f"{self.name}: rows were passed over, {listed}."] if listed else []
        if promised is not None and promised != self.seen and (limit is None or len(self.words) < limit):
            notes.append(f"{self.name} promises {promised:,} words in its first line, and it has {self.seen:,} rows.")
        return WordVectors(words=tuple(self.words), matrix=self._matrix(), name=self.name, notes=tuple(notes))

    def _matrix(self) -> Array:
        """One array of all groups, each given back as soon as it is copied: no moment holds two copies of all."""
        matrix = np.empty((len(self.words), self.width), np.float32)
        self.groups.append(self.rows[: self.filled])
        self.groups.reverse()
        begin = 0
        while self.groups:
            rows = self.groups.pop()
            matrix[begin : begin + len(rows)] = rows
            begin += len(rows)
        return matrix


def read_file(path: Path, *, limit: int | None = None, progress: Progress = no_progress) -> WordVectors:
    """A GloVe or word2vec file, text or binary, gzipped or not; `limit` reads the first words only."""
    blob = open_path(path)
    if not blob.head.removeprefix(MARK).strip():
        raise InputError(f"{blob.name} is empty.")
    header = _header(blob)
    if header is not None and _is_binary(blob.head[blob.head.index(b"\n") + 1 :]):
        return _guarded(blob, lambda file: _binary(blob, file, *header, limit, progress))
    return _guarded(blob, lambda file: _text(blob, file, header, limit, progress))


def is_vector_file(path: Path) -> bool:
    """Whether a file begins as GloVe's and word2vec's do: most of its first rows are words and as many numbers."""
    try:
        blob = open_path(path)
        header = _header(blob)
    except InputError:
        return False
    lines = blob.head.removeprefix(MARK).split(b"\n", FIRST_ROWS + 1)
    if header is not None and _is_binary(blob.head[blob.head.index(b"\n") + 1 :]):
        return True
    rows = [line for line in (lines if header is None else lines[1:])[:FIRST_ROWS] if line.strip()]
    if not rows:
        return False
    width = len(rows[0].split()) - 1 if header is None else header[1]
    return width >= 1 and 2 * sum(_is_row(row, width) for row in rows) > len(rows)


def _is_row(line: bytes, width: int) -> bool:
    fields = line.rsplit(None, width)
    return len(fields) == width + 1 and _numbers(fields[1:]) is not None and not _ends_in_number(fields[0])


def _guarded(blob: Blob, read: Callable[[IO[bytes]], WordVectors]) -> WordVectors:
    try:
        with blob.open() as file:
            return read(file)
    except STREAM_ERRORS as error:
        said = getattr(error, "strerror", None) or error
        raise InputError(f"{blob.name} cannot be read to its end: {said}.") from None


def _header(blob: Blob) -> tuple[int, int] | None:
    """The number of words and their width in the first line, as word2vec writes them; None: there is no such line."""
    line = blob.head[: blob.head.find(b"\n") + 1 or 64][:64].removeprefix(MARK).split()
    if len(line) != 2 or not all(part.isdigit() and len(part) <= 18 for part in line):
        return None
    words, width = int(line[0]), int(line[1])
    what = f"{words:,} words of width {width:,}"
    if not (words and 1 <= width <= MOST_WIDTH):
        raise InputError(f"{blob.name} promises {what}; expected at least one word, of width 1 to {MOST_WIDTH:,}.")
    if b"\n" not in blob.head:
        raise InputError(f"{blob.name} promises {what}, and there is not one row in it.")
    return words, width


def _is_binary(content: bytes) -> bool:
    """Numbers as bytes hold control characters, and what is not UTF-8, all over; text has next to none."""
    some = content[:LOOKED]
    odd = len(some) - len(some.translate(None, CONTROL)) + some.decode("utf-8", "replace").count("\ufffd")
    return odd > 0.05 * len(some)


def _text(
    blob: Blob, file: IO[bytes], header: tuple[int, int] | None, limit: int | None, progress: Progress
) -> WordVectors:
    lines = _lines(blob, file)
    if header is not None:
        next(lines)
        promised, width = header
    else:
        begin = blob.head.removeprefix(MARK).split(b"\n", 1)[0].split()
        promised, width = None, len(begin) - 1
        if not 1 <= width <= MOST_WIDTH or _numbers(begin[1:]) is None:
            said = to_printable(blob.head.split(b"\n", 1)[0][:40].decode("utf-8", "replace"), 40)
            raise InputError(
                f"{blob.name} is no file of word vectors: its first line is {said!r}, expected a word and its numbers, "
                "or how many words there are and their width."
            )
    made = Gathered(blob.name, width, progress, promised)
    for line in lines:
        if limit is not None and len(made.words) >= limit:
            break
        fields = line.rsplit(None, width)  # a word of GloVe can have blanks in it
        if not fields:
            continue
        numbers = _numbers(fields[1:]) if len(fields) == width + 1 else None
        if numbers is None or _ends_in_number(fields[0]):
            made.skip(LENGTH)
        else:
            made.add(fields[0], numbers)
    return made.finish(promised, limit)


def _ends_in_number(word: bytes) -> bool:
    """Whether a word has a number after a blank: then its row has one number more than others, or several."""
    *begin, last = word.split() or [b""]
    return bool(begin) and _numbers([last]) is not None


def _lines(blob: Blob, file: IO[bytes]) -> Iterator[bytes]:
    number = 0
    while line := file.readline(MOST_LINE):
        number += 1
        line = line.removeprefix(MARK) if number == 1 else line
        if len(line) == MOST_LINE:
            raise InputError(f"{blob.name}: line {number:,} is longer than {MOST_LINE:,} bytes, so it is no vector.")
        yield line


def _numbers(fields: list[bytes]) -> Array | None:
    try:
        with np.errstate(over="ignore"):  # what is too large is infinity, and refused by the caller
            return np.array([float(field) for field in fields], np.float32)
    except ValueError:
        return None


def _binary(
    blob: Blob, file: IO[bytes], promised: int, width: int, limit: int | None, progress: Progress
) -> WordVectors:
    """word2vec's own: a word, a blank, the numbers as little-endian floats, perhaps a newline."""
    size = 4 * width
    if not blob.is_compressed and blob.path is not None:
        there, least = blob.path.stat().st_size, promised * (size + 2)
        if there < least:
            what = f"{promised:,} words of width {width:,}, which take at least {least:,} bytes"
            raise InputError(f"{blob.name} promises {what}, and it has {there:,}: it is cut off or no word2vec file.")
    file.readline(MOST_LINE)
    made = Gathered(blob.name, width, progress, promised)
    more: list[bytes] = []
    for word, numbers in _records(blob, file, promised, size, more):
        if limit is not None and len(made.words) >= limit:
            break
        made.add(word, numbers)
    found = made.finish(promised, limit)
    said = f"{blob.name} promises {promised:,} words in its first line, and goes on after them; the rest is left out."
    return replace(found, notes=(*found.notes, said)) if more else found


def _records(blob: Blob, file: IO[bytes], promised: int, size: int, more: list[bytes]) -> Iterator[Row]:
    """A word and its numbers, as many as are promised; what comes after them goes to `more`."""
    held, place = b"", 0
    for number in range(promised):
        blank = held.find(b" ", place, place + MOST_WORD)
        if blank < 0 or len(held) < blank + 1 + size:
            held, place = held[place:] + file.read(READ), 0
            blank = held.find(b" ", place, place + MOST_WORD)
            if blank < 0 or len(held) < blank + 1 + size:
                raise InputError(
                    f"{blob.name} promises {promised:,} words, and ends or breaks off after {number:,}: it is cut off, "
                    "or no word2vec file."
                )
        yield held[place:blank].lstrip(b"\n"), np.frombuffer(held, "<f4", size // 4, blank + 1)
        place = blank + 1 + size
    if rest := (held[place : place + LOOKED] or file.read(LOOKED)).strip():
        more.append(rest)


def write_text(path: Path, vectors: WordVectors) -> None:
    """word2vec's text: how many words and how wide, then a word and its numbers on each line."""
    _check_words(vectors)
    form = " %.9g" * vectors.width + "\n"  # nine digits give every float32 back
    with atomic_file(path) as file:
        file.write(f"{len(vectors)} {vectors.width}\n".encode())
        for word, row in zip(vectors.words, vectors.matrix, strict=True):
            file.write((word + form % tuple(row.tolist())).encode())


def write_binary(path: Path, vectors: WordVectors) -> None:
    """word2vec's binary form."""
    _check_words(vectors)
    with atomic_file(path) as file:
        file.write(f"{len(vectors)} {vectors.width}\n".encode())
        for word, row in zip(vectors.words, vectors.matrix, strict=True):
            file.write(word.encode() + b" " + row.astype("<f4").tobytes() + b"\n")


def _check_words(vectors: WordVectors) -> None:
    for word in vectors.words:
        if len(word.encode("utf-8", "surrogatepass").split()) != 1 or not word.isprintable():
            raise InputError(
                f"{to_printable(word, 40)!r} cannot stand in a word2vec file, which parts words by blanks; save a "
                "folder."
            )
