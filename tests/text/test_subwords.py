"""Subword markers of each kind of vocabulary, with recorded checksums of the results."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from clearhead.text.subwords import (
    build_byte_alphabet,
    decode_bytes,
    find_continuations,
    find_start_marker,
    make_whole_word_lookup,
    strip_subword_markers,
)
from tests.text.random_texts import make_random_texts

SPECIAL = ("[CLS]", "<s>")


def make_vocabularies(seed: int = 5) -> list[list[str]]:
    """Make random vocabularies in which most tokens have the same marker, and the others any or none."""
    rng, vocabularies = random.Random(seed), []
    for _ in range(400):
        marker, share = rng.choice(("", "##", "Ġ", "▁", "Ċ", "</w>")), rng.random()
        vocab: dict[str, int] = {}
        for text in make_random_texts(rng.randrange(1, 40), seed=rng.randrange(1 << 30)):
            token = (text.split() or ["a"])[0]
            if rng.random() < share:
                token = token + marker if marker == "</w>" else marker + token
            vocab[token] = len(vocab)
        vocabularies.append(list(vocab))
    return vocabularies


def make_vocab(tokens: list[str]) -> dict[str, int]:
    return {token: token_id for token_id, token in enumerate(tokens)}


def find_whole_words(tokens: list[str]) -> list[str | None]:
    get_word = make_whole_word_lookup(make_vocab(tokens))
    return [get_word(token) for token in tokens]


@pytest.mark.parametrize(
    ("function", "expected_checksum"),
    [
        (find_continuations, 2388252474),
        (find_start_marker, 2489039390),
        (find_whole_words, 1184661773),
        (lambda tokens: strip_subword_markers(tokens, [token in SPECIAL for token in tokens]), 1876698796),
    ],
    ids=["continuations", "start", "whole words", "text"],
)
def test_results_match_recorded_checksums(function: Callable[[list[str]], Any], expected_checksum: int) -> None:
    checksum = 0
    for tokens in make_vocabularies():
        checksum = zlib.crc32(json.dumps(function(tokens)).encode(), checksum)
    assert checksum == expected_checksum


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
def test_markers_are_stripped(tokens: list[str], expected: list[tuple[str, bool]]) -> None:
    assert strip_subword_markers(tokens, [token in SPECIAL for token in tokens]) == expected


def test_byte_alphabet_is_complete() -> None:
    assert sorted(build_byte_alphabet().values()) == list(range(256))
    assert decode_bytes("ĠÃ©tÃ©") == " été"
    assert decode_bytes("東") == "東"  # not in the alphabet


def test_continuations_and_whole_words_of_each_kind() -> None:
    wordpiece = ["the", "##s", "##", "a"]
    assert find_continuations(wordpiece) == [False, True, False, False]
    assert find_whole_words(wordpiece) == ["the", None, None, "a"]
    byte_level = ["Ġthe", "s", "!", "Ã"]
    assert find_continuations(byte_level) == [False, True, False, True]
    assert find_whole_words(byte_level) == ["the", None, None, None]
    metaspace = ["▁the", "s", "!"]
    assert find_continuations(metaspace) == [False, True, False]
    assert find_whole_words(metaspace) == ["the", None, None]
    word_end = ["the</w>", "th"]
    assert find_whole_words(word_end) == ["the", None]
    assert [find_start_marker(tokens) for tokens in (wordpiece, byte_level, metaspace, word_end)] == [
        None,
        "Ġ",
        "▁",
        None,
    ]
