"""Small vectors and a text with a planted rule: words of one topic stand together."""

from __future__ import annotations

import random

import numpy as np

from clearhead.words import WordVectors


def royal() -> WordVectors:
    """King and queen differ as man and woman do; width 4."""
    rows = {
        "king": (3, 1, 0, 0.1),
        "queen": (3, -1, 0, 0.1),
        "man": (0, 1, 0.2, 0),
        "woman": (0, -1, 0.2, 0),
        "prince": (2.5, 0.2, 1.4, 0),
        "apple": (0, 0, 1, 3),
        "Paris": (-1, 0.3, 2, 1),
    }
    return WordVectors(words=tuple(rows), matrix=np.array(list(rows.values()), np.float32), name="royal")


def make_topic_sentences(
    count: int, *, topic_count: int = 4, words_per_topic: int = 8, seed: int = 0
) -> list[list[str]]:
    """Sentences whose words all begin with the same topic."""
    draw = random.Random(seed)
    sentences = []
    for _ in range(count):
        topic = draw.randrange(topic_count)
        sentences.append([f"t{topic}w{draw.randrange(words_per_topic)}" for _ in range(draw.randint(5, 12))])
    return sentences


def share_of_same_topic(vectors: WordVectors, top: int = 3) -> float:
    """The share of neighbours that are of the same topic."""
    hits = [neighbor.word[:2] == word[:2] for word in vectors.words for neighbor in vectors.neighbors(word, top=top)]
    return sum(hits) / len(hits)
