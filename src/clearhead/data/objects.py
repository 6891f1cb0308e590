"""JSON: an object a line, or a list of objects, read piece by piece."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from typing import Any

from clearhead.data.delimited import REASONS
from clearhead.data.files import BROKEN_STREAM, MOST_RECORD, SURROGATE, Blob, Line
from clearhead.data.source import BYTES, JSON, LONG, NUL, SHAPE, BadRow, Row, Rows, excerpt

PIECE = 1 << 16
SPACE = " \t\r\n"


def object_rows(lines: Iterable[Line]) -> Rows:
    """Rows of a file with one JSON object a line; empty lines are no rows."""
    number = 0
    for place, line, problem in lines:
        if problem is None and not line.strip(SPACE):
            continue
        number += 1
        if problem is None and "\0" in line:
            problem = NUL
        if problem is not None:
            yield BadRow(number, REASONS[problem], excerpt(line), place, problem)
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield BadRow(number, f"not valid JSON ({_why(error)})", excerpt(line), place, JSON)
            continue
        yield _row(number, value, place, line)


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos + 1}"
    return "too deep or too large"


def _row(number: int, value: Any, line: int | None, text: str) -> Row | BadRow:
    if isinstance(value, dict):
        return Row(number, value, line)
    kind = {list: "list", str: "string", int: "number", float: "number", bool: "boolean"}.get(type(value), "null")
    return BadRow(number, f"a JSON {kind}, expected an object with a value for each column", excerpt(text), line, SHAPE)


class _Stream:
    """JSON text that comes in pieces."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._decoder = json.JSONDecoder()
        self.text = ""

    def sign(self) -> str:
        """The next character that is no space, taken; empty at the end."""
        self._trim()
        sign, self.text = self.text[:1], self.text[1:]
        return sign

    def value(self) -> tuple[Any, str]:
        """The next JSON value and its text."""
        self._trim()
        while True:
            try:
                value, end = self._decoder.raw_decode(self.text)
            except ValueError:  # broken, or not all there yet
                if not self._grow():
                    raise
                continue
            if end == len(self.text) and self._grow():  # a number may go on
                continue
            text, self.text = self.text[:end], self.text[end:]
            return value, text

    def _trim(self) -> None:
        self.text = self.text.lstrip(SPACE)
        while not self.text and self._grow():
            self.text = self.text.lstrip(SPACE)

    def _grow(self) -> bool:
        """Twice as much text, so that a large value is not tried often; False when there is no more."""
        if len(self.text) > MOST_RECORD:
            return False
        wanted = 2 * len(self.text) + 1
        before = len(self.text)
        parts = [self.text]
        size = before
        while size < wanted and (piece := next(self._pieces, None)) is not None:
            parts.append(piece)
            size += len(piece)
        self.text = "".join(parts)
        return size > before


def list_rows(blob: Blob, encoding: str) -> Rows:
    """Rows of a file that holds one JSON list of objects; after broken JSON the rest is lost, and said to be."""
    stream = _Stream(_pieces(blob, encoding))
    number, sign = 1, stream.sign()
    if sign != "[":
        yield BadRow(1, "not valid JSON (expected a list)", excerpt(sign + stream.text), None, JSON)
        return
    sign = stream.sign()
    stream.text = sign + stream.text
    while sign != "]":
        try:
            value, text = stream.value()
        except (ValueError, RecursionError) as error:
            problem = LONG if len(stream.text) > MOST_RECORD else JSON
            yield BadRow(number, f"not valid JSON from here on ({_why(error)})", excerpt(stream.text), None, problem)
            return
        if "\0" in text or (not text.isascii() and SURROGATE.search(text)):
            problem = NUL if "\0" in text else BYTES
            yield BadRow(number, REASONS[problem], excerpt(text), None, problem)
        else:
            yield _row(number, value, None, text)
        number += 1
        sign = stream.sign()
        if sign not in (",", "]") or not sign:
            reason = "not valid JSON from here on (expected a comma or the end of the list)"
            yield BadRow(number, reason, excerpt(sign + stream.text), None, JSON)
            return


def _pieces(blob: Blob, encoding: str) -> Iterator[str]:
    wide = encoding.startswith(("utf-16", "utf-32"))
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass" if wide else "surrogateescape")
    with blob.open() as file:
        try:
            while data := file.read(PIECE):
                if piece := decoder.decode(data):
                    yield piece
        except (UnicodeDecodeError, *BROKEN_STREAM):
            return  # what is missing makes the JSON end too early, which is listed
