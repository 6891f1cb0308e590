"""A language with a rule in it: the last word of a sentence is the one that stood second, and a document has a topic.

How frequent a word is, or the word before it, tells nothing of either: only what reads a whole sentence learns it.
"""

from __future__ import annotations

import random
from pathlib import Path

COLOURS = ("red", "blue", "green", "black", "white", "brown", "pink", "grey")
THINGS = ("ball", "house", "car", "tree", "coat", "boat", "lamp", "door")
TOPICS = ("music", "winter", "money", "school", "garden", "harbour")


def planted_text(path: Path, documents: int = 300, sentences: int = 6, seed: int = 0) -> Path:
    """A file of documents with blank lines between them."""
    draw = random.Random(seed)
    parts = []
    for _ in range(documents):
        topic = draw.choice(TOPICS)
        lines = []
        for _ in range(sentences):
            colour, thing = draw.choice(COLOURS), draw.choice(THINGS)
            lines.append(f"The {colour} {thing} of {topic} is {colour}.")
        parts.append("\n".join(lines))
    path.write_text("\n\n".join(parts) + "\n")
    return path
