"""One text, or the few that a question consists of, answered by a trained model without any file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clearhead.caller import verb
from clearhead.data import open_source
from clearhead.errors import InputError
from clearhead.files import named, shown
from clearhead.predict.predictions import Prediction, predictions
from clearhead.predict.predictor import Predictor
from clearhead.tasks.span.decoding import KEPT

TEXT, SECOND, OPTIONS = "text", "text_b", "options"
DOES = {
    "classify": "labels texts",
    "pair": "labels pairs of texts",
    "regress": "gives a text a number",
    "tag": "tags the words of a text",
    "choice": "chooses among options",
}


def answer_texts(predictor: Predictor, texts: Sequence[str]) -> Prediction:
    """The answer to one text, two texts of a pair, a question and its passage, or a question and its options."""
    _check(predictor, texts)
    row: dict[str, Any] = {TEXT: texts[0]}
    names: dict[str, Any] = {"text": TEXT}
    if predictor.space.kind == "options":
        row[OPTIONS] = list(texts[1:])
        names["options"] = OPTIONS
    elif len(texts) == 2:
        row[SECOND] = texts[1]
        names["text_b"] = SECOND
    source = open_source([row])
    columns = predictor.columns_in(source, **names, labelled=False)
    return next(predictions(predictor, source, columns, skip_bad_rows=False))


def answer_question(predictor: Predictor, question: str, passage: str, best: int) -> Prediction:
    """The answer out of a passage and the `best` ones, from a model that finds answers."""
    if predictor.space.kind != "answers":
        does = DOES.get(predictor.task.name, "does something else")
        raise InputError(
            f"{named(predictor.reference)} {does}; {verb('ask')} needs a model that finds answers in a passage "
            f"(task span). Use {verb('predict')} with this one."
        )
    if isinstance(best, bool) or not isinstance(best, int) or not 1 <= best <= KEPT:
        raise InputError(f"best must be an integer from 1 to {KEPT}, got {shown(best, 40)}.")
    for name, text in (("question", question), ("passage", passage)):
        if not isinstance(text, str):
            raise InputError(f"The {name} must be a text, got a {type(text).__name__}.")
        if not text.strip():
            raise InputError(f"The {name} is empty.")
    return answer_texts(replace(predictor, best=best), (question, passage))


def _check(predictor: Predictor, texts: Sequence[Any]) -> None:
    """Refuse empty texts, and too few or too many of them for what the model reads."""
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            hint = f"; for several texts use {verb('predict')}"
            raise InputError(f"Text {number} of {len(texts)} is a {type(text).__name__}, expected a string{hint}.")
        if not text.strip():
            raise InputError(f"Text {number} of {len(texts)} is empty; expected words to answer.")
    kind, name, got = predictor.space.kind, predictor.reference, len(texts)
    if kind == "options":
        if got < 3:
            raise InputError(f"{name} chooses among options: give a question and at least two options, got {got}.")
        if predictor.trained is not None and "text_b" in predictor.trained.columns:
            raise InputError(f"{name} reads a passage, a question and options: give them as rows of a file.")
        return
    if kind == "answers":
        if got != 2:
            raise InputError(f"{name} answers questions: give a question and a passage, got {got} texts.")
        return
    least, most = (1, 1) if kind == "tags" else {True: (2, 2), False: (1, 1), None: (1, 2)}[predictor.reads_two]
    if got < least:
        raise InputError(f"{name} reads two texts: give the second one after the first, got {got}.")
    if got > most:
        raise InputError(f"{name} reads {'one text' if most == 1 else 'two texts at most'}, got {got}.")
