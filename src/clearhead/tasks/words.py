"""The words of a text as a tagger sees them, whatever the tokenizer: runs of letters, and single signs.

In scripts that write no spaces every character is a word."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

# scripts that put no space between words: every character is a word of its own
SOLID = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x2E80, 0x2FDF),
    (0x3005, 0x3007),
    (0x3041, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9D),
    (0x20000, 0x3FFFF),
)
TAILS = "\ufe0e\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"  # variants and skins: part of the sign before


SHORT = "s|t|d|m|ll|re|ve"  # after an apostrophe: a word of its own in all lists of words


def word_borders(text: str, *, joined: bool = False) -> list[tuple[int, int]]:
    """Where each word of a text begins and ends; white space belongs to none.

    `joined`: as lists of words have them, with signs inside: U.S., Rolls-Royce, O'Neil, 3.5.
    """
    return [found.span() for found in _pattern(joined=joined).finditer(text)]


@cache
def _pattern(*, joined: bool) -> re.Pattern[str]:
    marks = _ranges([code for code in range(0x110000) if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me")])
    solid = "".join(f"{chr(first)}-{chr(last)}" for first, last in SOLID)
    letters = f"(?:[^\\W_{solid}][{marks}\u200c\u200d]*)+"
    flag = "[\U0001f1e6-\U0001f1ff]{2}"
    sign = f"\\S[{marks}{TAILS}]*"
    if joined:
        inside = f"[-._/&@]|['’](?!(?:{SHORT})\\b)|(?<=\\d)[,:](?=\\d)"
        letters = f"(?:[^\\W\\d_{solid}]\\.){{2,}}(?!\\w)|{letters}(?:(?:{inside}){letters})*"
    return re.compile(f"{letters}|{flag}|{sign}(?:\u200d{sign})*")  # a family is several people in one sign


def _ranges(codes: list[int]) -> str:
    """A character class of codes, without its brackets."""
    made: list[tuple[int, int]] = []
    for code in codes:
        if made and made[-1][1] == code - 1:
            made[-1] = (made[-1][0], code)
        else:
            made.append((code, code))
    return "".join(f"{chr(first)}-{chr(last)}" if first != last else chr(first) for first, last in made)
