"""Nothing is lost: windows hold every token, and what truncation cuts is counted exactly."""

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


def made_up(first: int, second: int | None) -> Encoding:
    """An encoding of BERT's form with numbered tokens: 1000.. for the first text, 2000.. for the second."""
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


def of_side(encoding: Encoding, side: int) -> list[int]:
    return [i for i, s in zip(encoding.ids, encoding.sides, strict=True) if s == side]


@settings(max_examples=scaled(300), deadline=None)
@given(SIZES, st.one_of(st.none(), SIZES), st.integers(1, 60), st.sampled_from(["left", "right"]))
def test_truncation_counts_exactly(first: int, second: int | None, limit: int, side: str) -> None:
    whole = made_up(first, second)
    inserted = sum(whole.special)
    if limit < inserted and len(whole) > limit:
        with pytest.raises(InputError, match="special tokens"):
            truncate(whole, limit, side=side)
        return
    cut = truncate(whole, limit, side=side)
    assert len(cut) == min(len(whole), limit)
    assert cut.truncated == len(whole) - len(cut)
    assert [i for i, s in zip(cut.ids, cut.special, strict=True) if s] == [
        i for i, s in zip(whole.ids, whole.special, strict=True) if s
    ]
    for text in (0, 1):
        before, after = of_side(whole, text), of_side(cut, text)
        assert after == (before[: len(after)] if side == "right" else before[len(before) - len(after) :])
    lists = (cut.ids, cut.tokens, cut.offsets, cut.words, cut.segments, cut.special, cut.sides)
    assert {len(values) for values in lists} == {len(cut)}


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 100))
def test_the_longer_text_is_cut_first(first: int, second: int, room: int) -> None:
    kept = allocate_lengths(room, first, second)
    assert sum(kept) == min(room, first + second)
    assert 0 <= kept[0] <= first
    assert 0 <= kept[1] <= second
    if kept[0] < first and kept[1] < second:
        assert abs(kept[0] - kept[1]) <= 1
    elif kept[0] < first:
        assert kept[0] >= kept[1] - 1
    elif kept[1] < second:
        assert kept[1] >= kept[0] - 1


@settings(max_examples=scaled(300), deadline=None)
@given(
    st.integers(0, 60),
    st.one_of(st.none(), st.integers(0, 60)),
    st.integers(1, 40),
    st.integers(0, 12),
    st.booleans(),
)
def test_windows_cover_every_token(first: int, second: int | None, limit: int, stride: int, over_second: bool) -> None:
    whole = made_up(first, second)
    side = 1 if over_second and second is not None else 0
    tokens, other = of_side(whole, side), of_side(whole, 1 - side)
    room = limit - (len(whole) - len(tokens))
    if len(whole) > limit and room <= stride:
        with pytest.raises(InputError, match="stride"):
            split_into_windows(whole, max_length=limit, stride=stride, side=side)
        return
    found = split_into_windows(whole, max_length=limit, stride=stride, side=side)
    parts = [of_side(window, side) for window in found]
    joined = parts[0] + [i for part in parts[1:] for i in part[stride:]]
    assert joined == tokens  # every token, in order, none twice beyond the stride
    for window, part in zip(found, parts, strict=True):
        assert len(window) <= limit
        assert window.truncated == 0
        assert of_side(window, 1 - side) == other
        assert sum(window.special) == sum(whole.special)
        assert len(part) == room or window is found[-1] or len(found) == 1
    for left, right in pairwise(parts):
        assert left[len(left) - stride :] == right[:stride]
        assert len(right) > stride  # the last window brings something new


@pytest.mark.parametrize("name", ["bert_cased", "roberta", "albert", "deberta"])
def test_windows_are_those_of_transformers(family: Family, name: str) -> None:
    ours, theirs = family(name, "legacy")
    for limit, stride in ((12, 0), (16, 3), (20, 10), (500, 5)):
        options = {"max_length": limit, "stride": stride, "return_overflowing_tokens": True}
        found = ours.windows(LONG, max_length=limit, stride=stride)
        expected = theirs(LONG, truncation=True, **options).encodings
        assert [w.ids for w in found] == [e.ids for e in expected]
        assert [w.offsets for w in found] == [e.offsets for e in expected]
        question = "Who?"
        found = ours.windows(question, LONG, max_length=limit + 8, stride=stride)
        options["max_length"] = limit + 8
        expected = theirs(question, LONG, truncation="only_second", **options).encodings
        assert [w.ids for w in found] == [e.ids for e in expected]
        assert [w.segments for w in found] == [e.type_ids for e in expected]
        found = ours.windows(LONG, question, max_length=limit + 8, stride=stride, only="first")
        expected = theirs(LONG, question, truncation="only_first", **options).encodings
        assert [w.ids for w in found] == [e.ids for e in expected]


def test_control_a_window_too_few_is_seen(family: Family) -> None:
    ours, _ = family("bert_cased", "legacy")
    found = ours.windows(LONG, max_length=16, stride=3)
    whole = of_side(ours.encode(LONG), 0)
    parts = [of_side(w, 0) for w in found]
    assert parts[0] + [i for p in parts[1:] for i in p[3:]] == whole
    assert parts[0] + [i for p in parts[1:-1] for i in p[3:]] != whole


def test_short_and_empty_texts_are_one_window(family: Family) -> None:
    ours, _ = family("bert_cased", "legacy")
    assert ours.windows("", max_length=8) == [ours.encode("")]
    assert ours.windows("The keeper", max_length=64, stride=63) == [ours.encode("The keeper")]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: t.encode("x", max_length=0), "at least 1"),
        (lambda t: t.encode("x", max_length=-1), "at least 1"),
        (lambda t: t.encode("x", max_length=2.5), "whole number"),
        (lambda t: t.encode("x", max_length=True), "whole number"),
        (lambda t: t.encode("a b c", max_length=1), "special tokens"),
        (lambda t: t.windows(LONG, max_length=10, stride=-1), "at least 0"),
        (lambda t: t.windows(LONG, max_length=10, stride=8), "stride"),
        (lambda t: t.windows(LONG, LONG, max_length=10, stride=1), "max_length"),
        (lambda t: t.windows(LONG, max_length=10, only="second"), "only="),
        (lambda t: t.windows(LONG, LONG, max_length=10, only="third"), "only="),
    ],
)
def test_impossible_lengths_get_a_sentence(family: Family, call: Callable[[Tokenizer], object], words: str) -> None:
    ours, _ = family("bert_cased", "legacy")
    with pytest.raises(InputError, match=words):
        call(ours)


def test_nothing_is_cut_unless_asked_for(family: Family) -> None:
    for name in ("bert_cased", "roberta", "t5"):
        ours, _ = family(name, "legacy")
        text = LONG * 40
        assert len(ours.encode(text)) > 2000
        assert ours.encode(text).truncated == 0
        assert all(e.truncated == 0 for e in ours.encode_batch(list(TEXTS)))
