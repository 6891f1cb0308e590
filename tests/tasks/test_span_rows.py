"""Questions and answers in all supported notations, and unusable rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.data import Columns, Source, open_source, resolve_columns, survey_rows
from clearhead.data.examples import TextRow
from clearhead.data.sources.source import BadRow, Row
from clearhead.errors import InputError
from clearhead.tasks import detect_task, get_task
from clearhead.tasks.span.rows import AnswerTruth, check_row
from tests.tiny_models import write_csv

SPAN = get_task("span")
STORY = "Ada met Tim in Bern. Tim was late."
COLUMNS = Columns(text="question", text_b="context", label="answers")


def read_truths(rows_or_path: Any) -> tuple[list[AnswerTruth], str]:
    """The answers of the rows of a source, and whether questions may be unanswerable."""
    source: Source = open_source(rows_or_path)
    assert SPAN.rows.label_counter is not None
    columns = resolve_columns(source, SPAN.rows.layout)
    space = survey_rows(source, columns, check=check_row, counter=SPAN.rows.label_counter())
    assert space is not None
    rows = [check_row(row, columns, space) for row in source.rows() if isinstance(row, Row)]
    return [row.label for row in rows if isinstance(row, TextRow)], str(space.scheme)


def make_nested_file(*questions: dict[str, Any], version: str = "v2.0", qas_first: bool = False) -> dict[str, Any]:
    paragraph = {"qas": list(questions), "context": STORY} if qas_first else {"context": STORY, "qas": list(questions)}
    return {"version": version, "data": [{"title": "Ada", "paragraphs": [paragraph]}]}


TIM = {"text": "Tim", "answer_start": 8}
FIRST = {"id": "q1", "question": "Whom did Ada meet?", "answers": [TIM, {"text": "Tim", "answer_start": 21}]}
NONE = {
    "id": "q2",
    "question": "Why?",
    "answers": [],
    "is_impossible": True,
    "plausible_answers": [{"text": "late", "answer_start": 29}],
}


@pytest.mark.parametrize("first", [False, True])
def test_nested_files_of_both_versions(first: bool, tmp_path: Path) -> None:
    old_file, new_file = tmp_path / "train-v1.1.json", tmp_path / "dev-v2.0.json"
    old_file.write_text(json.dumps(make_nested_file(FIRST, version="1.1", qas_first=first)))
    new_file.write_text(json.dumps(make_nested_file(FIRST, NONE, qas_first=first), indent=1))
    truth = AnswerTruth(STORY, ("Tim", "Tim"), (8, 21))
    assert read_truths(old_file) == ([truth], "all")
    assert read_truths(new_file) == ([truth, AnswerTruth(STORY)], "some")
    assert detect_task(open_source(new_file)) is SPAN
    rows = [row for row in open_source(new_file).rows() if isinstance(row, Row)]
    assert [row.values["id"] for row in rows] == ["q1", "q2"]
    assert "plausible_answers" not in rows[1].values


NOTATIONS: dict[str, dict[str, Any]] = {
    "lists side by side": {"answers": {"text": ["Tim"], "answer_start": [8]}},
    "objects": {"answers": [TIM]},
    "one object": {"answers": TIM},
    "texts alone": {"answers": ["Tim"]},
    "in a cell": {"answers": json.dumps({"text": ["Tim"], "answer_start": [8]})},
    "objects in a cell": {"answers": json.dumps([TIM])},
    "a text and its start": {"answer": "Tim", "answer_start": 8},
    "a start in letters": {"answer": "Tim", "answer_start": "8"},
    "a start with a fraction": {"answer": "Tim", "answer_start": "8.0"},
    "a text alone": {"answers": "Tim"},
}


@pytest.mark.parametrize("notation", NOTATIONS)
def test_every_notation_is_read_the_same(notation: str, tmp_path: Path) -> None:
    row = {"question": "Whom?", "context": STORY, **NOTATIONS[notation]}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    truth = [AnswerTruth(STORY, ("Tim",), (8,))]
    assert read_truths(path) == (truth, "all")
    assert detect_task(open_source(path)) is SPAN
    if not any(isinstance(value, dict | list) for value in row.values()):
        table = write_csv(tmp_path / "rows.csv", [row, row])
        assert read_truths(table) == (truth * 2, "all")


@pytest.mark.parametrize(
    "row_without_answer",
    [
        {"answers": []},
        {"answers": {"text": [], "answer_start": []}},
        {"answers": None},
        {"answer": ""},
        {"answers": [TIM], "is_impossible": True},
        {"answers": [TIM], "is_impossible": "True"},
        {"answer": "Tim", "is_impossible": "1"},
        {"answers": "[]"},
    ],
)
def test_no_answer_is_an_answer(row_without_answer: dict[str, Any]) -> None:
    assert read_truths([{"question": "Whom?", "context": STORY, **row_without_answer}]) == (
        [AnswerTruth(STORY)],
        "some",
    )


def test_answers_are_exact_and_may_have_brackets() -> None:
    story = 'He wrote [1] and ["a"] in  Tōkyō \tthere.'
    for answer in ("[1]", '["a"]', "in  Tōkyō \tthere"):
        checked = check_row(
            Row(
                1,
                {
                    "question": "Where?",
                    "context": story,
                    "answers": {"text": [answer], "answer_start": [story.index(answer)]},
                },
            ),
            COLUMNS,
            None,
        )
        assert isinstance(checked, TextRow)
        assert checked.label.answers == (answer,)
    checked = check_row(Row(1, {"question": "Where?", "context": story, "answers": "[1]"}), COLUMNS, None)
    assert isinstance(checked, TextRow)
    assert checked.label == AnswerTruth(story, ("[1]",), (9,))
    spaced_answer = check_row(
        Row(1, {"question": "?", "context": story, "answers": [{"text": " in ", "answer_start": 22}]}), COLUMNS, None
    )
    assert isinstance(spaced_answer, TextRow)
    assert (spaced_answer.label.answers, spaced_answer.label.starts) == (("in",), (23,))


BAD_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "elsewhere": (
        {"answers": [{"text": "Tim", "answer_start": 9}]},
        "character 9 of the passage: expected the answer 'Tim', got 'im '",
    ),
    "beyond": ({"answers": [{"text": "Tim", "answer_start": 10**30}]}, "expected the answer 'Tim', got ''"),
    "below 0": ({"answers": [{"text": "Tim", "answer_start": -1}]}, "is not in the passage"),
    "not there": ({"answers": ["Bob"]}, "the answer 'Bob' is not in the passage"),
    "another case": ({"answers": ["tim"]}, "the answer 'tim' is not in the passage"),
    "a start that is none": ({"answers": [{"text": "Tim", "answer_start": "x"}]}, "is not an integer"),
    "a start that is yes": ({"answers": [{"text": "Tim", "answer_start": True}]}, "is not an integer"),
    "a start and a half": ({"answers": [{"text": "Tim", "answer_start": 8.5}]}, "is not an integer"),
    "an empty answer": ({"answers": [{"text": " ", "answer_start": 3}]}, "an answer is empty or not text"),
    "a number": ({"answers": [{"text": 5, "answer_start": 3}]}, "an answer is empty or not text"),
    "half a character": ({"answers": ["\ud800"]}, "an answer is empty or not text"),
    "lists of two lengths": ({"answers": {"text": ["Tim"], "answer_start": [8, 21]}}, "is not a list of answers"),
    "a list of lists": ({"answers": [["Tim"]]}, "is not a list of answers"),
    "an object of others": ({"answers": {"a": 1}}, "is not a list of answers"),
    "7": ({"answers": 7}, "is not a list of answers"),
    "no question": ({"question": "", "answers": []}, "question is empty"),
    "no passage": ({"context": None, "answers": []}, "context is missing"),
    "a NUL byte": ({"context": "a\0", "answers": []}, "context contains a NUL byte"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_invalid_answers_are_reported(case: str) -> None:
    values, message = BAD_ROWS[case]
    checked = check_row(Row(4, {"question": "Whom?", "context": STORY} | values), COLUMNS, None)
    assert isinstance(checked, BadRow), checked
    assert message in str(checked)
    assert "\n" not in str(checked)
    assert len(str(checked)) < 300


def test_all_bad_rows_are_in_one_error() -> None:
    rows = [{"question": "Whom?", "context": STORY} | values for values, _ in BAD_ROWS.values()]
    with pytest.raises(InputError, match=f"{len(BAD_ROWS)} of {len(BAD_ROWS) + 1} rows cannot be used"):
        read_truths([*rows, {"question": "Whom?", "context": STORY, "answers": ["Tim"]}])


@pytest.mark.parametrize(
    "text",
    [
        '{"data": [{"paragraphs": [{"context": "a", "qas": ' + "[" * 100_000,
        '{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": ' + "1" * 5000 + "}]}]}]}",
        '{"data": [{"paragraphs": [{"context": "a"',
        '{"data": [{"paragraphs": [{"context": 5, "qas": 7}]}]}',
        '{"data": 5, "paragraphs": 1, "context": 1}',
        '{"data": ["paragraphs", "context"]}',
        '{"data": [{"paragraphs": ["context"]}]}',
    ],
)
def test_a_damaged_file_is_reported_in_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_truths(path)
    assert len(str(refused.value)) < 600


def test_options_with_a_passage_are_not_answers() -> None:
    rows = [{"context": STORY, "question": "Whom?", "answers": ["Tim", "Bob"], "label": 0}]
    checked = detect_task(open_source(rows))
    assert checked is None or checked.name == "choice"
