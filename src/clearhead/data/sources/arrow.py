"""Read Parquet files and objects with the Arrow C stream protocol; requires pyarrow."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from clearhead.data.sources.files import STREAM_ERRORS, Blob
from clearhead.data.sources.header import make_unique_names
from clearhead.data.sources.source import BadRow, Row, Rows
from clearhead.errors import InputError, MissingExtraError
from clearhead.files import to_printable

BATCH_ROWS = 1024  # rows that are converted to Python values at a time


ClassNames = dict[str, tuple[str, ...]]  # class names by column


def open_parquet(blob: Blob) -> tuple[tuple[str, ...], Callable[[], Rows], ClassNames]:
    """Open a Parquet file: its columns, a function that reads its rows, and the class names that it stores."""
    try:
        import pyarrow.parquet as reader
    except ImportError:
        raise MissingExtraError("Reading Parquet", "parquet") from None

    def open_table() -> tuple[IO[bytes], Any]:
        file = _open_seekable(blob)
        try:
            return file, reader.ParquetFile(file)
        except Exception as error:
            file.close()
            raise InputError(f"{blob.name} is not a readable Parquet file: {_format_error(error)}.") from None

    file, table = open_table()
    with file:
        columns = make_unique_names(map(str, table.schema_arrow.names))
        label_names = _read_metadata_names(table.schema_arrow.metadata)
        names = {column: label_names[column] for column in columns if column in label_names}

    def rows() -> Rows:
        file, table = open_table()
        with file:
            for row in read_batches(table.iter_batches(batch_size=BATCH_ROWS), columns):
                yield (
                    row
                    if isinstance(row, BadRow) or not names
                    else Row(row.number, replace_class_numbers(row.values, names))
                )

    return columns, rows, names


def _read_metadata_names(metadata: Any) -> ClassNames:
    """Read the class names that `datasets` stores in the metadata."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        return read_class_names(features)
    except (KeyError, TypeError, ValueError, RecursionError, AttributeError):
        return {}


def read_class_names(features: Mapping[str, Any]) -> ClassNames:
    """Read the class names of columns with class numbers or lists of them, from feature objects or their JSON."""
    names_by_column = {}
    for column, feature in features.items():
        inner = feature[0] if isinstance(feature, list) and len(feature) == 1 else _get_member(feature, "feature")
        names = _get_member(feature if inner is None else inner, "names")
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            names_by_column[str(column)] = tuple(names)
    return names_by_column


def _get_member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def replace_class_numbers(row: dict[str, Any], names: ClassNames) -> dict[str, Any]:
    """Replace class numbers in a row with class names."""
    replaced = dict(row)
    for column, column_names in names.items():
        code = row.get(column)
        if code is not None:
            replaced[column] = (
                [_look_up_name(item, column_names) for item in code]
                if isinstance(code, list)
                else _look_up_name(code, column_names)
            )
    return replaced


def _look_up_name(code: Any, names: tuple[str, ...]) -> Any:
    return names[code] if isinstance(code, int) and 0 <= code < len(names) else code


def _open_seekable(blob: Blob) -> IO[bytes]:
    """Open a seekable file; compressed and piped data is copied to a temporary file first."""
    if blob.path is not None and not blob.is_compressed:
        return blob.path.open("rb")
    if not blob.head.startswith(b"PAR"):  # check before decompressing everything
        raise InputError(f"{blob.name} is not a Parquet file: it does not start with PAR1.")
    copy = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        with blob.open() as stream:
            shutil.copyfileobj(stream, copy)
        copy.seek(0)
    except STREAM_ERRORS as error:
        copy.close()
        raise InputError(f"{blob.name} cannot be read: {error}.") from None
    return copy


def open_stream(source: Any, name: str) -> tuple[tuple[str, ...], Callable[[], Rows]]:
    """Open an Arrow stream: its columns and a function that reads its rows."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError("Reading Arrow tables", "parquet") from None

    def open_reader() -> Any:
        try:
            return pyarrow.RecordBatchReader.from_stream(source)
        except Exception as error:
            raise InputError(f"{name} cannot be read as an Arrow stream: {_format_error(error)}.") from None

    first_reader = open_reader()
    columns = make_unique_names(map(str, first_reader.schema.names))
    if isinstance(source, pyarrow.RecordBatchReader):
        return columns, lambda: read_batches(first_reader, columns)
    return columns, lambda: read_batches(open_reader(), columns)


def read_batches(batches: Any, columns: Sequence[str]) -> Rows:
    """Yield the rows of record batches; damage ends them with a bad row."""
    number = 0
    batch_iterator: Iterator[Any] = iter(batches)
    while True:
        try:
            batch = next(batch_iterator, None)
        except Exception as error:  # pyarrow raises many types of errors for damaged files
            yield BadRow(number + 1, f"the table cannot be read from here on: {_format_error(error)}")
            return
        if batch is None:
            return
        for start in range(0, batch.num_rows, BATCH_ROWS):
            cells = [_column_to_python(batch.column(column).slice(start, BATCH_ROWS)) for column in range(len(columns))]
            for row in zip(*cells, strict=True):
                number += 1
                yield Row(number, dict(zip(columns, row, strict=True)))


def _column_to_python(column: Any) -> list[Any]:
    """Convert a column to Python values, cell by cell if some cells cannot be converted."""
    try:
        values: list[Any] = column.to_pylist()
    except Exception:  # text that is not UTF-8, a date beyond the year 9999
        return [_cell_to_python(cell) for cell in column]
    return values


def _cell_to_python(cell: Any) -> Any:
    """Convert a cell to a Python value: bytes for invalid text, None for other invalid cells."""
    try:
        return cell.as_py()
    except Exception:
        inner = getattr(cell, "value", cell)  # of a dictionary-encoded column
        return bytes(inner.as_buffer()) if hasattr(inner, "as_buffer") else None


def _format_error(error: Exception) -> str:
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return to_printable(line, 200).rstrip(".")
