"""Synthetic parallel rows, and a small translation model that learns them in seconds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.variation import THREADS

WORDS = {
    "ein": "one",
    "zwei": "two",
    "drei": "three",
    "rot": "red",
    "blau": "blue",
    "haus": "house",
    "hund": "dog",
    "katze": "cat",
    "mann": "man",
    "frau": "woman",
    "sieht": "sees",
    "isst": "eats",
}
TRANSLATOR_SETTINGS: dict[str, Any] = {
    "task": "translate",
    "source": "de",
    "target": "en",
    "vocab_size": 120,
    "epochs": 26,
    "learning_rate": 4e-3,
    "batch_tokens": 512,
    "average_epochs": 2,
    "threads": THREADS,
}
CONFIGS = {
    "transformer": '{"width": 64, "heads": 4, "feed_width": 128, "encoder_layers": 1, "decoder_layers": 1}',
    "rnn": '{"width": 64, "encoder_layers": 1, "decoder_layers": 1, "attention": "dot"}',
}


def make_parallel_rows(count: int, seed: int = 0) -> list[dict[str, str]]:
    """Make rows of German words and their English translations in the same order."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        words = rng.choices(list(WORDS), k=rng.randint(2, 5))
        rows.append({"de": " ".join(words) + ".", "en": " ".join(WORDS[word] for word in words) + "."})
    return rows


def write_tsv(path: Path, rows: list[dict[str, str]]) -> Path:
    """Write rows to a TSV file with a header."""
    names = list(rows[0])
    lines = ["\t".join(names), *("\t".join(row[name] for name in names) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
