"""Rows for every kind of label, by synthetic rules that a tiny model learns in a second."""

from __future__ import annotations

import random
from typing import Any

from tests.tiny_models import NEGATIVE_WORDS, NEUTRAL_WORDS, POSITIVE_WORDS, make_sentence

Rows = list[dict[str, Any]]
QUICK: dict[str, Any] = {"learning_rate": 3e-3, "batch_size": 16}


def make_multilabel_rows(count: int, seed: int = 0) -> Rows:
    """Multilabel rows: each label is a word of the text."""
    generator = random.Random(seed)
    other_words = [word for word in NEUTRAL_WORDS if word != "film"]
    rows = []
    for _ in range(count):
        labels = [label for label in ("bad", "film", "good") if generator.random() < 0.4]
        text = [generator.choice(other_words) for _ in range(generator.randint(2, 4))]
        for label in labels:
            text.insert(generator.randrange(len(text) + 1), label)
        rows.append({"text": " ".join(text), "labels": labels})
    return rows


def make_pair_rows(count: int, seed: int = 0) -> Rows:
    """Text pairs: whether the first text is as positive as the second one, which always is."""
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        is_same = generator.random() < 0.5
        first = make_sentence(
            generator, [generator.choice(POSITIVE_WORDS if is_same else NEGATIVE_WORDS)], min_words=2, max_words=5
        )
        second = make_sentence(generator, [generator.choice(POSITIVE_WORDS)], min_words=2, max_words=5)
        rows.append({"sentence1": first, "sentence2": second, "label": "same" if is_same else "other"})
    return rows


def make_scored_rows(count: int, seed: int = 0, *, has_two_texts: bool = False) -> Rows:
    """Numbers with mean 1000 and standard deviation 300: the count of positive words among three, plus noise."""
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        positive_count = generator.randrange(4)
        score = round(1000 + 268 * (positive_count - 1.5) + generator.gauss(0, 20), 2)
        if has_two_texts:
            first = make_sentence(generator, ["good"] * positive_count, min_words=1, max_words=3)
            second = make_sentence(generator, ["bad"] * (3 - positive_count), min_words=1, max_words=3)
            rows.append({"sentence1": first, "sentence2": second, "score": score})
        else:
            text = make_sentence(
                generator, ["good"] * positive_count + ["bad"] * (3 - positive_count), min_words=1, max_words=4
            )
            rows.append({"text": text, "score": score})
    return rows
