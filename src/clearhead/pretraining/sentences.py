"""Sentences out of chunks of text, by the `sentencex` library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from clearhead.errors import MissingExtraError
from clearhead.pretraining.documents import Chunk

MAX_SENTENCE = 2000  # characters of a sentence; what is longer has no marks that end one, and is cut at a blank


def split_sentences(chunks: Iterable[Chunk], language: str = "en") -> Iterator[Chunk]:
    """Every sentence, and whether a document begins with it."""
    segment = _load_segmenter()
    first = False
    for chunk in chunks:
        first = first or chunk.starts_document
        for found in segment(language, chunk.text):
            for text in _split_long(found.strip()):
                yield Chunk(text=text, starts_document=first)
                first = False


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
