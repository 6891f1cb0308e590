"""Mutations of data files: cells before writing, bytes after writing, gzip, Parquet and names."""

from __future__ import annotations

import datetime
import gzip
from collections.abc import Callable
from typing import Any

from fuzz.data_seeds import File, Rng, Table
from fuzz.mutate import damage

TEXTS = (
    "",
    " ",
    "\t",
    "\0",
    "nul\0 here",
    "\ud800",
    "half \udc80 of it",
    "\x1b[2Jred",
    "\u202eright",
    "\ufffd lost",
    "Ã© â€™",
    "\ufeff",
    "\r",
    "a\rb",
    "a\n\nb",
    '"',
    '""',
    '"a"b',
    "\\",
    "'",
    "\x1a",
    "\u2028",
    "x" * 500,
    "null",
    "None",
    "[]",
    "{}",
    "[1, 2]",
    "['a', 'b']",
    "[[1]]",
    "[" * 90,
    "[" * 9000 + "]" * 9000,
    "(" * 300,
    "[" + "-" * 5000 + "1]",
    "['\\d']",
    "a|b",
    "a;b",
    "a,b",
    "#",
    "-",
)
NUMBERS: tuple[Any, ...] = (
    0,
    -1,
    2**31,
    2**63,
    2**64,
    10**30,
    10**400,
    1e308,
    -1e308,
    5e-324,
    float("nan"),
    float("inf"),
    float("-inf"),
    "1e999",
    "-1e999",
    "NaN",
    "nan",
    "inf",
    "1,5",
    "1.000,5",
    "٣",
    "½",
    "1_000",
    "0x10",
    "1e5",
    "--1",
    "9" * 5000,
    "12%",
)
DATES: tuple[Any, ...] = (
    "2024-02-30",
    "0000-00-00",
    "31/12/1999",
    "10:30",
    datetime.date(1, 1, 1),
    datetime.date(9999, 12, 31),
    datetime.datetime(2024, 2, 29, 12, 30, 1, 5),
    datetime.timedelta(days=3),
    datetime.time(1, 2, 3),
)
SHAPES: tuple[Any, ...] = (
    None,
    True,
    False,
    [],
    ["a"],
    ["a", "b"],
    [None, 1],
    ["", " "],
    [["a"]],
    [{"a": 1}],
    {},
    {"a": 1},
    {"text": "a"},
    [0.5, float("nan")],
    [True, False],
    {"a": {"b": [1]}},
    [["a"], "b"],
)
PARTS = ("", "TRAIN ", "val", "holdout", "train,dev", "training set", "0", None, "\ud800", "x" * 9000, "3", "TEST")
NAMES = ("", " ", "text", "label", "Text", "\0", "\x1b[2J", "a\nb", "\ud800", "x" * 20_000, "#", "1", "a b", "é", "id")


def draw_odd_cell(rng: Rng) -> Any:
    """Draw an unusual cell."""
    return rng.choice(rng.choice((TEXTS, TEXTS, NUMBERS, DATES, SHAPES)))


def _odd_cells(table: Table, rng: Rng) -> None:
    for _ in range(rng.choice((1, 1, 3, 20))):
        row = rng.choice(table.rows)
        row[rng.randrange(len(row))] = draw_odd_cell(rng)


def _odd_column(table: Table, rng: Rng) -> None:
    column = rng.randrange(len(table.names))
    values = rng.choice((TEXTS, NUMBERS, DATES, SHAPES))
    sample = rng.sample(values, rng.choice((1, 3)))
    for row in table.rows:
        if rng.random() < 0.9:
            row[column : column + 1] = [rng.choice(sample)]


def _huge_cell(table: Table, rng: Rng) -> None:
    size = rng.choice((70_000, 70_000, 300_000, 1_000_000))
    if rng.random() < 0.03:
        size = rng.choice((10_500_000, 21_000_000))  # exceeds the limits of a cell and of a line
    filler = rng.choice(("a", "the sea ", '"', "é", "[", "猫", "\n", "a,", "9"))
    row = rng.choice(table.rows)
    row[rng.randrange(len(row))] = (filler * size)[: min(size, 300_000) if filler == "\n" else size]


def _odd_splits(table: Table, rng: Rng) -> None:
    column = table.names.index("split") if "split" in table.names else rng.randrange(len(table.names))
    table.names[column] = rng.choice(("split", "set", "Fold"))
    for row in table.rows:
        is_odd = rng.random() < rng.choice((0.05, 0.5))
        row[column : column + 1] = [rng.choice(PARTS if is_odd else ("train", "dev"))]


def _missing_ids(table: Table, rng: Rng) -> None:
    column = table.names.index("id") if "id" in table.names else rng.randrange(len(table.names))
    table.names[column] = "id"
    for row in table.rows:
        if rng.random() < 0.5:
            row[column : column + 1] = [rng.choice((None, "", "a", 1, [1], float("nan")))]


def _odd_names(table: Table, rng: Rng) -> None:
    for _ in range(rng.choice((1, 1, 3))):
        table.names[rng.randrange(len(table.names))] = rng.choice((*NAMES, *table.names))


def _missing_column(table: Table, rng: Rng) -> None:
    column = rng.randrange(len(table.names))
    if len(table.names) > 1 and min(map(len, table.rows)) > 1:
        del table.names[column]
        for row in table.rows:
            del row[column : column + 1]


def _many_columns(table: Table, rng: Rng) -> None:
    count = rng.choice((100, 1000, 3000)) if rng.random() < 0.95 else rng.choice((5_000, 12_000))
    same_name = rng.random() < 0.4
    table.names += ["a" if same_name else f"c{index}" for index in range(count)]
    del table.rows[max(40_000 // count, 2) :]
    for row in table.rows:
        row += [rng.choice(("1", "", "word", None))] * count


def _cell_counts(table: Table, rng: Rng) -> None:
    for _ in range(rng.choice((1, 3, 20))):
        row = rng.choice(table.rows)
        if rng.random() < 0.5 and len(row) > 2:
            row.pop()
        else:
            row += ["more"] * rng.choice((1, 1, 50))


def _many_labels(table: Table, rng: Rng) -> None:
    """Give each row its own label, or a list of labels."""
    count = rng.choice((200, 1100)) if rng.random() < 0.97 else 8_000
    size = sum(len(str(cell)) for row in table.rows for cell in row) // len(table.rows)
    count = min(count, 200_000 // len(table.names), 4_000_000 // (size + 1) + 1)
    lists = rng.random() < 0.5
    table.rows = [
        [*table.rows[index % len(table.rows)][:-1], [f"n{index}", f"m{index // 2}"] if lists else f"n{index}"]
        for index in range(count)
    ]


def _same_rows(table: Table, rng: Rng) -> None:
    copy = list(rng.choice(table.rows))
    table.rows = [list(copy) if rng.random() < 0.9 else row for row in table.rows]


CELLS: dict[str, Callable[[Table, Rng], None]] = {
    "odd cells": _odd_cells,
    "odd column": _odd_column,
    "huge cell": _huge_cell,
    "odd splits": _odd_splits,
    "missing ids": _missing_ids,
    "odd names": _odd_names,
    "missing column": _missing_column,
    "many columns": _many_columns,
    "cell counts": _cell_counts,
    "many labels": _many_labels,
    "same rows": _same_rows,
}


def _replacer(pattern: bytes, *replacements: bytes) -> Callable[[bytes, Rng], bytes]:
    """A mutation that replaces some or all occurrences of a pattern."""

    def change(data: bytes, rng: Rng) -> bytes:
        segments = data.split(pattern)
        probability = rng.choice((0.02, 0.3, 1.0))
        output = [segments[0]]
        for segment in segments[1:]:
            output += [rng.choice(replacements) if rng.random() < probability else pattern, segment]
        return b"".join(output)

    return change


def _inserter(*insertions: bytes) -> Callable[[bytes, Rng], bytes]:
    def change(data: bytes, rng: Rng) -> bytes:
        for _ in range(rng.choice((1, 1, 2, 10))):
            position = rng.randrange(len(data) + 1)
            data = data[:position] + rng.choice(insertions) * rng.choice((1, 1, 1, 3, 1000)) + data[position:]
        return data

    return change


def _truncate(data: bytes, rng: Rng) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _replace_by_minimal(_data: bytes, rng: Rng) -> bytes:
    signatures = (b"\xef\xbb\xbf", b"\xff\xfe", b"PAR1", b"\x1f\x8b")
    return rng.choice((b"", b"", b"\n", b" ", b"\0", b"[]", b"{}", b"text,label\n", *signatures))


def _flip_bits(data: bytes, rng: Rng) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 4, 50)) if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _nest_json(data: bytes, rng: Rng) -> bytes:
    """Replace a JSON value by a deeply nested one."""
    depth = rng.choice((3, 60, 300, 900, 20_000, 200_000))
    nest = rng.choice((b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b"[" * depth))
    value_positions = [position for position in range(len(data)) if data[position : position + 2] == b": "][:500]
    start = rng.choice(value_positions) + 2 if value_positions else rng.randrange(len(data) + 1)
    ends = [end for end in (data.find(b",", start), data.find(b"}", start)) if end >= 0]
    return data[:start] + nest + data[min(ends, default=start) :]


def _duplicate_keys(data: bytes, rng: Rng) -> bytes:
    """Insert duplicate keys, or a thousand keys."""
    many_keys = b"".join(b'"k%d": %d, ' % (rng.randrange(10**6), index) for index in range(rng.choice((5, 1000))))
    replacement = rng.choice(
        (b'"text": 1, ', b'"label": null, ', b'"text": "other", "text": [], ', b'"": 0, ', many_keys)
    )
    return _replacer(b"{", b"{" + replacement)(data, rng)


def _add_runaway_quotes(data: bytes, rng: Rng) -> bytes:
    """Append lines with unbalanced quotes."""
    line = rng.choice((b'a","""\n', b'"a\n', b'"a""\n', b'a,"b\n', b'"""\n', b'x\t"y\n', b'"\\"\n'))
    return data + line * rng.choice((50, 3000, 10_000))


def _change_encoding(data: bytes, rng: Rng) -> bytes:
    """Change the encoding, or add a wrong byte order mark."""
    encoding = rng.choice(("utf-16", "utf-16-be", "utf-32", "latin-1", "shift_jis", "utf-7"))
    byte_order_mark = rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\0\0\xfe\xff"))
    return rng.choice((data.decode("utf-8", "replace").encode(encoding, "replace"), byte_order_mark + data))


BYTES: dict[str, Callable[[bytes, Rng], bytes]] = {
    "bit flips": _flip_bits,
    "bytes": damage,
    "truncated": _truncate,
    "empty": _replace_by_minimal,
    "other encoding": _change_encoding,
    "NULs": _inserter(b"\0"),
    "quotes": _inserter(b'"', b'""', b"\\", b'"a"b', b"'"),
    "runaway quotes": _add_runaway_quotes,
    "line ends": _replacer(b"\n", b"\r\n", b"\r", b"\n\r", b"\n\n", b"\x0b", b"\x0c", b"\xe2\x80\xa8", b""),
    "delimiters": _inserter(b",", b"\t", b";", b"|", b",,"),
    "broken letters": _inserter(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80", b"\xe9", b"\x80", b"\\ud800", b"\\u12"),
    "brackets": _inserter(b"{", b"}", b"[", b"]", b":", b",", b"//", b"null", b"\x1e"),
    "deep JSON": _nest_json,
    "keys": _duplicate_keys,
    "numbers": _replacer(b"1", b"1e999", b"NaN", b"-Infinity", b"1" * 5000, b"01", b"1e-999", b"0x1", b"1.", b"-"),
}
JSON_ONLY = ("brackets", "deep JSON", "keys")


def damage_parquet(data: bytes, rng: Rng) -> bytes:
    """Damage the header, the footer or a page of a Parquet file."""
    if len(data) < 16:  # an earlier mutation truncated it
        return data + b"PAR1"
    size = int.from_bytes(data[-8:-4], "little")
    start = max(len(data) - 8 - size, 4)
    kind = rng.randrange(6)
    if kind == 0:
        return data[:-8] + rng.choice((0, 1, size - 1, size + 9, 2**31, 2**32 - 1)).to_bytes(4, "little") + data[-4:]
    if kind == 1:
        return rng.choice((b"PARE" + data[4:], data[:-4] + b"PAR2", data[4:], data[:-8], b"PAR1" + data, data + b"\n"))
    if kind == 2:
        return data[:start] + damage(data[start:-8], rng) + data[-8:]
    low, high = (
        (start, len(data) - 8) if kind < 5 else (4, min(60, start))
    )  # the footer, or the header of the first page
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        position = min(rng.randrange(low, max(high, low + 1)), len(changed) - 1)
        changed[position] = rng.choice((changed[position] ^ 1 << rng.randrange(8), 0, 0x7F, 0xFF, rng.randrange(256)))
    return bytes(changed)


def damage_gzip(data: bytes, rng: Rng) -> bytes:
    """Compress with gzip and damage the result; decompression bombs are bounded."""
    filler = rng.choice((b"\0", b"a", b"[", b'"', b" ", b"\n", b"a,", b'{"a":', b"a,b\n", b'{"text":"a"}\n', b"PAR1"))
    bomb_sizes = (0, 50_000, 150_000) if len(filler) > 1 or filler == b"\n" else (1_000_000, 24_000_000, 45_000_000)
    compressed = gzip.compress(data, 6, mtime=0)
    kind = rng.randrange(7)
    if kind == 0:
        return compressed[: rng.randrange(2, len(compressed) + 1)]
    if kind == 1:
        return compressed[:10] + _flip_bits(compressed[10:], rng)
    if kind == 2:
        return compressed + rng.choice(
            (b"\0" * 10, b"garbage", compressed, compressed[: len(compressed) // 2], b"\x1f\x8b")
        )
    if kind == 3:
        return gzip.compress(compressed, 6, mtime=0)
    if kind == 4:
        return compressed[:-8] + rng.randbytes(8)
    if kind == 5:
        return damage(compressed, rng)
    kept_size = rng.choice((0, len(data)))
    return gzip.compress(data[:kept_size] + filler * (rng.choice(bomb_sizes) // len(filler)), 6, mtime=0)


def damage_folder(file: File, rng: Rng) -> None:
    """Remove, damage, move or replace files of a folder."""
    contents = file.folder or {}
    file.kinds.append(kind := rng.choice(("file bytes", "file names", "pipe", "empty folder", "deeper", "loose file")))
    paths = sorted(path for path in contents if "/" in path.rstrip("/"))
    for path in rng.sample(paths, min(len(paths), rng.choice((1, 3, 20)))):
        parent, name = path.rsplit("/", 1)
        data = contents[path] or b""
        if kind == "file bytes":
            change = rng.choice(
                (_flip_bits, _truncate, _replace_by_minimal, _change_encoding, BYTES["NULs"], BYTES["broken letters"])
            )
            contents[path] = change(data, rng)
        elif kind == "file names":
            odd_name = rng.choice((".hidden", "a\nb", "\udcff", "9" * 60, " ", "٣", "x" * 200, "10", "02"))
            label = rng.choice((parent, odd_name, f"{parent}{odd_name}", "train", ".git"))
            contents[f"{label}/{rng.choice((name, odd_name))}"] = contents.pop(path)
            file.rows = None
        elif kind == "pipe":
            contents[path] = None
        elif kind == "empty folder":
            del contents[path]
            contents[f"{parent}/"] = b""
            file.rows = None
        else:
            contents[name if kind == "loose file" else f"{parent}/deeper/{name}"] = contents.pop(path)
            file.rows = None


ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".txt", ".gz", "", ".CSV", ".xlsx", ".json.gz")
ODD_NAMES = ("a\nb.csv", "\x1b[2J.csv", "\udcff.csv", "x" * 200 + ".csv", " .csv", ".csv", "%s{}.csv", "é.jsonl")
OPTIONS: tuple[dict[str, Any], ...] = (
    {"delimiter": ";"},
    {"delimiter": "\0"},
    {"delimiter": "tab"},
    {"delimiter": "é"},
    {"header": True},
    {"quotes": True},
    {"header": False},
    {"header": ["text", "label"]},
    {"header": ["text"] * 9},
    {"header": []},
    {"quotes": False},
    *(
        {"encoding": name}
        for name in (
            "utf-8",
            "utf-16",
            "utf-32-be",
            "ascii",
            "latin-1",
            "cp1252",
            "utf-7",
            "idna",
            "punycode",
            "unicode_escape",
            "raw_unicode_escape",
            "shift_jis",
            "hz",
            "utf-8-sig",
            "hex",
            "rot13",
            "none",
        )
    ),
)
