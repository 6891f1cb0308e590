"""Long rows are encoded a few at a time, so that memory is bounded by characters and not by rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from clearhead.data import Columns, check_rows, open_source, table
from clearhead.data.table import encode_rows, encode_stream, encode_table
from clearhead.text.encoding import Encoding


class LetterTokenizer:
    """A token a letter, and how much it was given at once."""

    vocab_size = 256

    def __init__(self) -> None:
        self.batch_sizes: list[int] = []

    def encode_batch(self, items: Iterable[Any], *, max_length: int | None = None) -> Sequence[Encoding]:
        texts = list(items)
        self.batch_sizes.append(sum(map(len, texts)))
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> Encoding:
        size = len(text)
        sides: list[int | None] = [0] * size
        return Encoding(
            ids=[ord(letter) for letter in text],
            tokens=list(text),
            offsets=[(0, 0)] * size,
            words=sides,
            segments=[0] * size,
            special=[False] * size,
            sides=sides,
        )


def test_a_chunk_is_bounded_by_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"text": "x" * (1 + index % 40)} for index in range(200)]
    source, columns = open_source(rows), Columns(text="text")
    full_table = encode_table(source, columns, LetterTokenizer())
    monkeypatch.setattr(table, "CHUNK_CHARACTERS", 100)
    letters = LetterTokenizer()
    bounded = encode_table(source, columns, letters)
    assert max(letters.batch_sizes) <= 100 + 40
    assert len(letters.batch_sizes) > 10
    assert np.array_equal(bounded.ids, full_table.ids)
    assert np.array_equal(bounded.rows, full_table.rows)
    streamed = list(encode_stream(source, columns, LetterTokenizer(), chunk=50))
    assert sum(map(len, streamed)) == len(full_table)
    checked: list[Any] = list(check_rows(source, columns))
    assert np.array_equal(encode_rows(checked, columns, LetterTokenizer()).ids, full_table.ids)
