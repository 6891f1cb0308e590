"""Rows that are stored as they are read: the same ones in every pass, the file read once, memory bounded."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from clearhead.data import open_source
from clearhead.data.sources import row_store as module
from clearhead.data.sources.row_store import RowStore, store_rows
from clearhead.data.sources.source import BadRow, Row, Source


class CountingReader:
    """Rows that count how often they are read, and how many of them."""

    def __init__(self, rows: list[Row | BadRow], fails_at: int | None = None) -> None:
        self.rows, self.fails_at = rows, fails_at
        self.passes = self.rows_given = 0

    def __call__(self) -> Iterator[Row | BadRow]:
        self.passes += 1
        for row in self.rows:
            if row.number == self.fails_at:
                self.fails_at = None
                raise KeyboardInterrupt
            self.rows_given += 1
            yield row


def make_rows(count: int, seed: int = 0) -> list[Row | BadRow]:
    draw = random.Random(seed)
    rows: list[Row | BadRow] = []
    for number in range(1, count + 1):
        text = "".join(draw.choice('aé\ud800\U0001f600 "\\\n') for _ in range(draw.randrange(30)))
        values: dict[str, Any] = {"text": text, "label": draw.choice([None, 1, 2.5, float("inf"), True, "x", -0.0])}
        if number % 7 == 0:
            values = {"text": ["a", {"b": [1, None]}], "other": {}}
        bad = BadRow(number, "broken", "an \ud800excerpt", number + 1, "a problem")
        rows.append(bad if number % 5 == 0 else Row(number, values, None if number % 2 else number))
    return rows


def test_every_pass_gives_the_same_rows_and_the_file_is_read_once() -> None:
    reader = CountingReader(make_rows(1000))
    store = RowStore(reader, ("text", "label"))
    assert list(islice(store(), 10)) == reader.rows[:10]
    assert reader.rows_given == 10  # no more than were asked for
    for _ in range(3):
        assert repr(list(store())) == repr(reader.rows)  # repr: -0.0 and 0.0, True and 1 are equal
    assert (reader.passes, reader.rows_given) == (1, 1000)


def test_passes_may_be_under_way_together() -> None:
    reader = CountingReader(make_rows(900))
    store, draw = RowStore(reader, ("text", "label")), random.Random(1)
    passes = [store() for _ in range(4)]
    rows_by_pass: list[list[Row | BadRow]] = [[] for _ in passes]
    while any(len(pass_rows) < 900 for pass_rows in rows_by_pass):
        index = draw.randrange(4)
        rows_by_pass[index] += islice(passes[index], draw.randrange(200))
    assert all(pass_rows == reader.rows for pass_rows in rows_by_pass)
    assert reader.passes == 1


def test_more_rows_than_memory_go_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MEMORY_BYTES", 10_000)
    reader = CountingReader(make_rows(3000))
    store = RowStore(reader, ("text", "label"))
    for _ in range(2):
        assert list(store()) == reader.rows
    assert reader.passes == 1
    assert store._file is not None
    assert not any(isinstance(block, bytes) for block in store._blocks)


def test_without_room_the_file_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MEMORY_BYTES", 10_000)
    monkeypatch.setattr(module, "MIN_FREE_BYTES", 1 << 62)
    reader = CountingReader(make_rows(3000))
    store = RowStore(reader, ("text", "label"))
    for _ in range(3):
        assert list(store()) == reader.rows
    assert (reader.passes, reader.rows_given) == (3, 9000)  # the first pass goes on where it was


@pytest.mark.parametrize(
    "odd",
    [b"bytes", (1, 2), {1: "a"}, object(), 10**5000, type("Text", (str,), {})("a")],
    ids=lambda value: type(value).__name__,
)
def test_a_value_of_another_kind_is_not_stored(odd: object) -> None:
    rows: list[Row | BadRow] = [Row(number, {"text": odd if number == 300 else "a"}) for number in range(1, 601)]
    reader = CountingReader(rows)
    store = RowStore(reader, ("text",))
    early = store()
    first = list(islice(early, 20))
    for _ in range(2):
        again = list(store())
        assert again == rows
        assert isinstance(again[299], Row)
        assert again[299].values["text"] is odd
    assert [*first, *early] == rows


def test_a_pass_that_was_broken_off_is_begun_anew() -> None:
    reader = CountingReader(make_rows(700), fails_at=400)
    store = RowStore(reader, ("text", "label"))
    early = store()
    first = list(islice(early, 100))
    with pytest.raises(KeyboardInterrupt):
        list(store())
    assert list(store()) == reader.rows
    assert [*first, *early] == reader.rows
    assert reader.passes == 3


def test_only_files_are_stored(tmp_path: Path) -> None:
    values = open_source([{"text": "a", "label": "b"}])
    assert store_rows(values) is values
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": f"text {n}", "label": "a"}) + "\n" for n in range(30)))
    source: Source = store_rows(open_source(path))
    assert store_rows(source) is source
    assert list(source.rows()) == list(open_source(path).rows())
    assert list(replace(source).sample(3)) == list(open_source(path).sample(3))
