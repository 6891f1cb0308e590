"""A synthetic language: the last word of a sentence repeats the second one, and each document has a topic.

Unigram and bigram frequencies are uninformative; only a model that reads the whole sentence can learn the rule.
"""

from __future__ import annotations

import random
from pathlib import Path

COLORS = ("red", "blue", "green", "black", "white", "brown", "pink", "grey")
TOPICS = {
    "music": ("drum", "flute", "song"),
    "winter": ("coat", "snow", "ice"),
    "money": ("coin", "bank", "purse"),
    "school": ("desk", "book", "chalk"),
    "garden": ("rose", "tree", "spade"),
    "harbour": ("boat", "sail", "rope"),
}


def make_documents(documents: int, sentences: int, seed: int = 0) -> list[list[str]]:
    """Generate documents as lists of sentences."""
    generator = random.Random(seed)
    texts = []
    for _ in range(documents):
        topic = generator.choice(list(TOPICS))
        colors = [generator.choice(COLORS) for _ in range(sentences)]
        texts.append([f"The {color} {generator.choice(TOPICS[topic])} of {topic} is {color}." for color in colors])
    return texts


def make_lines(count: int, seed: int = 0) -> list[str]:
    """Generate sentences."""
    return [line for document in make_documents(count, 1, seed) for line in document]


def write_planted_text(path: Path, documents: int = 300, sentences: int = 6, seed: int = 0) -> Path:
    """Write documents to a file, separated by blank lines."""
    path.write_text("\n\n".join("\n".join(lines) for lines in make_documents(documents, sentences, seed)) + "\n")
    return path
