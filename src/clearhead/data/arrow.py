"""Parquet files and everything that speaks the Arrow C stream protocol, read by pyarrow when it is installed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any

from clearhead.data.files import BROKEN_STREAM, Blob
from clearhead.data.source import BadRow, Row, Rows
from clearhead.errors import InputError, MissingExtraError

BATCH = 1024  # rows that are turned into Python values at a time


def parquet(blob: Blob) -> tuple[tuple[str, ...], Callable[[], Rows]]:
    """Columns of a Parquet file, and a way to its rows."""
    try:
        import pyarrow.parquet as reader
    except ImportError:
        raise MissingExtraError("Reading Parquet", "parquet") from None

    def opened() -> tuple[IO[bytes], Any]:
        file = _seekable(blob)
        try:
            return file, reader.ParquetFile(file)
        except Exception as error:
            file.close()
            raise InputError(f"{blob.name} is not a Parquet file that can be read: {_first_line(error)}.") from None

    def rows() -> Rows:
        file, table = opened()
        with file:
            yield from batch_rows(table.iter_batches(batch_size=BATCH))

    file, table = opened()
    with file:
        return tuple(map(str, table.schema_arrow.names)), rows


def _seekable(blob: Blob) -> IO[bytes]:
    """Parquet is read from its end, so what is compressed or piped goes through a temporary file."""
    if blob.path is not None and not blob.compressed:
        return blob.path.open("rb")
    copy = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        with blob.open() as stream:
            shutil.copyfileobj(stream, copy)
        copy.seek(0)
    except BROKEN_STREAM as error:
        copy.close()
        raise InputError(f"{blob.name} cannot be read: {error}.") from None
    return copy


def stream(source: Any, name: str) -> tuple[tuple[str, ...], Callable[[], Rows]]:
    """Columns of an Arrow stream, and a way to its rows."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError("Reading Arrow tables", "parquet") from None

    def opened() -> Any:
        try:
            return pyarrow.RecordBatchReader.from_stream(source)
        except Exception as error:
            raise InputError(f"{name} cannot be read as an Arrow stream: {_first_line(error)}.") from None

    first = opened()
    columns = tuple(map(str, first.schema.names))
    if isinstance(source, pyarrow.RecordBatchReader):
        return columns, lambda: batch_rows(first)
    return columns, lambda: batch_rows(opened())


def batch_rows(batches: Any) -> Rows:
    """Rows of record batches; damage ends them."""
    number = 0
    found: Iterator[Any] = iter(batches)
    while True:
        try:
            batch = next(found, None)
            values = None if batch is None else [_named(row) for part in _cut(batch) for row in part.to_pylist()]
        except Exception as error:  # pyarrow raises many kinds for damaged files
            yield BadRow(number + 1, f"the table cannot be read from here on: {_first_line(error)}")
            return
        if values is None:
            return
        for row in values:
            number += 1
            yield Row(number, row)


def _cut(batch: Any) -> Iterator[Any]:
    for start in range(0, batch.num_rows, BATCH):
        yield batch.slice(start, BATCH)


def _named(row: dict[Any, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in row.items()}


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")
