"""Rows with tags, answers and options, by synthetic rules that a tiny model learns in seconds."""

from __future__ import annotations

import random
from typing import Any

from tests.tiny_models import NEGATIVE_WORDS, NEUTRAL_WORDS, POSITIVE_WORDS, make_sentence

Rows = list[dict[str, Any]]
QUICK: dict[str, Any] = {"learning_rate": 3e-3, "batch_size": 16, "report": False}


def make_tagged_words(count: int, seed: int = 0) -> list[list[tuple[str, str]]]:
    """Tagged words: positive words, with or without a following "film", are NICE entities, negative words SAD ones."""
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        words: list[tuple[str, str]] = [(generator.choice(NEUTRAL_WORDS), "O") for _ in range(generator.randint(3, 7))]
        good = [
            (generator.choice(POSITIVE_WORDS), "B-NICE"),
            *([("film", "I-NICE")] if generator.random() < 0.5 else []),
        ]
        position = generator.randrange(len(words))
        words[position:position] = good
        if generator.random() < 0.5:
            words.append((generator.choice(NEGATIVE_WORDS), "B-SAD"))
        rows.append(words)
    return rows


def format_conll(rows: list[list[tuple[str, str]]], separator: str = "\t") -> str:
    """Format tagged words as CoNLL, one token per line."""
    return "\n\n".join("\n".join(separator.join(pair) for pair in row) for row in rows) + "\n"


def make_span_rows(rows: list[list[tuple[str, str]]]) -> Rows:
    """Convert tagged words to texts with character spans."""
    from clearhead.metrics import extract_entities

    span_rows: Rows = []
    for row in rows:
        starts = [sum(len(word) + 1 for word, _ in row[:position]) for position in range(len(row))]
        row_spans = [
            {"start": starts[first], "end": starts[last - 1] + len(row[last - 1][0]), "label": kind}
            for first, last, kind in extract_entities([tag for _, tag in row])
        ]
        span_rows.append({"text": " ".join(word for word, _ in row), "spans": row_spans})
    return span_rows


def make_questions(count: int, seed: int = 0, *, no_answer_share: float = 0.0) -> Rows:
    """Questions whose answer is the positive word of the passage; passages with a negative word have none."""
    generator = random.Random(seed)
    rows: Rows = []
    for number in range(count):
        is_empty = generator.random() < no_answer_share
        word = generator.choice(NEGATIVE_WORDS if is_empty else POSITIVE_WORDS)
        story = make_sentence(generator, [word], min_words=4, max_words=10)
        position = 0 if is_empty else story.split().index(word)
        start = len(" ".join(story.split()[:position])) + (position > 0)
        answers = [] if is_empty else [{"text": word, "answer_start": start}]
        rows.append({"id": f"q{number}", "question": "was it", "context": story, "answers": answers})
    return rows


def format_squad(rows: Rows) -> dict[str, Any]:
    """Convert questions to the nested format of SQuAD."""
    paragraphs = [
        {"context": row["context"], "qas": [{key: row[key] for key in ("id", "question", "answers")}]} for row in rows
    ]
    return {"version": "v2.0", "data": [{"title": "films", "paragraphs": paragraphs}]}


def make_option_rows(count: int, seed: int = 0) -> Rows:
    """Questions with two to four options; the one with a positive word is correct."""
    generator = random.Random(seed)
    rows: Rows = []
    for number in range(count):
        option_count = generator.randint(2, 4)
        correct = generator.randrange(option_count)
        texts = [
            make_sentence(
                generator, [generator.choice(POSITIVE_WORDS if position == correct else NEGATIVE_WORDS)], 1, 3
            )
            for position in range(option_count)
        ]
        row: dict[str, Any] = {"id": f"c{number}", "question": make_sentence(generator, [], 3, 5)}
        row |= {f"option{position + 1}": texts[position] if position < option_count else "" for position in range(4)}
        rows.append(row | {"label": "ABCD"[correct]})
    return rows
