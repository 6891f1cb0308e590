"""Measure, shorten and escape texts of figures."""

from __future__ import annotations

import unicodedata

MAX_LABEL_EM = 10.5  # of a column in a figure; the full text is in the tooltip
_NARROW, _WIDE = frozenset("iljtfrI.,'’|!()[]{}:; -…"), frozenset("mwMW@%—")


def escape_invisible(text: str) -> str:
    """Escape characters that are invalid in XML, invisible, or change the text direction."""
    return "".join(_escape(c) if _is_invisible(c) else c for c in text)


def _is_invisible(character: str) -> bool:
    kind, code = unicodedata.category(character), ord(character)
    if character in "\u200c\u200d":  # joiners: emoji and many scripts need them
        return False
    return kind in ("Cc", "Cf", "Cs", "Zl", "Zp") or code & 0xFFFE == 0xFFFE


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}"


def shorten(text: str, max_width: float = MAX_LABEL_EM) -> str:
    """Shorten a text to at most `max_width` em."""
    if text_width(text) <= max_width:
        return text
    used, beginning = 0.9, ""
    for character in text:
        used += text_width(character)
        if used > max_width:
            break
        beginning += character
    return beginning.rstrip("\u200d") + "…"


def text_width(text: str) -> float:
    """Estimate the width of a text in em."""
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
