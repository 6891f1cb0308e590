"""Parquet files and everything that speaks the Arrow C stream protocol, read by pyarrow when it is installed."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from clearhead.data.sources.files import BROKEN_STREAM, Blob
from clearhead.data.sources.header import unique_names
from clearhead.data.sources.source import BadRow, Row, Rows
from clearhead.errors import InputError, MissingExtraError
from clearhead.files import to_printable

BATCH = 1024  # rows that are turned into Python values at a time


Names = dict[str, tuple[str, ...]]  # of columns that hold numbers for names


def parquet(blob: Blob) -> tuple[tuple[str, ...], Callable[[], Rows], Names]:
    """Columns of a Parquet file, a way to its rows, and the names behind class numbers where the file has them."""
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

    file, table = opened()
    with file:
        columns = unique_names(map(str, table.schema_arrow.names))
        found = _class_names(table.schema_arrow.metadata)
        names = {column: found[column] for column in columns if column in found}

    def rows() -> Rows:
        file, table = opened()
        with file:
            for row in batch_rows(table.iter_batches(batch_size=BATCH), columns):
                yield row if isinstance(row, BadRow) or not names else Row(row.number, named(row.values, names))

    return columns, rows, names


def _class_names(metadata: Any) -> Names:
    """What `datasets` writes beside its class numbers."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        return class_names(features)
    except (KeyError, TypeError, ValueError, RecursionError, AttributeError):
        return {}


def class_names(features: Mapping[str, Any]) -> Names:
    """The names behind class numbers, one of them in a cell or a list, out of objects or of what they are saved as."""
    found = {}
    for column, feature in features.items():
        listed = feature[0] if isinstance(feature, list) and len(feature) == 1 else _part(feature, "feature")
        names = _part(feature if listed is None else listed, "names")
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            found[str(column)] = tuple(names)
    return found


def _part(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def named(row: dict[str, Any], names: Names) -> dict[str, Any]:
    """A row with names in the place of numbers."""
    made = dict(row)
    for column, given in names.items():
        code = row.get(column)
        if code is not None:
            made[column] = [_name(one, given) for one in code] if isinstance(code, list) else _name(code, given)
    return made


def _name(code: Any, names: tuple[str, ...]) -> Any:
    return names[code] if isinstance(code, int) and 0 <= code < len(names) else code


def _seekable(blob: Blob) -> IO[bytes]:
    """Parquet is read from its end, so what is compressed or piped goes through a temporary file."""
    if blob.path is not None and not blob.compressed:
        return blob.path.open("rb")
    if not blob.head.startswith(b"PAR"):  # before all of it is unpacked
        raise InputError(f"{blob.name} is not a Parquet file, which begins with PAR1.")
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
    columns = unique_names(map(str, first.schema.names))
    if isinstance(source, pyarrow.RecordBatchReader):
        return columns, lambda: batch_rows(first, columns)
    return columns, lambda: batch_rows(opened(), columns)


def batch_rows(batches: Any, columns: Sequence[str]) -> Rows:
    """Rows of record batches; damage ends them."""
    number = 0
    found: Iterator[Any] = iter(batches)
    while True:
        try:
            batch = next(found, None)
        except Exception as error:  # pyarrow raises many kinds for damaged files
            yield BadRow(number + 1, f"the table cannot be read from here on: {_first_line(error)}")
            return
        if batch is None:
            return
        for start in range(0, batch.num_rows, BATCH):
            cells = [_values(batch.column(place).slice(start, BATCH)) for place in range(len(columns))]
            for row in zip(*cells, strict=True):
                number += 1
                yield Row(number, dict(zip(columns, row, strict=True)))


def _values(column: Any) -> list[Any]:
    """A column as Python values, also if some of its cells have none."""
    try:
        values: list[Any] = column.to_pylist()
    except Exception:  # text that is not UTF-8, a date beyond the year 9999
        return [_value(cell) for cell in column]
    return values


def _value(cell: Any) -> Any:
    """A Python value, the bytes of what should be text and is not, None for what cannot be had at all."""
    try:
        return cell.as_py()
    except Exception:
        inner = getattr(cell, "value", cell)  # of a dictionary
        return bytes(inner.as_buffer()) if hasattr(inner, "as_buffer") else None


def _first_line(error: Exception) -> str:
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return to_printable(line, 200).rstrip(".")
