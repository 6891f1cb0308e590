"""The beginning of a long text: the same tokens as if all of it were encoded, and an honest count of the rest.

Where only the first tokens are read, encoding a megabyte with its offsets is a waste: one quick pass counts its tokens
and gives the ids, and the offsets come from a prefix whose ids are compared with them. A text that is too long for one
pass is counted in parts, cut at blanks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from clearhead.errors import InputError
from clearhead.text.encoding import Encoding, TokenIds, truncate
from clearhead.text.limits.pipeline_limits import MAX_TEXT_LENGTH, check_text_size
from clearhead.text.pipeline import EncodeInput

LONG_TEXT = 16_384  # characters; below it, encoding everything is as quick
CHARACTERS_PER_TOKEN = (
    16  # characters of a prefix for each token that is read, at first; most tokens have three to five
)
PREFIX_GROWTH = 8  # of the prefix where it does not suffice
EXTRA_TOKENS = 8  # tokens that a prefix must have behind the last that is read, for the cut may change those before it
CHUNK_SIZE = 1 << 20  # characters that are counted together
BLANK_SEARCH = 4_096  # characters in which a blank is looked for


class EncodingBackend(Protocol):
    """What is needed of a backend."""

    @property
    def most_text(self) -> int | None: ...
    def encode(self, items: Sequence[EncodeInput], *, split: bool) -> list[Encoding]: ...
    def ids(
        self, items: Sequence[EncodeInput], *, split: bool, max_length: int | None = None, side: str = "right"
    ) -> list[TokenIds]: ...
    def count(self, text: str) -> int: ...


def is_long(item: EncodeInput, max_length: int) -> bool:
    """Whether looking at the beginning alone may be quicker."""
    return max(map(len, _texts(item))) > max(LONG_TEXT, CHARACTERS_PER_TOKEN * max_length)


def is_huge(item: EncodeInput) -> bool:
    """Whether a text is too long for one pass."""
    return max(map(len, _texts(item))) > MAX_TEXT_LENGTH


def encode_long_text_ids(backend: EncodingBackend, item: EncodeInput, max_length: int, side: str) -> TokenIds:
    """The first tokens of a text or a pair, and how many follow."""
    if not is_huge(item):
        return backend.ids([item], split=False, max_length=max_length, side=side)[0]
    texts = _texts(item)
    if side == "left" or backend.most_text is not None:
        for text in texts:
            check_text_size(text, max_length=backend.most_text)
    heads = [text[: next(_cuts(text))] for text in texts]
    found = backend.ids([_item(heads)], split=False, max_length=max_length, side=side)[0]
    if not found.truncated:  # the first million characters hold hardly a token: what follows would be needed, too
        raise InputError(
            f"a text has {max(map(len, texts)):,} characters, more than the {MAX_TEXT_LENGTH:,} that are tokenized at "
            "once; split it"
        )
    return TokenIds(found.ids, found.segments, found.truncated + sum(_rest(backend, text) for text in texts))


def encode_long_text(backend: EncodingBackend, item: EncodeInput, max_length: int, side: str) -> Encoding:
    """The same with tokens and offsets."""
    texts = _texts(item)
    size = CHARACTERS_PER_TOKEN * max_length
    if side == "left" or max(map(len, texts)) <= max(LONG_TEXT, size):
        return truncate(backend.encode([item], split=False)[0], max_length, side=side)
    wanted = encode_long_text_ids(backend, item, max_length, side)
    while wanted.truncated and size < max(map(len, texts)):
        prefixes = [text if len(text) <= size else text[: _blank_before(text, size)] for text in texts]
        found = backend.encode([_item(prefixes)], split=False)[0]
        cut = truncate(found, max_length)
        if cut.ids == wanted.ids and all(
            prefix is text or found.sides.count(place) >= cut.sides.count(place) + EXTRA_TOKENS
            for place, (prefix, text) in enumerate(zip(prefixes, texts, strict=True))
        ):
            return replace(cut, truncated=wanted.truncated)
        size *= PREFIX_GROWTH
    return truncate(backend.encode([item], split=False)[0], max_length)


def _texts(item: EncodeInput) -> list[str]:
    return [str(part) for part in item] if isinstance(item, tuple) else [str(item)]


def _item(texts: list[str]) -> EncodeInput:
    return texts[0] if len(texts) == 1 else (texts[0], texts[1])


def _rest(backend: EncodingBackend, text: str) -> int:
    """Tokens behind the first part of a text."""
    start, count = 0, 0
    for end in _cuts(text):
        count += backend.count(text[start:end]) if start else 0
        start = end
    return count


def _cuts(text: str) -> Iterator[int]:
    """Where the parts of a text end."""
    end = 0
    while end < len(text):
        end = len(text) if len(text) - end <= CHUNK_SIZE else _blank_before(text, end + CHUNK_SIZE)
        yield end


def _blank_before(text: str, end: int) -> int:
    """The last place up to `end` where a word ends, if there is one nearby: no token reaches over it."""
    found = max(text.rfind(blank, end - BLANK_SEARCH, end) for blank in " \n")
    return found if found > 0 else end
