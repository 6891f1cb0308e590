"""Whatever is written as a table is read back the same; whatever is damaged gives rows or one clear sentence."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data import BadRow, Row, guess_columns, load_examples, open_source
from clearhead.errors import ClearheadError
from tests.variation import scaled

LETTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
CELLS = st.one_of(
    st.text(LETTERS, max_size=20),
    st.sampled_from(['"', '""', ",", "a,b", "two\nlines", "crlf\r\nhere", 'say "hi"', "\t", ";|", "日本", "#", "\\"]),
)
TABLES = st.integers(2, 4).flatmap(lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=8))
HEADER = ("text", "label", "id", "split")


def read_file(content: bytes, name: str, **options: object) -> list[dict[str, object]]:
    handle = io.BytesIO(content)
    handle.name = name
    source = open_source(handle, **options)  # type: ignore[arg-type]
    rows = list(source.rows())
    assert all(isinstance(row, Row) for row in rows), rows
    return [row.values for row in rows if isinstance(row, Row)]


@settings(max_examples=scaled(150))
@given(table=TABLES, encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]), packed=st.booleans())
@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_tables_in_quotes(delimiter: str, table: list[list[str]], encoding: str, packed: bool) -> None:
    table = [row for row in table if any(cell.strip(" \r\n") for cell in row)] or [["a", "b"]]
    names = HEADER[: len(table[0])]
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([names, *table])
    data = text.getvalue().encode(encoding)
    rows_read = read_file(
        gzip.compress(data) if packed else data, "a.csv", delimiter=delimiter, header=True, quotes=True
    )
    assert rows_read == [dict(zip(names, row, strict=True)) for row in table]


CHOICE = [
    *'",;|#',
    '""',
    "a,b",
    "two\nlines",
    'say "hi"',
    "\t",
    "日本",
    "\\",
    "plain text",
    "some more words here",
    "12",
    "",
]


def test_tables_as_python_writes_them_need_nothing_said() -> None:
    chance = random.Random(3)
    for _ in range(1000):
        names = HEADER[: chance.randint(2, 4)]
        table = [[chance.choice(CHOICE) for _ in names] for _ in range(chance.randint(1, 12))]
        table = [row for row in table if "".join(row).strip(" \n")]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([names, *table])
        assert read_file(text.getvalue().encode(), "a.csv") == [dict(zip(names, row, strict=True)) for row in table]


PLAIN = st.text(st.characters(exclude_characters="\0\t\r\n", exclude_categories=["Cs"]), min_size=1, max_size=20)


@settings(max_examples=scaled(150))
@given(table=st.lists(st.tuples(PLAIN, PLAIN), min_size=1, max_size=8))
def test_tab_separated_without_quotes(table: list[tuple[str, str]]) -> None:
    table = [row for row in table if any(cell.strip(" ") for cell in row)] or [("a", "b")]
    content = "".join("\t".join(row) + "\n" for row in [("text", "label"), *table])
    assert read_file(content.encode(), "a.tsv", quotes=False, header=True) == [
        {"text": text, "label": label} for text, label in table
    ]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(LETTERS, max_size=10),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
OBJECTS = st.lists(st.dictionaries(st.sampled_from(HEADER), VALUES, min_size=1), min_size=1, max_size=8)


@settings(max_examples=scaled(80))
@given(rows=OBJECTS, plain=st.booleans())
@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json"])
def test_json(name: str, rows: list[dict[str, object]], plain: bool) -> None:
    texts = [json.dumps(row, ensure_ascii=plain) for row in rows]
    content = json.dumps(rows, ensure_ascii=plain) if name == "a.json" else "\n".join(texts)
    assert read_file(content.encode(), name) == rows


SEEDS = {
    "a.csv": b'text,label\n"good, ""film""",1\nbad film,0\nna\xc3\xafve,1\n' * 3,
    "a.tsv": b'text\tlabel\n"quoted" word\t1\nbad film\t0\n' * 3,
    "a.jsonl": b'{"text": "good", "label": [1, 2]}\n{"text": "b\\u00e9", "label": null}\n' * 3,
    "a.json": b'[{"text": "good", "label": 1}, {"text": "bad", "label": 0}]',
    "a.csv.gz": gzip.compress(b"text,label\ngood film,1\nbad film,0\n" * 20),
    "a.txt": "Hello\nwörld\n".encode("utf-16"),
}
PIECES = (
    b'"',
    b"\0",
    b"\xff",
    b"\xfe\xff",
    b"\n",
    b"\r",
    b",",
    b"\t",
    b"{",
    b"[",
    b"]",
    b'"a"b',
    b"\\",
    b"\xc3",
    b"\xed\xa0\x80",
)


def mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        index = chance.randrange(len(changed) + 1)
        kind = chance.randrange(4)
        if kind == 0 and index < len(changed):
            changed[index] = chance.randrange(256)
        elif kind == 1:
            changed[index:index] = chance.choice(PIECES) * chance.choice((1, 1, 2, 50))
        elif kind == 2:
            del changed[index : index + chance.randint(1, 10)]
        else:
            changed[index:index] = changed[: chance.randrange(len(changed) + 1)]
    return bytes(changed)


@pytest.mark.parametrize("name", SEEDS)
def test_damaged_files_give_rows_or_one_sentence(name: str) -> None:
    chance = random.Random(7)
    for _ in range(300):
        data = mutate_bytes(SEEDS[name], chance)
        handle = io.BytesIO(data)
        handle.name = name
        with suppress(ClearheadError):
            source = open_source(handle)
            rows = list(source.rows())
            assert [row.number for row in rows] == list(range(1, len(rows) + 1))
            assert all(len(row.excerpt) <= 60 for row in rows if isinstance(row, BadRow))
            load_examples(source, guess_columns(source, labeled=False), skip_bad_rows=True)


def test_lines_full_of_quotes_take_linear_time() -> None:
    for line in ('"a\n', 'a,"b\n', '""",x\n', '"\\"\n', '"a","b""\n'):
        handle = io.BytesIO(b"text,label\n" + line.encode() * 20_000)
        handle.name = "a.csv"
        started = time.process_time()
        assert len(list(open_source(handle).rows())) > 0
        assert time.process_time() - started < 10  # a tenth of a second; hours if every quote reads all lines again
