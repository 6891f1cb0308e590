"""Word boundaries must not change, because models, runs and published results depend on them.

`word_splits.json` has the words that each function returns for 100 random texts, and a checksum for 5,000 texts.
"""

from __future__ import annotations

import json
import unicodedata
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clearhead.text import words
from tests.text.random_texts import make_random_texts

RECORDED = json.loads((Path(__file__).parent / "word_splits.json").read_text(encoding="utf-8"))
SPLITTERS: dict[str, Callable[[str], list[Any]]] = {
    "words": words.find_word_spans,
    "joined words": lambda text: words.find_word_spans(text, keep_inner_punctuation=True),
    "words with contractions": lambda text: words.find_word_spans(text, keep_contractions=True),
    "chunks": words.find_chunk_spans,
    "compounds": words.find_compound_spans,
    "tfidf": words.split_tfidf_words,
    "shingle": words.split_shingle_words,
    "vector": words.split_vector_words,
    "words with whitespace": words.split_words_with_whitespace,
    "occurrences": lambda text: words.find_word(text, (text.split() or ["a"])[-1]),
    "words with punctuation": lambda text: [
        words.extend_over_punctuation(text, span) for span in words.find_word_spans(text)
    ],
}


def compute_checksum(splitter: Callable[[str], list[Any]], texts: list[str]) -> int:
    checksum = 0
    for text in texts:
        checksum = zlib.crc32(json.dumps(splitter(text)).encode(), checksum)
    return checksum


def test_every_splitter_is_recorded() -> None:
    assert sorted(RECORDED["checksums"]) == sorted(SPLITTERS)


@pytest.mark.parametrize("name", SPLITTERS)
def test_boundaries_match_the_record(name: str) -> None:
    texts = make_random_texts(5000, seed=1)
    assert texts[:100] == RECORDED["texts"]
    for text, expected in zip(texts, RECORDED[name], strict=False):
        spans = [list(part) if isinstance(part, tuple) else part for part in SPLITTERS[name](text)]
        assert spans == expected, text
    assert compute_checksum(SPLITTERS[name], texts) == RECORDED["checksums"][name]


def test_a_changed_boundary_is_detected() -> None:
    texts = make_random_texts(5000, seed=1)
    for name, splitter in SPLITTERS.items():
        words_by_text = {text: splitter(text) for text in texts[4000:]}
        changed_text = next(text for text in texts[4000:] if len(words_by_text[text]) > 1)
        words_by_text[changed_text] = words_by_text[changed_text][1:]

        def split_changed(text: str) -> list[Any]:
            return words_by_text.get(text) or SPLITTERS[name](text)  # noqa: B023

        assert compute_checksum(split_changed, texts) != RECORDED["checksums"][name]


def test_parts_cover_the_text() -> None:
    for text in make_random_texts(500, seed=2):
        assert "".join(words.split_words_with_whitespace(text)) == text
        for spans in (
            words.find_word_spans(text),
            words.find_word_spans(text, keep_inner_punctuation=True),
            words.find_chunk_spans(text),
        ):
            assert all(start < end for start, end in spans)
            assert "".join(text[start:end] for start, end in spans) == "".join(text.split())


@pytest.mark.parametrize(
    ("splitter", "expected"),
    [
        ("words", ["Don", "’", "t", "U", ".", "S", ".", "-", "style", ",", "3", ".", "5", "東", "京"]),
        ("joined words", ["Don", "’", "t", "U.S.", "-", "style", ",", "3.5", "東", "京"]),
        ("words with contractions", ["Don’t", "U.S.", "-", "style", ",", "3.5", "東", "京"]),
        ("chunks", ["Don’t", "U.S.-style,", "3.5", "東", "京"]),
        ("compounds", ["Don’t", "U", "S", "style", "3", "5", "東京"]),
    ],
)
def test_differences_between_span_functions(splitter: str, expected: list[str]) -> None:
    text = "Don’t U.S.-style, 3.5 東京"
    assert [text[start:end] for start, end in SPLITTERS[splitter](text)] == expected


def test_differences_between_word_lists() -> None:
    text = "Don’t U.S.-style, 3.5 東京 a"
    assert words.split_tfidf_words(text) == ["Don", "style", "東京"]
    assert words.split_shingle_words(text) == ["Don", "t", "U", "S", "style", "3", "5", "東", "京", "a"]
    assert words.split_vector_words(text) == ["Don't", "U", "S", "style", "3", "5", "東京", "a"]
    assert words.split_words_with_whitespace("  a b\n") == ["  a", " b", "\n"]


def test_find_word_matches_standalone_words() -> None:
    assert words.find_word("bank banks bank", "bank") == [(0, 4), (11, 15)]
    assert words.find_word("Bank of the BANK", "bank") == [(0, 4), (12, 16)]
    assert words.find_word("don't", "don’t") == [(0, 5)]
    assert words.find_word("a+b (c)", "(c)") == [(4, 7)]
    assert words.find_word("banks", "bank") == []


def test_mark_ranges_are_complete() -> None:
    """Searching all of Unicode takes 90 ms at the first text, searching only these ranges 12 ms."""
    marks = [code for code in range(0x110000) if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me")]
    assert [code for codes in words.COMBINING_MARK_RANGES for code in codes if words._is_combining_mark(code)] == marks
