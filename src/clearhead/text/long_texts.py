"""Encode the beginning of a long text to the same tokens as the complete text, and count the others.

If only the first tokens are needed, encoding a megabyte with offsets is wasteful. A fast pass computes the ids and
counts the tokens, and the offsets come from a prefix whose ids must match. A text that is too long for one pass is
counted in chunks, split at whitespace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from clearhead.errors import InputError
from clearhead.text.encoding import Encoding, TokenIds, truncate
from clearhead.text.limits.pipeline_limits import MAX_TEXT_LENGTH, check_text_size
from clearhead.text.pipeline import EncodeInput

LONG_TEXT_LENGTH = 16_384  # characters; shorter texts are encoded completely, which is as fast
CHARACTERS_PER_TOKEN = 16  # initial prefix length per requested token; most tokens have three to five characters
PREFIX_GROWTH = 8  # factor by which a prefix that is too short grows
EXTRA_TOKENS = 8  # tokens required after the last requested one, because the cut may change the tokens before it
CHUNK_SIZE = 1 << 20  # characters that are counted in one call
WHITESPACE_SEARCH = 4_096  # characters before the end of a chunk that are searched for whitespace


class EncodingBackend(Protocol):
    """The backend methods that encoding long texts requires."""

    @property
    def max_text_length(self) -> int | None: ...
    def encode(self, items: Sequence[EncodeInput], *, split: bool) -> list[Encoding]: ...
    def encode_ids(
        self, items: Sequence[EncodeInput], *, split: bool, max_length: int | None = None, side: str = "right"
    ) -> list[TokenIds]: ...
    def count_tokens(self, text: str) -> int: ...


def is_long(item: EncodeInput, max_length: int) -> bool:
    """Whether encoding only the beginning of a text may be faster."""
    return max(map(len, _get_texts(item))) > max(LONG_TEXT_LENGTH, CHARACTERS_PER_TOKEN * max_length)


def is_huge(item: EncodeInput) -> bool:
    """Whether a text is too long for one pass."""
    return max(map(len, _get_texts(item))) > MAX_TEXT_LENGTH


def encode_long_text_ids(backend: EncodingBackend, item: EncodeInput, max_length: int, side: str) -> TokenIds:
    """Encode the first tokens of a text or a pair, and count the tokens that follow."""
    if not is_huge(item):
        return backend.encode_ids([item], split=False, max_length=max_length, side=side)[0]
    texts = _get_texts(item)
    if side == "left" or backend.max_text_length is not None:
        for text in texts:
            check_text_size(text, max_length=backend.max_text_length)
    prefixes = [text[: next(_iter_chunk_ends(text))] for text in texts]
    token_ids = backend.encode_ids([_make_item(prefixes)], split=False, max_length=max_length, side=side)[0]
    if not token_ids.truncated:  # the first chunk does not fill max_length, so later chunks would be needed, too
        raise InputError(
            f"A text has {max(map(len, texts)):,} characters, more than the maximum of {MAX_TEXT_LENGTH:,} that can be "
            "tokenized at once; split it."
        )
    return TokenIds(
        token_ids.ids, token_ids.segments, token_ids.truncated + sum(_count_remaining(backend, text) for text in texts)
    )


def encode_long_text(backend: EncodingBackend, item: EncodeInput, max_length: int, side: str) -> Encoding:
    """Encode the first tokens of a text or a pair with offsets, and count the tokens that follow."""
    texts = _get_texts(item)
    prefix_length = CHARACTERS_PER_TOKEN * max_length
    if side == "left" or max(map(len, texts)) <= max(LONG_TEXT_LENGTH, prefix_length):
        return truncate(backend.encode([item], split=False)[0], max_length, side=side)
    token_ids = encode_long_text_ids(backend, item, max_length, side)
    while token_ids.truncated and prefix_length < max(map(len, texts)):
        prefixes = [
            text if len(text) <= prefix_length else text[: _find_whitespace_before(text, prefix_length)]
            for text in texts
        ]
        encoding = backend.encode([_make_item(prefixes)], split=False)[0]
        truncated = truncate(encoding, max_length)
        if truncated.ids == token_ids.ids and all(
            prefix is text or encoding.sides.count(text_index) >= truncated.sides.count(text_index) + EXTRA_TOKENS
            for text_index, (prefix, text) in enumerate(zip(prefixes, texts, strict=True))
        ):
            return replace(truncated, truncated=token_ids.truncated)
        prefix_length *= PREFIX_GROWTH
    return truncate(backend.encode([item], split=False)[0], max_length)


def _get_texts(item: EncodeInput) -> list[str]:
    return [str(text) for text in item] if isinstance(item, tuple) else [str(item)]


def _make_item(texts: list[str]) -> EncodeInput:
    return texts[0] if len(texts) == 1 else (texts[0], texts[1])


def _count_remaining(backend: EncodingBackend, text: str) -> int:
    """Count the tokens after the first chunk of a text."""
    start, count = 0, 0
    for end in _iter_chunk_ends(text):
        count += backend.count_tokens(text[start:end]) if start else 0
        start = end
    return count


def _iter_chunk_ends(text: str) -> Iterator[int]:
    """Yield the end positions of the chunks of a text."""
    end = 0
    while end < len(text):
        end = len(text) if len(text) - end <= CHUNK_SIZE else _find_whitespace_before(text, end + CHUNK_SIZE)
        yield end


def _find_whitespace_before(text: str, end: int) -> int:
    """Return the last whitespace before `end`, which no token crosses, or `end` if there is none nearby."""
    position = max(text.rfind(character, end - WHITESPACE_SEARCH, end) for character in " \n")
    return position if position > 0 else end
