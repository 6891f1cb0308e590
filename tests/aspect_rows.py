"""Reviews with marked aspects, and a rule that a tiny model learns in seconds."""

from __future__ import annotations

from random import Random
from typing import Any

THINGS = ("film", "plot", "music", "actor")
GOOD, BAD = ("great", "fine"), ("awful", "sad")


def marked(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Sentences that name a thing and say in one word what it is like."""
    draw, made = Random(seed), []
    for _ in range(count):
        thing = draw.choice(THINGS)
        good = draw.random() < 0.5
        word = draw.choice(GOOD if good else BAD)
        text = draw.choice((f"the {thing} was {word} today", f"we saw a {word} {thing}", f"{word} {thing} and more"))
        start = text.index(thing)
        label = "positive" if good else "negative"
        made.append({"text": text, "spans": [{"start": start, "end": start + len(thing), "label": label}]})
    return made


def flat(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with a row for each aspect, as SemEval has them."""
    return [
        {
            "text": row["text"],
            "aspect": row["text"][span["start"] : span["end"]],
            "aspect_start": span["start"],
            "label": span["label"],
        }
        for row in rows
        for span in row["spans"]
    ]
