"""Subword markers: the only module that recognizes them.

A vocabulary marks where words start or end: WordPiece puts ## before a token within a word, byte-level BPE writes the
space before a word as Ġ and SentencePiece as ▁, and the first GPT puts </w> after the last token of a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

CONTINUATION = "##"
BYTE_SPACE, BYTE_NEWLINE = "Ġ", "Ċ"
METASPACE = "▁"
WORD_END = "</w>"
MIN_MARKER_SHARE = 0.01  # a vocabulary uses a marker if more than this share of its tokens has it
MAX_TOKENS_PER_MARKER = 50  # a vocabulary uses Ġ or ▁ if more than one token in this many starts with it


def strip_subword_markers(tokens: Sequence[str], special: Sequence[bool]) -> list[tuple[str, bool]]:
    """Return each token without its marker, and whether it starts a word; `special` tokens are unchanged."""
    is_byte_level = any(marker in token for token in tokens for marker in (BYTE_SPACE, BYTE_NEWLINE))
    is_metaspace = any(token.startswith(METASPACE) for token in tokens)
    subwords = []
    for index, token in enumerate(tokens):
        text, starts_word = token, True
        if special[index]:
            pass
        elif is_byte_level:
            starts_word = token[:1] in (BYTE_SPACE, BYTE_NEWLINE) or index == 0 or special[index - 1]
            text = decode_bytes(token)
            text = text[1:] if text.startswith(" ") and len(text) > 1 else text
        elif is_metaspace:
            starts_word = token.startswith(METASPACE)
            text = token[1:] if starts_word and len(token) > 1 else token.replace(METASPACE, " ")
        elif is_continuation(token):
            starts_word, text = False, token[2:]
        subwords.append((text, starts_word))
    return subwords


def is_continuation(token: str) -> bool:
    """Whether a WordPiece token continues a word; ## by itself is a word."""
    return token.startswith(CONTINUATION) and len(token) > len(CONTINUATION)


def find_continuations(tokens: Sequence[str]) -> list[bool]:
    """Return for each token of a vocabulary whether it continues a word, with any kind of marker."""
    # checked before ##, which is an ordinary token in byte-level vocabularies
    for marker, has_letters in ((BYTE_SPACE, _has_byte_letters), (METASPACE, _has_letters)):
        start_flags = [token.startswith(marker) for token in tokens]
        if sum(start_flags) > len(tokens) // MAX_TOKENS_PER_MARKER:
            return [not is_start and has_letters(token) for is_start, token in zip(start_flags, tokens, strict=True)]
    return [is_continuation(token) for token in tokens]


def find_start_marker(vocab: Iterable[str]) -> str | None:
    """Return the marker at the beginning of words in a vocabulary, or None if no token has one."""
    tokens = list(vocab)
    return next(
        (marker for marker in (METASPACE, BYTE_SPACE) if any(token.startswith(marker) for token in tokens)), None
    )


def make_whole_word_lookup(vocab: Mapping[str, int]) -> Callable[[str], str | None]:
    """Return a function from a token to the word that it spells, or None if the token is part of a word."""
    counts = {
        candidate: sum(token.startswith(candidate) for token in vocab)
        for candidate in (BYTE_SPACE, METASPACE, CONTINUATION)
    }
    counts[WORD_END] = sum(token.endswith(WORD_END) for token in vocab)
    marker = max(counts, key=lambda candidate: counts[candidate])
    if counts[marker] <= MIN_MARKER_SHARE * len(vocab):
        return lambda token: token
    if marker == WORD_END:
        return lambda token: token.removesuffix(marker) if token.endswith(marker) else None
    if marker == CONTINUATION:
        return lambda token: None if token.startswith(marker) else token
    return lambda token: token.removeprefix(marker) if token.startswith(marker) else None


def decode_bytes(token: str) -> str:
    """Decode a byte-level BPE token; an incomplete character is returned as its bytes: ‹E2 82›."""
    byte_values = build_byte_alphabet()
    if not all(character in byte_values for character in token):
        return token
    raw_bytes = bytes(byte_values[character] for character in token)
    try:
        return raw_bytes.decode()
    except UnicodeDecodeError:
        return "‹" + raw_bytes.hex(" ").upper() + "›"


@cache
def build_byte_alphabet() -> dict[str, int]:
    """Return GPT-2's alphabet: printable bytes map to themselves, the others to characters from U+0100."""
    printable_bytes = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other_bytes = [byte for byte in range(256) if byte not in printable_bytes]
    return {
        **{chr(byte): byte for byte in printable_bytes},
        **{chr(256 + i): byte for i, byte in enumerate(other_bytes)},
    }


def _has_letters(token: str) -> bool:
    return any(character.isalnum() for character in token)


def _has_byte_letters(token: str) -> bool:
    """Whether a byte-level BPE token contains letters or bytes of a multi-byte character."""
    byte_values = build_byte_alphabet()
    return _has_letters(token) or any(byte_values.get(character, 0) >= 128 for character in token)
