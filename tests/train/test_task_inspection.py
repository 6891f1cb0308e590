"""Files of tags, answers and options in plain view: what `inspect` and the report say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import inspect
from clearhead.errors import InputError
from tests.aspect_rows import flat, marked
from tests.task_rows import conll, options, questions, spans, squad, words_and_tags
from tests.tiny_models import write_csv

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_columns_of_tokens(tiny: str, tmp_path: Path) -> None:
    (tmp_path / "rows.conll").write_text(conll(words_and_tags(60)))
    (tmp_path / "dev.conll").write_text(conll([*words_and_tags(10, seed=2), words_and_tags(60)[0]]))
    found = inspect(tmp_path / "rows.conll", dev=tmp_path / "dev.conll", model=tiny)
    assert (found.rows, found.kind, set(found.labels)) == (71, "multilabel", {"NICE", "SAD"})
    assert found.labels["NICE"] == 71
    assert found.parts == {"train": 60, "dev": 11}
    assert found.leaks.groups == 1
    assert found.tokens is not None
    assert found.estimate is not None
    assert found.estimate["tokens_per_second"] > 0
    json.dumps(found.to_json())


def test_texts_with_spans(tiny: str, tmp_path: Path) -> None:
    rows = spans(words_and_tags(30))
    rows[3]["spans"] = [{"start": 1, "end": 2, "label": "SAD"}]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = inspect(path, model=tiny)
    assert (found.rows, found.kind, set(found.labels)) == (29, "multilabel", {"NICE", "SAD"})
    assert found.bad == {"span does not fit": 1}
    assert found.characters.most == max(len(row["text"]) for place, row in enumerate(rows) if place != 3)


def test_questions_on_passages(tiny: str, tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    path.write_text(json.dumps(squad(questions(40, none=0.3))))
    found = inspect(path, model=tiny)
    assert (found.rows, found.kind, set(found.labels)) == (40, "classes", {"answer", "no answer"})
    assert (found.columns.text, found.columns.text_b) == ("question", "context")
    assert found.near.groups == 0
    assert found.estimate is not None
    assert "seconds" in found.estimate


def test_questions_with_options(tiny: str, tmp_path: Path) -> None:
    found = inspect(write_csv(tmp_path / "quiz.csv", options(40)), model=tiny)
    assert (found.rows, found.kind) == (40, "classes")
    assert set(found.labels) == {"option 1", "option 2", "option 3", "option 4"}
    assert found.estimate is not None
    assert "seconds" in found.estimate
    asked = inspect(write_csv(tmp_path / "other.csv", options(40)), label="id", model=None)
    assert asked.columns.label == "id"  # another label was asked for


def test_tokens_without_tags_and_other_rows_are_looked_at_too(tiny: str, tmp_path: Path) -> None:
    (tmp_path / "rows.conll").write_text("a\ngood\nfilm\n\nthe\nend\n\nsad\n")
    found = inspect(tmp_path / "rows.conll", model=tiny)
    assert (found.rows, found.kind) == (3, None)
    unlabelled = [{"question": "was it", "context": "a good film", "id": n} for n in range(3)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in unlabelled))
    assert inspect(tmp_path / "rows.jsonl", model=None).rows == 3


def test_a_task_that_is_said_comes_before_what_rows_look_like(tiny: str, tmp_path: Path) -> None:
    plain = write_csv(tmp_path / "quiz.csv", options(40))
    found = inspect(plain, task="classify", text="question", model=tiny)
    assert (found.columns.options, set(found.labels)) == ((), {"A", "B", "C", "D"})
    odd = [
        {"ask": row["question"], "x": row["option1"], "y": row["option2"], "right": place % 2}
        for place, row in enumerate(options(40))
    ]
    assert inspect(odd, text="ask", label="right", model=None).columns.options == ()
    found = inspect(odd, task="choice", options="x, y", text="ask", label="right", model=tiny)
    assert (found.columns.text_b, set(found.labels)) == ("options", {"option 1", "option 2"})
    assert "seconds" in (found.estimate or {})


def test_numbers_are_what_the_task_takes_them_for(tiny: str) -> None:
    rows = [{"text": f"a good film {place}", "label": place / 8} for place in range(60)]
    assert inspect(rows, model=None).kind == "number"
    found = inspect(rows, task="classify", model=tiny)
    assert (found.kind, len(found.labels)) == ("classes", 60)
    assert "seconds" in (found.estimate or {})
    few = [{"text": f"a good film {place}", "label": place % 3} for place in range(60)]
    assert inspect(few, model=None).kind == "classes"
    found = inspect([*few, {"text": "the end", "label": "none"}], task="regress", label="label", model=tiny)
    assert (found.kind, found.rows, sum(found.bad.values()), found.numbers) == ("number", 60, 1, (0.0, 1.0, 2.0))
    assert "seconds" in (found.estimate or {})


def test_aspects_are_looked_at_as_spans(tiny: str) -> None:
    for rows in (marked(30), flat(marked(30))):
        found = inspect(rows, task="aspect", dev=rows[:5], model=tiny)
        assert set(found.labels) == {"positive", "negative"}
        assert found.leaks.groups > 0
        assert "two models" in (found.estimate or {})["notes"][0]


def test_what_does_not_go_together_is_said(tmp_path: Path) -> None:
    rows = [{"text": "a film", "label": "good"}, {"text": "the end", "label": "bad"}]
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"task": "spell"}, "task must be one of classify, .*, aspect, translate, and it is 'spell'"),
        ({"task": "translate"}, "clearhead.train looks at its rows"),
        ({"task": "pair"}, "no second column of texts"),
        ({"task": "classify", "options": "text"}, "options is for multiple-choice rows"),
        ({"options": "text"}, "options is for multiple-choice rows"),
        ({"task": "aspect", "options": "text"}, "options is for multiple-choice rows"),
        ({"task": "choice", "options": "text,nowhere"}, "no column 'nowhere' for options"),
    )
    for choices, said in wrong:
        with pytest.raises(InputError, match=said):
            inspect(rows, model=None, **choices)


@pytest.mark.parametrize("name", ["orders.conll", "orders.jsonl", "handbook.json", "quiz.csv"])
def test_the_examples(name: str) -> None:
    found = inspect(EXAMPLES / name, model=None)
    assert found.rows > 50
    assert found.bad == {}
    assert found.labels
