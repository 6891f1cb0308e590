"""Sentence splitting with the `sentencex` library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from clearhead.errors import MissingExtraError
from clearhead.pretraining.documents import Chunk

MAX_SENTENCE = 2000  # characters; longer text without sentence ends is split at a space


def split_sentences(chunks: Iterable[Chunk], language: str = "en") -> Iterator[Chunk]:
    """Split chunks into sentences; the first sentence of a document is marked."""
    segment = _load_segmenter()
    starts_document = False
    for chunk in chunks:
        starts_document = starts_document or chunk.starts_document
        for sentence in segment(language, chunk.text):
            for text in _split_long(sentence.strip()):
                yield Chunk(text=text, starts_document=starts_document)
                starts_document = False


@cache
def _load_segmenter() -> Any:
    try:
        from sentencex import segment
    except ImportError:
        raise MissingExtraError("Splitting text into sentences", "train") from None
    return segment


def _split_long(text: str) -> Iterator[str]:
    while len(text) > MAX_SENTENCE:
        end = text.rfind(" ", MAX_SENTENCE // 2, MAX_SENTENCE) + 1 or MAX_SENTENCE
        yield text[:end].rstrip()
        text = text[end:].lstrip()
    if text:
        yield text
