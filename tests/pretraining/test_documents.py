"""Documents and sentences of files in all formats."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from clearhead.errors import InputError
from clearhead.pretraining.documents import Chunk, find_corpus_files, make_absolute, read_chunks
from clearhead.pretraining.sentences import MAX_SENTENCE, split_sentences


def read_documents(*files: Path, **choices: str) -> tuple[list[list[str]], list[str]]:
    """Texts by document, and what reading had to say."""
    notes: list[str] = []
    documents: list[list[str]] = []
    for chunk in read_chunks(files, notes=notes, **choices):  # type: ignore[arg-type]
        if chunk.starts_document:
            documents.append([])
        documents[-1].append(chunk.text)
    return documents, notes


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_blank_line_parts_documents(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", "\n\nOne. Two.\nThree.\n\n  \nFour.\n")
    assert read_documents(file) == ([["One. Two.", "Three."], ["Four."]], [])


def test_files_part_documents(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.txt", "One.\nTwo."), write(tmp_path / "b.txt", "Three.\nFour.")
    assert read_documents(first, second)[0] == [["One.", "Two."], ["Three.", "Four."]]


def test_long_lines_without_blank_ones_are_documents(tmp_path: Path) -> None:
    line = "A sentence of some length that says a thing. " * 10
    texts, notes = read_documents(write(tmp_path / "a.txt", f"{line}\n{line}\n"))
    assert len(texts) == 2
    assert notes == ["a.txt: no blank lines and long lines: each line is a document."]
    texts, notes = read_documents(write(tmp_path / "b.txt", "One.\nTwo.\nThree.\n"))
    assert texts == [["One.", "Two.", "Three."]]
    assert 'set documents="lines" if each line is a document' in notes[0]
    assert read_documents(tmp_path / "b.txt", documents="lines")[0] == [["One."], ["Two."], ["Three."]]
    assert read_documents(tmp_path / "a.txt", documents="file")[0] == [[line, line]]


def test_wrapped_lines_are_joined(tmp_path: Path) -> None:
    text = "\n".join(["It was a dark and stormy night that had", "no end, and nobody knew what to do about"] * 12)
    texts, notes = read_documents(write(tmp_path / "a.txt", f"{text}\n\n{text}\n"))
    assert len(texts) == 2
    assert texts[0] == [" ".join(text.split("\n"))]
    assert "wrapped" in notes[0]


def test_saying_what_a_document_is_still_joins_wrapped_lines(tmp_path: Path) -> None:
    line = "it was a long line of words that was broken at its eightieth letter and went"
    file = write(tmp_path / "a.txt", "\n".join([line] * 30) + ".\n\nA new one.\n")
    for setting, count in (("blank", 2), ("file", 1)):
        texts, notes = read_documents(file, documents=setting)
        assert len(texts) == count
        assert texts[0][0] == " ".join([line] * 30) + "."
        assert "wrapped" in notes[0]
    assert len(read_documents(file, documents="lines")[0]) == 31


def test_rows_of_tables_are_documents(tmp_path: Path) -> None:
    rows = [{"id": 1, "text": "One. Two."}, {"id": 2, "text": ""}, {"id": 3, "text": "Three."}]
    file = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert read_documents(file)[0] == [["One. Two."], ["Three."]]
    csv_file = write(tmp_path / "b.csv", "body,more\nFour.,Five.\n")
    assert read_documents(csv_file)[0] == [["Four."]]
    assert read_documents(csv_file, columns="more")[0] == [["Five."]]


def test_parquet_and_gzip(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": ["One.", "Two."]}), tmp_path / "a.parquet")
    assert read_documents(tmp_path / "a.parquet")[0] == [["One."], ["Two."]]
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"One.\n\nTwo.\n"))
    assert read_documents(tmp_path / "a.txt.gz")[0] == [["One."], ["Two."]]


def test_folders_and_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in" / ".hidden").mkdir(parents=True)
    for name in ("b.txt", "a.txt", "c.png", ".hidden/d.txt", ".e.txt"):
        write(tmp_path / "in" / name, "x")
    names = [path.name for path in find_corpus_files([tmp_path / "in"])]
    assert names == ["a.txt", "b.txt"]
    assert [path.name for path in find_corpus_files([str(tmp_path / "in" / "*.txt")])] == ["a.txt", "b.txt"]
    assert len(find_corpus_files([tmp_path / "in", tmp_path / "in" / "a.txt"])) == 2  # each once
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd[1]").mkdir()
    write(tmp_path / "odd[1]" / "a.txt", "x")
    for folder, names in ((tmp_path / "in", ["a.txt", "b.txt"]), (tmp_path / "odd[1]", ["a.txt"])):
        monkeypatch.chdir(folder)  # patterns and names stand for the same files from anywhere
        absolute_names = [make_absolute(["*.txt"]), make_absolute(["a.txt"])]
        monkeypatch.chdir(tmp_path)
        assert [path.name for path in find_corpus_files(absolute_names[0])] == names
        assert [path.name for path in find_corpus_files(absolute_names[1])] == ["a.txt"]
    (tmp_path / "in" / "model").mkdir()
    for name in ("run.json", "README.md"):  # what was made from texts is no text
        write(tmp_path / "in" / "model" / name, "{}")
    assert [path.name for path in find_corpus_files([tmp_path / "in"])] == ["a.txt", "b.txt"]
    assert [path.name for path in find_corpus_files([str(tmp_path / "in" / "**")])] == ["a.txt", "b.txt", "c.png"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.txt", "nowhere.txt does not exist"),
        ("*.nothing", "No file matches"),
        ("empty", "contains no text files"),
    ],
)
def test_what_is_not_there(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=message):
        find_corpus_files([tmp_path / name])


def test_empty_files(tmp_path: Path) -> None:
    empty, blank = write(tmp_path / "a.txt", ""), write(tmp_path / "b.txt", "\n \n")
    full = write(tmp_path / "c.txt", "x")
    texts, notes = read_documents(empty, blank, full)
    assert texts == [["x"]]
    assert notes[:2] == ["a.txt contains no text.", "b.txt contains no text."]
    with pytest.raises(InputError, match="files contain no text"):
        read_documents(empty, blank)


def test_other_encodings(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Ein schöner Käse für Jürgen.\n".encode("latin-1"))
    (tmp_path / "b.txt").write_bytes("Größe.\n".encode("utf-16"))
    texts, notes = read_documents(tmp_path / "a.txt", tmp_path / "b.txt")
    assert texts == [["Ein schöner Käse für Jürgen."], ["Größe."]]
    assert "a.txt was read as Latin-1." in notes
    (tmp_path / "c.bin").write_bytes(bytes(range(256)) * 4)
    with pytest.raises(InputError, match="NUL bytes"):
        read_documents(tmp_path / "c.bin")


def test_one_line_of_many_megabytes_takes_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    with file.open("w") as out:
        for _ in range(4000):
            out.write("A sentence that is some words long and ends. " * 100)
    assert file.stat().st_size > 17_000_000
    tracemalloc.start()
    count = sum(1 for _ in split_sentences(read_chunks([file])))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 399_000 < count < 402_000  # a sentence at the end of a piece is cut in two
    assert peak < 4_000_000


def test_sentences_keep_their_documents() -> None:
    chunks = [
        Chunk(text="Mr. Smith came. He went!  ", starts_document=True),
        Chunk(text=" And so on.", starts_document=False),
    ]
    sentences = list(split_sentences([*chunks, Chunk(text="New.", starts_document=True)]))
    assert [sentence.text for sentence in sentences] == ["Mr. Smith came.", "He went!", "And so on.", "New."]
    assert [sentence.starts_document for sentence in sentences] == [True, False, False, True]


def test_a_document_of_blanks_does_not_lose_its_beginning() -> None:
    sentences = list(
        split_sentences([Chunk(text="   ", starts_document=True), Chunk(text="One.", starts_document=False)])
    )
    assert sentences == [Chunk(text="One.", starts_document=True)]


def test_text_without_an_end_is_cut_at_blanks() -> None:
    sentences = list(split_sentences([Chunk(text="word " * 2000, starts_document=True)]))
    assert max(len(sentence.text) for sentence in sentences) <= MAX_SENTENCE
    assert " ".join(sentence.text for sentence in sentences) == ("word " * 2000).strip()
    assert (
        sum(len(sentence.text) for sentence in split_sentences([Chunk(text="x" * 5000, starts_document=True)])) == 5000
    )
