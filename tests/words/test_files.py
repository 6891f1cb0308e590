"""Word vector files: round trips in every format, and errors in damaged files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.errors import CheckpointError, ClearheadError, InputError
from clearhead.jobs.kinds import has_vectors
from clearhead.words import WordVectors, load_vectors, save_vectors
from tests.words.planted import royal


@pytest.mark.parametrize("name", ["v.txt", "v.vec", "v.bin", "folder"])
def test_every_form_gives_the_same_vectors_back(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = ("the", "ünï", "日本", "it's", "10", "a" * 100)
    before = WordVectors(words=words, matrix=rng.normal(size=(6, 5)).astype(np.float32), counts=np.arange(9, 3, -1))
    save_vectors(tmp_path / name, before)
    after = load_vectors(tmp_path / name)
    assert (after.words, after.notes) == (words, ())
    np.testing.assert_array_equal(after.matrix, before.matrix)
    assert (after.counts is not None) == (name == "folder")
    assert has_vectors(tmp_path / name)
    first = load_vectors(tmp_path / name, limit=2)
    assert first.words == words[:2]
    assert first.notes == ()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"text,label\ngood film,1\n",
        b"The river bank\nis near\n",
        b"{}",
        b"3 2\n",
        b"hello\nworld\n",
        b"5 3\nthis is prose with a number first\n",
        b"\x08\x00\x00\x00\x00\x00\x00\x00{}",
        bytes(range(256)),
        b"chapter 1\nIt was late.\nNobody came.\n",
    ],
)
def test_other_files_are_no_vectors(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "some.txt").write_bytes(content)
    assert not has_vectors(tmp_path / "some.txt")
    with pytest.raises(InputError):
        clearhead.load_words(tmp_path / "some.txt")


def test_vectors_with_a_bad_row_are_vectors(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("a 1 2\nb 1\nc 3 4\n")
    (tmp_path / "w.txt").write_text("3 2\na 1\nb 1 2\nc 3 4\n")
    assert has_vectors(tmp_path / "v.txt")
    assert has_vectors(tmp_path / "w.txt")


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
def test_gensim_reads_what_we_write_and_we_read_what_it_writes(name: str, tmp_path: Path) -> None:
    gensim = pytest.importorskip("gensim.models")
    save_vectors(tmp_path / name, royal())
    peer = gensim.KeyedVectors.load_word2vec_format(str(tmp_path / name), binary=name.endswith("bin"))
    assert peer.index_to_key == list(royal().words)
    np.testing.assert_array_equal(peer.vectors, royal().matrix)
    peer.save_word2vec_format(str(tmp_path / f"peer-{name}"), binary=name.endswith("bin"))
    again = load_vectors(tmp_path / f"peer-{name}")
    np.testing.assert_array_equal(again.matrix, royal().matrix)


def test_glove_has_no_first_line_and_words_with_blanks(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt.gz"
    path.write_bytes(gzip.compress(b", 1 2 3\n. . . 4 5 6\nat name@domain.com 7 8 9\n"))
    vectors = load_vectors(path)
    assert vectors.words == (",", ". . .", "at name@domain.com")
    assert vectors.matrix.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


def test_bad_rows_are_passed_over_counted_and_said(tmp_path: Path) -> None:
    rows = [f"w{n} 1 2".encode() for n in range(100)]
    rows[10:14] = [b"w1 3 4", b"bad\xff 1 2", b"nan nan 2", b"short 1"]
    rows += [b"wide 1 2 3", b"big 1e39 2"]
    path = tmp_path / "v.txt"
    path.write_bytes(b"500 2\n" + b"\n".join(rows) + b"\n\n")
    vectors = load_vectors(path)
    assert len(vectors) == 96  # GloVe's words with blanks do not end in a number: `wide` has one too many
    note = " ".join(vectors.notes)
    for part in (
        "1 with a duplicate word (first: row 11)",
        "1 with a word that is not UTF-8",
        "2 with NaN",
        "2 with a different number of values",
        "declares 500 words in its header, but has 102 rows",
    ):
        assert part in note


GOOD = [f"w{n} {n} 1 2 3" for n in range(50)]


@pytest.mark.parametrize("header", ["", "50 4\n"])
def test_a_mark_before_utf8_is_no_part_of_a_word(tmp_path: Path, header: str) -> None:
    (tmp_path / "v.txt").write_text(header + "\n".join(GOOD), encoding="utf-8-sig")
    vectors = load_vectors(tmp_path / "v.txt")
    assert (len(vectors), vectors.width, vectors.words[0], vectors.notes) == (50, 4, "w0", ())


@pytest.mark.parametrize("lines", [["50 3", *GOOD], ["w 1 2 3", *GOOD]], ids=["promised", "first"])
def test_rows_that_are_wider_than_said_are_not_words_with_numbers(tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "v.txt").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"of width 3: .* 50 with a different number of values"):
        load_vectors(tmp_path / "v.txt")


def test_a_binary_file_that_goes_on_says_so(tmp_path: Path) -> None:
    (tmp_path / "v.bin").write_bytes(binary(20, 4, 50))
    vectors = load_vectors(tmp_path / "v.bin")
    assert len(vectors) == 20
    assert "declares 20 words in its header; data after them was ignored" in vectors.notes[0]
    assert load_vectors(tmp_path / "v.bin", limit=5).notes == ()


def binary(words: int, width: int, rows: int, tail: bytes = b"") -> bytes:
    body = b"".join(f"w{n} ".encode() + np.full(width, n + 0.1, "<f4").tobytes() for n in range(rows))
    return f"{words} {width}\n".encode() + body + tail


HOSTILE = {
    "empty": (b"", "is empty"),
    "blank": (b"\n \n", "is empty"),
    "header alone": (b"10 5\n", "contains no rows"),
    "no numbers": (b"hello world again\n", "is not a word vector file: its first line is 'hello world again'"),
    "one word": (b"hello\n", "is not a word vector file"),
    "zero words": (b"0 5\n", "declares 0 words of width 5"),
    "zero width": (b"5 0\n", "declares 5 words of width 0"),
    "huge width": (b"5 99999999\na 1\n", "width 99,999,999"),
    "huge binary": (binary(10**12, 300, 2), "but has 2,4"),
    "cut binary": (binary(8, 3, 8)[:-20], "but has"),
    "all bad": (b"9 2\n" + b"w nan 1\n" * 9, "9 with NaN"),
    "other widths": (b"4 2\na 1\nb 1\nc 1\nd 1 2\n", "3 with a different number of values"),
    "long line": (b"1 2\n" + b"x" * (1 << 20), "longer than"),
    "long word": (b"2 2\n" + b"x" * 9999 + b" 1 2\nb 1 2\n", "1 with a word"),
    "random": (bytes(range(256)) * 64, "is not a word vector file"),
    "pickle": (b"\x80\x04\x95" + b"\0" * 100, "is not a word vector file"),
    "script": (b"<script>alert(1)</script>\x1b[31m\n", "is not a word vector file"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_refused_in_one_sentence(kind: str, tmp_path: Path) -> None:
    content, expected = HOSTILE[kind]
    for name, data in (("v", content), ("v.gz", gzip.compress(content))):
        if kind == "huge binary" and name == "v.gz":
            expected = "but ends after 2"
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError) as caught:
            load_vectors(tmp_path / name)
        message = str(caught.value)
        assert expected in message or (kind == "cut binary" and "but ends after" in message), message
        assert message.isprintable()


def test_a_broken_gzip_is_said(tmp_path: Path) -> None:
    content = gzip.compress(b"".join(f"w{n} {n} 2\n".encode() for n in range(100_000)))
    (tmp_path / "v.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="cannot be read"):
        load_vectors(tmp_path / "v.gz")


def test_a_file_of_the_same_word_is_not_read_for_ever(tmp_path: Path) -> None:
    (tmp_path / "v.gz").write_bytes(gzip.compress(b"999999999 1\n" + b"a 1\n" * 120_000))
    with pytest.raises(InputError, match="most of 100,000 rows are invalid"):
        load_vectors(tmp_path / "v.gz")


def test_binary_rows_may_end_with_a_newline(tmp_path: Path) -> None:
    rows = b"".join(f"w{n} ".encode() + np.full(2, n, "<f4").tobytes() + b"\n" for n in range(5))
    (tmp_path / "v").write_bytes(b"5 2\n" + rows)
    assert load_vectors(tmp_path / "v").words == tuple(f"w{n}" for n in range(5))


def test_a_word_with_a_blank_is_not_written_as_word2vec(tmp_path: Path) -> None:
    vectors = WordVectors(words=("new york", "b"), matrix=np.ones((2, 2), np.float32))
    for name in ("v.txt", "v.bin"):
        with pytest.raises(InputError, match="separates words by spaces"):
            save_vectors(tmp_path / name, vectors)
        assert not (tmp_path / name).exists()
    save_vectors(tmp_path / "folder", vectors)
    assert load_vectors(tmp_path / "folder").words == ("new york", "b")


def change_card(folder: Path, **changes: object) -> None:
    card = json.loads((folder / "words.json").read_text())
    (folder / "words.json").write_text(json.dumps(card | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"words": []},
        {"width": 5},
        {"words": ["a"] * 7},
        {"counts": [1]},
        {"sha256": "0"},
        {"words": ["\ud800", *"abcdef"]},
        {"words": "abc"},
        {"width": -1},
        {"counts": [-1] * 7},
    ],
)
def test_a_folder_that_was_tampered_with_is_refused(changes: dict[str, object], tmp_path: Path) -> None:
    save_vectors(tmp_path / "v", royal())
    change_card(tmp_path / "v", **changes)
    with pytest.raises(CheckpointError):
        load_vectors(tmp_path / "v")


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "mine").write_text("kept")
    with pytest.raises(ClearheadError, match="not empty"):
        save_vectors(tmp_path / "v", royal())
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["mine"]
