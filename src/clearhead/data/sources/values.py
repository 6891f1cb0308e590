"""Open Python values as a source: lists, mappings, data frames, datasets and other iterables of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from clearhead.data.sources import arrow
from clearhead.data.sources.source import NOT_AN_OBJECT, BadRow, OneTimeRows, Row, Rows, Source, excerpt, format_names
from clearhead.errors import ClearheadError, InputError

MAX_SAMPLE_ROWS = 1000  # used to find the columns of dicts


def open_values(source: Any) -> Source:
    """Open a Python value without importing its library."""
    kind = type(source)
    module = kind.__module__.split(".")[0]
    if isinstance(source, str | bytes | bytearray) or source is None or isinstance(source, int | float):
        raise InputError(f"data cannot be read from {excerpt(repr(source))}; expected a file, rows or a table.")
    if callable(getattr(source, "itertuples", None)) and hasattr(source, "columns"):  # pandas
        return _open_frame(source, lambda: source.itertuples(index=False, name=None), "pandas")
    if callable(getattr(source, "iter_rows", None)) and hasattr(source, "columns"):  # polars
        return _open_frame(source, source.iter_rows, "polars")
    column_values = _get_column_values(source)
    if column_values is not None:
        return _open_iterable([_normalize_missing(value) for value in column_values], {}, kind.__name__)
    if callable(getattr(source, "__arrow_c_stream__", None)) and not hasattr(source, "features"):
        columns, rows = arrow.open_stream(source, kind.__name__)
        is_one_time = kind.__name__ == "RecordBatchReader"
        return Source(
            name=kind.__name__,
            kind="arrow",
            columns=columns,
            messages=(_describe("an Arrow table", columns),),
            open=OneTimeRows(rows(), kind.__name__) if is_one_time else rows,
        )
    if isinstance(source, Mapping):
        return _open_mapping(source)
    if isinstance(source, Iterable):
        features = getattr(source, "features", None)
        label_names = arrow.read_class_names(features) if module == "datasets" and isinstance(features, Mapping) else {}
        return _open_iterable(source, label_names)
    raise InputError(f"data cannot be read from a {kind.__name__}; expected a file, a list of dicts or a table.")


def _get_column_values(source: Any) -> list[Any] | None:
    """Return the values of a pandas or polars Series or an Arrow array; None for other types."""
    if hasattr(source, "columns") or hasattr(source, "column_names"):
        return None
    for method, attribute in (("to_pylist", "type"), ("to_list", "dtype")):
        if callable(getattr(source, method, None)) and hasattr(source, attribute):
            return list(getattr(source, method)())
    return None


def _describe(description: str, columns: Sequence[str]) -> str:
    return f"{description}; columns: {format_names(columns)}"


def _open_frame(frame: Any, tuples: Callable[[], Iterable[tuple[Any, ...]]], name: str) -> Source:
    columns = tuple(str(column) for column in frame.columns)
    if len(set(columns)) != len(columns):
        raise InputError(f"The frame has duplicate column names: {format_names(columns)}.")

    def rows() -> Rows:
        for number, cells in enumerate(tuples(), start=1):
            yield Row(number, dict(zip(columns, map(_normalize_missing, cells), strict=True)))

    messages = (_describe(f"a {name} frame", columns),)
    return Source(name=f"the {name} frame", kind="frame", columns=columns, messages=messages, open=rows)


def _normalize_missing(value: Any) -> Any:
    """Convert NaN, NaT and NA of data frames to None."""
    if value is None or isinstance(value, str):
        return value
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return None if isinstance(value, float) and value != value else _to_python(value)


def _open_mapping(source: Mapping[Any, Any]) -> Source:
    columns = tuple(str(key) for key in source)
    if not columns:
        raise InputError("The dict is empty; expected a list of values for each column.")
    value_lists = list(source.values())
    invalid = [
        name
        for name, values in zip(columns, value_lists, strict=True)
        if isinstance(values, str) or not _is_list(values)
    ]
    if invalid:
        kind = type(value_lists[columns.index(invalid[0])]).__name__
        hint = "; give one of them" if kind in ("Dataset", "DataFrame", "Table") else ""
        raise InputError(f"{excerpt(invalid[0])!r} is a {kind}, expected a list of values for each column{hint}.")
    sizes = {len(values) for values in value_lists}
    if len(sizes) > 1:
        lengths = format_names([f"{name}: {len(values)}" for name, values in zip(columns, value_lists, strict=True)])
        raise InputError(f"The columns have different lengths: {lengths}.")

    def rows() -> Rows:
        for number, cells in enumerate(zip(*value_lists, strict=True), start=1):
            yield Row(number, dict(zip(columns, map(_to_python, cells), strict=True)))

    return Source(
        name="the dict", kind="list", columns=columns, messages=(_describe("a dict of lists", columns),), open=rows
    )


def _is_list(values: Any) -> bool:
    return hasattr(values, "__len__") and hasattr(values, "__iter__") and not hasattr(values, "column_names")


def _to_python(value: Any) -> Any:
    """Convert a NumPy scalar or array to a Python scalar or list."""
    return value.tolist() if type(value).__module__ == "numpy" and hasattr(value, "tolist") else value


def _open_iterable(source: Iterable[Any], label_names: dict[str, tuple[str, ...]], kind: str | None = None) -> Source:
    kind = type(source).__name__ if kind is None else kind
    is_one_time = iter(source) is source
    row_types: set[str] = set()
    open_rows: Callable[[], Rows] = lambda: _read_rows(source, label_names, row_types)  # noqa: E731
    if is_one_time:
        open_rows = OneTimeRows(_read_rows(source, label_names, row_types), f"the {kind}")
    sample = (
        open_rows.peek(MAX_SAMPLE_ROWS)
        if isinstance(open_rows, OneTimeRows)
        else list(islice(open_rows(), MAX_SAMPLE_ROWS))
    )
    columns = collect_columns(sample)
    messages = [_describe(f"a {kind} of rows", columns)]
    messages += describe_label_names(label_names)
    source_kind = "pairs" if "pairs" in row_types else "list"
    return Source(
        name=f"the {kind}",
        kind=source_kind,
        columns=columns,
        messages=tuple(messages),
        label_names=label_names,
        open=open_rows,
    )


def describe_label_names(names: Mapping[str, Sequence[str]]) -> list[str]:
    """Describe each column with class names."""
    return [
        f"{excerpt(column)}: class numbers are replaced with the names {format_names(column_names)}"
        for column, column_names in names.items()
    ]


def collect_columns(rows: Iterable[Row | BadRow]) -> tuple[str, ...]:
    """Collect the columns of rows in order of first occurrence."""
    return tuple(dict.fromkeys(name for row in rows if isinstance(row, Row) for name in row.values))


def _read_rows(source: Iterable[Any], label_names: dict[str, tuple[str, ...]], row_types: set[str]) -> Rows:
    number = 0
    first_type: tuple[str, int] | None = None  # type and number of the first row
    iterator: Iterator[Any] = iter(source)
    while True:
        number += 1
        try:
            value = next(iterator)
        except StopIteration:
            return
        except ClearheadError:
            raise
        row_type = _describe_row_type(value)
        if row_type is not None:
            first_type = first_type or (row_type, number)
            if first_type[0] != row_type:
                reason = f"{row_type}, but row {first_type[1]:,} is {first_type[0]}; all rows must have the same type"
                yield BadRow(number, reason, excerpt(repr(value)), None, NOT_AN_OBJECT)
                continue
        if isinstance(value, str):
            yield Row(number, {"text": value})
        elif isinstance(value, Mapping):
            row = {str(key): _to_python(inner) for key, inner in value.items()}
            yield Row(number, arrow.replace_class_numbers(row, label_names) if label_names else row)
        elif row_type is not None:
            row_types.add("pairs")
            yield Row(number, {"text": value[0], "text_b": value[1]})
        else:
            reason = (
                f"a {type(value).__name__}, expected a dict with a value for each column, a text, or two texts of a "
                "pair as (text, second text)"
            )
            yield BadRow(number, reason, excerpt(repr(value)), None, NOT_AN_OBJECT)


def _describe_row_type(value: Any) -> str | None:
    """Describe the type of a row; None: not a row."""
    if isinstance(value, str):
        return "a text"
    if isinstance(value, Mapping):
        return "a dict"
    is_pair = isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(text, str) for text in value)
    return "a pair of texts" if is_pair else None
