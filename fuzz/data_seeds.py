"""Valid small data sets, odd things in their cells, and how each is written: what mutated files start from."""

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
    """Rows before they are written, and what happened to them."""

    names: list[str]
    rows: list[list[Any]]
    kinds: list[str] = field(default_factory=list)


def sentence(rng: Rng) -> str:
    """A few words, now and then with what must be quoted."""
    words = [rng.choice(WORDS) for _ in range(rng.randint(3, 14))]
    if rng.random() < 0.2:
        words.insert(1, rng.choice((', "so" he said,', "a;b", "c|d", "line\nline", "tab", "'quoted'", "#", "=1+1")))
    return " ".join(words)


def table(rng: Rng) -> Table:
    """A data set of one of the usual kinds."""
    count = rng.choice((1, 2, 5, 12, 30, 30, 60, 60, 200)) if rng.random() < 0.99 else 1500
    task = rng.choice(TASKS)
    names = {"pair": ["premise", "hypothesis"], "regress": ["sentence1", "sentence2"]}.get(task, ["text"])
    rows: list[list[Any]] = [[sentence(rng) for _ in names] for _ in range(count)]
    for row in rows[1:]:
        if rng.random() < 0.1:
            row[:] = rng.choice(rows)[: len(names)]  # the same text again
    given = rng.choice(LABELS)
    tags = ("sea", "wind", "rain", "boat")
    labels: Callable[[], Any] = {
        "regress": lambda: round(rng.uniform(0, 5), 2),
        "several": lambda: rng.sample(tags, rng.randint(0, 3)),
    }.get(task, lambda: rng.choice(given))
    more: list[tuple[str, Callable[[], Any]]] = [
        ("score" if task == "regress" else "labels" if task == "several" else "label", labels)
    ]
    extra: list[tuple[str, Callable[[], Any]]] = [
        ("id", lambda: rng.randrange(count)),
        ("split", lambda: rng.choice(SPLITS)),
        ("date", lambda: datetime.date(2020, 1, 1) + datetime.timedelta(rng.randrange(2000))),
        ("length", lambda: rng.random() * 100),
    ]
    more += [one for one in extra if rng.random() < 0.3]
    for _, make in more:
        for row in rows:
            row.append(make())
    return Table([*names, *(name for name, _ in more)], rows)


@dataclass
class File:
    """A file, or a folder of them, before it is written to disk."""

    name: str
    data: bytes = b""
    kinds: list[str] = field(default_factory=list)  # the mutations
    rows: int | None = None  # how many rows must come out, where that is known
    cells: list[list[str]] | None = None  # the cells themselves, where nothing was mutated
    folder: dict[str, bytes | None] | None = None  # paths inside and what they hold; None is a named pipe
    options: dict[str, Any] = field(default_factory=dict)  # of open_source


def _flat(value: Any) -> str:
    """A value as a table holds it."""
    if isinstance(value, list):
        return "|".join(map(str, value))
    return "" if value is None else str(value)


def _table(made: Table, rng: Rng, sign: str, name: str) -> File:
    text = io.StringIO()
    end = rng.choice(("\n", "\n", "\r\n"))
    quoting = rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    writer = csv.writer(text, delimiter=sign, lineterminator=end, quoting=quoting)  # type: ignore[arg-type]
    cells = [[_flat(value) for value in row] for row in made.rows]
    writer.writerow(made.names)
    writer.writerows(cells)
    encoding = rng.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"))
    errors = "replace" if encoding == "cp1252" else "surrogatepass"
    data = text.getvalue().encode(encoding, errors)
    exact = encoding != "cp1252" and all(any(row) for row in cells)
    return File(name, data, rows=len(cells) if exact else None, cells=cells if exact else None)


def _lines(made: Table, rng: Rng) -> File:
    plain = rng.random() < 0.5
    rows = [dict(zip(made.names, row, strict=False)) for row in made.rows]
    lines = [json.dumps(row, ensure_ascii=plain, default=str) for row in rows]
    cells = [[_said(row[name]) for name in made.names if name in row] for row in rows]
    data = ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")
    return File("data.jsonl", data, rows=len(rows), cells=cells)


def _list(made: Table, rng: Rng) -> File:
    plain = rng.random() < 0.5
    rows = [dict(zip(made.names, row, strict=False)) for row in made.rows]
    indent = rng.choice((None, None, 2))
    text = json.dumps(rows, ensure_ascii=plain, default=str, indent=indent)
    cells = [[_said(row[name]) for name in made.names if name in row] for row in rows]
    return File("data.json", text.encode("utf-8", "surrogatepass"), rows=len(rows), cells=cells)


def _said(value: Any) -> str:
    return str(value)


def _parquet(made: Table, rng: Rng) -> File:
    import pyarrow
    import pyarrow.parquet

    columns = []
    for place in range(len(made.names)):
        columns.append(_column([row[place] if place < len(row) else None for row in made.rows], rng))
    table = pyarrow.table(columns, [name.encode("utf-8", "replace").decode() for name in made.names])
    sink = io.BytesIO()
    pyarrow.parquet.write_table(
        table,
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
    return File("data.parquet", sink.getvalue(), rows=len(made.rows))


def _column(values: list[Any], rng: Rng) -> Any:
    import pyarrow

    texts = [value if value is None else str(value) for value in values]
    if rng.random() < 0.6:
        try:
            return pyarrow.array(values)
        except (pyarrow.ArrowException, UnicodeEncodeError, OverflowError, TypeError):
            pass
    data = [None if text is None else text.encode("utf-8", "surrogatepass") for text in texts]
    raw = pyarrow.array(data, pyarrow.binary())
    kind = rng.choice(("string", "string", "large_string", "binary", "dictionary"))
    if kind == "binary":
        return raw
    found = raw.view(pyarrow.string())  # also of bytes that are no text
    if kind == "dictionary":
        return found.dictionary_encode()
    return found if kind == "string" else raw.cast(pyarrow.large_binary()).view(pyarrow.large_string())


def _folder(made: Table, rng: Rng) -> File:
    inside: dict[str, bytes | None] = {}
    split = rng.random() < 0.3
    for place, row in enumerate(made.rows[:60]):
        label = str(row[-1])[:20].encode("utf-8", "replace").decode().replace("/", "_").replace("\0", "")
        part = rng.choice(("train", "test")) + "/" if split else ""
        encoding = "cp1252" if rng.random() < 0.02 else "utf-8"
        inside[f"{part}label {label}/{place}.txt"] = str(row[0]).encode(encoding, "replace")
    return File("folder", rows=len(inside), folder=inside)


WRITERS: dict[str, Callable[[Table, Rng], File]] = {
    "comma": lambda made, rng: _table(made, rng, ",", "data.csv"),
    "semicolon": lambda made, rng: _table(made, rng, ";", "data.csv"),
    "tab": lambda made, rng: _table(made, rng, "\t", rng.choice(("data.tsv", "data.tab", "data.csv"))),
    "pipe": lambda made, rng: _table(made, rng, "|", "data.csv"),
    "json lines": _lines,
    "json list": _list,
    "parquet": _parquet,
    "folder": _folder,
}
SHARES = (6, 2, 3, 2, 6, 4, 6, 2)


def packed(file: File) -> None:
    """The same file under gzip."""
    file.data = gzip.compress(file.data, 6, mtime=0)
    file.name += ".gz"
