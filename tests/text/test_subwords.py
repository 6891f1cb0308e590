"""Subword markers: how each kind of vocabulary writes words, and checksums from before there was one reader."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from clearhead.text.subwords import (
    byte_alphabet,
    decode_bytes,
    find_continuations,
    find_start_marker,
    make_whole_word_lookup,
    strip_subword_markers,
)
from tests.text.scripts import random_texts

SPECIAL = ("[CLS]", "<s>")


def vocabularies(seed: int = 5) -> list[list[str]]:
    """Random vocabularies: most of the tokens of each have one marker, others have any or none."""
    draw, made = random.Random(seed), []
    for _ in range(400):
        own, share = draw.choice(("", "##", "Ġ", "▁", "Ċ", "</w>")), draw.random()
        vocab: dict[str, int] = {}
        for text in random_texts(draw.randrange(1, 40), seed=draw.randrange(1 << 30)):
            token = (text.split() or ["a"])[0]
            if draw.random() < share:
                token = token + own if own == "</w>" else own + token
            vocab[token] = len(vocab)
        made.append(list(vocab))
    return made


def numbered(tokens: list[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}


def whole_words(tokens: list[str]) -> list[str | None]:
    read = make_whole_word_lookup(numbered(tokens))
    return [read(token) for token in tokens]


@pytest.mark.parametrize(
    ("reader", "recorded"),
    [
        (find_continuations, 2388252474),
        (find_start_marker, 2489039390),
        (whole_words, 1184661773),
        (lambda tokens: strip_subword_markers(tokens, [token in SPECIAL for token in tokens]), 1876698796),
    ],
    ids=["continuations", "start", "whole words", "text"],
)
def test_readers_give_what_was_recorded(reader: Callable[[list[str]], Any], recorded: int) -> None:
    checksum = 0
    for tokens in vocabularies():
        checksum = zlib.crc32(json.dumps(reader(tokens)).encode(), checksum)
    assert checksum == recorded


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["[CLS]", "un", "##seen", "##"], [("[CLS]", True), ("un", True), ("seen", False), ("##", True)]),
        (["Un", "seen", "Ġwords", "Ċ"], [("Un", True), ("seen", False), ("words", True), ("\n", True)]),
        (["▁un", "seen", "▁"], [("un", True), ("seen", False), (" ", True)]),
        (["plain", "words"], [("plain", True), ("words", True)]),
        (["Ġ", "âĤ", "¬"], [(" ", True), ("‹E2 82›", False), ("‹AC›", False)]),
    ],
)
def test_text_without_markers(tokens: list[str], expected: list[tuple[str, bool]]) -> None:
    assert strip_subword_markers(tokens, [token in SPECIAL for token in tokens]) == expected


def test_byte_alphabet_is_whole() -> None:
    assert sorted(byte_alphabet().values()) == list(range(256))
    assert decode_bytes("ĠÃ©tÃ©") == " été"
    assert decode_bytes("東") == "東"  # no character of the alphabet


def test_continuations_and_whole_words_of_each_kind() -> None:
    wordpiece = ["the", "##s", "##", "a"]
    assert find_continuations(wordpiece) == [False, True, False, False]
    assert whole_words(wordpiece) == ["the", None, None, "a"]
    by_bytes = ["Ġthe", "s", "!", "Ã"]
    assert find_continuations(by_bytes) == [False, True, False, True]
    assert whole_words(by_bytes) == ["the", None, None, None]
    by_space = ["▁the", "s", "!"]
    assert find_continuations(by_space) == [False, True, False]
    assert whole_words(by_space) == ["the", None, None]
    ends = ["the</w>", "th"]
    assert whole_words(ends) == ["the", None]
    assert [find_start_marker(tokens) for tokens in (wordpiece, by_bytes, by_space, ends)] == [None, "Ġ", "▁", None]
