"""Data files with tags, answers and options to mutate, and the invariants of the rows read from them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from clearhead.data import Source, encode_table, inspect_data, resolve_columns, survey_rows
from clearhead.tasks import Task
from clearhead.tasks.packed import pack_table
from clearhead.tasks.view import build_plain_view
from fuzz.data_seeds import File, Table

Rng = random.Random
ENTITY_TYPES = ("PER", "LOC", "a-b")


def _split_words(row: list[Any]) -> list[str]:
    return str(row[0]).encode("utf-8", "replace").decode().replace("\0", " ").split() or ["word"]


def _make_tags(words: list[str], rng: Rng) -> list[str]:
    tags = ["O"] * len(words)
    for index in range(len(words)):
        if rng.random() < 0.3:
            tags[index] = f"B-{rng.choice(ENTITY_TYPES)}"
        elif tags[index - 1] != "O" and rng.random() < 0.4:
            tags[index] = f"I-{tags[index - 1][2:]}"
    return tags


def _write_columns(table: Table, rng: Rng) -> File:
    separator, extra_column = rng.choice(("\t", " ")), rng.choice(("", "NN"))
    blocks = []
    for row in table.rows[:60]:
        words = _split_words(row)
        cells = [
            (word, extra_column, tag) if extra_column else (word, tag)
            for word, tag in zip(words, _make_tags(words, rng), strict=True)
        ]
        comment = "# id 7 x\n" if rng.random() < 0.1 else ""
        blocks.append(comment + "\n".join(separator.join(line) for line in cells))
    text = "-DOCSTART- -X- O\n\n" * (rng.random() < 0.2) + "\n\n".join(blocks) + "\n"
    return File(rng.choice(("data.conll", "data.iob2", "data.txt")), text.encode("utf-8", "surrogatepass"))


def _write_lines(rows: list[Any]) -> File:
    return File("data.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())


def _write_spans(table: Table, rng: Rng) -> File:
    rows: list[Any] = []
    for row in table.rows[:60]:
        words = _split_words(row)
        starts = [sum(len(word) + 1 for word in words[:index]) for index in range(len(words))]
        spans: list[Any] = []
        for index in range(0, len(words), 3):
            start, label = starts[index], rng.choice(ENTITY_TYPES)
            end = start + len(words[index])
            spans.append([start, end, label] if rng.random() < 0.5 else {"start": start, "end": end, "label": label})
        rows.append({"text": " ".join(words), "spans": spans if rng.random() < 0.8 else json.dumps(spans)})
    return _write_lines(rows)


def _write_answers(table: Table, rng: Rng) -> File:
    rows = []
    for row_index, row in enumerate(table.rows[:60]):
        words = _split_words(row)
        index = rng.randrange(len(words))
        start = sum(len(word) + 1 for word in words[:index])
        answers = [] if rng.random() < 0.2 else [{"text": words[index], "answer_start": start}]
        rows.append({"id": str(row_index), "question": "who is it", "context": " ".join(words), "answers": answers})
    if rng.random() < 0.5:
        return _write_lines(rows)
    keys = ("id", "question", "answers")
    paragraphs = [{"context": row["context"], "qas": [{key: row[key] for key in keys}]} for row in rows]
    return File("data.json", json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}).encode())


def _write_options(table: Table, rng: Rng) -> File:
    rows: list[Any] = []
    for row in table.rows[:60]:
        texts = [rng.choice(_split_words(row)) for _ in range(rng.randint(2, 5))]
        correct = rng.randrange(len(texts))
        layout = rng.randrange(3)
        options: Any = (texts, json.dumps(texts), {"text": texts, "label": list("ABCDE")[: len(texts)]})[layout]
        label = correct if layout < 2 else "ABCDE"[correct]
        rows.append({"question": " ".join(_split_words(row)), "options": options, "label": label})
    return _write_lines(rows)


TASK_WRITERS: dict[str, Callable[[Table, Rng], File]] = {
    "columns of tokens": _write_columns,
    "json spans": _write_spans,
    "json answers": _write_answers,
    "json options": _write_options,
}


def read_task(task: Task, source: Source, tokenizer: Any, check: Callable[[bool, str], None]) -> None:
    """Read all rows with the codec of a task, up to a packed batch, and check the invariants."""
    rows = task.rows
    assert rows.label_counter is not None
    assert rows.plain_view is not None
    columns = resolve_columns(source, rows.layout)
    label_space = survey_rows(source, columns, skip_bad_rows=True, check=rows.check_row, counter=rows.label_counter())
    table = encode_table(
        source, columns, tokenizer, label_space, max_length=24, stride=4, skip_bad_rows=True, codec=rows
    )
    data = pack_table(table, segments=True)
    batch = data.take(np.arange(len(data)))
    check(len(batch.ids) == len(table.ids) and batch.rows == len(table), "the batch and the table have different rows")
    if task.name == "tag":
        check(
            len(batch.annotations["has_token"]) == len(batch.targets.values),
            "the batch has more or fewer tags than words",
        )
        check(
            bool((batch.annotations["token_indices"] < len(batch.ids)).all()),
            "a word has a token index outside the batch",
        )
    elif task.name == "span":
        check(bool((batch.lengths > batch.annotations["answer"].T).all()), "an answer ends outside its window")
    else:
        check(bool((batch.targets < table.annotations.counts).all()), "the index of a correct option is out of range")
    view, view_columns = build_plain_view(rows, rows.plain_view, source, columns)
    inspection = inspect_data(view, columns=view_columns)
    json.dumps(inspection.to_json(), allow_nan=False).encode()
