"""Rows of any length take bounded work: windows cover a limited number of tokens, and the others are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clearhead.data import Columns, LabelSpace
from clearhead.data.examples import TextRow
from clearhead.data.row_codec import (
    MAX_TOKENS,
    MAX_TOKENS_TOKEN_LEVEL,
    MAX_UNSPLIT_TOKENS,
    TEXT_ROWS,
    LengthPolicy,
    RowCodec,
)
from clearhead.data.sources.source import Row
from clearhead.data.table import TokenTable, encode_rows
from clearhead.tasks.span import rows as span_rows
from clearhead.tasks.span.task import SPAN_ROWS
from clearhead.tasks.tag.task import TAG_ROWS
from tests.tasks.tokenizers import make_tokenizer

WORDS = "The keeper wrote a letter! "
LONG = WORDS * 400  # at least 2,400 tokens
SPANS = Columns(text="question", text_b="context", label="answers")
ANSWERS = LabelSpace(kind="answers", scheme="all")


def make_table(
    rows: list[TextRow], columns: Columns, length_policy: LengthPolicy, codec: RowCodec = TEXT_ROWS, space: Any = None
) -> TokenTable:
    return encode_rows(rows, columns, make_tokenizer("bert_cased"), space, length_policy, codec)


def make_text_row(text: str) -> TextRow:
    return TextRow(number=1, text=text, text_b=None, label=None, id=None, split=None)


def check_values(codec: RowCodec, columns: Columns, values: dict[str, Any], space: LabelSpace) -> TextRow:
    row = codec.check_row(Row(1, values), columns, space)
    assert isinstance(row, TextRow), row
    return row


@pytest.mark.parametrize("stride", [0, 5])
def test_windows_of_a_long_text_are_bounded(stride: int) -> None:
    length_policy = LengthPolicy(max_length=20, stride=stride, max_tokens=100)
    table = make_table([make_text_row(LONG)], Columns(text="text"), length_policy)
    encoding = make_tokenizer("bert_cased").encode(LONG)
    assert int(table.truncated[0]) == len(encoding) - 100  # tokens read plus tokens truncated
    assert len(table.starts) - 1 == len(range(0, 98 - stride, 18 - stride))
    assert table.window_ids(0).tolist() == [*encoding.ids[:19], encoding.ids[-1]]


def test_rows_up_to_the_limit_are_read_whole() -> None:
    text = WORDS * 15
    encoding = make_tokenizer("bert_cased").encode(text)
    columns = Columns(text="text")
    limited = make_table([make_text_row(text)], columns, LengthPolicy(max_length=20, max_tokens=len(encoding)))
    unlimited = make_table([make_text_row(text)], columns, LengthPolicy(max_length=20))
    assert limited.ids.tolist() == unlimited.ids.tolist()
    assert not limited.truncated.any()


def test_default_token_limit() -> None:
    assert LengthPolicy(max_length=512).token_limit == MAX_TOKENS
    assert LengthPolicy(max_length=512, long="cut").token_limit == 512
    assert (
        LengthPolicy(max_length=4 * MAX_TOKENS).token_limit == 4 * MAX_TOKENS
    )  # a model with longer inputs reads all its positions
    assert LengthPolicy().token_limit == MAX_UNSPLIT_TOKENS
    assert LengthPolicy(max_length=512).token_level_limit == MAX_TOKENS_TOKEN_LEVEL
    assert LengthPolicy(max_length=512, max_tokens=600).token_level_limit == 600
    assert LengthPolicy(max_length=512, max_tokens=50_000).token_limit == 50_000


def test_a_row_without_windows_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.data.row_codec.MAX_UNSPLIT_TOKENS", 50)
    table = make_table([make_text_row(LONG)], Columns(text="text"), LengthPolicy())
    assert table.lengths.tolist() == [50]
    assert int(table.truncated[0]) == len(make_tokenizer("bert_cased").encode(LONG)) - 50


def test_words_of_a_long_text_keep_their_tags_up_to_the_limit() -> None:
    columns, space = Columns(text="text"), LabelSpace(names=("O",), kind="tags", scheme="plain")
    row = check_values(TAG_ROWS, columns, {"text": LONG}, space)
    table = make_table([row], columns, LengthPolicy(max_length=20, stride=4, max_tokens=100), TAG_ROWS)
    word_tokens = table.annotations.word_tokens.values
    read_words = np.flatnonzero(word_tokens >= 0)
    assert 50 < len(read_words) < 100
    assert read_words.tolist() == list(range(len(read_words)))  # the first words, without gaps
    assert int(table.truncated.sum()) > 2_000


def test_a_long_passage_is_bounded_and_its_windows_process_only_their_own_part(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    trim_offsets = span_rows._trim_offsets

    def count_characters(offsets: Any, passage: str) -> Any:
        lengths.append(len(passage))
        return trim_offsets(offsets, passage)

    monkeypatch.setattr(span_rows, "_trim_offsets", count_characters)
    values = {"question": "Who wrote?", "context": LONG, "answers": [{"text": "keeper", "answer_start": 4}]}
    row = check_values(SPAN_ROWS, SPANS, values, ANSWERS)
    table = make_table([row], SPANS, LengthPolicy(max_length=32, stride=8, max_tokens=200), SPAN_ROWS, ANSWERS)
    assert int(table.truncated[0]) == len(make_tokenizer("bert_cased").encode("Who wrote?", LONG)) - 200
    assert sum(lengths) < 3 * len(LONG)  # windows do not process the whole passage
    assert (
        LONG[int(table.annotations.char_starts[1]) : int(table.annotations.char_ends[1])]
        == "keeper"[: int(table.annotations.char_ends[1]) - 4]
    )


@pytest.mark.parametrize("name", ["xlm_roberta", "roberta", "albert", "bert_cased"])
def test_token_starts_exclude_spaces(name: str) -> None:
    passage = "  Two  words\tand \u3000 more " * 4
    encoding = make_tokenizer(name).encode("Who?", passage)
    offsets = [pair for pair, side in zip(encoding.offsets, encoding.sides, strict=True) if side == 1]
    starts, ends = span_rows._trim_spaces(offsets, passage)
    for first in range(0, len(offsets), 3):  # a subset of the tokens has the same starts
        subset = span_rows._trim_spaces(offsets[first : first + 5], passage)
        assert subset[0].tolist() == starts[first : first + 5].tolist()
        assert subset[1].tolist() == ends[first : first + 5].tolist()
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        assert passage[start:end] == passage[start:end].strip()
