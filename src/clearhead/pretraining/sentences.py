"""Sentences out of chunks of text, by the `sentencex` library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from clearhead.errors import MissingExtraError
from clearhead.pretraining.documents import Chunk

MOST = 2000  # characters of a sentence; what is longer has no marks that end one, and is cut at a blank


def split_sentences(chunks: Iterable[Chunk], language: str = "en") -> Iterator[Chunk]:
    """Every sentence, and whether a document begins with it."""
    segment = _segment()
    first = False
    for chunk in chunks:
        first = first or chunk.first
        for found in segment(language, chunk.text):
            for text in _cut(found.strip()):
                yield Chunk(text=text, first=first)
                first = False


@cache
def _segment() -> Any:
    try:
        from sentencex import segment
    except ImportError:
        raise MissingExtraError("Splitting text into sentences", "train") from None
    return segment


def _cut(text: str) -> Iterator[str]:
    while len(text) > MOST:
        end = text.rfind(" ", MOST // 2, MOST) + 1 or MOST
        yield text[:end].rstrip()
        text = text[end:].lstrip()
    if text:
        yield text
