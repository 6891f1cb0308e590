"""Reviews with labeled aspects, by a synthetic rule that a tiny model learns in seconds."""

from __future__ import annotations

from random import Random
from typing import Any

ASPECTS = ("film", "plot", "music", "actor")
POSITIVE_WORDS, NEGATIVE_WORDS = ("great", "fine"), ("awful", "sad")


def make_reviews(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Sentences with an aspect and one word of opinion about it."""
    generator, rows = Random(seed), []
    for _ in range(count):
        thing = generator.choice(ASPECTS)
        is_good = generator.random() < 0.5
        word = generator.choice(POSITIVE_WORDS if is_good else NEGATIVE_WORDS)
        text = generator.choice(
            (f"the {thing} was {word} today", f"we saw a {word} {thing}", f"{word} {thing} and more")
        )
        start = text.index(thing)
        label = "positive" if is_good else "negative"
        rows.append({"text": text, "spans": [{"start": start, "end": start + len(thing), "label": label}]})
    return rows


def flatten_aspects(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Convert reviews to rows with one aspect each, as in SemEval."""
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
