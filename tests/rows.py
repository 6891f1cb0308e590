"""Rows for every kind of label, each with a rule that a tiny model learns in a second."""

from __future__ import annotations

import random
from typing import Any

from tests.tiny_models import NEGATIVE_WORDS, NEUTRAL_WORDS, POSITIVE_WORDS, make_sentence

Rows = list[dict[str, Any]]
QUICK: dict[str, Any] = {"learning_rate": 3e-3, "batch_size": 16}


def tagged(count: int, seed: int = 0) -> Rows:
    """Several labels a row, each for a word that is in the text."""
    draw = random.Random(seed)
    others = [word for word in NEUTRAL_WORDS if word != "film"]
    rows = []
    for _ in range(count):
        labels = [label for label in ("bad", "film", "good") if draw.random() < 0.4]
        text = [draw.choice(others) for _ in range(draw.randint(2, 4))]
        for label in labels:
            text.insert(draw.randrange(len(text) + 1), label)
        rows.append({"text": " ".join(text), "labels": labels})
    return rows


def paired(count: int, seed: int = 0) -> Rows:
    """Two texts: whether the first one is as good as the second one, which always is."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        same = draw.random() < 0.5
        first = make_sentence(draw, [draw.choice(POSITIVE_WORDS if same else NEGATIVE_WORDS)], min_words=2, max_words=5)
        second = make_sentence(draw, [draw.choice(POSITIVE_WORDS)], min_words=2, max_words=5)
        rows.append({"sentence1": first, "sentence2": second, "label": "same" if same else "other"})
    return rows


def scored(count: int, seed: int = 0, *, two: bool = False) -> Rows:
    """A number of mean 1000 and spread 300: how many of three words are good ones, and a little noise."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        good = draw.randrange(4)
        score = round(1000 + 268 * (good - 1.5) + draw.gauss(0, 20), 2)
        if two:
            first = make_sentence(draw, ["good"] * good, min_words=1, max_words=3)
            second = make_sentence(draw, ["bad"] * (3 - good), min_words=1, max_words=3)
            rows.append({"sentence1": first, "sentence2": second, "score": score})
        else:
            text = make_sentence(draw, ["good"] * good + ["bad"] * (3 - good), min_words=1, max_words=4)
            rows.append({"text": text, "score": score})
    return rows
