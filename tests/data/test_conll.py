"""Files with a token a line: comments, documents, headers, any number of columns, and what is broken in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from clearhead.data import open_source
from clearhead.data.sources.source import BadRow, Row
from clearhead.errors import InputError

PLAIN = "Ada B-PER\nmet O\n\nTim B-PER\nin O\nBern B-LOC\n"


def read_rows(path: Path) -> list[Row | BadRow]:
    return list(open_source(path).rows())


def write_conll(tmp_path: Path, text: str, name: str = "rows.conll") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def read_tokens(path: Path) -> list[list[str]]:
    return [row.values["tokens"] for row in read_rows(path) if isinstance(row, Row)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["a.conll", "a.iob2", "a.bio", "a.txt", "a.ner", "a"])
def test_sentences_are_rows(name: str, end: str, tmp_path: Path) -> None:
    text = (PLAIN + "\n").replace("\n", end) * 2
    assert read_tokens(write_conll(tmp_path, text, name)) == [["Ada", "met"], ["Tim", "in", "Bern"]] * 2


COMMENTED = {
    "one word": "# one\nAda B-PER\nmet O\n\n# two\nTim B-PER\n",
    "as many cells as a token": "# id x1 domain=en\nAda _ _ B-PER\nmet _ _ O\n\n# id x2 domain=en\nTim _ _ B-PER\n",
    "a tab in it": "# id x1\tdomain=en\nAda _ _ B-PER\nmet _ _ O\n\n# id x2\tdomain=en\nTim _ _ B-PER\n",
    "several": "# newdoc\n# sent_id = 1\n# text = Ada met\nAda\tB-PER\nmet\tO\n\n# sent_id = 2\nTim\tB-PER\n",
    "none but the first": "# made by hand, in a hurry\nAda B-PER\nmet O\n\nTim B-PER\n",
}


@pytest.mark.parametrize("what", COMMENTED)
def test_comments_are_no_tokens(what: str, tmp_path: Path) -> None:
    path = write_conll(tmp_path, COMMENTED[what])
    assert read_tokens(path) == [["Ada", "met"], ["Tim"]]
    assert open_source(path).columns[-1] == "tags"


def test_a_number_sign_may_be_a_token(tmp_path: Path) -> None:
    path = write_conll(tmp_path, "# O\n1 O\n\nwe O\n# O\nrule O\n\n#tag B-TAG\nit O\n")
    assert read_tokens(path) == [["#", "1"], ["we", "#", "rule"], ["#tag", "it"]]


def test_the_first_line_may_name_the_columns(tmp_path: Path) -> None:
    source = open_source(write_conll(tmp_path, "word\tpos\tner\nAda\tNN\tB-PER\n\nTim\tNN\tB-PER\n"))
    assert source.columns == ("tokens", "pos", "tags")
    assert [row.values["pos"] for row in source.rows() if isinstance(row, Row)] == [["NN"], ["NN"]]


def test_universal_files(tmp_path: Path) -> None:
    lines = ["# sent_id = 1", "1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_"]
    lines += [f"{n}\t{w}\t{w}\t{t}\t_\t_\t0\troot\t_\t_" for n, w, t in ((1, "de", "ADP"), (2, "le", "DET"))]
    source = open_source(write_conll(tmp_path, "\n".join(lines) + "\n\n" + "\n".join(lines) + "\n", "a.conllu"))
    values = [row.values for row in source.rows() if isinstance(row, Row)]
    assert [(row["tokens"], row["tags"]) for row in values] == [(["de", "le"], ["ADP", "DET"])] * 2


def test_wrong_cells_spoil_their_sentence_alone(tmp_path: Path) -> None:
    sentences_read = read_rows(write_conll(tmp_path, "Ada B-PER\n\nmet O O\nTim B-PER\n\nin O\n\nBern\n\nhere O\n"))
    assert [type(row) for row in sentences_read] == [Row, BadRow, Row, BadRow, Row]
    assert str(sentences_read[1]) == "row 2 (line 3): a line with 3 cells, expected 2: met O O"


def test_a_file_without_blank_lines_is_one_sentence(tmp_path: Path) -> None:
    assert [len(tokens) for tokens in read_tokens(write_conll(tmp_path, "a O\n" * 5000))] == [5000]


@pytest.mark.parametrize("text", ["-DOCSTART- -X- O\n\n-DOCSTART- -X- O\n", "\n\n\n", "# only\n# comments\n"])
def test_a_file_of_nothing_but_frames_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"rows.conll has no tokens; expected one token per line"):
        open_source(write_conll(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "Ada\0 B-PER\nmet O\n\nTim O\n",
        "Ada B-PER\n\ud800 O\n\nTim O\n",
        f"{'x' * 1_000_000} O\nmet B-PER\n\nTim O\n",
        "\tO\nmet\tB-PER\n\nTim\tO\n",
        "a " * 30_000 + "\n\nTim O\n",
    ],
)
def test_odd_tokens_are_read_or_said(text: str, tmp_path: Path) -> None:
    for row in read_rows(write_conll(tmp_path, text)):
        if isinstance(row, BadRow):
            assert len(str(row)) < 300
            assert "\n" not in str(row)
