"""A language with a rule in it: the last word of a sentence is the one that stood second, and a document has a topic.

How frequent a word is, or the word before it, tells nothing of either: only what reads a whole sentence learns it.
"""

from __future__ import annotations

import random
from pathlib import Path

COLOURS = ("red", "blue", "green", "black", "white", "brown", "pink", "grey")
TOPICS = {
    "music": ("drum", "flute", "song"),
    "winter": ("coat", "snow", "ice"),
    "money": ("coin", "bank", "purse"),
    "school": ("desk", "book", "chalk"),
    "garden": ("rose", "tree", "spade"),
    "harbour": ("boat", "sail", "rope"),
}


def planted_documents(documents: int, sentences: int, seed: int = 0) -> list[list[str]]:
    """Documents as lists of sentences."""
    draw = random.Random(seed)
    made = []
    for _ in range(documents):
        topic = draw.choice(list(TOPICS))
        colours = [draw.choice(COLOURS) for _ in range(sentences)]
        made.append([f"The {one} {draw.choice(TOPICS[topic])} of {topic} is {one}." for one in colours])
    return made


def planted_lines(count: int, seed: int = 0) -> list[str]:
    """Sentences, one after the other."""
    return [line for document in planted_documents(count, 1, seed) for line in document]


def planted_text(path: Path, documents: int = 300, sentences: int = 6, seed: int = 0) -> Path:
    """A file of documents with blank lines between them."""
    path.write_text("\n\n".join("\n".join(lines) for lines in planted_documents(documents, sentences, seed)) + "\n")
    return path
