"""Small valid datasets with unusual cells, and a writer for each format, as input of the mutations."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

WORDS = (
    "the",
    "old",
    "keeper",
    "walks",
    "down",
    "to",
    "sea",
    "a",
    "small",
    "boat",
    "waits",
    "for",
    "wind",
    "naïve",
    "café",
    "über",
    "gulls",
    "are",
    "loud",
    "rain",
    "falls",
    "on",
    "stones",
    "it's",
    "“so”",
    "猫",
    "дом",
    "e-mail",
    "3.5",
    "€",
)
LABELS = (("good", "bad"), ("0", "1"), (0, 1), (True, False), ("joy", "anger", "fear", "No label"), (1, 2, 3, 4, 5))
TASKS = ("classify", "classify", "pair", "regress", "several")
SPLITS = ("train", "dev", "test", "validation", "Train")

Rng = random.Random


@dataclass
class Table:
    """Rows before they are written, and the mutations applied to them."""

    names: list[str]
    rows: list[list[Any]]
    kinds: list[str] = field(default_factory=list)


def make_sentence(rng: Rng) -> str:
    """Draw a few words, occasionally with text that must be quoted."""
    words = [rng.choice(WORDS) for _ in range(rng.randint(3, 14))]
    if rng.random() < 0.2:
        words.insert(1, rng.choice((', "so" he said,', "a;b", "c|d", "line\nline", "tab", "'quoted'", "#", "=1+1")))
    return " ".join(words)


def make_table(rng: Rng) -> Table:
    """Draw a dataset of one of the usual kinds."""
    count = rng.choice((1, 2, 5, 12, 30, 30, 60, 60, 200)) if rng.random() < 0.99 else 1500
    task = rng.choice(TASKS)
    names = {"pair": ["premise", "hypothesis"], "regress": ["sentence1", "sentence2"]}.get(task, ["text"])
    rows: list[list[Any]] = [[make_sentence(rng) for _ in names] for _ in range(count)]
    for row in rows[1:]:
        if rng.random() < 0.1:
            row[:] = rng.choice(rows)[: len(names)]  # a duplicate text
    label_values = rng.choice(LABELS)
    tags = ("sea", "wind", "rain", "boat")
    labels: Callable[[], Any] = {
        "regress": lambda: round(rng.uniform(0, 5), 2),
        "several": lambda: rng.sample(tags, rng.randint(0, 3)),
    }.get(task, lambda: rng.choice(label_values))
    columns: list[tuple[str, Callable[[], Any]]] = [
        ("score" if task == "regress" else "labels" if task == "several" else "label", labels)
    ]
    optional_columns: list[tuple[str, Callable[[], Any]]] = [
        ("id", lambda: rng.randrange(count)),
        ("split", lambda: rng.choice(SPLITS)),
        ("date", lambda: datetime.date(2020, 1, 1) + datetime.timedelta(rng.randrange(2000))),
        ("length", lambda: rng.random() * 100),
    ]
    columns += [column for column in optional_columns if rng.random() < 0.3]
    for _, draw_value in columns:
        for row in rows:
            row.append(draw_value())
    return Table([*names, *(name for name, _ in columns)], rows)


@dataclass
class File:
    """A file, or a folder of them, before it is written to disk."""

    name: str
    data: bytes = b""
    kinds: list[str] = field(default_factory=list)  # the mutations
    rows: int | None = None  # expected number of rows, if known
    cells: list[list[str]] | None = None  # expected cells, if nothing was mutated
    folder: dict[str, bytes | None] | None = None  # contents by path; None is a named pipe
    options: dict[str, Any] = field(default_factory=dict)  # of open_source


def _flatten(value: Any) -> str:
    """A value as text of a delimited file."""
    if isinstance(value, list):
        return "|".join(map(str, value))
    return "" if value is None else str(value)


def _write_delimited(table: Table, rng: Rng, delimiter: str, name: str) -> File:
    text = io.StringIO()
    line_end = rng.choice(("\n", "\n", "\r\n"))
    quoting = rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    writer = csv.writer(text, delimiter=delimiter, lineterminator=line_end, quoting=quoting)  # type: ignore[arg-type]
    cells = [[_flatten(value) for value in row] for row in table.rows]
    writer.writerow(table.names)
    writer.writerows(cells)
    encoding = rng.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"))
    errors = "replace" if encoding == "cp1252" else "surrogatepass"
    data = text.getvalue().encode(encoding, errors)
    is_exact = encoding != "cp1252" and all(any(row) for row in cells)
    return File(name, data, rows=len(cells) if is_exact else None, cells=cells if is_exact else None)


def _write_json_lines(table: Table, rng: Rng) -> File:
    ascii_only = rng.random() < 0.5
    rows = [dict(zip(table.names, row, strict=False)) for row in table.rows]
    lines = [json.dumps(row, ensure_ascii=ascii_only, default=str) for row in rows]
    cells = [[_to_text(row[name]) for name in table.names if name in row] for row in rows]
    data = ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")
    return File("data.jsonl", data, rows=len(rows), cells=cells)


def _write_json_list(table: Table, rng: Rng) -> File:
    ascii_only = rng.random() < 0.5
    rows = [dict(zip(table.names, row, strict=False)) for row in table.rows]
    indent = rng.choice((None, None, 2))
    text = json.dumps(rows, ensure_ascii=ascii_only, default=str, indent=indent)
    cells = [[_to_text(row[name]) for name in table.names if name in row] for row in rows]
    return File("data.json", text.encode("utf-8", "surrogatepass"), rows=len(rows), cells=cells)


def _to_text(value: Any) -> str:
    return str(value)


def _write_parquet(table: Table, rng: Rng) -> File:
    import pyarrow
    import pyarrow.parquet

    columns = []
    for index in range(len(table.names)):
        columns.append(_make_arrow_column([row[index] if index < len(row) else None for row in table.rows], rng))
    arrow_table = pyarrow.table(columns, [name.encode("utf-8", "replace").decode() for name in table.names])
    sink = io.BytesIO()
    pyarrow.parquet.write_table(
        arrow_table,
        sink,
        compression=rng.choice(("snappy", "zstd", "gzip", "none", "lz4", "brotli")),
        use_dictionary=rng.random() < 0.5,
        row_group_size=rng.choice((7, 100, 100_000)),
        data_page_size=rng.choice((256, 1 << 20)),
        data_page_version=rng.choice(("1.0", "2.0")),
        version=rng.choice(("1.0", "2.6")),
        write_page_checksum=rng.random() < 0.2,
        store_schema=rng.random() < 0.5,
    )
    return File("data.parquet", sink.getvalue(), rows=len(table.rows))


def _make_arrow_column(values: list[Any], rng: Rng) -> Any:
    import pyarrow

    texts = [value if value is None else str(value) for value in values]
    if rng.random() < 0.6:
        try:
            return pyarrow.array(values)
        except (pyarrow.ArrowException, UnicodeEncodeError, OverflowError, TypeError):
            pass
    data = [None if text is None else text.encode("utf-8", "surrogatepass") for text in texts]
    binary = pyarrow.array(data, pyarrow.binary())
    kind = rng.choice(("string", "string", "large_string", "binary", "dictionary"))
    if kind == "binary":
        return binary
    strings = binary.view(pyarrow.string())  # even if the bytes are invalid UTF-8
    if kind == "dictionary":
        return strings.dictionary_encode()
    return strings if kind == "string" else binary.cast(pyarrow.large_binary()).view(pyarrow.large_string())


def _write_folder(table: Table, rng: Rng) -> File:
    contents: dict[str, bytes | None] = {}
    split = rng.random() < 0.3
    for index, row in enumerate(table.rows[:60]):
        label = str(row[-1])[:20].encode("utf-8", "replace").decode().replace("/", "_").replace("\0", "")
        part = rng.choice(("train", "test")) + "/" if split else ""
        encoding = "cp1252" if rng.random() < 0.02 else "utf-8"
        contents[f"{part}label {label}/{index}.txt"] = str(row[0]).encode(encoding, "replace")
    return File("folder", rows=len(contents), folder=contents)


WRITERS: dict[str, Callable[[Table, Rng], File]] = {
    "comma": lambda source_table, rng: _write_delimited(source_table, rng, ",", "data.csv"),
    "semicolon": lambda source_table, rng: _write_delimited(source_table, rng, ";", "data.csv"),
    "tab": lambda source_table, rng: _write_delimited(
        source_table, rng, "\t", rng.choice(("data.tsv", "data.tab", "data.csv"))
    ),
    "pipe": lambda source_table, rng: _write_delimited(source_table, rng, "|", "data.csv"),
    "json lines": _write_json_lines,
    "json list": _write_json_list,
    "parquet": _write_parquet,
    "folder": _write_folder,
}
WRITER_WEIGHTS = (6, 2, 3, 2, 6, 4, 6, 2)


def compress_file(file: File) -> None:
    """Compress a file with gzip."""
    file.data = gzip.compress(file.data, 6, mtime=0)
    file.name += ".gz"
