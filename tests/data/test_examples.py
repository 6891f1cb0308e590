"""All bad rows in one error, or counted; token ids of many rows in little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.data import (
    Columns,
    encode_stream,
    encode_table,
    guess_columns,
    load_examples,
    open_source,
    read_labels,
    read_rows,
)
from clearhead.errors import InputError
from clearhead.text import Encoding
from clearhead.text.encoding import truncate

COLUMNS = Columns(text="text", label="label")


class WordTokenizer:
    """A tokenizer of words between two marks."""

    vocab_size = 30_000

    def encode_batch(self, items: Iterable[Any], *, max_length: int | None = None) -> list[Encoding]:
        encodings = [self._encode(item) for item in items]
        return [truncate(encoding, max_length) for encoding in encodings] if max_length is not None else encodings

    def _encode(self, item: Any) -> Encoding:
        texts = item if isinstance(item, tuple) else (item,)
        ids, segments, sides = [1], [0], [None]
        for side, text in enumerate(texts):
            words = [3 + len(word) for word in text.split()]
            ids += [*words, 2]
            segments += [side] * (len(words) + 1)
            sides += [*[side] * len(words), None]  # type: ignore[list-item]
        count = len(ids)
        return Encoding(
            ids=ids,
            tokens=[""] * count,
            offsets=[(0, 0)] * count,
            words=[None] * count,
            segments=segments,
            special=[side is None for side in sides],
            sides=sides,  # type: ignore[arg-type]
        )


BAD: list[Any] = [
    {"text": "good", "label": "a"},
    {"text": "", "label": "a"},
    {"text": " \n", "label": "a"},
    {"text": None, "label": "a"},
    {"label": "a"},
    {"text": ["x"], "label": "a"},
    {"text": "nul\0", "label": "a"},
    {"text": "half \ud800", "label": "a"},
    {"text": "y" * 2000, "label": "a"},
    {"text": "no label", "label": None},
    {"text": "no label", "label": ""},
    {"text": 42, "label": "b"},
    "text only",
    5,
]


def test_all_bad_rows_are_one_error() -> None:
    source = open_source(BAD)
    with pytest.raises(InputError) as error:
        load_examples(source, COLUMNS, max_cell=1000)
    message = str(error.value)
    assert "12 of 14 rows cannot be used" in message
    for part in (
        "row 2: text is empty",
        "row 4: text is missing",
        "row 6: text is a list",
        "row 7: text contains a NUL",
        "row 8: text contains a lone surrogate",
        "row 9: text has 2,000 characters",
        "row 10: the label is missing",
        "row 11: the label is missing",
        "row 13: a text, but row 1 is a dict",
        "row 14: a int",
        "skip_bad_rows=True",
    ):
        assert part in message
    examples = load_examples(source, COLUMNS, max_cell=1000, skip_bad_rows=True)
    assert examples.texts == ["good", "42"]
    assert examples.rows.tolist() == [1, 12]
    assert examples.skipped == {
        "empty text": 4,
        "not a text": 1,
        "NUL byte": 1,
        "half a character": 1,
        "too long": 1,
        "missing label": 2,
        "not an object": 2,
    }
    assert [bad.number for bad in examples.bad] == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14]


def test_twenty_are_shown_and_the_rest_counted() -> None:
    source = open_source([{"text": "", "label": "a"}] * 50 + [{"text": "x", "label": "b"}])
    with pytest.raises(InputError) as error:
        load_examples(source, COLUMNS)
    assert str(error.value).count("\n  row") == 20
    assert "and 30 more" in str(error.value)
    with pytest.raises(InputError, match="no usable rows"):
        load_examples(open_source([{"text": "", "label": "a"}]), COLUMNS, skip_bad_rows=True)


def test_labels_of_training_are_the_labels_of_dev() -> None:
    train = load_examples(open_source([{"text": "x", "label": "b"}, {"text": "y", "label": "a"}]), COLUMNS)
    dev = open_source([{"text": "x", "label": "b"}, {"text": "y", "label": "c"}])
    with pytest.raises(InputError, match="row 2: label 'c' is not one of a, b"):
        load_examples(dev, COLUMNS, train.space)
    dev_examples = load_examples(dev, COLUMNS, train.space, skip_bad_rows=True)
    assert dev_examples.labels is not None
    assert dev_examples.labels.tolist() == [1]
    assert dev_examples.skipped == {"unknown label": 1}


def test_several_labels_numbers_ids_and_splits() -> None:
    rows = [
        {"text": "x", "label": "a;b", "id": 7, "split": "train"},
        {"text": "y", "label": "", "id": 7, "split": "Validation"},
        {"text": "z", "label": "b;c", "id": 8, "split": "test"},
        {"text": "w", "label": "a;c", "id": None, "split": "test"},
    ]
    columns = guess_columns(open_source(rows))
    examples = load_examples(open_source(rows), columns)
    assert examples.labels is not None
    assert examples.labels.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 1], [1, 0, 1]]
    assert examples.splits == ["train", "dev", "test", "test"]
    assert examples.ids == ["7", "7", "8", ""]
    selected = examples.select([2, 0])
    assert selected.texts == ["z", "x"]
    assert selected.labels is not None
    assert selected.labels.tolist() == [[0, 1, 1], [1, 1, 0]]
    scores = load_examples(open_source([{"text": "x", "label": str(i / 3)} for i in range(9)]), COLUMNS)
    assert scores.labels is not None
    assert scores.labels.dtype == np.float64
    with pytest.raises(InputError, match="row 1: label 'a' is not a number"):
        load_examples(open_source([{"text": "x", "label": "a"}]), COLUMNS, kind="number")


def test_hashes_know_the_same_text() -> None:
    rows = [{"text": text, "label": "a"} for text in ("The  cat", "the cat ", "THE CAT", "the cats")]
    hashes = load_examples(open_source(rows), COLUMNS).hashes
    assert hashes[0] == hashes[1] == hashes[2] != hashes[3]


def test_a_table_of_tokens() -> None:
    rows = [{"text": "one three", "b": "x", "label": "n"}, {"text": "a b c d e f g h", "b": "yy zz", "label": "m"}]
    source = open_source(rows)
    columns = Columns(text="text", text_b="b", label="label")
    table = encode_table(source, columns, WordTokenizer())
    assert table.ids.dtype == np.uint16
    assert table.window_ids(0).tolist() == [1, 6, 8, 2, 4, 2]
    assert table.segments(0).tolist() == [0, 0, 0, 0, 1, 1]
    assert table.lengths.tolist() == [6, 13]
    assert table.labels is not None
    assert table.labels.tolist() == [1, 0]
    assert table.rows.tolist() == [1, 2]
    cut = encode_table(source, columns, WordTokenizer(), max_length=8, long="cut")
    assert cut.truncated.tolist() == [0, 5]
    assert cut.lengths.tolist() == [6, 8]
    windows = encode_table(source, columns, WordTokenizer(), max_length=8)
    assert windows.window_rows.tolist() == [0, 1, 1, 1]  # the first text is the long one, so it slides
    assert windows.truncated.tolist() == [0, 0]
    assert windows.lengths.max() == 8
    pair_table = encode_table(
        open_source([{"text": "a " * 20, "b": "b " * 20, "label": "m"}] * 2), columns, WordTokenizer(), max_length=8
    )
    assert pair_table.truncated.tolist() == [35, 35]  # neither fits beside the other: cut, and counted
    with pytest.raises(InputError, match="long='fold'"):
        encode_table(source, columns, WordTokenizer(), long="fold")
    assert read_rows(source, [2])[2].values == rows[1]


def test_a_stream_of_tables() -> None:
    rows = [{"text": f"row {i}", "label": "a"} if i % 10 else 5 for i in range(2500)]
    tables = list(encode_stream(open_source(rows), COLUMNS, WordTokenizer(), chunk=1000))
    assert [len(table) + len(table.bad) for table in tables] == [1000, 1000, 500]
    assert tables[0].labels is None
    labeled_tables = list(encode_stream(open_source(rows), COLUMNS, WordTokenizer(), read_labels(["a"])))
    assert labeled_tables[0].labels is not None
    one_time_source = open_source(row for row in rows)
    with pytest.raises(InputError, match="only once"):
        encode_table(one_time_source, COLUMNS, WordTokenizer())
    assert sum(map(len, encode_stream(one_time_source, COLUMNS, WordTokenizer()))) == 2250


def test_bad_rows_are_refused_before_anything_is_encoded() -> None:
    class Never(WordTokenizer):
        def encode_batch(self, items: Iterable[Any], *, max_length: int | None = None) -> list[Encoding]:
            raise AssertionError

    with pytest.raises(InputError, match="12 of 14"):
        encode_table(open_source(BAD), COLUMNS, Never(), max_cell=1000)


def test_memory_holds_the_ids_and_little_else(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        path = tmp_path / f"{count}.csv"
        lines = (f"row number {i} has a few words and then some more of them,{'ab'[i % 2]}\n" for i in range(count))
        path.write_text("text,label\n" + "".join(lines))
        source = open_source(path)
        tracemalloc.start()
        table = encode_table(source, COLUMNS, WordTokenizer(), labels=read_labels("ab"))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(table) == count
        return most

    few, many = 2000, 8000
    peak(10)  # what is imported on the way
    bytes_per_row = (peak(many) - peak(few)) / (many - few)
    assert bytes_per_row < 130  # bytes a row, 26 of them ids; a text like these is a string of 110 more
