"""Files of tags, answers and options to mutate, and what must be true of what is read out of them."""

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
TYPES = ("PER", "LOC", "a-b")


def _words(row: list[Any]) -> list[str]:
    return str(row[0]).encode("utf-8", "replace").decode().replace("\0", " ").split() or ["word"]


def _tags(words: list[str], rng: Rng) -> list[str]:
    made = ["O"] * len(words)
    for place in range(len(words)):
        if rng.random() < 0.3:
            made[place] = f"B-{rng.choice(TYPES)}"
        elif made[place - 1] != "O" and rng.random() < 0.4:
            made[place] = f"I-{made[place - 1][2:]}"
    return made


def _columns(made: Table, rng: Rng) -> File:
    between, more = rng.choice(("\t", " ")), rng.choice(("", "NN"))
    blocks = []
    for row in made.rows[:60]:
        words = _words(row)
        cells = [(word, more, tag) if more else (word, tag) for word, tag in zip(words, _tags(words, rng), strict=True)]
        comment = "# id 7 x\n" if rng.random() < 0.1 else ""
        blocks.append(comment + "\n".join(between.join(line) for line in cells))
    text = "-DOCSTART- -X- O\n\n" * (rng.random() < 0.2) + "\n\n".join(blocks) + "\n"
    return File(rng.choice(("data.conll", "data.iob2", "data.txt")), text.encode("utf-8", "surrogatepass"))


def _lines(rows: list[Any]) -> File:
    return File("data.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())


def _spans(made: Table, rng: Rng) -> File:
    rows: list[Any] = []
    for row in made.rows[:60]:
        words = _words(row)
        begins = [sum(len(word) + 1 for word in words[:place]) for place in range(len(words))]
        found: list[Any] = []
        for place in range(0, len(words), 3):
            start, kind = begins[place], rng.choice(TYPES)
            end = start + len(words[place])
            found.append([start, end, kind] if rng.random() < 0.5 else {"start": start, "end": end, "label": kind})
        rows.append({"text": " ".join(words), "spans": found if rng.random() < 0.8 else json.dumps(found)})
    return _lines(rows)


def _asked(made: Table, rng: Rng) -> File:
    rows = []
    for number, row in enumerate(made.rows[:60]):
        words = _words(row)
        place = rng.randrange(len(words))
        start = sum(len(word) + 1 for word in words[:place])
        answers = [] if rng.random() < 0.2 else [{"text": words[place], "answer_start": start}]
        rows.append({"id": str(number), "question": "who is it", "context": " ".join(words), "answers": answers})
    if rng.random() < 0.5:
        return _lines(rows)
    keys = ("id", "question", "answers")
    inner = [{"context": row["context"], "qas": [{key: row[key] for key in keys}]} for row in rows]
    return File("data.json", json.dumps({"data": [{"title": "t", "paragraphs": inner}]}).encode())


def _options(made: Table, rng: Rng) -> File:
    rows: list[Any] = []
    for row in made.rows[:60]:
        texts = [rng.choice(_words(row)) for _ in range(rng.randint(2, 5))]
        right = rng.randrange(len(texts))
        form = rng.randrange(3)
        options: Any = (texts, json.dumps(texts), {"text": texts, "label": list("ABCDE")[: len(texts)]})[form]
        label = right if form < 2 else "ABCDE"[right]
        rows.append({"question": " ".join(_words(row)), "options": options, "label": label})
    return _lines(rows)


TASK_WRITERS: dict[str, Callable[[Table, Rng], File]] = {
    "columns of tokens": _columns,
    "json spans": _spans,
    "json answers": _asked,
    "json options": _options,
}


def read_task(task: Task, source: Source, tokenizer: Any, promise: Callable[[bool, str], None]) -> None:
    """All rows as a task reads them, to the arrays of a batch."""
    rows = task.rows
    assert rows.label_counter is not None
    assert rows.plain_view is not None
    columns = resolve_columns(source, rows.layout)
    space = survey_rows(source, columns, skip_bad_rows=True, check=rows.check_row, counter=rows.label_counter())
    table = encode_table(source, columns, tokenizer, space, max_length=24, stride=4, skip_bad_rows=True, codec=rows)
    data = pack_table(table, segments=True)
    part = data.take(np.arange(len(data)))
    promise(len(part.ids) == len(table.ids) and part.rows == len(table), "a batch of other rows")
    if task.name == "tag":
        promise(len(part.annotations["has_token"]) == len(part.targets.values), "as many tags as words")
        promise(bool((part.annotations["token_indices"] < len(part.ids)).all()), "a word is read beyond the tokens")
    elif task.name == "span":
        promise(bool((part.lengths > part.annotations["answer"].T).all()), "an answer beyond its window")
    else:
        promise(bool((part.targets < table.annotations.counts).all()), "a right option that is not there")
    seen, called = build_plain_view(rows, rows.plain_view, source, columns)
    found = inspect_data(seen, columns=called)
    json.dumps(found.to_json(), allow_nan=False).encode()
