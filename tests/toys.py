"""Toy translation tasks: copy a word, reverse it, normalize dates."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta

LETTERS = "abcdefghijkl"
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
Pairs = list[dict[str, str]]


def copy_word(generator: random.Random) -> tuple[str, str]:
    """A word and its copy."""
    word = "".join(generator.choices(LETTERS, k=generator.randint(1, 6)))
    return word, word


def reverse_word(generator: random.Random) -> tuple[str, str]:
    """A word and its reversal."""
    word = "".join(generator.choices(LETTERS, k=generator.randint(1, 6)))
    return word, word[::-1]


def make_date_pair(generator: random.Random) -> tuple[str, str]:
    """A date in an everyday format and in ISO 8601."""
    day = date(1970, 1, 1) + timedelta(days=generator.randrange(60 * 365))
    month = MONTHS[day.month - 1]
    ordinal = "th" if day.day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    formats = (f"{day.day} {month} {day.year}", f"{month} {day.day}{ordinal}, {day:%y}", f"{day:%d/%m/%Y}")
    return generator.choice(formats), day.isoformat()


TOYS: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "copy": copy_word,
    "reverse": reverse_word,
    "dates": make_date_pair,
}


def make_toy_pairs(name: str, count: int, seed: int = 0, without: Pairs | None = None) -> Pairs:
    """Generate `count` distinct rows of a toy task; `without` excludes the sources of other rows."""
    generator = random.Random(f"{name} {seed}")
    pairs: dict[str, str] = {}
    excluded = {row["source"] for row in without or ()}
    while len(pairs) < count:
        source, target = TOYS[name](generator)
        if source not in excluded:
            pairs[source] = target
    return [{"source": source, "target": target} for source, target in pairs.items()]
