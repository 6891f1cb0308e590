"""Answers to a single text, pair or question, without a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clearhead.caller import setting, verb
from clearhead.errors import InputError
from clearhead.files import format_path, to_printable
from clearhead.predict.predictor import Predictor
from clearhead.tasks.answer import Answer


def answer_texts(predictor: Predictor, texts: Sequence[str]) -> Answer:
    """Answer one text, a pair of texts, a question about a passage, or a question with options."""
    _check_texts(texts)
    row = predictor.task.rows.row_from_texts(texts, predictor.reference, predictor.reads_pairs)
    return predictor.answer([row], **{name: name for name in row})[0]


def answer_question(predictor: Predictor, question: str, passage: str, top: int) -> Answer:
    """Answer a question from a passage, and list the `top` candidates."""
    candidates = predictor.task.answers.max_candidates
    if not candidates:
        raise InputError(
            f"{format_path(predictor.reference)} {predictor.task.answers.purpose}; {verb('ask')} needs a model that "
            f"finds answers in a passage (task span). Use {verb('predict')} with this model."
        )
    if isinstance(top, bool) or not isinstance(top, int) or not 1 <= top <= candidates:
        raise InputError(f"{setting('top')} must be an integer from 1 to {candidates}, got {to_printable(top, 40)}.")
    for name, text in (("question", question), ("passage", passage)):
        if not isinstance(text, str):
            raise InputError(f"The {name} must be a text, got a {type(text).__name__}.")
        if not text.strip():
            raise InputError(f"The {name} is empty.")
    return answer_texts(replace(predictor, best=top), (question, passage))


def _check_texts(texts: Sequence[Any]) -> None:
    """Refuse empty texts and other types."""
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            hint = f"; for several texts use {verb('predict')}"
            raise InputError(f"Text {number} of {len(texts)} is a {type(text).__name__}, expected a string{hint}.")
        if not text.strip():
            raise InputError(f"Text {number} of {len(texts)} is empty.")
