"""The steps of CONTRIBUTING.md, "Add a task": a new task trains, evaluates and predicts without other changes."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import clearhead
from clearhead.data import LabelSpace, TextRow, open_source
from clearhead.errors import InputError
from clearhead.jobs import plan
from clearhead.predict.files import predict_file
from clearhead.predict.predictor import Predictor
from clearhead.tasks import TASKS, Answers, Task
from clearhead.tasks.answer import Answer, AnswerCodec, round_probability
from clearhead.tasks.registry import get_task
from clearhead.tasks.task import Decoding, TaskMetrics
from tests.rows import QUICK
from tests.tiny_models import make_sentiment_rows

CLASSIFY = get_task("classify")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RankedAnswer(Answer):
    """All labels, the most probable first."""

    ranking: tuple[str, ...] = ()
    probability: float | None = None

    leading: ClassVar[tuple[str, ...]] = ("ranking",)

    def summary(self) -> list[str]:
        return [" > ".join(self.ranking)]

    def columns(self) -> dict[str, Any]:
        return {
            "ranking": list(self.ranking),
            "probability": round_probability(self.probability),
            **Answer.columns(self),
        }


def build_answer(
    answers: Answers, index: int, row: TextRow, space: LabelSpace, max_candidates: int, common: dict[str, Any]
) -> RankedAnswer:
    order = (-answers.probs[index]).argsort(kind="stable")
    return RankedAnswer(ranking=tuple(space.names[label] for label in order), **common)


RANK = Task(
    name="rank",
    description="one text, all labels in an order",
    rows=replace(CLASSIFY.rows, label_kinds=("classes",)),
    head=replace(CLASSIFY.head, infer_labels=lambda names, config: None),
    objective=CLASSIFY.objective,
    decoding=Decoding(
        decode=CLASSIFY.decoding.decode, fit=CLASSIFY.decoding.fit, confidence=CLASSIFY.decoding.confidence
    ),
    answers=AnswerCodec(
        build=build_answer,
        answer_types=(RankedAnswer,),
        purpose="orders labels",
        model_kind="classifier",
        columns=lambda read, names: ("ranking", "probability", "truncated", "windows"),
        no_probabilities_reason="orders labels",
    ),
    metrics=TaskMetrics(
        measure=CLASSIFY.metrics.measure,
        main=lambda space: "log_loss",
        names=lambda space: ("accuracy", "log_loss"),
        is_correct=CLASSIFY.metrics.is_correct,
        paired_metrics=CLASSIFY.metrics.paired_metrics,
    ),
    examples=CLASSIFY.examples,
    methods=("finetune", "tfidf"),
)


@pytest.fixture(autouse=True)
def register_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "rank", RANK)
    monkeypatch.setattr(plan, "TASK_NAMES", (*plan.TASK_NAMES, "rank"))  # computed from TASKS at import
    monkeypatch.setattr(plan, "ONE_VECTOR_TASKS", (*plan.ONE_VECTOR_TASKS, "rank"))


@pytest.fixture
def predictor(register_task: None, tiny: str, tmp_path: Path) -> Predictor:
    clearhead.train(make_sentiment_rows(120), output=tmp_path / "run", model=tiny, task="rank", epochs=8, **QUICK)
    return clearhead.load_predictor(tmp_path / "run")


def test_a_custom_task_trains_and_predicts(predictor: Predictor, tmp_path: Path) -> None:
    assert predictor.task is RANK
    first, second = predictor.answer(["a good film", "a bad film"])
    assert isinstance(first, RankedAnswer)
    assert isinstance(second, RankedAnswer)
    assert sorted(first.ranking) == sorted(predictor.space.names)
    assert first.ranking[0] != second.ranking[0]
    assert isinstance(first, clearhead.Prediction)
    assert first.label is None
    assert list(first.to_json()) == ["ranking", "truncated", "windows", "abstained", "probability"]
    assert repr(first).startswith(f"Prediction({' > '.join(first.ranking)}, probability=")
    evaluation = clearhead.evaluate(predictor, make_sentiment_rows(40))
    assert evaluation.task == "rank"
    assert evaluation.main == "log_loss"
    assert evaluation.picks is not None
    with pytest.raises(InputError, match=r"orders labels; clearhead\.ask needs a model"):
        clearhead.ask(predictor, "was it", "a good film")
    source = open_source(["a good film"])
    predict_file(predictor, source, tmp_path / "out.csv")
    (row,) = csv.DictReader((tmp_path / "out.csv").read_text().splitlines())
    assert row["ranking"].split("|") == list(first.ranking)
    with pytest.raises(InputError, match="orders labels; omit probabilities"):
        predict_file(predictor, source, tmp_path / "more.csv", probabilities=True)


def test_methods_and_metrics_of_the_task_are_checked(tiny: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rank does not support the method majority; use one of finetune, tfidf"):
        clearhead.train(make_sentiment_rows(60), output=tmp_path / "run", task="rank", method="majority")
    with pytest.raises(InputError, match=r"metric must be one of .* for these labels, got f1_macro"):
        clearhead.train(make_sentiment_rows(60), output=tmp_path / "run", model=tiny, task="rank", metric="f1_macro")


def test_its_schema_is_derived(predictor: Predictor) -> None:
    schema = RankedAnswer.json_schema()
    assert set(predictor.answer(["a good film"])[0].to_json()) <= set(schema["properties"])
    assert schema["properties"]["ranking"] == {"type": "array", "items": {"type": "string"}}
    assert json.loads(json.dumps(schema)) == schema
