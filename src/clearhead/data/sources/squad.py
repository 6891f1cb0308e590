"""Read questions from the nested JSON of SQuAD: articles, their paragraphs, and the questions on each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from clearhead.data.sources.files import STREAM_ERRORS, Blob
from clearhead.data.sources.source import NOT_AN_OBJECT, BadRow, Row, Rows, excerpt
from clearhead.errors import InputError

COLUMNS = ("id", "title", "context", "question", "answers", "is_impossible")
MAX_BYTES = 1 << 30  # of a document; the official training file has 40 million


def is_squad(head: str) -> bool:
    """Whether the beginning of a JSON object looks like SQuAD."""
    start = head[: 1 << 16]
    return '"data"' in start and '"paragraphs"' in start and '"context"' in start


def read_question_rows(blob: Blob, encoding: str) -> Rows:
    """Yield a row for each question."""
    number = 0
    for question_or_problem in _iter_questions(_read_document(blob, encoding)):
        number += 1
        if isinstance(question_or_problem, str):
            yield BadRow(number, question_or_problem, "", None, NOT_AN_OBJECT)
            continue
        title, context, question = question_or_problem
        known_keys = ("id", "question", "answers", "is_impossible")
        values: dict[str, Any] = {"title": title, "context": context}
        values |= {name: question.get(name) for name in known_keys}
        yield Row(
            number,
            {name: values[name] for name in COLUMNS}
            | {
                name: value
                for name, value in question.items()
                if name not in known_keys and name != "plausible_answers"
            },
        )


def _read_document(blob: Blob, encoding: str) -> Any:
    try:
        with blob.open() as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InputError(f"{blob.name} is larger than {MAX_BYTES >> 20:,} MB; convert it to JSON lines.")
        return json.loads(data.decode(encoding))
    except STREAM_ERRORS as error:
        raise InputError(f"{blob.name} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    except (ValueError, RecursionError) as error:  # also a number with too many digits for Python
        raise InputError(f"{blob.name} is not valid JSON: {excerpt(error)}.") from None


def _iter_questions(document: Any) -> Iterator[tuple[Any, Any, dict[str, Any]] | str]:
    """Yield title, passage and question, or a message if something else is found."""
    for article in _get_list(document, "data"):
        if not isinstance(article, dict):
            yield "an article is not an object"
            continue
        for paragraph in _get_list(article, "paragraphs"):
            if not isinstance(paragraph, dict):
                yield "a paragraph is not an object"
                continue
            for question in _get_list(paragraph, "qas"):
                if isinstance(question, dict):
                    yield article.get("title"), paragraph.get("context"), question
                else:
                    yield "a question is not an object"


def _get_list(value: Any, key: str) -> list[Any]:
    items = value.get(key) if isinstance(value, dict) else None
    return items if isinstance(items, list) else [] if items is None else [items]
