"""Pipes and .txt files: a text a line, unless the first line names columns, is JSON, or somebody says what it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from clearhead.data import Row, Source, open_source
from clearhead.data.sources.texts import read_texts
from clearhead.errors import InputError


@contextmanager
def open_pipe(text: str) -> Iterator[IO[bytes]]:
    """A text that comes through a pipe."""
    out, into = os.pipe()
    with os.fdopen(into, "wb") as file:
        file.write(text.encode())
    with os.fdopen(out, "rb") as handle:
        yield handle


def collect_values(source: Source) -> list[dict[str, str]]:
    return [row.values for row in source.rows() if isinstance(row, Row)]


def read_pipe(text: str, **choices: object) -> list[dict[str, str]]:
    with open_pipe(text) as handle:
        return collect_values(open_source(handle, **choices))  # type: ignore[arg-type]


PLAIN = {
    "a comma": "You won a prize, call now\n",
    "a comma in every line": "You won, call now\nYes, I will\nNo, thanks\n",
    "as many commas": "Hi, you\nYes, me\n",
    "tabs": "one\ttwo\nthree\tfour\n",
    "a known word": "Message, call me\nText, them\n",
    "known words": "First, second\nThird, fourth\n",
    "a known word without a blank": "Question,what is this about?\nAnswer,nothing\n",
    "a header alone": "text,label\n",
    "other cells below": "title,body\nThis is a sentence.\n",
    "brackets": "[Verse 1] hello\n{what} is this\n",
    "a brace": "{braces} are letters\n",
    "bars and semicolons": "a|b\nc;d\n",
    "no words": ",,\n;;\n",
    "one column that is not called text": "title\nsomething\n",
    "quotes": '"He said, go"\n"Yes, do"\n',
}


@pytest.mark.parametrize("name", list(PLAIN))
def test_plain_text_is_a_text_a_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = PLAIN[name].splitlines()
    assert read_pipe(PLAIN[name]) == [{"text": line} for line in expected]
    file = tmp_path / "a.txt"
    file.write_text(PLAIN[name])
    if name != "tabs":  # a .txt file whose every line has its cells is a table, as corpora come
        assert collect_values(open_source(file)) == [{"text": line} for line in expected]
    assert list(read_texts(str(file), None)) == expected
    with file.open() as handle:
        monkeypatch.setattr("sys.stdin", handle)
        assert list(read_texts(sys.stdin, None)) == expected


TABLES = {
    "comma": ("text,label\ngood film,1\n", ()),
    "tab": ("id\ttext\n3\tgood film\n", ()),
    "semicolon": ("label;text\n1;good film\n", ()),
    "bar": ("Text|Label\ngood film|1\n", ()),
    "an index of pandas": (",text,label\n0,good film,1\n", ()),
    "quotes": ('"text","label"\n"good film","1"\n', ()),
    "a cell over two lines": ('label,text\n1,"good film"\n', ()),
    "names of two words": ("Clothing ID,Review Text\n7,good film\n", ()),
    "pairs": ("sentence1,sentence2\ngood film,bad film\n", ()),
    "what a model expects": ("utt,cls\ngood film,1\n", ("utt", "cls")),
    "one column": ("text\ngood film\n", ()),
    "one column in quotes": ('text\n"good film"\n', ()),
    "one column that is expected": ("utt\ngood film\n", ("utt",)),
}


@pytest.mark.parametrize("name", list(TABLES))
def test_a_first_line_of_names_makes_a_table(name: str, tmp_path: Path) -> None:
    text, expected = TABLES[name]
    rows_read = read_pipe(text, expected=expected)
    assert len(rows_read) == 1
    assert "good film" in rows_read[0].values()
    file = tmp_path / "a.txt"
    file.write_text(text)
    assert collect_values(open_source(file, expected=expected)) == rows_read
    column = next(key for key, value in rows_read[0].items() if value == "good film")
    assert list(read_texts(str(file), column, expected=expected)) == ["good film"]


@pytest.mark.parametrize("text", ['{"text": "good film"}\n', ' {"text": "good film"}', '[{"text": "good film"}]\n'])
def test_json_is_recognized(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_pipe(text) == [{"text": "good film"}]
    if "[" not in text:
        (tmp_path / "in").write_text(text)
        with (tmp_path / "in").open() as handle:
            monkeypatch.setattr("sys.stdin", handle)
            assert list(read_texts(sys.stdin, None)) == ["good film"]


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("text", "text,label\na,b\n", [{"text": "text,label"}, {"text": "a,b"}]),
        ("text", '{"text": "a"}\n', [{"text": '{"text": "a"}'}]),
        ("csv", "good film,pos\nbad film,neg\n", [{"column1": "good film", "column2": "pos"}]),
        ("tsv", "good, film\tpos\nbad, film\tneg\n", [{"column1": "good, film", "column2": "pos"}]),
        ("jsonl", '{"text": "a"}\n', [{"text": "a"}]),
    ],
)
def test_a_format_that_is_said(form: str, text: str, expected: Sequence[dict[str, str]]) -> None:
    assert read_pipe(text, format=form)[: len(expected)] == expected


def test_what_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="format must be one of csv, tsv, jsonl, text"):
        read_pipe("a\n", format="xml")
    with pytest.raises(InputError, match="format must be one of csv, tsv, jsonl, text"):
        read_texts(str(tmp_path), None, format="xml")
    (tmp_path / "a.txt").write_text("You won a prize, call now\n")
    with pytest.raises(InputError, match=r"a\.txt has no columns: column is for tables"):
        list(read_texts(str(tmp_path / "a.txt"), "text"))


def test_a_table_of_other_names_is_warned_of() -> None:
    with open_pipe("utt,cls\ngood film,1\nbad film,0\n") as handle:
        source = open_source(handle)
        assert source.kind == "lines"
        assert source.warnings == ('the input is read as one text per line; if it is a table, set input_format="csv".',)
    with open_pipe("Hi, you\nYes, me\nNo, them\n") as handle:
        assert open_source(handle).warnings == ()


def test_a_line_is_given_before_the_next_one_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    out, into = os.pipe()
    with os.fdopen(out) as handle, os.fdopen(into, "w") as writer:
        monkeypatch.setattr("sys.stdin", handle)
        texts = read_texts(sys.stdin, None)
        for line in ("You won a prize, call now", "another"):
            writer.write(line + "\n")
            writer.flush()
            assert next(texts) == line


@pytest.mark.parametrize("text", ["id,message\n1,hello, world\n2,bye\n", "id,message\n", "id; message\n1; hello\n"])
def test_a_header_of_expected_columns_needs_no_rows_that_fit(text: str) -> None:
    with open_pipe(text) as handle:
        assert open_source(handle, expected=("message", "intent", "id")).columns == ("id", "message")
    assert len(read_pipe(text)) == text.count("\n") or ";" in text  # without it, texts
