"""A table made from ids alone, with whole encodings only for long texts, is the table made from whole encodings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data import Columns, encode_stream, encode_table, open_source
from clearhead.data.table import TokenTable
from clearhead.text import Encoding, Tokenizer, load_tokenizer
from tests.text.tokenizer_folders import write_bert_cased
from tests.variation import scaled

COLUMNS = Columns(text="text", text_b="other", label="label")
WORDS = st.lists(st.sampled_from(["keeper", "of", "the", "lighthouse", "sea,", "é", "[SEP]", "unhappy"]), max_size=30)
TEXT = WORDS.map(" ".join).filter(str.strip)


class EncodingTokenizer:
    """The same tokenizer without its shorter way."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.vocab_size = tokenizer.vocab_size

    def encode_batch(self, items: Iterable[Any], *, max_length: int | None = None) -> Sequence[Encoding]:
        return self.tokenizer.encode_batch(items, max_length=max_length)


class CountingTokenizer(EncodingTokenizer):
    """Keeps count of the whole encodings that are asked for."""

    encoded_count = 0

    def encode_ids(self, items: Iterable[Any], *, max_length: int | None = None) -> Sequence[Any]:
        return self.tokenizer.encode_ids(items, max_length=max_length)

    def encode_batch(self, items: Iterable[Any], *, max_length: int | None = None) -> Sequence[Encoding]:
        items = list(items)
        self.encoded_count += len(items)
        return super().encode_batch(items, max_length=max_length)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder: Path = tmp_path_factory.mktemp("bert")
    return load_tokenizer(folder, write_bert_cased(folder), {}).source


def assert_equal_tables(a: TokenTable, b: TokenTable) -> None:
    for name in ("ids", "starts", "segment_starts", "window_rows", "labels", "rows", "hashes", "truncated"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)
    assert a.space == b.space


@settings(max_examples=scaled(60), deadline=None)
@given(
    st.lists(st.tuples(TEXT, st.one_of(st.none(), TEXT)), min_size=1, max_size=6),
    st.booleans(),
    st.sampled_from([None, 8, 12, 20, 200]),
    st.sampled_from(["window", "cut", "keep"]),
    st.integers(0, 3),
)
def test_the_same_table(
    tokenizer: Tokenizer, texts: list[Any], pairs: bool, most: int | None, long: str, stride: int
) -> None:
    rows = [
        {"text": text, "label": "ab"[i % 2]} | ({"other": text_b or text} if pairs else {})
        for i, (text, text_b) in enumerate(texts)
    ]
    columns = COLUMNS if pairs else Columns(text="text", label="label")
    options: dict[str, Any] = {"max_length": most, "long": long, "stride": stride}
    counting = CountingTokenizer(tokenizer)
    table = encode_table(open_source(rows), columns, counting, **options)
    assert_equal_tables(table, encode_table(open_source(rows), columns, EncodingTokenizer(tokenizer), **options))
    # the long way only where something becomes windows: what is kept or cut needs no more than its ids
    items = [(row["text"], row["other"]) if pairs else row["text"] for row in rows]
    lengths = [len(encoding) for encoding in tokenizer.encode_batch(items)]
    assert counting.encoded_count == sum(most is not None and long == "window" and length > most for length in lengths)
    for ours, theirs in zip(
        encode_stream(open_source(rows), columns, tokenizer, table.space, **options),
        encode_stream(open_source(rows), columns, EncodingTokenizer(tokenizer), table.space, **options),
        strict=True,
    ):
        assert_equal_tables(ours, theirs)
