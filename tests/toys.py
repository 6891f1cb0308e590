"""Toy languages written by rule: to copy, to reverse, to bring dates into one form."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta

LETTERS = "abcdefghijkl"
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
Pairs = list[dict[str, str]]


def copied(draw: random.Random) -> tuple[str, str]:
    """A word, and the same word."""
    word = "".join(draw.choices(LETTERS, k=draw.randint(1, 6)))
    return word, word


def reversed_(draw: random.Random) -> tuple[str, str]:
    """A word, and the same from its end."""
    word = "".join(draw.choices(LETTERS, k=draw.randint(1, 6)))
    return word, word[::-1]


def dated(draw: random.Random) -> tuple[str, str]:
    """A day as people write it, and as ISO 8601 does."""
    day = date(1970, 1, 1) + timedelta(days=draw.randrange(60 * 365))
    month = MONTHS[day.month - 1]
    ending = "th" if day.day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    forms = (f"{day.day} {month} {day.year}", f"{month} {day.day}{ending}, {day:%y}", f"{day:%d/%m/%Y}")
    return draw.choice(forms), day.isoformat()


TOYS: dict[str, Callable[[random.Random], tuple[str, str]]] = {"copy": copied, "reverse": reversed_, "dates": dated}


def toy(name: str, count: int, seed: int = 0, without: Pairs | None = None) -> Pairs:
    """So many different rows of a toy language, none of them among others."""
    draw = random.Random(f"{name} {seed}")
    made: dict[str, str] = {}
    known = {row["source"] for row in without or ()}
    while len(made) < count:
        source, target = TOYS[name](draw)
        if source not in known:
            made[source] = target
    return [{"source": source, "target": target} for source, target in made.items()]
