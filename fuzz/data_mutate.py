"""Mutations of data files: of cells before they are written, of the bytes after, of gzip and Parquet, of names."""

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


def odd(rng: Rng) -> Any:
    """A cell that nobody would write."""
    return rng.choice(rng.choice((TEXTS, TEXTS, NUMBERS, DATES, SHAPES)))


def _cells(made: Table, rng: Rng) -> None:
    for _ in range(rng.choice((1, 1, 3, 20))):
        row = rng.choice(made.rows)
        row[rng.randrange(len(row))] = odd(rng)


def _column(made: Table, rng: Rng) -> None:
    place = rng.randrange(len(made.names))
    values = rng.choice((TEXTS, NUMBERS, DATES, SHAPES))
    few = rng.sample(values, rng.choice((1, 3)))
    for row in made.rows:
        if rng.random() < 0.9:
            row[place : place + 1] = [rng.choice(few)]


def _huge(made: Table, rng: Rng) -> None:
    size = rng.choice((70_000, 70_000, 300_000, 1_000_000))
    if rng.random() < 0.03:
        size = rng.choice((10_500_000, 21_000_000))  # beyond the longest cell, and the longest line
    filler = rng.choice(("a", "the sea ", '"', "é", "[", "猫", "\n", "a,", "9"))
    row = rng.choice(made.rows)
    row[rng.randrange(len(row))] = (filler * size)[: min(size, 300_000) if filler == "\n" else size]


def _parts(made: Table, rng: Rng) -> None:
    place = made.names.index("split") if "split" in made.names else rng.randrange(len(made.names))
    made.names[place] = rng.choice(("split", "set", "Fold"))
    for row in made.rows:
        odd_part = rng.random() < rng.choice((0.05, 0.5))
        row[place : place + 1] = [rng.choice(PARTS if odd_part else ("train", "dev"))]


def _no_ids(made: Table, rng: Rng) -> None:
    place = made.names.index("id") if "id" in made.names else rng.randrange(len(made.names))
    made.names[place] = "id"
    for row in made.rows:
        if rng.random() < 0.5:
            row[place : place + 1] = [rng.choice((None, "", "a", 1, [1], float("nan")))]


def _names(made: Table, rng: Rng) -> None:
    for _ in range(rng.choice((1, 1, 3))):
        made.names[rng.randrange(len(made.names))] = rng.choice((*NAMES, *made.names))


def _fewer(made: Table, rng: Rng) -> None:
    place = rng.randrange(len(made.names))
    if len(made.names) > 1 and min(map(len, made.rows)) > 1:
        del made.names[place]
        for row in made.rows:
            del row[place : place + 1]


def _wide(made: Table, rng: Rng) -> None:
    count = rng.choice((100, 1000, 3000)) if rng.random() < 0.95 else rng.choice((5_000, 12_000))
    same = rng.random() < 0.4
    made.names += ["a" if same else f"c{place}" for place in range(count)]
    del made.rows[max(40_000 // count, 2) :]
    for row in made.rows:
        row += [rng.choice(("1", "", "word", None))] * count


def _counts(made: Table, rng: Rng) -> None:
    for _ in range(rng.choice((1, 3, 20))):
        row = rng.choice(made.rows)
        if rng.random() < 0.5 and len(row) > 2:
            row.pop()
        else:
            row += ["more"] * rng.choice((1, 1, 50))


def _kinds(made: Table, rng: Rng) -> None:
    """Each row with a label of its own, or a list of them."""
    count = rng.choice((200, 1100)) if rng.random() < 0.97 else 8_000
    size = sum(len(str(cell)) for row in made.rows for cell in row) // len(made.rows)
    count = min(count, 200_000 // len(made.names), 4_000_000 // (size + 1) + 1)
    lists = rng.random() < 0.5
    made.rows = [
        [*made.rows[place % len(made.rows)][:-1], [f"n{place}", f"m{place // 2}"] if lists else f"n{place}"]
        for place in range(count)
    ]


def _same(made: Table, rng: Rng) -> None:
    copy = list(rng.choice(made.rows))
    made.rows = [list(copy) if rng.random() < 0.9 else row for row in made.rows]


CELLS: dict[str, Callable[[Table, Rng], None]] = {
    "odd cells": _cells,
    "odd column": _column,
    "huge cell": _huge,
    "odd splits": _parts,
    "missing ids": _no_ids,
    "odd names": _names,
    "missing column": _fewer,
    "many columns": _wide,
    "cell counts": _counts,
    "many labels": _kinds,
    "same rows": _same,
}


def _swap(old: bytes, *new: bytes) -> Callable[[bytes, Rng], bytes]:
    """Replace some of one piece by others."""

    def change(data: bytes, rng: Rng) -> bytes:
        parts = data.split(old)
        share = rng.choice((0.02, 0.3, 1.0))
        joined = [parts[0]]
        for part in parts[1:]:
            joined += [rng.choice(new) if rng.random() < share else old, part]
        return b"".join(joined)

    return change


def _put(*pieces: bytes) -> Callable[[bytes, Rng], bytes]:
    def change(data: bytes, rng: Rng) -> bytes:
        for _ in range(rng.choice((1, 1, 2, 10))):
            at = rng.randrange(len(data) + 1)
            data = data[:at] + rng.choice(pieces) * rng.choice((1, 1, 1, 3, 1000)) + data[at:]
        return data

    return change


def _cut(data: bytes, rng: Rng) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _empty(_data: bytes, rng: Rng) -> bytes:
    marks = (b"\xef\xbb\xbf", b"\xff\xfe", b"PAR1", b"\x1f\x8b")
    return rng.choice((b"", b"", b"\n", b" ", b"\0", b"[]", b"{}", b"text,label\n", *marks))


def _flip(data: bytes, rng: Rng) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 4, 50)) if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _deep(data: bytes, rng: Rng) -> bytes:
    """A nest in the place of a JSON value."""
    deep = rng.choice((3, 60, 300, 900, 20_000, 200_000))
    nest = rng.choice((b"[" * deep + b"]" * deep, b'{"a":' * deep + b"1" + b"}" * deep, b"[" * deep))
    places = [place for place in range(len(data)) if data[place : place + 2] == b": "][:500]
    at = rng.choice(places) + 2 if places else rng.randrange(len(data) + 1)
    ends = [end for end in (data.find(b",", at), data.find(b"}", at)) if end >= 0]
    return data[:at] + nest + data[min(ends, default=at) :]


def _keys(data: bytes, rng: Rng) -> bytes:
    """Keys that stand twice, or a thousand of them."""
    many = b"".join(b'"k%d": %d, ' % (rng.randrange(10**6), place) for place in range(rng.choice((5, 1000))))
    new = rng.choice((b'"text": 1, ', b'"label": null, ', b'"text": "other", "text": [], ', b'"": 0, ', many))
    return _swap(b"{", b"{" + new)(data, rng)


def _runaway(data: bytes, rng: Rng) -> bytes:
    """Lines that each open a quote, and that keep an open one open."""
    line = rng.choice((b'a","""\n', b'"a\n', b'"a""\n', b'a,"b\n', b'"""\n', b'x\t"y\n', b'"\\"\n'))
    return data + line * rng.choice((50, 3000, 10_000))


def _other(data: bytes, rng: Rng) -> bytes:
    """The same text in another encoding, or with a mark that lies."""
    encoding = rng.choice(("utf-16", "utf-16-be", "utf-32", "latin-1", "shift_jis", "utf-7"))
    mark = rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\0\0\xfe\xff"))
    return rng.choice((data.decode("utf-8", "replace").encode(encoding, "replace"), mark + data))


BYTES: dict[str, Callable[[bytes, Rng], bytes]] = {
    "bit flips": _flip,
    "bytes": damage,
    "truncated": _cut,
    "empty": _empty,
    "other encoding": _other,
    "NULs": _put(b"\0"),
    "quotes": _put(b'"', b'""', b"\\", b'"a"b', b"'"),
    "runaway quotes": _runaway,
    "line ends": _swap(b"\n", b"\r\n", b"\r", b"\n\r", b"\n\n", b"\x0b", b"\x0c", b"\xe2\x80\xa8", b""),
    "delimiters": _put(b",", b"\t", b";", b"|", b",,"),
    "broken letters": _put(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80", b"\xe9", b"\x80", b"\\ud800", b"\\u12"),
    "brackets": _put(b"{", b"}", b"[", b"]", b":", b",", b"//", b"null", b"\x1e"),
    "deep JSON": _deep,
    "keys": _keys,
    "numbers": _swap(b"1", b"1e999", b"NaN", b"-Infinity", b"1" * 5000, b"01", b"1e-999", b"0x1", b"1.", b"-"),
}
JSON_ONLY = ("brackets", "deep JSON", "keys")


def parquet(data: bytes, rng: Rng) -> bytes:
    """A Parquet file with a damaged header, footer or page."""
    if len(data) < 16:  # another mutation was here before
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
    low, high = (start, len(data) - 8) if kind < 5 else (4, min(60, start))  # the footer, or the first page's header
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = min(rng.randrange(low, max(high, low + 1)), len(changed) - 1)
        changed[place] = rng.choice((changed[place] ^ 1 << rng.randrange(8), 0, 0x7F, 0xFF, rng.randrange(256)))
    return bytes(changed)


def gzipped(data: bytes, rng: Rng) -> bytes:
    """What can go wrong with gzip; its bombs are bounded."""
    bomb = rng.choice((b"\0", b"a", b"[", b'"', b" ", b"\n", b"a,", b'{"a":', b"a,b\n", b'{"text":"a"}\n', b"PAR1"))
    bombs = (0, 50_000, 150_000) if len(bomb) > 1 or bomb == b"\n" else (1_000_000, 24_000_000, 45_000_000)
    whole = gzip.compress(data, 6, mtime=0)
    kind = rng.randrange(7)
    if kind == 0:
        return whole[: rng.randrange(2, len(whole) + 1)]
    if kind == 1:
        return whole[:10] + _flip(whole[10:], rng)
    if kind == 2:
        return whole + rng.choice((b"\0" * 10, b"garbage", whole, whole[: len(whole) // 2], b"\x1f\x8b"))
    if kind == 3:
        return gzip.compress(whole, 6, mtime=0)
    if kind == 4:
        return whole[:-8] + rng.randbytes(8)
    if kind == 5:
        return damage(whole, rng)
    keep = rng.choice((0, len(data)))
    return gzip.compress(data[:keep] + bomb * (rng.choice(bombs) // len(bomb)), 6, mtime=0)


def folder(file: File, rng: Rng) -> None:
    """Files of a folder that are gone, damaged, somewhere else, or no files at all."""
    inside = file.folder or {}
    file.kinds.append(kind := rng.choice(("file bytes", "file names", "pipe", "empty folder", "deeper", "loose file")))
    paths = sorted(path for path in inside if "/" in path.rstrip("/"))
    for path in rng.sample(paths, min(len(paths), rng.choice((1, 3, 20)))):
        place, name = path.rsplit("/", 1)
        data = inside[path] or b""
        if kind == "file bytes":
            change = rng.choice((_flip, _cut, _empty, _other, BYTES["NULs"], BYTES["broken letters"]))
            inside[path] = change(data, rng)
        elif kind == "file names":
            new = rng.choice((".hidden", "a\nb", "\udcff", "9" * 60, " ", "٣", "x" * 200, "10", "02"))
            label = rng.choice((place, new, f"{place}{new}", "train", ".git"))
            inside[f"{label}/{rng.choice((name, new))}"] = inside.pop(path)
            file.rows = None
        elif kind == "pipe":
            inside[path] = None
        elif kind == "empty folder":
            del inside[path]
            inside[f"{place}/"] = b""
            file.rows = None
        else:
            inside[name if kind == "loose file" else f"{place}/deeper/{name}"] = inside.pop(path)
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
