"""Each task has an answer type with JSON, columns and a schema; attributes of other tasks are None."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

import clearhead
from clearhead.tasks import TASKS
from clearhead.tasks.answer import Answer, FoundSpan
from clearhead.tasks.choice.answer import ChoiceAnswer
from clearhead.tasks.classify.answer import LabelAnswer, LabelsAnswer
from clearhead.tasks.regress.answer import NumberAnswer
from clearhead.tasks.span.answer import SpanAnswer
from clearhead.tasks.tag.answer import TagsAnswer

WORD = FoundSpan(start=2, end=6, text="York", probability=0.75, label="place")
PROBS = {"good": 0.75, "bad": 0.25}
COMMON = {"truncated": 0, "windows": 1, "abstained": False}
CASES: list[tuple[Answer, dict[str, Any], dict[str, Any]]] = [
    (
        LabelAnswer(row=1, label="good", probability=0.75, probabilities=PROBS),
        {"label": "good", "probability": 0.75, "probabilities": PROBS, **COMMON},
        {"prediction": "good", "probability": 0.75},
    ),
    (
        LabelsAnswer(row=1, labels=("good", "bad"), probability=0.5, probabilities=PROBS, id="a"),
        {"labels": ["good", "bad"], "probability": 0.5, "probabilities": PROBS, **COMMON, "id": "a"},
        {"prediction": ["good", "bad"], "probability": 0.5},
    ),
    (NumberAnswer(row=1, value=1.23456789), {"value": 1.23456789, **COMMON}, {"prediction": 1.234568}),
    (
        TagsAnswer(row=1, probability=0.75, text="a York", tags=("O", "B-place"), spans=(WORD,)),
        {
            "probability": 0.75,
            **COMMON,
            "text": "a York",
            "tags": ["O", "B-place"],
            "spans": [{"start": 2, "end": 6, "text": "York", "probability": 0.75, "label": "place"}],
        },
        {
            "text": "a York",
            "spans": [{"start": 2, "end": 6, "label": "place", "text": "York", "probability": 0.75}],
        },
    ),
    (
        SpanAnswer(row=1, probability=0.75, answer="York", nbest=(dataclasses.replace(WORD, label=None),)),
        {
            "probability": 0.75,
            **COMMON,
            "answer": "York",
            "nbest": [{"start": 2, "end": 6, "text": "York", "probability": 0.75, "label": None}],
        },
        {
            "answer": "York",
            "start": 2,
            "end": 6,
            "probability": 0.75,
            "nbest": [{"start": 2, "end": 6, "text": "York", "probability": 0.75}],
        },
    ),
    (
        ChoiceAnswer(row=1, label="A", probability=0.75, probabilities={"A": 0.75, "B": 0.25}, option=0),
        {"label": "A", "probability": 0.75, "probabilities": {"A": 0.75, "B": 0.25}, **COMMON, "option": 0},
        {"prediction": "A", "probability": 0.75, "probabilities": [0.75, 0.25]},
    ),
]
TASK_FIELDS = ("label", "labels", "value", "probability", "text", "tags", "spans", "answer", "option", "place")


@pytest.mark.parametrize(("answer", "plain", "columns"), CASES, ids=lambda value: type(value).__name__)
def test_json_and_columns(answer: Answer, plain: dict[str, Any], columns: dict[str, Any]) -> None:
    assert list(answer.to_json().items()) == list(plain.items())
    assert answer.columns() == columns | {"truncated": 0, "windows": 1}


@pytest.mark.parametrize(("answer", "plain", "columns"), CASES, ids=lambda value: type(value).__name__)
def test_the_schema_has_what_the_json_has(answer: Answer, plain: dict[str, Any], columns: dict[str, Any]) -> None:
    schema = type(answer).json_schema()
    properties = schema["properties"]
    assert set(plain) <= set(properties)
    assert "row" not in properties
    assert set(schema["required"]) <= set(plain)
    assert len(msgspec.json.encode(schema)) > 100
    assert ("FoundSpan" in schema.get("$defs", {})) == isinstance(answer, TagsAnswer | SpanAnswer)


@pytest.mark.parametrize("answer", [case[0] for case in CASES], ids=lambda value: type(value).__name__)
def test_attributes_of_other_tasks_are_none(answer: Answer) -> None:
    assert isinstance(answer, clearhead.Prediction)
    own_fields = {field.name for field in dataclasses.fields(answer)} | ({"place"} if answer.answer else set())
    assert {name for name in TASK_FIELDS if getattr(answer, name) is not None} <= own_fields
    assert answer.nbest == () or "nbest" in own_fields
    assert answer.probabilities == {} or "probabilities" in own_fields
    with pytest.raises(AttributeError):
        answer.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_values_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        CASES[0][0].row = 2  # type: ignore[misc]


def test_all_answer_types_are_covered() -> None:
    types = {answer_type for task in TASKS.values() for answer_type in task.answers.answer_types}
    assert types == {type(answer) for answer, _, _ in CASES}


def test_options_are_named_by_their_texts_if_unique() -> None:
    choice = CASES[-1][0]
    assert choice.with_option_names(["red", "blue"]).probabilities == {"red": 0.75, "blue": 0.25}
    assert choice.with_option_names(["red", "blue"]).label == "red"
    assert choice.with_option_names(["red", "red"]) is choice
    assert CASES[0][0].with_option_names(["red", "blue"]) is CASES[0][0]
