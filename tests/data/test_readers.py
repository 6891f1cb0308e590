"""What a file is, is found and said; every row comes out, and every bad one says why."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clearhead.data import BadRow, Row, Source, guess_columns, open_source
from clearhead.errors import InputError, MissingExtraError

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(name: str, content: str | bytes, encoding: str = "utf-8") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return put


def read_values(source: Source) -> list[dict[str, Any]]:
    rows = list(source.rows())
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    assert all(isinstance(row, Row) for row in rows), rows
    return [row.values for row in rows if isinstance(row, Row)]


def list_bad_rows(source: Source) -> list[BadRow]:
    bad_rows = [row for row in source.rows() if isinstance(row, BadRow)]
    assert all(len(row.excerpt) <= 60 and row.reason and row.problem for row in bad_rows)
    return bad_rows


ROWS = [{"text": "good, film", "label": "1"}, {"text": "bad film", "label": "0"}]


@pytest.mark.parametrize(
    ("name", "content", "delimiter"),
    [
        ("a.csv", 'text,label\n"good, film",1\nbad film,0\n', ","),
        ("a.csv", "text;label\ngood, film;1\nbad film;0\n", ";"),
        ("a.csv", "text|label\r\ngood, film|1\r\nbad film|0", "|"),
        ("a.tsv", "text\tlabel\ngood, film\t1\nbad film\t0\n", "\t"),
        ("a", "text\tlabel\ngood, film\t1\nbad film\t0\n", "\t"),
        ("a.csv", 'text,label\r"good, film",1\rbad film,0\r', ","),
        ("a.csv", '\n\ntext,label\n\n"good, film",1\n\nbad film,0\n\n', ","),
    ],
)
def test_delimiters_are_found(write: Write, name: str, content: str, delimiter: str) -> None:
    source = open_source(write(name, content))
    assert source.delimiter == delimiter
    assert source.has_header is True
    assert source.columns == ("text", "label")
    assert read_values(source) == ROWS == read_values(source)  # a file can be read again


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252"])
@pytest.mark.parametrize("compressed", [False, True])
def test_encodings_are_found(write: Write, encoding: str, compressed: bool) -> None:
    text = "text,label\nUn café très déjà vu à la crème,oui\nDe l’eau,non\n"
    if encoding == "latin-1":
        text = text.replace("’", "'")
    data = text.encode(encoding)
    path = write("a.csv.gz", gzip.compress(data)) if compressed else write("a.csv", data)
    source = open_source(path)
    assert read_values(source)[0] == {"text": "Un café très déjà vu à la crème", "label": "oui"}
    assert (source.compression == "gzip") is compressed
    assert source.encoding == encoding
    assert {"utf-8-sig": "UTF-8 with BOM", "latin-1": "Latin-1"}.get(encoding, "") in source.messages[0]


def test_a_damaged_row_does_not_make_a_file_latin(write: Write) -> None:
    source = open_source(write("a.csv", b"text,label\nok,x\nbad \xff\xfe bytes,y\n\xc3\xa9t\xc3\xa9,x\n"))
    bad_rows = list_bad_rows(source)
    assert [(row.number, row.line, row.problem) for row in bad_rows] == [(2, 3, "not text in this encoding")]
    assert "encoding" in bad_rows[0].reason


def test_an_encoding_can_be_said(write: Write) -> None:
    path = write("a.csv", "text,label\nпривет,да\n", "cp1251")
    assert read_values(open_source(path, encoding="cp1251")) == [{"text": "привет", "label": "да"}]
    with pytest.raises(InputError, match="'klingon'"):
        open_source(path, encoding="klingon")
    with pytest.raises(InputError, match="'rot13'"):
        open_source(path, encoding="rot13")


@pytest.mark.parametrize(
    ("content", "header"),
    [
        ("text,label\nI like it,1\n", True),
        ("Review Text,Stars\nI like it,1\nNot I,2\n", True),
        ("phrase,mood\nI like it so much,1\nNot for me today,0\n", True),
        ("foo,bar\nI like it so much,yes\nNot for me today,no\n", True),
        ("0,1\nI like it,good\nNot I,bad\n", True),
        ("I like it,1\nNot I,0\n", False),
        ("I like it,good\nNot I,bad\nMaybe,good\n", False),
        ("ham,Go until jurong point\nspam,Free entry\nham,Ok lar\n", False),
        ('"3","Wall St. Bears","Reuters - Short"\n"4","b c","d e f"\n', False),
        ("where is my card,card_arrival\nI lost it,lost_card\n", False),
        ("1,2\n3,4\n", False),
        ("text\nHello\n", True),
        ("text,label\n", True),
    ],
)
def test_headers_are_found(write: Write, content: str, header: bool) -> None:
    source = open_source(write("a.csv", content))
    assert source.has_header is header
    assert len(read_values(source)) == content.count("\n") - header
    assert (source.columns[0] == "column1") is not header
    assert ("no header" in source.messages[0]) is not header


def test_a_header_can_be_said(write: Write) -> None:
    path = write("a.csv", "good,film\nbad,film\n")
    assert open_source(path, header=True).columns == ("good", "film")
    assert open_source(path, header=False).columns == ("column1", "column2")
    with_header = open_source(path, header=["text", "label"])
    assert read_values(with_header) == [{"text": "good", "label": "film"}, {"text": "bad", "label": "film"}]


def test_names_of_columns_are_unique(write: Write) -> None:
    assert open_source(write("a.csv", " text ,text,\na,b,c\n")).columns == ("text", "text.2", "column3")


def test_quotes(write: Write) -> None:
    quoted = open_source(write("a.csv", 'text,label\n"two\nlines, ""quoted""",x\nplain,y\n'))
    assert read_values(quoted)[0] == {"text": 'two\nlines, "quoted"', "label": "x"}
    assert list(quoted.rows())[1].line == 4
    letters = open_source(
        write("a.tsv", 'text\tlabel\n"Response" is a weapon\tham\n6" pipe\tham\n"so" it "is"\tspam\n')
    )
    assert [row["text"] for row in read_values(letters)] == ['"Response" is a weapon', '6" pipe', '"so" it "is"']
    assert "ordinary characters" in letters.messages[1]
    wrapped = open_source(write("b.tsv", 'text\tlabel\n"He said ""hi"""\tx\n"a\tb"\ty\nplain\tx\n'))
    assert [row["text"] for row in read_values(wrapped)] == ['He said "hi"', "a\tb", "plain"]
    escaped = open_source(write("b.csv", 'text,label\n"He said \\"hi\\", twice",x\n"a, b",y\n'))
    assert read_values(escaped)[0]["text"] == 'He said "hi", twice'
    with_quotes = open_source(write("c.tsv", 'text\tlabel\n"a"\tx\nb\ty\n'), quotes=True)
    assert read_values(with_quotes)[0]["text"] == "a"


def test_bad_rows_of_a_table(write: Write) -> None:
    content = (
        'text,label\n"open, x\nfine,y\none,two,three\nlonely\nnul\0byte,x\n"glued" words,x\n'
        + "x" * 50_000_000
        + ',y\n"a, b",x\n'
    )
    rows = list(open_source(write("a.csv", content)).rows())
    problems = [row.problem if isinstance(row, BadRow) else None for row in rows]
    assert problems == [
        "broken quotes",
        None,
        "wrong number of cells",
        "wrong number of cells",
        "NUL byte",
        "broken quotes",
        "too long",
        None,
    ]
    assert (
        str(rows[0]) == 'row 1 (line 2): text after a closing quote; write quotes within quoted cells twice: "open, x'
    )
    assert str(rows[2]) == "row 3 (line 4): 3 cells, expected 2: one,two,three"
    assert isinstance(rows[-1], Row)
    assert rows[-1].values == {"text": "a, b", "label": "x"}


def test_an_open_quote_does_not_swallow_the_file(write: Write) -> None:
    lines = "".join(f"row {i},x\n" for i in range(2000))
    rows = list(open_source(write("a.csv", f'text,label\n"fine, row",y\n"never closed,x\n{lines}')).rows())
    assert [row.number for row in rows if isinstance(row, BadRow)] == [2]
    assert len(rows) == 2002


def test_json_lines(write: Write) -> None:
    content = (
        '{"text": "a", "label": 1}\n\n[1]\n{bad\n"x"\n{"text": "b\\n", "more": ["c"]}\n{"text": "a\0"}\n' + "[" * 99999
    )
    source = open_source(write("a.jsonl", content))
    assert source.columns == ("text", "label", "more")
    rows = list(source.rows())
    assert isinstance(rows[0], Row)
    assert rows[0].values == {"text": "a", "label": 1}
    assert [row.problem for row in list_bad_rows(source)] == [
        "not an object",
        "broken JSON",
        "not an object",
        "NUL byte",
        "broken JSON",
    ]
    assert [row.line for row in rows] == [1, 3, 4, 5, 6, 7, 8]


def test_a_json_list(write: Write) -> None:
    rows = [{"text": f"row {i} " + "é" * (i % 50), "n": i} for i in range(5000)]  # longer than one piece
    for indent in (None, 2):
        source = open_source(write("a.json", json.dumps(rows, indent=indent, ensure_ascii=False)))
        assert source.kind == "json"
        assert read_values(source) == rows
    lines = open_source(write("b.json", "\n".join(json.dumps(row) for row in rows)))  # as others write them
    assert lines.kind == "jsonl"
    assert read_values(lines) == rows
    broken = list(open_source(write("c.json", '[{"text": "a"}, 5, {"text": ')).rows())
    assert [type(row) for row in broken] == [Row, BadRow, BadRow]
    assert [row.problem for row in broken if isinstance(row, BadRow)] == ["not an object", "broken JSON"]
    with pytest.raises(InputError, match="one JSON object with the keys version, data"):
        open_source(write("d.json", '{"version": "1.1", "data": [{"title": "x"}]}'))
    with pytest.raises(InputError, match="no JSON objects"):
        open_source(write("e.json", "[]"))


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"text": f"row {i}", "label": i % 3, "tags": ["a", "b"][: i % 3]} for i in range(3000)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    for name in ("a.parquet", "a.parquet.gz"):
        source = open_source(tmp_path / name)
        assert source.kind == "parquet"
        assert read_values(source) == rows == read_values(source)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match="is not a readable Parquet file"):
        open_source(tmp_path / "b.parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"clearhead\[parquet\]"):
        open_source(tmp_path / "a.parquet")


def test_folders_of_texts(tmp_path: Path) -> None:
    for label, names in {"pos": ["2.txt", "10.txt"], "neg": ["1.txt"]}.items():
        (tmp_path / "flat" / label).mkdir(parents=True)
        for name in names:
            (tmp_path / "flat" / label / name).write_text(f"{label} {name}")
    (tmp_path / "flat" / ".hidden").mkdir()
    (tmp_path / "flat" / "pos" / "3.txt").write_bytes("déjà".encode("latin-1"))
    (tmp_path / "flat" / "pos" / "4.txt").write_bytes(b"nul\0")
    source = open_source(tmp_path / "flat")
    rows = list(source.rows())
    assert [row.values["file"] for row in rows if isinstance(row, Row)] == [
        "neg/1.txt",
        "pos/2.txt",
        "pos/3.txt",
        "pos/10.txt",
    ]
    assert isinstance(rows[2], Row)
    assert rows[2].values == {"text": "déjà", "label": "pos", "file": "pos/3.txt"}
    assert [row.problem for row in rows if isinstance(row, BadRow)] == ["NUL byte"]
    for part in ("train", "test"):
        (tmp_path / "parts" / part / "a").mkdir(parents=True)
        (tmp_path / "parts" / part / "a" / "1.txt").write_text("text")
    assert [row["split"] for row in read_values(open_source(tmp_path / "parts"))] == ["test", "train"]
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "train.csv").write_text("text,label\n")
    with pytest.raises(InputError, match=r"name one of its files: train\.csv"):
        open_source(tmp_path / "empty")


def test_plain_text_is_a_text_a_line(write: Write) -> None:
    source = open_source(write("a.txt", "Hello, world\n\nSecond; line\n"))
    assert source.kind == "lines"
    assert read_values(source) == [{"text": "Hello, world"}, {"text": "Second; line"}]


@pytest.mark.parametrize("name", ["msr_paraphrase_train.txt", "mrpc.tsv", "mrpc.csv"])
def test_names_of_columns_are_kept_as_they_are(name: str, write: Write) -> None:
    names = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    rows = [
        (str(index % 2), str(index), str(index + 50), f"the red drum number {index} is loud", f"drum {index} is loud")
        for index in range(20)
    ]
    content = "\n".join("\t".join(row) for row in (names, *rows))
    source = open_source(write(name, content + "\n"))
    assert source.columns == names
    columns = guess_columns(source)
    assert (columns.text, columns.text_b, columns.label) == ("#1 String", "#2 String", "Quality")
    guessed_columns = guess_columns(source, "#1 String", "#2 String", "Quality")
    assert (guessed_columns.text, guessed_columns.text_b, guessed_columns.label) == (
        "#1 String",
        "#2 String",
        "Quality",
    )
    assert open_source(write("odd.csv", "#text,# label\na,1\nb,0\n")).columns == ("#text", "# label")
    assert guess_columns(open_source(write("odd.csv", "#text,#label\na b c,1\nb c d,0\n"))).text == "#text"


def test_handles(write: Write) -> None:
    content = 'text,label\n"good, film",1\nbad film,0\n'
    for handle in (io.BytesIO(content.encode()), io.StringIO(content), io.BytesIO(gzip.compress(content.encode()))):
        source = open_source(handle)
        assert source.is_rereadable
        assert read_values(source) == ROWS == read_values(source)
    with pytest.raises(InputError, match=r"sys\.stdin\.buffer"):
        open_source("-")


def test_a_pipe_is_read_once() -> None:
    out, into = os.pipe()
    lines = [json.dumps({"text": f"row {i}", "n": i}) for i in range(50_000)]

    def write_all() -> None:
        with os.fdopen(into, "w") as file:
            file.write("\n".join(lines))

    writer = threading.Thread(target=write_all)
    writer.start()
    with os.fdopen(out, "rb") as handle:
        source = open_source(handle)
        assert not source.is_rereadable
        assert len(source.sample(10)) == 10
        assert len(source.sample(2000)) == 2000
        assert [row["n"] for row in read_values(source)] == list(range(50_000))
        with pytest.raises(InputError, match="only once"):
            source.rows()
    writer.join()


def test_python_values() -> None:
    assert read_values(open_source(ROWS)) == ROWS
    assert read_values(open_source({"text": ["good, film", "bad film"], "label": ["1", "0"]})) == ROWS
    assert read_values(open_source(["a", "b"])) == [{"text": "a"}, {"text": "b"}]
    one_time_source = open_source(dict(row) for row in ROWS)
    assert one_time_source.columns == ("text", "label")
    assert not one_time_source.is_rereadable
    assert read_values(one_time_source) == ROWS
    assert [row.problem for row in list_bad_rows(open_source([ROWS[0], 5, None]))] == ["not an object"] * 2
    with pytest.raises(InputError, match="different lengths: a: 2, b: 1"):
        open_source({"a": ["x", "y"], "b": ["z"]})
    for value in (None, 5, b"bytes", {"a": "text"}, {}, object()):
        with pytest.raises(InputError):
            open_source(value)


def test_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["a", None, "c"], "label": [1, 2, 3], "score": [0.5, float("nan"), 1.0]})
    source = open_source(frame)
    assert source.columns == ("text", "label", "score")
    assert read_values(source)[1] == {"text": None, "label": 2, "score": None}
    mixed = pandas.DataFrame({"text": ["a", "b"], "label": ["x", 5]}, dtype=object)
    assert read_values(open_source(mixed))[1] == {"text": "b", "label": 5}


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    source = open_source(polars.DataFrame({"text": ["a", None], "label": [True, False], "tags": [["x"], []]}))
    assert read_values(source) == [
        {"text": "a", "label": True, "tags": ["x"]},
        {"text": None, "label": False, "tags": []},
    ]


def test_arrow() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"text": ["a", "b"], "label": [1, None]})
    assert read_values(open_source(table)) == [{"text": "a", "label": 1}, {"text": "b", "label": None}]
    one_time_source = open_source(table.to_reader())
    assert not one_time_source.is_rereadable
    assert len(read_values(one_time_source)) == 2

    class Foreign:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return table.__arrow_c_stream__(requested_schema)

    assert len(read_values(open_source(Foreign()))) == 2


def test_hugging_face_data_sets() -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["ham", "spam"])}
    )
    data = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, 0]}, features=features)
    source = open_source(data)
    assert read_values(source) == [{"text": "a", "label": "spam"}, {"text": "b", "label": "ham"}] == read_values(source)
    assert "ham, spam" in source.messages[1]
    with pytest.raises(InputError, match="give one of them"):
        open_source(datasets.DatasetDict({"train": data}))


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not found"):
        open_source(tmp_path / "no.csv")
    (tmp_path / "empty.csv").touch()
    with pytest.raises(InputError, match="empty"):
        open_source(str(tmp_path / "empty.csv"))
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"text,label\n" * 1000)[:30])
    with pytest.raises(InputError, match="cannot be read"):
        open_source(tmp_path / "cut.csv.gz")
    with pytest.raises(InputError, match="is not a valid file name"):
        open_source("a\0b")
    with pytest.raises(InputError, match="delimiter"):
        open_source(tmp_path / "empty.csv", delimiter="ab") if (tmp_path / "empty.csv").write_text("a") else None


def test_damage_far_into_a_file_is_a_bad_row(tmp_path: Path) -> None:
    import random

    letters = random.Random(0)
    content = "text,label\n" + "".join(f"{letters.random()} {letters.random()},x\n" for _ in range(40_000))
    data = gzip.compress(content.encode())
    (tmp_path / "a.csv.gz").write_bytes(data[: len(data) // 2])
    rows = list(open_source(tmp_path / "a.csv.gz").rows())
    assert len(rows) > 1000
    assert isinstance(rows[-1], BadRow)
    assert rows[-1].problem in ("damaged file", "wrong number of cells")


def test_a_named_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe.csv").write_text("text,label\ngood,1\nbad,0\n"))
    writer.start()
    source = open_source(tmp_path / "pipe.csv")
    assert [row["text"] for row in read_values(source)] == ["good", "bad"]
    writer.join()
