"""Vector files of other tools: GloVe and word2vec text, word2vec binary; invalid rows are counted or refused."""

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

MAX_WIDTH = 1 << 14
MAX_LINE_BYTES = 1 << 19  # more than the widest vector takes as text
MAX_WORD_BYTES = 1 << 10
MAX_NUMBERS = 1 << 30  # per file, 4 GB: enough for three million words of width 300
MAX_BAD_SHARE = 0.1  # of the rows; a file with more invalid rows is refused
MAX_ABS_VALUE = 1e15  # so that norms stay finite
CHECKED_ROWS = 100_000  # rows after which a file with mostly invalid rows is refused
GROUP_ROWS = 4096  # rows per array
READ_BYTES = 1 << 22  # of a binary file at a time
FIRST_ROWS = 10  # that distinguish vectors from other files
SNIFFED_BYTES = 4096  # that distinguish text from binary
PROGRESS_ROWS = 10_000  # rows between progress reports
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # UTF-8
CONTROL_BYTES = bytes(byte for byte in range(32) if byte not in b"\t\n\r")

Row = tuple[bytes, Array]  # a word and its numbers

WRONG_WIDTH, INVALID_WORD, INVALID_NUMBERS, DUPLICATE_WORD, EMPTY_WORD = (
    "a different number of values",
    "a word that is not UTF-8",
    "NaN, infinity or excessive values",
    "a duplicate word",
    "an empty word",
)


class VectorCollector:
    """Collects valid rows, and counts invalid ones by problem."""

    def __init__(self, name: str, width: int, progress: Progress, total: int | None) -> None:
        self.name, self.width, self.progress, self.total = name, width, progress, total
        self.words: dict[str, None] = {}
        self.groups: list[Array] = []
        self.group = np.empty((GROUP_ROWS, width), np.float32)
        self.group_size = self.row_count = 0
        self.bad_rows: Counter[str] = Counter()
        self.first_rows: dict[str, int] = {}

    def skip(self, problem: str) -> None:
        """Count a skipped row."""
        self.row_count += 1
        self.bad_rows[problem] += 1
        self.first_rows.setdefault(problem, self.row_count)
        if self.row_count % CHECKED_ROWS == 0 and self.bad_rows.total() > self.row_count / 2:
            raise InputError(f"{self.name} is not a word vector file: most of {self.row_count:,} rows are invalid.")

    def add(self, word: bytes, numbers: Array) -> None:
        """Keep a row if it is valid."""
        try:
            text = word.decode("utf-8")
        except UnicodeDecodeError:
            return self.skip(INVALID_WORD)
        if not text.strip():
            return self.skip(EMPTY_WORD)
        if len(word) > MAX_WORD_BYTES:
            return self.skip(INVALID_WORD)
        if not np.abs(numbers).max() <= MAX_ABS_VALUE:  # also false for NaN
            return self.skip(INVALID_NUMBERS)
        if text in self.words:
            return self.skip(DUPLICATE_WORD)
        if (len(self.words) + 1) * self.width > MAX_NUMBERS:
            raise InputError(
                f"{self.name} contains more than {MAX_NUMBERS:,} numbers; read only a part of it (limit=)."
            )
        self.words[text] = None
        self.group[self.group_size] = numbers
        self.group_size += 1
        self.row_count += 1
        if self.group_size == GROUP_ROWS:
            self.groups.append(self.group)
            self.group, self.group_size = np.empty((GROUP_ROWS, self.width), np.float32), 0
        if self.row_count % PROGRESS_ROWS == 0:
            self.progress("reading vectors", self.row_count, self.total)
        return None

    def finish(self, promised: int | None, limit: int | None) -> WordVectors:
        """Return the vectors, with a note about skipped rows; refuse a file with too many of them."""
        bad_count = sum(count for problem, count in self.bad_rows.items() if problem != DUPLICATE_WORD)
        descriptions = (
            f"{count:,} with {problem} (first: row {self.first_rows[problem]:,})"
            for problem, count in self.bad_rows.items()
        )
        problems = ", ".join(descriptions)
        if not self.words or bad_count > MAX_BAD_SHARE * self.row_count:
            reason = f"of {self.row_count:,} rows {problems}" if problems else "it contains no rows"
            raise InputError(f"{self.name} is not a word vector file of width {self.width}: {reason}.")
        notes = [f"{self.name}: skipped rows: {problems}."] if problems else []
        if promised is not None and promised != self.row_count and (limit is None or len(self.words) < limit):
            notes.append(f"{self.name} declares {promised:,} words in its header, but has {self.row_count:,} rows.")
        return WordVectors(words=tuple(self.words), matrix=self._matrix(), name=self.name, notes=tuple(notes))

    def _matrix(self) -> Array:
        """Concatenate the groups, and free each one after it is copied: memory never holds two copies."""
        matrix = np.empty((len(self.words), self.width), np.float32)
        self.groups.append(self.group[: self.group_size])
        self.groups.reverse()
        start = 0
        while self.groups:
            rows = self.groups.pop()
            matrix[start : start + len(rows)] = rows
            start += len(rows)
        return matrix


def read_file(path: Path, *, limit: int | None = None, progress: Progress = no_progress) -> WordVectors:
    """Read a GloVe or word2vec file, text or binary, gzipped or not; `limit` reads only the first words."""
    blob = open_path(path)
    if not blob.head.removeprefix(BYTE_ORDER_MARK).strip():
        raise InputError(f"{blob.name} is empty.")
    header = _read_header(blob)
    if header is not None and _is_binary(blob.head[blob.head.index(b"\n") + 1 :]):
        return _read_guarded(blob, lambda file: _read_binary(blob, file, *header, limit, progress))
    return _read_guarded(blob, lambda file: _read_text(blob, file, header, limit, progress))


def is_vector_file(path: Path) -> bool:
    """Whether most of the first rows of a file are a word and the same number of values, as in GloVe and word2vec."""
    try:
        blob = open_path(path)
        header = _read_header(blob)
    except InputError:
        return False
    lines = blob.head.removeprefix(BYTE_ORDER_MARK).split(b"\n", FIRST_ROWS + 1)
    if header is not None and _is_binary(blob.head[blob.head.index(b"\n") + 1 :]):
        return True
    rows = [line for line in (lines if header is None else lines[1:])[:FIRST_ROWS] if line.strip()]
    if not rows:
        return False
    width = len(rows[0].split()) - 1 if header is None else header[1]
    return width >= 1 and 2 * sum(_is_row(row, width) for row in rows) > len(rows)


def _is_row(line: bytes, width: int) -> bool:
    fields = line.rsplit(None, width)
    return len(fields) == width + 1 and _parse_numbers(fields[1:]) is not None and not _ends_in_number(fields[0])


def _read_guarded(blob: Blob, read_vectors: Callable[[IO[bytes]], WordVectors]) -> WordVectors:
    try:
        with blob.open() as file:
            return read_vectors(file)
    except STREAM_ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{blob.name} cannot be read to the end: {reason}.") from None


def _read_header(blob: Blob) -> tuple[int, int] | None:
    """Return the number of words and their width from the header of word2vec, or None if there is no header."""
    line = blob.head[: blob.head.find(b"\n") + 1 or 64][:64].removeprefix(BYTE_ORDER_MARK).split()
    if len(line) != 2 or not all(part.isdigit() and len(part) <= 18 for part in line):
        return None
    words, width = int(line[0]), int(line[1])
    declared = f"{words:,} words of width {width:,}"
    if not (words and 1 <= width <= MAX_WIDTH):
        raise InputError(
            f"{blob.name} declares {declared}; expected at least one word, and a width from 1 to {MAX_WIDTH:,}."
        )
    if b"\n" not in blob.head:
        raise InputError(f"{blob.name} declares {declared}, but contains no rows.")
    return words, width


def _is_binary(content: bytes) -> bool:
    """Whether bytes are binary: they contain many control characters and invalid UTF-8; text contains almost none."""
    sample = content[:SNIFFED_BYTES]
    odd_bytes = (
        len(sample) - len(sample.translate(None, CONTROL_BYTES)) + sample.decode("utf-8", "replace").count("\ufffd")
    )
    return odd_bytes > 0.05 * len(sample)


def _read_text(
    blob: Blob, file: IO[bytes], header: tuple[int, int] | None, limit: int | None, progress: Progress
) -> WordVectors:
    lines = _read_lines(blob, file)
    if header is not None:
        next(lines)
        promised, width = header
    else:
        first_fields = blob.head.removeprefix(BYTE_ORDER_MARK).split(b"\n", 1)[0].split()
        promised, width = None, len(first_fields) - 1
        if not 1 <= width <= MAX_WIDTH or _parse_numbers(first_fields[1:]) is None:
            first_line = to_printable(blob.head.split(b"\n", 1)[0][:40].decode("utf-8", "replace"), 40)
            raise InputError(
                f"{blob.name} is not a word vector file: its first line is {first_line!r}, expected a word and its "
                "numbers, or the number of words and their width."
            )
    collector = VectorCollector(blob.name, width, progress, promised)
    for line in lines:
        if limit is not None and len(collector.words) >= limit:
            break
        fields = line.rsplit(None, width)  # words of GloVe can contain spaces
        if not fields:
            continue
        numbers = _parse_numbers(fields[1:]) if len(fields) == width + 1 else None
        if numbers is None or _ends_in_number(fields[0]):
            collector.skip(WRONG_WIDTH)
        else:
            collector.add(fields[0], numbers)
    return collector.finish(promised, limit)


def _ends_in_number(word: bytes) -> bool:
    """Whether a word ends with a space and a number: then its row has too many numbers."""
    *leading, last = word.split() or [b""]
    return bool(leading) and _parse_numbers([last]) is not None


def _read_lines(blob: Blob, file: IO[bytes]) -> Iterator[bytes]:
    number = 0
    while line := file.readline(MAX_LINE_BYTES):
        number += 1
        line = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        if len(line) == MAX_LINE_BYTES:
            raise InputError(
                f"{blob.name}: line {number:,} is longer than {MAX_LINE_BYTES:,} bytes, so it is not a vector."
            )
        yield line


def _parse_numbers(fields: list[bytes]) -> Array | None:
    try:
        with np.errstate(over="ignore"):  # overflow gives infinity, which the caller refuses
            return np.array([float(field) for field in fields], np.float32)
    except ValueError:
        return None


def _read_binary(
    blob: Blob, file: IO[bytes], promised: int, width: int, limit: int | None, progress: Progress
) -> WordVectors:
    """Read word2vec's binary format: a word, a space, little-endian floats, and an optional newline."""
    size = 4 * width
    if not blob.is_compressed and blob.path is not None:
        actual_size, min_size = blob.path.stat().st_size, promised * (size + 2)
        if actual_size < min_size:
            declared = f"{promised:,} words of width {width:,}, which need at least {min_size:,} bytes"
            raise InputError(
                f"{blob.name} declares {declared}, but has {actual_size:,}: it is truncated or not a word2vec file."
            )
    file.readline(MAX_LINE_BYTES)
    collector = VectorCollector(blob.name, width, progress, promised)
    trailing: list[bytes] = []
    for word, numbers in _read_records(blob, file, promised, size, trailing):
        if limit is not None and len(collector.words) >= limit:
            break
        collector.add(word, numbers)
    vectors = collector.finish(promised, limit)
    note = f"{blob.name} declares {promised:,} words in its header; data after them was ignored."
    return replace(vectors, notes=(*vectors.notes, note)) if trailing else vectors


def _read_records(blob: Blob, file: IO[bytes], promised: int, size: int, trailing: list[bytes]) -> Iterator[Row]:
    """Iterate over the declared number of words and their values; following data is added to `trailing`."""
    buffer, offset = b"", 0
    for number in range(promised):
        word_end = buffer.find(b" ", offset, offset + MAX_WORD_BYTES)
        if word_end < 0 or len(buffer) < word_end + 1 + size:
            buffer, offset = buffer[offset:] + file.read(READ_BYTES), 0
            word_end = buffer.find(b" ", offset, offset + MAX_WORD_BYTES)
            if word_end < 0 or len(buffer) < word_end + 1 + size:
                raise InputError(
                    f"{blob.name} declares {promised:,} words, but ends after {number:,}: it is truncated "
                    "or not a word2vec file."
                )
        yield buffer[offset:word_end].lstrip(b"\n"), np.frombuffer(buffer, "<f4", size // 4, word_end + 1)
        offset = word_end + 1 + size
    if remainder := (buffer[offset : offset + SNIFFED_BYTES] or file.read(SNIFFED_BYTES)).strip():
        trailing.append(remainder)


def write_text(path: Path, vectors: WordVectors) -> None:
    """Write word2vec's text format: number of words and width, then a word and its numbers per line."""
    _check_words(vectors)
    row_format = " %.9g" * vectors.width + "\n"  # nine digits represent every float32 exactly
    with atomic_file(path) as file:
        file.write(f"{len(vectors)} {vectors.width}\n".encode())
        for word, row in zip(vectors.words, vectors.matrix, strict=True):
            file.write((word + row_format % tuple(row.tolist())).encode())


def write_binary(path: Path, vectors: WordVectors) -> None:
    """Write word2vec's binary format."""
    _check_words(vectors)
    with atomic_file(path) as file:
        file.write(f"{len(vectors)} {vectors.width}\n".encode())
        for word, row in zip(vectors.words, vectors.matrix, strict=True):
            file.write(word.encode() + b" " + row.astype("<f4").tobytes() + b"\n")


def _check_words(vectors: WordVectors) -> None:
    for word in vectors.words:
        if len(word.encode("utf-8", "surrogatepass").split()) != 1 or not word.isprintable():
            raise InputError(
                f"{to_printable(word, 40)!r} cannot be written to a word2vec file, which separates words by spaces; "
                "save to a folder instead."
            )
