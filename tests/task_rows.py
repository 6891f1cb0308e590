"""Rows with tags, answers and options, each with a rule that a tiny model learns in seconds."""

from __future__ import annotations

import random
from typing import Any

from tests.tiny_models import NEGATIVE_WORDS, NEUTRAL_WORDS, POSITIVE_WORDS, make_sentence

Rows = list[dict[str, Any]]
QUICK: dict[str, Any] = {"learning_rate": 3e-3, "batch_size": 16, "report": False}


def words_and_tags(count: int, seed: int = 0) -> list[list[tuple[str, str]]]:
    """Good words and a film after them are entities of one type, bad ones of another."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        rows: list[tuple[str, str]] = [(draw.choice(NEUTRAL_WORDS), "O") for _ in range(draw.randint(3, 7))]
        good = [(draw.choice(POSITIVE_WORDS), "B-NICE"), *([("film", "I-NICE")] if draw.random() < 0.5 else [])]
        at = draw.randrange(len(rows))
        rows[at:at] = good
        if draw.random() < 0.5:
            rows.append((draw.choice(NEGATIVE_WORDS), "B-SAD"))
        made.append(rows)
    return made


def conll(rows: list[list[tuple[str, str]]], between: str = "\t") -> str:
    """A token a line."""
    return "\n\n".join("\n".join(between.join(pair) for pair in row) for row in rows) + "\n"


def spans(rows: list[list[tuple[str, str]]]) -> Rows:
    """The same as texts with places of letters."""
    from clearhead.metrics import extract_entities

    made: Rows = []
    for row in rows:
        begins = [sum(len(word) + 1 for word, _ in row[:place]) for place in range(len(row))]
        found = [
            {"start": begins[first], "end": begins[last - 1] + len(row[last - 1][0]), "label": kind}
            for first, last, kind in extract_entities([tag for _, tag in row])
        ]
        made.append({"text": " ".join(word for word, _ in row), "spans": found})
    return made


def questions(count: int, seed: int = 0, *, none: float = 0.0) -> Rows:
    """The answer is the good word of the passage; some have none."""
    draw = random.Random(seed)
    made: Rows = []
    for number in range(count):
        empty = draw.random() < none
        word = draw.choice(NEGATIVE_WORDS if empty else POSITIVE_WORDS)
        story = make_sentence(draw, [word], min_words=4, max_words=10)
        at = 0 if empty else story.split().index(word)
        start = len(" ".join(story.split()[:at])) + (at > 0)
        answers = [] if empty else [{"text": word, "answer_start": start}]
        made.append({"id": f"q{number}", "question": "was it", "context": story, "answers": answers})
    return made


def squad(rows: Rows) -> dict[str, Any]:
    """The same in SQuAD's nest."""
    inner = [
        {"context": row["context"], "qas": [{key: row[key] for key in ("id", "question", "answers")}]} for row in rows
    ]
    return {"version": "v2.0", "data": [{"title": "films", "paragraphs": inner}]}


def options(count: int, seed: int = 0) -> Rows:
    """The right option is the one with a good word; there are two to four of them."""
    draw = random.Random(seed)
    made: Rows = []
    for number in range(count):
        many = draw.randint(2, 4)
        right = draw.randrange(many)
        texts = [
            make_sentence(draw, [draw.choice(POSITIVE_WORDS if place == right else NEGATIVE_WORDS)], 1, 3)
            for place in range(many)
        ]
        row: dict[str, Any] = {"id": f"c{number}", "question": make_sentence(draw, [], 3, 5)}
        row |= {f"option{place + 1}": texts[place] if place < many else "" for place in range(4)}
        made.append(row | {"label": "ABCD"[right]})
    return made
