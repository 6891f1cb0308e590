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

Family = Callable[[str, str], tuple[Tokenizer, Any]]
SIZES = st.integers(0, 40)
LONG = " ".join(SENTENCES[:6])


def make_encoding(first: int, second: int | None) -> Encoding:
    """Make a BERT encoding with consecutive ids: from 1000 for the first text, from 2000 for the second."""
    sides: list[int | None] = [None, *[0] * first, None]
    if second is not None:
        sides += [*[1] * second, None]
    ids = [-1, *range(1000, 1000 + first), -2, *(() if second is None else (*range(2000, 2000 + second), -2))]
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
    return [i for i, s in zip(encoding.ids, encoding.sides, strict=True) if s == side]


@settings(max_examples=scaled(300), deadline=None)
@given(SIZES, st.one_of(st.none(), SIZES), st.integers(1, 60), st.sampled_from(["left", "right"]))
def test_truncation_counts_exactly(first: int, second: int | None, limit: int, side: str) -> None:
    encoding = make_encoding(first, second)
    inserted = sum(encoding.special)
    if limit < inserted and len(encoding) > limit:
        with pytest.raises(InputError, match="special tokens"):
            truncate(encoding, limit, side=side)
        return
    truncated = truncate(encoding, limit, side=side)
    assert len(truncated) == min(len(encoding), limit)
    assert truncated.truncated == len(encoding) - len(truncated)
    assert [i for i, s in zip(truncated.ids, truncated.special, strict=True) if s] == [
        i for i, s in zip(encoding.ids, encoding.special, strict=True) if s
    ]
    for text in (0, 1):
        before, after = select_ids(encoding, text), select_ids(truncated, text)
        assert after == (before[: len(after)] if side == "right" else before[len(before) - len(after) :])
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
def test_longer_text_is_truncated_first(first: int, second: int, room: int) -> None:
    lengths = allocate_lengths(room, first, second)
    assert sum(lengths) == min(room, first + second)
    assert 0 <= lengths[0] <= first
    assert 0 <= lengths[1] <= second
    if lengths[0] < first and lengths[1] < second:
        assert abs(lengths[0] - lengths[1]) <= 1
    elif lengths[0] < first:
        assert lengths[0] >= lengths[1] - 1
    elif lengths[1] < second:
        assert lengths[1] >= lengths[0] - 1


@settings(max_examples=scaled(300), deadline=None)
@given(
    st.integers(0, 60),
    st.one_of(st.none(), st.integers(0, 60)),
    st.integers(1, 40),
    st.integers(0, 12),
    st.booleans(),
)
def test_windows_cover_every_token(first: int, second: int | None, limit: int, stride: int, over_second: bool) -> None:
    encoding = make_encoding(first, second)
    side = 1 if over_second and second is not None else 0
    tokens, fixed = select_ids(encoding, side), select_ids(encoding, 1 - side)
    room = limit - (len(encoding) - len(tokens))
    if len(encoding) > limit and room <= stride:
        with pytest.raises(InputError, match="stride"):
            split_into_windows(encoding, max_length=limit, stride=stride, side=side)
        return
    windows = split_into_windows(encoding, max_length=limit, stride=stride, side=side)
    parts = [select_ids(window, side) for window in windows]
    joined = parts[0] + [i for part in parts[1:] for i in part[stride:]]
    assert joined == tokens  # all tokens in order, repeated only within the stride
    for window, part in zip(windows, parts, strict=True):
        assert len(window) <= limit
        assert window.truncated == 0
        assert select_ids(window, 1 - side) == fixed
        assert sum(window.special) == sum(encoding.special)
        assert len(part) == room or window is windows[-1] or len(windows) == 1
    for previous, following in pairwise(parts):
        assert previous[len(previous) - stride :] == following[:stride]
        assert len(following) > stride  # the last window has new tokens


@pytest.mark.parametrize("name", ["bert_cased", "roberta", "albert", "deberta"])
def test_windows_match_transformers(family: Family, name: str) -> None:
    ours, theirs = family(name, "legacy")
    for limit, stride in ((12, 0), (16, 3), (20, 10), (500, 5)):
        options = {"max_length": limit, "stride": stride, "return_overflowing_tokens": True}
        windows = ours.windows(LONG, max_length=limit, stride=stride)
        expected = theirs(LONG, truncation=True, **options).encodings
        assert [w.ids for w in windows] == [e.ids for e in expected]
        assert [w.offsets for w in windows] == [e.offsets for e in expected]
        question = "Who?"
        windows = ours.windows(question, LONG, max_length=limit + 8, stride=stride)
        options["max_length"] = limit + 8
        expected = theirs(question, LONG, truncation="only_second", **options).encodings
        assert [w.ids for w in windows] == [e.ids for e in expected]
        assert [w.segments for w in windows] == [e.type_ids for e in expected]
        windows = ours.windows(LONG, question, max_length=limit + 8, stride=stride, only="first")
        expected = theirs(LONG, question, truncation="only_first", **options).encodings
        assert [w.ids for w in windows] == [e.ids for e in expected]


def test_a_missing_window_is_detected(family: Family) -> None:
    ours, _ = family("bert_cased", "legacy")
    windows = ours.windows(LONG, max_length=16, stride=3)
    tokens = select_ids(ours.encode(LONG), 0)
    parts = [select_ids(w, 0) for w in windows]
    assert parts[0] + [i for p in parts[1:] for i in p[3:]] == tokens
    assert parts[0] + [i for p in parts[1:-1] for i in p[3:]] != tokens


def test_short_and_empty_texts_are_one_window(family: Family) -> None:
    ours, _ = family("bert_cased", "legacy")
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
        (lambda t: t.windows(LONG, max_length=10, stride=-1), "integer >= 0"),
        (lambda t: t.windows(LONG, max_length=10, stride=8), "stride"),
        (lambda t: t.windows(LONG, LONG, max_length=10, stride=1), "max_length"),
        (lambda t: t.windows(LONG, max_length=10, only="second"), "only must be"),
        (lambda t: t.windows(LONG, LONG, max_length=10, only="third"), "only must be"),
    ],
)
def test_invalid_lengths_are_rejected(family: Family, call: Callable[[Tokenizer], object], pattern: str) -> None:
    ours, _ = family("bert_cased", "legacy")
    with pytest.raises(InputError, match=pattern):
        call(ours)


def test_texts_are_not_truncated_by_default(family: Family) -> None:
    for name in ("bert_cased", "roberta", "t5"):
        ours, _ = family(name, "legacy")
        text = LONG * 40
        assert len(ours.encode(text)) > 2000
        assert ours.encode(text).truncated == 0
        assert all(e.truncated == 0 for e in ours.encode_batch(list(TEXTS)))
