"""Windows cover every token, and truncation counts the removed tokens exactly."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import InputError
from clearhead.text import Encoding, Tokenizer
from clearhead.text.encoding import allocate_lengths, split_into_windows, truncate
from tests.text.tokenizer_folders import SENTENCES, TEXTS
from tests.variation import scaled

LoadFamily = Callable[[str, str], tuple[Tokenizer, Any]]
TEXT_LENGTHS = st.integers(0, 40)
LONG_TEXT = " ".join(SENTENCES[:6])


def make_encoding(first_length: int, second_length: int | None) -> Encoding:
    """Make a BERT encoding with consecutive ids: from 1000 for the first text, from 2000 for the second."""
    sides: list[int | None] = [None, *[0] * first_length, None]
    if second_length is not None:
        sides += [*[1] * second_length, None]
    ids = [
        -1,
        *range(1000, 1000 + first_length),
        -2,
        *(() if second_length is None else (*range(2000, 2000 + second_length), -2)),
    ]
    return Encoding(
        ids=ids,
        tokens=[str(i) for i in ids],
        offsets=[(0, 0) if s is None else (i, i + 1) for i, s in enumerate(sides)],
        words=[None if s is None else i for i, s in enumerate(sides)],
        segments=[1 if s == 1 else 0 for s in sides],
        special=[s is None for s in sides],
        sides=sides,
    )


def select_ids(encoding: Encoding, side: int) -> list[int]:
    return [token_id for token_id, s in zip(encoding.ids, encoding.sides, strict=True) if s == side]


@settings(max_examples=scaled(300), deadline=None)
@given(TEXT_LENGTHS, st.one_of(st.none(), TEXT_LENGTHS), st.integers(1, 60), st.sampled_from(["left", "right"]))
def test_truncation_counts_exactly(first_length: int, second_length: int | None, max_length: int, side: str) -> None:
    encoding = make_encoding(first_length, second_length)
    special_count = sum(encoding.special)
    if max_length < special_count and len(encoding) > max_length:
        with pytest.raises(InputError, match="special tokens"):
            truncate(encoding, max_length, side=side)
        return
    truncated = truncate(encoding, max_length, side=side)
    assert len(truncated) == min(len(encoding), max_length)
    assert truncated.truncated == len(encoding) - len(truncated)
    assert [i for i, s in zip(truncated.ids, truncated.special, strict=True) if s] == [
        i for i, s in zip(encoding.ids, encoding.special, strict=True) if s
    ]
    for text_index in (0, 1):
        all_ids, kept_ids = select_ids(encoding, text_index), select_ids(truncated, text_index)
        assert kept_ids == (all_ids[: len(kept_ids)] if side == "right" else all_ids[len(all_ids) - len(kept_ids) :])
    lists = (
        truncated.ids,
        truncated.tokens,
        truncated.offsets,
        truncated.words,
        truncated.segments,
        truncated.special,
        truncated.sides,
    )
    assert {len(values) for values in lists} == {len(truncated)}


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 100))
def test_longer_text_is_truncated_first(first_length: int, second_length: int, max_total: int) -> None:
    lengths = allocate_lengths(max_total, first_length, second_length)
    assert sum(lengths) == min(max_total, first_length + second_length)
    assert 0 <= lengths[0] <= first_length
    assert 0 <= lengths[1] <= second_length
    if lengths[0] < first_length and lengths[1] < second_length:
        assert abs(lengths[0] - lengths[1]) <= 1
    elif lengths[0] < first_length:
        assert lengths[0] >= lengths[1] - 1
    elif lengths[1] < second_length:
        assert lengths[1] >= lengths[0] - 1


@settings(max_examples=scaled(300), deadline=None)
@given(
    st.integers(0, 60),
    st.one_of(st.none(), st.integers(0, 60)),
    st.integers(1, 40),
    st.integers(0, 12),
    st.booleans(),
)
def test_windows_cover_every_token(
    first_length: int, second_length: int | None, max_length: int, stride: int, over_second: bool
) -> None:
    encoding = make_encoding(first_length, second_length)
    side = 1 if over_second and second_length is not None else 0
    sliding_ids, fixed_ids = select_ids(encoding, side), select_ids(encoding, 1 - side)
    tokens_per_window = max_length - (len(encoding) - len(sliding_ids))
    if len(encoding) > max_length and tokens_per_window <= stride:
        with pytest.raises(InputError, match="stride"):
            split_into_windows(encoding, max_length=max_length, stride=stride, side=side)
        return
    windows = split_into_windows(encoding, max_length=max_length, stride=stride, side=side)
    window_ids = [select_ids(window, side) for window in windows]
    joined_ids = window_ids[0] + [i for ids in window_ids[1:] for i in ids[stride:]]
    assert joined_ids == sliding_ids  # all tokens in order, repeated only within the stride
    for window, ids in zip(windows, window_ids, strict=True):
        assert len(window) <= max_length
        assert window.truncated == 0
        assert select_ids(window, 1 - side) == fixed_ids
        assert sum(window.special) == sum(encoding.special)
        assert len(ids) == tokens_per_window or window is windows[-1] or len(windows) == 1
    for previous, following in pairwise(window_ids):
        assert previous[len(previous) - stride :] == following[:stride]
        assert len(following) > stride  # the last window has new tokens


@pytest.mark.parametrize("name", ["bert_cased", "roberta", "albert", "deberta"])
def test_windows_match_transformers(load_family: LoadFamily, name: str) -> None:
    ours, theirs = load_family(name, "legacy")
    for max_length, stride in ((12, 0), (16, 3), (20, 10), (500, 5)):
        options = {"max_length": max_length, "stride": stride, "return_overflowing_tokens": True}
        windows = ours.windows(LONG_TEXT, max_length=max_length, stride=stride)
        expected = theirs(LONG_TEXT, truncation=True, **options).encodings
        assert [window.ids for window in windows] == [e.ids for e in expected]
        assert [window.offsets for window in windows] == [e.offsets for e in expected]
        question = "Who?"
        windows = ours.windows(question, LONG_TEXT, max_length=max_length + 8, stride=stride)
        options["max_length"] = max_length + 8
        expected = theirs(question, LONG_TEXT, truncation="only_second", **options).encodings
        assert [window.ids for window in windows] == [e.ids for e in expected]
        assert [window.segments for window in windows] == [e.type_ids for e in expected]
        windows = ours.windows(LONG_TEXT, question, max_length=max_length + 8, stride=stride, only="first")
        expected = theirs(LONG_TEXT, question, truncation="only_first", **options).encodings
        assert [window.ids for window in windows] == [e.ids for e in expected]


def test_a_missing_window_is_detected(load_family: LoadFamily) -> None:
    ours, _ = load_family("bert_cased", "legacy")
    windows = ours.windows(LONG_TEXT, max_length=16, stride=3)
    text_ids = select_ids(ours.encode(LONG_TEXT), 0)
    window_ids = [select_ids(window, 0) for window in windows]
    assert window_ids[0] + [i for ids in window_ids[1:] for i in ids[3:]] == text_ids
    assert window_ids[0] + [i for ids in window_ids[1:-1] for i in ids[3:]] != text_ids


def test_short_and_empty_texts_are_one_window(load_family: LoadFamily) -> None:
    ours, _ = load_family("bert_cased", "legacy")
    assert ours.windows("", max_length=8) == [ours.encode("")]
    assert ours.windows("The keeper", max_length=64, stride=63) == [ours.encode("The keeper")]


@pytest.mark.parametrize(
    ("call", "pattern"),
    [
        (lambda t: t.encode("x", max_length=0), "integer >= 1"),
        (lambda t: t.encode("x", max_length=-1), "integer >= 1"),
        (lambda t: t.encode("x", max_length=2.5), "must be an integer"),
        (lambda t: t.encode("x", max_length=True), "must be an integer"),
        (lambda t: t.encode("a b c", max_length=1), "special tokens"),
        (lambda t: t.windows(LONG_TEXT, max_length=10, stride=-1), "integer >= 0"),
        (lambda t: t.windows(LONG_TEXT, max_length=10, stride=8), "stride"),
        (lambda t: t.windows(LONG_TEXT, LONG_TEXT, max_length=10, stride=1), "max_length"),
        (lambda t: t.windows(LONG_TEXT, max_length=10, only="second"), "only must be"),
        (lambda t: t.windows(LONG_TEXT, LONG_TEXT, max_length=10, only="third"), "only must be"),
    ],
)
def test_invalid_lengths_are_rejected(
    load_family: LoadFamily, call: Callable[[Tokenizer], object], pattern: str
) -> None:
    ours, _ = load_family("bert_cased", "legacy")
    with pytest.raises(InputError, match=pattern):
        call(ours)


def test_texts_are_not_truncated_by_default(load_family: LoadFamily) -> None:
    for name in ("bert_cased", "roberta", "t5"):
        ours, _ = load_family(name, "legacy")
        text = LONG_TEXT * 40
        assert len(ours.encode(text)) > 2000
        assert ours.encode(text).truncated == 0
        assert all(e.truncated == 0 for e in ours.encode_batch(list(TEXTS)))
