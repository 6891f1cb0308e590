"""Inspection of files with tags, answers and options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import inspect
from clearhead.errors import InputError
from tests.aspect_rows import flatten_aspects, make_reviews
from tests.task_rows import (
    format_conll,
    format_squad,
    make_option_rows,
    make_questions,
    make_span_rows,
    make_tagged_words,
)
from tests.tiny_models import write_csv

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_columns_of_tokens(tiny: str, tmp_path: Path) -> None:
    (tmp_path / "rows.conll").write_text(format_conll(make_tagged_words(60)))
    (tmp_path / "dev.conll").write_text(format_conll([*make_tagged_words(10, seed=2), make_tagged_words(60)[0]]))
    inspection = inspect(tmp_path / "rows.conll", dev=tmp_path / "dev.conll", model=tiny)
    assert (inspection.rows, inspection.kind, set(inspection.labels)) == (71, "multilabel", {"NICE", "SAD"})
    assert inspection.labels["NICE"] == 71
    assert inspection.parts == {"train": 60, "dev": 11}
    assert inspection.leaks.groups == 1
    assert inspection.tokens is not None
    assert inspection.estimate is not None
    assert inspection.estimate["tokens_per_second"] > 0
    json.dumps(inspection.to_json())


def test_texts_with_spans(tiny: str, tmp_path: Path) -> None:
    rows = make_span_rows(make_tagged_words(30))
    rows[3]["spans"] = [{"start": 1, "end": 2, "label": "SAD"}]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    inspection = inspect(path, model=tiny)
    assert (inspection.rows, inspection.kind, set(inspection.labels)) == (29, "multilabel", {"NICE", "SAD"})
    assert inspection.bad == {"span does not fit": 1}
    assert inspection.characters.most == max(len(row["text"]) for index, row in enumerate(rows) if index != 3)


def test_questions_on_passages(tiny: str, tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    path.write_text(json.dumps(format_squad(make_questions(40, no_answer_share=0.3))))
    inspection = inspect(path, model=tiny)
    assert (inspection.rows, inspection.kind, set(inspection.labels)) == (40, "classes", {"answer", "no answer"})
    assert (inspection.columns.text, inspection.columns.text_b) == ("question", "context")
    assert inspection.near.groups == 0
    assert inspection.estimate is not None
    assert "seconds" in inspection.estimate


def test_questions_with_options(tiny: str, tmp_path: Path) -> None:
    inspection = inspect(write_csv(tmp_path / "quiz.csv", make_option_rows(40)), model=tiny)
    assert (inspection.rows, inspection.kind) == (40, "classes")
    assert set(inspection.labels) == {"option 1", "option 2", "option 3", "option 4"}
    assert inspection.estimate is not None
    assert "seconds" in inspection.estimate
    with_label = inspect(write_csv(tmp_path / "other.csv", make_option_rows(40)), label="id", model=None)
    assert with_label.columns.label == "id"  # an explicit label takes precedence


def test_unlabeled_tokens_and_questions_can_be_inspected(tiny: str, tmp_path: Path) -> None:
    (tmp_path / "rows.conll").write_text("a\ngood\nfilm\n\nthe\nend\n\nsad\n")
    inspection = inspect(tmp_path / "rows.conll", model=tiny)
    assert (inspection.rows, inspection.kind) == (3, None)
    unlabeled = [{"question": "was it", "context": "a good film", "id": n} for n in range(3)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in unlabeled))
    assert inspect(tmp_path / "rows.jsonl", model=None).rows == 3


def test_an_explicit_task_overrides_detection(tiny: str, tmp_path: Path) -> None:
    quiz_file = write_csv(tmp_path / "quiz.csv", make_option_rows(40))
    inspection = inspect(quiz_file, task="classify", text="question", model=tiny)
    assert (inspection.columns.options, set(inspection.labels)) == ((), {"A", "B", "C", "D"})
    unusual_rows = [
        {"ask": row["question"], "x": row["option1"], "y": row["option2"], "right": index % 2}
        for index, row in enumerate(make_option_rows(40))
    ]
    assert inspect(unusual_rows, text="ask", label="right", model=None).columns.options == ()
    inspection = inspect(unusual_rows, task="choice", options="x, y", text="ask", label="right", model=tiny)
    assert (inspection.columns.text_b, set(inspection.labels)) == ("options", {"option 1", "option 2"})
    assert "seconds" in (inspection.estimate or {})


def test_the_task_decides_whether_numbers_are_classes(tiny: str) -> None:
    rows = [{"text": f"a good film {index}", "label": index / 8} for index in range(60)]
    assert inspect(rows, model=None).kind == "number"
    inspection = inspect(rows, task="classify", model=tiny)
    assert (inspection.kind, len(inspection.labels)) == ("classes", 60)
    assert "seconds" in (inspection.estimate or {})
    few_values = [{"text": f"a good film {index}", "label": index % 3} for index in range(60)]
    assert inspect(few_values, model=None).kind == "classes"
    inspection = inspect([*few_values, {"text": "the end", "label": "none"}], task="regress", label="label", model=tiny)
    assert (inspection.kind, inspection.rows, sum(inspection.bad.values()), inspection.numbers) == (
        "number",
        60,
        1,
        (0.0, 1.0, 2.0),
    )
    assert "seconds" in (inspection.estimate or {})


def test_aspects_are_inspected_as_spans(tiny: str) -> None:
    for rows in (make_reviews(30), flatten_aspects(make_reviews(30))):
        inspection = inspect(rows, task="aspect", dev=rows[:5], model=tiny)
        assert set(inspection.labels) == {"positive", "negative"}
        assert inspection.leaks.groups > 0
        assert "two models" in (inspection.estimate or {})["notes"][0]


def test_incompatible_settings_are_refused(tmp_path: Path) -> None:
    rows = [{"text": "a film", "label": "good"}, {"text": "the end", "label": "bad"}]
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"task": "spell"}, "task must be one of classify, .*, aspect, translate, got 'spell'"),
        ({"task": "translate"}, "clearhead.train checks their rows"),
        ({"task": "pair"}, "no second text column"),
        ({"task": "classify", "options": "text"}, "options is for multiple-choice rows"),
        ({"options": "text"}, "options is for multiple-choice rows"),
        ({"task": "aspect", "options": "text"}, "options is for multiple-choice rows"),
        ({"task": "choice", "options": "text,nowhere"}, "no column 'nowhere' for options"),
    )
    for settings, message in cases:
        with pytest.raises(InputError, match=message):
            inspect(rows, model=None, **settings)


@pytest.mark.parametrize("name", ["orders.conll", "orders.jsonl", "handbook.json", "quiz.csv"])
def test_the_examples(name: str) -> None:
    inspection = inspect(EXAMPLES / name, model=None)
    assert inspection.rows > 50
    assert inspection.bad == {}
    assert inspection.labels
