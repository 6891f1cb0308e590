"""Cache the rows of a file as they are read, so that several passes read the file only once.

Concurrent passes are possible; the most advanced one reads from the file. Rows are stored in blocks, in memory up to a
limit and then in an unnamed temporary file. If the disk is full, or a value cannot be stored exactly, later passes read
the file again.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from typing import IO, Any

from clearhead.data.sources.source import BadRow, Row, Rows, Source

BLOCK_ROWS = 256
BLOCK_BYTES = 1 << 20  # a block with long texts has fewer rows
MAX_MEMORY_BYTES = 32 << 20  # of stored rows; more are moved to a file
MIN_FREE_BYTES = 1 << 30  # that must remain on the disk for temporary files
SCALARS = (int, float, bool, type(None))


def store_rows(source: Source) -> Source:
    """Return a source with the same rows that reads its file only once."""
    if source.path is None or not source.is_rereadable or isinstance(source.open, RowStore):
        return source
    return replace(source, open=RowStore(source.open, source.columns))


class RowStore:
    """Stores the rows read so far and reads further ones from the file."""

    def __init__(self, rows: Callable[[], Rows], columns: tuple[str, ...]) -> None:
        self._open, self._columns = rows, columns
        self._generation = 0  # passes of an earlier generation continue from the file
        self._remaining: Rows | None = None  # rows after one that cannot be stored
        self._files = ExitStack()
        weakref.finalize(self, self._files.close)
        self._reset()

    def _reset(self) -> None:
        self._rows: Rows | None = None  # the current pass over the file
        self._is_complete = self._is_refused = False
        self._file: IO[bytes] | None = None
        self._blocks: list[bytes | tuple[int, int]] = []  # stored rows, or offset and size in the file
        self._bounds = [0]  # index of the first row of each block and of the tail
        self._tail: list[list[Any]] = []  # rows that are not in a block yet
        self._tail_bytes = self._bytes = 0

    def __call__(self) -> Rows:
        return self._open() if self._is_refused else self._replay()

    def _replay(self) -> Rows:
        row_count, block, generation = 0, 0, self._generation
        while generation == self._generation:
            if row_count < self._bounds[-1]:
                while self._bounds[block + 1] <= row_count:
                    block += 1
                stored, skip = self._load(block), row_count - self._bounds[block]
                row_count = self._bounds[block + 1]
                yield from map(self._restore, islice(stored, skip, None))
            elif row_count - self._bounds[-1] < len(self._tail):
                row_count += 1
                yield self._restore(self._tail[row_count - 1 - self._bounds[-1]])
            elif self._is_complete:
                return
            else:
                try:
                    row = next(self._get_reader(), None)
                except BaseException:  # also an interrupt: the next pass starts again
                    self._discard()
                    raise
                self._add(row)
                if row is None:
                    return
                row_count += 1
                remaining, self._remaining = self._remaining, None
                yield row
                if remaining is not None:
                    yield from remaining
                    return
        yield from islice(self._open(), row_count, None)

    def _get_reader(self) -> Rows:
        """Return the current pass over the file."""
        if self._rows is None:
            self._rows = self._open()
        return self._rows

    def _add(self, row: Row | BadRow | None) -> None:
        """Store a row; None: end of the file."""
        if row is None:
            self._is_complete, self._rows = True, None
            return
        try:
            self._store(row)
        except (TypeError, ValueError, RecursionError, OSError):  # a value that cannot be stored, or a full disk
            remaining = self._rows
            self._discard()
            self._is_refused, self._remaining = True, remaining

    def _store(self, row: Row | BadRow) -> None:
        if isinstance(row, Row):
            self._tail_bytes += estimate_stored_size(row.values)
            has_usual_columns = tuple(row.values) == self._columns
            self._tail.append([row.number, row.line, list(row.values.values()) if has_usual_columns else row.values])
        else:
            self._tail.append([row.number, row.line, row.reason, row.excerpt, row.problem])
        if len(self._tail) < BLOCK_ROWS and self._tail_bytes < BLOCK_BYTES:
            return
        block = json.dumps(self._tail, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        self._bytes += len(block)
        if self._file is None and self._bytes > MAX_MEMORY_BYTES:
            self._file = tempfile.TemporaryFile(prefix="clearhead-")  # noqa: SIM115
            self._files.callback(self._file.close)
            self._blocks = [
                self._spill(earlier_block) for earlier_block in self._blocks if isinstance(earlier_block, bytes)
            ]
        self._blocks.append(block if self._file is None else self._spill(block))
        self._bounds.append(self._bounds[-1] + len(self._tail))
        self._tail, self._tail_bytes = [], 0

    def _spill(self, block: bytes) -> tuple[int, int]:
        """Write a block to the temporary file."""
        assert self._file is not None
        if shutil.disk_usage(tempfile.gettempdir()).free < MIN_FREE_BYTES:
            raise OSError("no room for stored rows")
        start = self._file.seek(0, os.SEEK_END)
        self._file.write(block)
        self._file.flush()
        return start, len(block)

    def _load(self, block_index: int) -> list[list[Any]]:
        block = self._blocks[block_index]
        if not isinstance(block, bytes):
            assert self._file is not None
            block = os.pread(self._file.fileno(), block[1], block[0])
        rows: list[list[Any]] = json.loads(block.decode("utf-8", "surrogatepass"))
        return rows

    def _restore(self, stored: list[Any]) -> Row | BadRow:
        if len(stored) != 3:
            number, line, reason, excerpt, problem = stored
            return BadRow(number, reason, excerpt, line, problem)
        number, line, values = stored
        return Row(number, values if isinstance(values, dict) else dict(zip(self._columns, values, strict=True)), line)

    def _discard(self) -> None:
        """Discard all stored rows; running passes continue from the file."""
        self._generation += 1
        self._files.close()
        self._reset()


def estimate_stored_size(value: Any) -> int:
    """Estimate the bytes of a value; raise TypeError unless it consists of strings, numbers, lists and dicts."""
    kind = type(value)
    if kind is str:
        return len(value)
    if kind in SCALARS:
        return 8
    if kind is list:
        return 8 + sum(map(estimate_stored_size, value))
    if kind is dict:
        return 8 + sum(_key_size(key) + estimate_stored_size(inner) for key, inner in value.items())
    raise TypeError(kind.__name__)


def _key_size(key: Any) -> int:
    if type(key) is not str:
        raise TypeError(type(key).__name__)
    return len(key)
