"""Files that nobody would write, each of them once a finding of `fuzz/data.py`."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from clearhead.data import (
    BadRow,
    Columns,
    LabelSpace,
    Source,
    guess_columns,
    inspect_data,
    load_examples,
    open_source,
    read_labels,
)
from clearhead.data.examples import labels_to_array
from clearhead.errors import InputError
from clearhead.text import Encoding
from tests.data.test_examples import COLUMNS, WordTokenizer


def open_table(name: str, content: bytes | str) -> Source:
    handle = io.BytesIO(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    handle.name = name
    return open_source(handle)


def measure_seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def list_bad_rows(source: Source) -> list[str]:
    return [str(row) for row in source.rows() if isinstance(row, BadRow)]


def test_a_label_may_be_the_beginning_of_another() -> None:
    assert read_labels(["x2", "x", "x10", "x"]).names == ("x", "x2", "x10")


def test_rows_without_any_label_can_be_inspected() -> None:
    inspection = inspect_data([{"text": f"some words here {index}", "labels": []} for index in range(60)])
    assert inspection.kind == "multilabel"
    assert "no row has a label" in inspection.findings[0].sentence


def test_lists_are_names_when_classes_are_said() -> None:
    rows = [{"text": "one", "label": ["a"]}, {"text": "two", "label": ["b", "c"]}]
    examples = load_examples(open_source(rows), COLUMNS, kind="classes")
    assert examples.space is not None
    assert examples.space.names == ("['a']", "['b', 'c']")


@pytest.mark.parametrize("label", ["nul\0", "half \ud800", ["a", "\udc80"]])
def test_a_label_that_no_file_can_hold_is_a_bad_row(label: Any) -> None:
    rows = [{"text": "one", "label": label}, {"text": "two", "label": "a"}]
    examples = load_examples(open_source(rows), COLUMNS, skip_bad_rows=True)
    assert examples.texts == ["two"]
    assert examples.skipped == {"half a character": 1}


def test_lists_in_cells_warn_nobody() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with warnings.catch_warnings(record=True) as caught:
            assert read_labels([r"['\d', 'b']"]).names == ("\\d", "b")
    assert not caught


def test_the_reason_of_a_bad_row_does_not_depend_on_known_labels() -> None:
    columns = Columns(text="text", label="label", split="split")
    rows = [{"text": "one", "label": "b", "split": "?"}, {"text": "two", "label": "a", "split": "dev"}]
    for labels in (None, LabelSpace(names=("a",))):
        assert load_examples(open_source(rows), columns, labels, skip_bad_rows=True).skipped == {"unknown split": 1}


def test_a_table_of_labels_has_a_limit() -> None:
    space = LabelSpace(names=tuple(map(str, range(40_000))), kind="multilabel")
    with pytest.raises(InputError, match=r"too many distinct labels \(40,000 in 40,000 rows\)"):
        labels_to_array([()] * 40_000, space)


def test_ten_thousand_columns_may_share_a_name() -> None:
    names, numbers = ",".join(["a"] * 9_000), ",".join(["1"] * 9_000)
    assert measure_seconds(lambda: open_table("a.csv", f"{names}\n{numbers}\n")) < 5
    assert open_table("a.csv", "a,a,a.2,a\n1,2,3,4\n").columns == ("a", "a.2", "a.2.2", "a.3")


def test_objects_with_many_keys() -> None:
    many = "\n".join(json.dumps({f"k{row}_{key}": 1 for key in range(100)}) for row in range(1000))
    with pytest.raises(InputError, match="has 100,000 columns, more than the maximum of 10,000"):
        open_table("a.jsonl", many)
    few = "\n".join(json.dumps({f"k{row}_{key}": 1 for key in range(9)} | {"text": "a b"}) for row in range(1000))
    assert measure_seconds(lambda: guess_columns(open_table("a.jsonl", few), labeled=False)) < 5


@pytest.mark.parametrize("line", ['a","""\n', 'a","""\na""b,c\n'])
def test_quotes_that_never_close_take_linear_time(line: str) -> None:
    source = open_table("a.csv", 'text,label\n"one, two",a\n' + line * 10_000)
    assert measure_seconds(lambda: list(source.rows())) < 8
    assert "a quoted cell is not closed" in list_bad_rows(source)[0]


def test_a_long_cell_in_quotes_is_read_after_one_that_never_closes() -> None:
    long = "\n".join(f"line {index}" for index in range(300))
    rows = [f'"{long}",b' if index % 2 else f'"word {index}",a' for index in range(1000)]
    read_rows = list(open_table("a.csv", "\n".join(["text,label", '"never closed,a', *rows]) + "\n").rows())
    assert sum(isinstance(row, BadRow) for row in read_rows) < 60  # while it makes up for what was read in vain
    assert not isinstance(read_rows[-1], BadRow)
    assert read_rows[-1].values == {"text": long, "label": "b"}


def test_small_rows_after_a_large_one_take_linear_time() -> None:
    rows = [{"text": "x" * 4_300_000}, *({"text": f"row {index} of many that are small"} for index in range(99_999))]
    source = open_table("a.json", json.dumps(rows))
    assert measure_seconds(lambda: list(source.rows())) < 6
    assert sum(1 for _ in source.rows()) == 100_000


def test_broken_json_is_placed_from_the_beginning_of_its_value() -> None:
    assert "Expecting value at character 6" in list_bad_rows(open_table("a.json", '[{"a": 1}, {"b":}, {"c": 2}]'))[0]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_nest_is_one_bad_row(name: str) -> None:
    rows = ['{"text": "one"}', f'{{"text": {"[" * 200}{"]" * 200}}}', '{"text": "three", "label": [[1]]}']
    source = open_table(name, "\n".join(rows) if name == "a.jsonl" else f"[{', '.join(rows)}]")
    assert list_bad_rows(source)[0].startswith("row 2")
    assert "nested more than 64 levels deep" in list_bad_rows(source)[0]
    assert len(list(source.rows())) == 3


def write_parquet(names: list[str], columns: list[Any]) -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    sink = io.BytesIO()
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns, names), sink)
    return sink.getvalue()


def test_a_cell_that_is_no_text_does_not_end_a_parquet_file() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    texts = pyarrow.array([b"one", b"\xff\xfe", b"three"], pyarrow.binary()).view(pyarrow.string())
    dates = pyarrow.array([1, 2**62, 3], pyarrow.int64()).view(pyarrow.timestamp("us"))
    source = open_table(
        "a.parquet", write_parquet(["text", "date", "label"], [texts, dates, pyarrow.array(["a", "b", "a"])])
    )
    examples = load_examples(source, COLUMNS, skip_bad_rows=True)
    assert examples.texts == ["one", "three"]
    assert str(examples.bad[0]) == "row 2: text is a bytes, expected a text: b'\\xff\\xfe'"
    assert [row.values["date"] is None for row in source.rows() if not isinstance(row, BadRow)] == [False, True, False]


def test_columns_of_a_parquet_file_may_share_a_name() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    source = open_table("a.parquet", write_parquet(["a", "a"], [pyarrow.array([1]), pyarrow.array([2])]))
    assert [row.values for row in source.rows() if not isinstance(row, BadRow)] == [{"a": 1, "a.2": 2}]


def test_what_the_parquet_library_says_is_printable() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    data = bytearray(write_parquet(["a"], [pyarrow.array([1])]))
    data[len(data) - 8 - int.from_bytes(data[-8:-4], "little")] = 0x1F  # a type that does not exist
    with pytest.raises(InputError) as error:
        open_table("a.parquet", bytes(data))
    assert str(error.value).isprintable()


def test_a_parquet_file_without_columns_is_refused() -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="has no columns"):
        open_table("a.parquet", write_parquet([], []))


def test_what_is_no_parquet_file_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet.gz"
    path.write_bytes(gzip.compress(bytes(1_000_000)))
    monkeypatch.setattr("shutil.copyfileobj", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(InputError, match="is not a Parquet file: it does not start with PAR1"):
        open_source(path)


def test_a_pipe_among_texts_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "1.txt").write_text("fine words")
    os.mkfifo(tmp_path / "good" / "2.txt")
    texts_read: list[list[str]] = []
    reader = threading.Thread(target=lambda: texts_read.append(list_bad_rows(open_source(tmp_path))), daemon=True)
    reader.start()
    reader.join(10)
    assert texts_read == [["row 2: good/2.txt: not a regular file"]]


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "\udcff"])
def test_names_of_files_are_printable(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.csv").write_text("text,label\na b c,1\n,2\n")
    (tmp_path / name / name).mkdir(parents=True)
    (tmp_path / name / name / f"{name}.txt").write_bytes(b"\0")
    sentences: list[str] = []
    for path in (tmp_path / f"{name}.csv", tmp_path / name, tmp_path / f"no {name}"):
        try:
            source = open_source(path)
            sentences += [*source.messages, *list_bad_rows(source), source.name]
            load_examples(source, COLUMNS)
        except InputError as error:
            sentences += str(error).split("\n")
    assert len(sentences) > 8
    assert all(sentence.isprintable() for sentence in sentences)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "\ud800", "x" * 5000])
def test_names_of_columns_are_printable_and_short(name: str) -> None:
    good = [{name: f"a few words {index}", "label": index % 2, name + "y": index / 7} for index in range(20)]
    source = open_source([*good, {name: "", "label": 1}])
    sentences = [*source.messages, *guess_columns(source).messages]
    for deed in (
        lambda: load_examples(source, Columns(text=name, label="label")),
        lambda: guess_columns(source, text=name + "z"),
        lambda: guess_columns(source, task="pair"),
        lambda: guess_columns(open_source([{name: "a b c d", name + "y": "e f g h"}])),
        lambda: guess_columns(open_source([{name: 1, name + "y": 2}])),
        lambda: inspect_data(source, columns=Columns(text=name + "z")),
        lambda: open_source({name: [1, 2], name + "y": [3]}),
        lambda: open_source({name: 1}),
    ):
        with pytest.raises(InputError) as error:
            deed()
        sentences += str(error.value).split("\n")
    assert all(sentence.isprintable() and len(sentence) < 700 for sentence in sentences)


@pytest.mark.parametrize("name", ["idna", "punycode", "unicode_escape"])
def test_encodings_that_no_file_has(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\nübel,1\n")
    with pytest.raises(InputError, match="is not for text files"):
        open_source(tmp_path / "a.csv", encoding=name)


def test_what_cannot_be_said_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\nfine,1\n")
    with pytest.raises(InputError, match="must be a single character"):
        open_source(tmp_path / "a.csv", delimiter="\0")
    assert open_source(tmp_path / "a.csv", delimiter="\1").messages[0].startswith(r"separated by '\x01'")
    with pytest.raises(InputError, match="has no columns"):
        open_source(tmp_path / "a.csv", header=[])


class LengthRecorder(WordTokenizer):
    """Counts words, and notes how much it was given at once."""

    def __init__(self) -> None:
        self.max_characters = 0

    def encode_batch(self, items: Iterable[Any], *, max_length: int | None = None) -> list[Encoding]:
        texts = list(items)
        self.max_characters = max(self.max_characters, sum(map(len, texts)))
        return super().encode_batch(texts, max_length=max_length)


def test_long_texts_are_inspected_a_few_at_a_time() -> None:
    tokenizer = LengthRecorder()
    rows = [{"text": f"{index} " + "word " * 60_000, "label": index % 2} for index in range(30)]
    inspection = inspect_data(rows, tokenizer=tokenizer)
    assert tokenizer.max_characters <= 2_200_000
    assert inspection.tokens is not None
    assert abs(inspection.tokens.median - 60_003) < 100  # 300,000 characters, of which 200,000 are counted
