"""Texts in pictures: how wide they are, how much of them fits, and nothing hidden in them."""

from __future__ import annotations

import unicodedata

MAX_LABEL_EM = 10.5  # in em: what fits in a column of a picture; the whole text is in the tooltip
_NARROW, _WIDE = frozenset("iljtfrI.,'’|!()[]{}:; -…"), frozenset("mwMW@%—")


def escape_invisible(text: str) -> str:
    """Characters that XML forbids, or that would turn the text around them, as escapes one can read."""
    return "".join(_escape(c) if _is_invisible(c) else c for c in text)


def _is_invisible(character: str) -> bool:
    kind, code = unicodedata.category(character), ord(character)
    if character in "\u200c\u200d":  # joiners: emoji and many scripts need them
        return False
    return kind in ("Cc", "Cf", "Cs", "Zl", "Zp") or code & 0xFFFE == 0xFFFE


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}"


def shorten(text: str, most: float = MAX_LABEL_EM) -> str:
    """The beginning of a text, as much as fits in `most` em."""
    if text_width(text) <= most:
        return text
    used, beginning = 0.9, ""
    for character in text:
        used += text_width(character)
        if used > most:
            break
        beginning += character
    return beginning.rstrip("\u200d") + "…"


def text_width(text: str) -> float:
    """About how wide a text is, in em."""
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if character in _NARROW:
        return 0.36
    if character in _WIDE:
        return 0.98
    if unicodedata.east_asian_width(character) in "WF":
        return 1.15
    return 0.74 if character.isupper() else 0.6
