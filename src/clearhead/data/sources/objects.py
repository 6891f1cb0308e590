"""Read JSON lines, or a JSON list of objects, incrementally."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from clearhead.data.sources.delimited import REASONS
from clearhead.data.sources.files import MAX_RECORD_CHARS, STREAM_ERRORS, SURROGATE, Blob, Line
from clearhead.data.sources.source import (
    BROKEN_JSON,
    NOT_AN_OBJECT,
    NUL_BYTE,
    TOO_LONG,
    WRONG_ENCODING,
    BadRow,
    Row,
    Rows,
    excerpt,
)

CHUNK_BYTES = 1 << 16
MAX_DEPTH = 64  # of nested values; later code recurses
SPACE = " \t\r\n"
NON_SPACE = re.compile(r"[^ \t\r\n]")


def read_json_lines(lines: Iterable[Line]) -> Rows:
    """Yield the rows of a file with one JSON object per line; empty lines are skipped."""
    number = 0
    for line_number, line, problem in lines:
        if problem is None and not line.strip(SPACE):
            continue
        number += 1
        if problem is None and "\0" in line:
            problem = NUL_BYTE
        if problem is not None:
            yield BadRow(number, REASONS[problem], excerpt(line), line_number, problem)
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield BadRow(
                number, f"not valid JSON ({_format_json_error(error)})", excerpt(line), line_number, BROKEN_JSON
            )
            continue
        yield _build_row(number, value, line_number, line)


def _format_json_error(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos + 1}"
    return "too deep or too large"


def _build_row(number: int, value: Any, line: int | None, text: str) -> Row | BadRow:
    if _is_too_deep(value, text):
        return BadRow(number, f"nested more than {MAX_DEPTH} levels deep", excerpt(text), line, BROKEN_JSON)
    if isinstance(value, dict):
        return Row(number, value, line)
    kind = {list: "list", str: "string", int: "number", float: "number", bool: "boolean"}.get(type(value), "null")
    return BadRow(
        number,
        f"a JSON {kind}, expected an object with a value for each column",
        excerpt(text),
        line,
        NOT_AN_OBJECT,
    )


def _is_too_deep(value: Any, text: str) -> bool:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        containers = (
            container.values() if isinstance(container, dict) else container
            for container in level
            if isinstance(container, dict | list)
        )
        level = [inner for container in containers for inner in container]
    return bool(level)


class _JsonStream:
    """A parser for JSON text that arrives in chunks."""

    def __init__(self, chunks: Iterator[str]) -> None:
        self._chunks = chunks
        self._decoder = json.JSONDecoder()
        self._text = ""
        self._position = 0  # the text before it is consumed; slicing it off each time would take quadratic time

    @property
    def remainder(self) -> str:
        """The buffered text that is not consumed yet."""
        return self._text[self._position :]

    def next_char(self, *, consume: bool = True) -> str:
        """Return the next non-space character; empty at the end."""
        self._trim()
        character = self._text[self._position : self._position + 1]
        self._position += len(character) if consume else 0
        return character

    def next_value(self) -> tuple[Any, str]:
        """Parse the next JSON value; return it with its text."""
        self._trim()
        while True:
            start = self._position
            try:
                value, end = self._decoder.raw_decode(self._text, start)
            except ValueError:  # invalid, or incomplete so far
                if not self._grow() and not start:  # the position in the error counts from the start of the value
                    raise
                continue
            if end == len(self._text) and self._grow():  # a number may continue in the next chunk
                continue
            text, self._position = self._text[self._position : end], end
            return value, text

    def _trim(self) -> None:
        while True:
            match = NON_SPACE.search(self._text, self._position)
            self._position = match.start() if match else len(self._text)
            if match or not self._grow():
                return

    def _grow(self) -> bool:
        """Double the buffered text, so that a large value is not parsed often; return False at the end."""
        self._text, self._position = self.remainder, 0
        previous_size = size = len(self._text)
        if previous_size > MAX_RECORD_CHARS:
            return False
        parts = [self._text]
        while size < 2 * previous_size + 1 and (chunk := next(self._chunks, None)) is not None:
            parts.append(chunk)
            size += len(chunk)
        self._text = "".join(parts)
        return size > previous_size


def read_json_list(blob: Blob, encoding: str) -> Rows:
    """Yield the rows of a file with one JSON list of objects; broken JSON ends them with a bad row."""
    stream = _JsonStream(_decode_chunks(blob, encoding))
    number, character = 1, stream.next_char()
    if character != "[":
        yield BadRow(1, "not valid JSON (expected a list)", excerpt(character + stream.remainder), None, BROKEN_JSON)
        return
    character = stream.next_char(consume=False)
    while character != "]":
        try:
            value, text = stream.next_value()
        except (ValueError, RecursionError) as error:
            remainder = stream.remainder
            problem = TOO_LONG if len(remainder) > MAX_RECORD_CHARS else BROKEN_JSON
            yield BadRow(
                number, f"not valid JSON from here on ({_format_json_error(error)})", excerpt(remainder), None, problem
            )
            return
        if "\0" in text or (not text.isascii() and SURROGATE.search(text)):
            problem = NUL_BYTE if "\0" in text else WRONG_ENCODING
            yield BadRow(number, REASONS[problem], excerpt(text), None, problem)
        else:
            yield _build_row(number, value, None, text)
        number += 1
        character = stream.next_char()
        if character not in (",", "]") or not character:
            reason = "not valid JSON from here on (expected a comma or the end of the list)"
            yield BadRow(number, reason, excerpt(character + stream.remainder), None, BROKEN_JSON)
            return


def _decode_chunks(blob: Blob, encoding: str) -> Iterator[str]:
    is_multibyte = encoding.startswith(("utf-16", "utf-32"))
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass" if is_multibyte else "surrogateescape")
    with blob.open() as file:
        try:
            while data := file.read(CHUNK_BYTES):
                if text := decoder.decode(data):
                    yield text
        except (UnicodeDecodeError, *STREAM_ERRORS):
            return  # the JSON then ends too early, which is reported as a bad row
