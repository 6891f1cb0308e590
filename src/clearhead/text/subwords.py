"""Subword markers: the only module that recognizes them.

A vocabulary marks where words begin or end: WordPiece puts ## before a token within a word, byte-level BPE writes the
space before a word as Ġ and SentencePiece as ▁, and the first GPT puts </w> after the last token of a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

CONTINUATION = "##"
BYTE_SPACE, BYTE_NEWLINE = "Ġ", "Ċ"
METASPACE = "▁"
WORD_END = "</w>"
MIN_MARKER_SHARE = 0.01  # minimum share of tokens with a marker for the marker to be the vocabulary's own
MIN_MARKER_RATIO = 50  # at least one token in this many begins with Ġ or ▁


def strip_subword_markers(tokens: Sequence[str], special: Sequence[bool]) -> list[tuple[str, bool]]:
    """Return each token without its marker and whether it begins a word; `special` tokens are unchanged."""
    by_bytes = any(marker in token for token in tokens for marker in (BYTE_SPACE, BYTE_NEWLINE))
    by_space = any(token.startswith(METASPACE) for token in tokens)
    subwords = []
    for index, token in enumerate(tokens):
        text, starts = token, True
        if special[index]:
            pass
        elif by_bytes:
            starts = token[:1] in (BYTE_SPACE, BYTE_NEWLINE) or index == 0 or special[index - 1]
            text = decode_bytes(token)
            text = text[1:] if text.startswith(" ") and len(text) > 1 else text
        elif by_space:
            starts = token.startswith(METASPACE)
            text = token[1:] if starts and len(token) > 1 else token.replace(METASPACE, " ")
        elif is_continuation(token):
            starts, text = False, token[2:]
        subwords.append((text, starts))
    return subwords


def is_continuation(token: str) -> bool:
    """Whether a WordPiece token continues a word; ## by itself is a word."""
    return token.startswith(CONTINUATION) and len(token) > len(CONTINUATION)


def find_continuations(tokens: Sequence[str]) -> list[bool]:
    """Return for each token of a vocabulary whether it continues a word, with any kind of marker."""
    # checked before ##, which is an ordinary token in byte-level vocabularies
    for marker, has_letters in ((BYTE_SPACE, _has_byte_letters), (METASPACE, _has_letters)):
        begins = [token.startswith(marker) for token in tokens]
        if sum(begins) > len(tokens) // MIN_MARKER_RATIO:
            return [not begin and has_letters(token) for begin, token in zip(begins, tokens, strict=True)]
    return [is_continuation(token) for token in tokens]


def find_start_marker(vocab: Iterable[str]) -> str | None:
    """Return the marker at the beginning of words in a vocabulary, or None if no token has one."""
    tokens = list(vocab)
    return next((m for m in (METASPACE, BYTE_SPACE) if any(token.startswith(m) for token in tokens)), None)


def make_whole_word_lookup(vocab: Mapping[str, int]) -> Callable[[str], str | None]:
    """Return a function from a token to the word that it spells, or None if the token is part of a word."""
    counts = {m: sum(token.startswith(m) for token in vocab) for m in (BYTE_SPACE, METASPACE, CONTINUATION)}
    counts[WORD_END] = sum(token.endswith(WORD_END) for token in vocab)
    marker = max(counts, key=lambda m: counts[m])
    if counts[marker] <= MIN_MARKER_SHARE * len(vocab):
        return lambda token: token
    if marker == WORD_END:
        return lambda token: token.removesuffix(marker) if token.endswith(marker) else None
    if marker == CONTINUATION:
        return lambda token: None if token.startswith(marker) else token
    return lambda token: token.removeprefix(marker) if token.startswith(marker) else None


def decode_bytes(token: str) -> str:
    """Decode a byte-level BPE token; an incomplete character is returned as its bytes: ‹E2 82›."""
    table = byte_alphabet()
    if not all(character in table for character in token):
        return token
    data = bytes(table[character] for character in token)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "‹" + data.hex(" ").upper() + "›"


@cache
def byte_alphabet() -> dict[str, int]:
    """Return GPT-2's alphabet: printable bytes map to themselves, the others to characters from U+0100."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{chr(byte): byte for byte in plain}, **{chr(256 + i): byte for i, byte in enumerate(others)}}


def _has_letters(token: str) -> bool:
    return any(character.isalnum() for character in token)


def _has_byte_letters(token: str) -> bool:
    """Whether a byte-level BPE token contains letters or bytes of a multi-byte character."""
    table = byte_alphabet()
    return _has_letters(token) or any(table.get(character, 0) >= 128 for character in token)
