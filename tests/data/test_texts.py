"""read_texts: everything that training reads, one text after the other, and a line before the next one comes."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clearhead.data import open_source
from clearhead.data.sources.texts import is_text_source, read_texts
from clearhead.errors import InputError

TEXTS = ["a cat", "Größe, ja", "paris is big"]
ROWS = [{"n": number, "text": text} for number, text in enumerate(TEXTS)]
TABLE = 'n,text\n0,a cat\n1,"Größe, ja"\n2,paris is big\n'


def write_parquet(path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(ROWS), path)


def write_folder(path: Path) -> None:
    for name, text in zip("abc", TEXTS, strict=True):
        (path / name).mkdir(parents=True)
        (path / name / "1.txt").write_text(text)


FILES: dict[str, Callable[[Path], Any]] = {
    "plain.txt": lambda path: path.write_text("\n".join(TEXTS)),
    "plain.txt.gz": lambda path: path.write_bytes(gzip.compress("\n".join(TEXTS).encode())),
    "latin.txt": lambda path: path.write_bytes("\n".join(TEXTS).encode("latin-1")),
    "wide.txt": lambda path: path.write_text("\n".join(TEXTS), encoding="utf-16"),
    "windows.txt": lambda path: path.write_text("\r\n".join(TEXTS), newline=""),
    "noname": lambda path: path.write_text("\n".join(TEXTS)),
    "odd.md": lambda path: path.write_text("\n".join(TEXTS)),
    "table.csv": lambda path: path.write_text(TABLE),
    "table.csv.gz": lambda path: path.write_bytes(gzip.compress(TABLE.encode())),
    "latin.csv": lambda path: path.write_bytes(TABLE.encode("latin-1")),
    "semicolons.csv": lambda path: path.write_text("n;text\n0;a cat\n1;Größe, ja\n2;paris is big\n"),
    "table.txt": lambda path: path.write_text(TABLE),
    "table.tsv": lambda path: path.write_text("n\ttext\n" + "".join(f"{row['n']}\t{row['text']}\n" for row in ROWS)),
    "list.json": lambda path: path.write_text(json.dumps(ROWS)),
    "listed": lambda path: path.write_text(json.dumps(ROWS)),
    "rows.jsonl": lambda path: path.write_text("\n".join(map(json.dumps, ROWS))),
    "rows.ndjson.gz": lambda path: path.write_bytes(gzip.compress("\n".join(map(json.dumps, ROWS)).encode())),
    "strings.jsonl": lambda path: path.write_text("\n".join(map(json.dumps, TEXTS))),
    "rows.parquet": write_parquet,
    "parquet-without-a-name": write_parquet,
    "folder": write_folder,
}


@pytest.mark.parametrize("name", FILES)
def test_every_file_that_training_reads(name: str, tmp_path: Path) -> None:
    FILES[name](tmp_path / name)
    assert list(read_texts(tmp_path / name)) == TEXTS
    assert list(read_texts(str(tmp_path / name))) == TEXTS


@pytest.mark.parametrize("name", [name for name in FILES if name != "folder"])
def test_open_files(name: str, tmp_path: Path) -> None:
    if name in ("latin.txt", "wide.txt", "listed", "parquet-without-a-name"):
        pytest.skip("an open file without a telling name is UTF-8 text, as a pipe is")
    FILES[name](tmp_path / name)
    with (tmp_path / name).open("rb") as file:
        assert list(read_texts(file)) == TEXTS


def test_values_of_python() -> None:
    assert list(read_texts(TEXTS)) == TEXTS
    assert list(read_texts(tuple(TEXTS))) == TEXTS
    assert list(read_texts(text for text in TEXTS)) == TEXTS
    assert list(read_texts(ROWS)) == list(read_texts(row for row in ROWS)) == TEXTS
    assert list(read_texts({"n": [0, 1, 2], "text": TEXTS})) == TEXTS
    assert list(read_texts(open_source(ROWS))) == TEXTS
    assert list(read_texts(ROWS, "text")) == TEXTS
    assert list(read_texts(io.StringIO("\n".join(TEXTS)))) == TEXTS
    assert list(read_texts([])) == []


def test_frames_and_arrow() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS)
    assert list(read_texts(frame)) == list(read_texts(frame["text"])) == TEXTS
    pyarrow = pytest.importorskip("pyarrow")
    assert list(read_texts(pyarrow.Table.from_pylist(ROWS))) == TEXTS


def test_empty_lines_are_texts_and_empty_cells_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\n  \ntwo\n")
    assert list(read_texts(tmp_path / "a.txt")) == ["one", "", "  ", "two"]
    (tmp_path / "a.csv").write_text("text,n\none,1\n,2\ntwo,3\n")
    assert list(read_texts(tmp_path / "a.csv")) == ["one", "", "two"]


def test_the_column_that_holds_the_texts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("de,en,body\nja,yes,no\n")
    assert list(read_texts(tmp_path / "a.csv", "de")) == ["ja"]
    assert list(read_texts(tmp_path / "a.csv", expected=("en",))) == ["yes"]
    assert list(read_texts(tmp_path / "a.csv")) == ["no"]
    for name, rows in {"numbers.csv": "year,kind\n1999,2\n2000,3\n", "words.csv": "review\ngood\nbad\n"}.items():
        (tmp_path / name).write_text(rows)  # a header is one by its use, too
    assert list(read_texts(tmp_path / "numbers.csv", "kind")) == ["2", "3"]
    assert list(read_texts(tmp_path / "words.csv")) == ["good", "bad"]
    (tmp_path / "sentences.csv").write_text("It was good, they say.\nIt was bad, I say.\n")
    with pytest.raises(InputError, match=r"has the columns .*; name the text column with column"):
        list(read_texts(tmp_path / "sentences.csv"))


@pytest.mark.parametrize(
    ("name", "content", "choices", "problem"),
    [
        ("a.csv", "text,n\na,1\nb\n", {}, r"a\.csv, row 2 \(line 3\): 1 cell, expected 2: b"),
        ("a.csv", "de,en\na,b\n", {}, "a.csv has the columns de, en; name the text column with column"),
        ("a.csv", "de,en\na,b\n", {"column": "fr"}, "a.csv has no column 'fr'; it has de, en"),
        ("a.csv", "text,text\na,b\n", {}, None),
        ("a.csv", "text,text\na,b\n", {"column": "text"}, "a.csv has 2 columns called 'text'"),
        ("a.txt", "some words\n", {"column": "text"}, "a.txt has no columns: column is for tables"),
        ("a.jsonl", '{"text": 3}\n', {}, "a.jsonl, line 1: the text is int, expected a string"),
        ("a.jsonl", '{"text": "a"}\n{broken\n', {}, "a.jsonl, line 2: not valid JSON"),
        ("a.json", '[{"text": null}]', {}, "a.json, row 1: the text is missing, expected a string"),
        ("a.json", '[{"text": 3}]', {}, "a.json, row 1: the text is int, expected a string"),
        ("a.txt", "", {}, "a.txt contains no text"),
        ("a.csv", "", {}, "a.csv contains no text"),
        ("a.csv", "text,n\n", {}, "a.csv contains no text"),
        ("a.txt", "a\n", {"format": "xml"}, "format must be one of csv, tsv, jsonl, text, got 'xml'"),
        ("a.csv", 'text,n\n"a,1\n', {"format": "csv"}, r"a\.csv, line 2: a quoted cell is not closed"),
        ("gone.csv", None, {}, "gone.csv not found"),
    ],
)
def test_mistakes_are_one_sentence(
    name: str, content: str | None, choices: dict[str, Any], problem: str | None, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    if problem is None:
        assert list(read_texts(tmp_path / name, **choices)) == ["a"]
        return
    with pytest.raises(InputError, match=problem):
        list(read_texts(tmp_path / name, **choices))


def test_values_that_hold_no_texts() -> None:
    for values, problem in (
        (["a", 3], r"texts\[1\] is int, expected a text"),
        ([3, "a"], "expected a dict"),
        (3, "data cannot be read from 3"),
    ):
        with pytest.raises(InputError, match=problem):
            list(read_texts(values))
    with pytest.raises(InputError, match="column is for tables, but the input is a list of texts"):
        list(read_texts(["a"], "text"))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Größe ja nein Übung schön\n".encode() * 9 + b"\xff\xfe\x80\n")
    with pytest.raises(InputError, match=r"a\.txt is not UTF-8 text \(line 10\)"):
        list(read_texts(tmp_path / "a.txt"))
    with pytest.raises(InputError, match=r"the input is not UTF-8 text \(byte \d+\)"):
        list(read_texts(io.BytesIO(b"\xff\xfe\x80\n")))


def test_what_is_a_text_itself(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    assert is_text_source(str(tmp_path / "a.txt"))
    assert is_text_source(["a text"])
    assert is_text_source(tmp_path)
    assert not is_text_source("a text")
    assert not is_text_source("x" * 9999)


def test_a_handle_gives_a_line_before_the_next_one_comes() -> None:
    out, into = os.pipe()
    with os.fdopen(out, "rb") as handle, os.fdopen(into, "w") as writer:
        texts = read_texts(handle)
        for line in ("You won a prize, call now", "another"):
            writer.write(line + "\n")
            writer.flush()
            assert next(texts) == line


def test_a_large_file_is_never_in_memory(tmp_path: Path) -> None:
    """Forty megabytes of lines, a table and JSON pass through in less than twenty."""
    line = "a line of words " * 6
    with (tmp_path / "a.txt").open("w") as lines, (tmp_path / "a.csv").open("w") as table:
        table.write("text,n\n")
        for number in range(400_000):
            lines.write(f"{line}\n")
            table.write(f"{line},{number}\n")
    code = (
        "import resource, sys\nfrom pathlib import Path\nfrom clearhead.data.sources.texts import read_texts\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"counts = [sum(1 for _ in read_texts(Path({str(tmp_path)!r}) / name)) for name in ('a.txt', 'a.csv')]\n"
        "print(*counts, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    first, second, kilobytes = map(int, done.stdout.split())
    assert (first, second) == (400_000, 400_000), done.stderr
    assert kilobytes < 20_000
