"""The example data for tag, span, choice and aspect tasks matches its README: exact offsets, varied rows."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from clearhead.metrics import detect_scheme, extract_entities
from tests.examples.test_example_data import EXAMPLES, read_csv_rows

TYPES = {"PRODUCT", "QUANTITY", "DATE", "PLACE"}
POLARITIES = {"positive", "negative", "neutral"}


def read_sentences() -> list[list[tuple[str, str]]]:
    blocks = (EXAMPLES / "orders.conll").read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    return [[(word, tag) for word, tag in (line.split("\t") for line in block.split("\n"))] for block in blocks]


def read_json_lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (EXAMPLES / name).read_text(encoding="utf-8").splitlines()]


def read_passages() -> list[dict[str, Any]]:
    squad = json.loads((EXAMPLES / "handbook.json").read_text(encoding="utf-8"))
    assert squad["version"] == "v2.0"
    return [passage for part in squad["data"] for passage in part["paragraphs"]]


def read_questions() -> list[tuple[str, dict[str, Any]]]:
    return [(passage["context"], question) for passage in read_passages() for question in passage["qas"]]


def test_the_readme_counts_them() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    counts = {
        "orders.conll": len(read_sentences()),
        "orders.jsonl": len(read_json_lines("orders.jsonl")),
        "handbook.json": len(read_questions()),
        "quiz.csv": len(read_csv_rows("quiz.csv")),
        "review_aspects.jsonl": len(read_json_lines("review_aspects.jsonl")),
        "reviews.csv": len(read_csv_rows("reviews.csv")),
    }
    for name, rows in counts.items():
        assert f"| `{name}` | {rows} |" in page
    assert {path.name for path in EXAMPLES.iterdir() if path.suffix in {".csv", ".json", ".jsonl", ".conll"}} == {
        *counts,
        "support.csv",
        "aspects.csv",
        "similarity.csv",
    }


@pytest.mark.parametrize("name", ["orders.conll", "orders.jsonl", "handbook.json", "quiz.csv", "review_aspects.jsonl"])
def test_files_are_clean(name: str) -> None:
    data = (EXAMPLES / name).read_bytes()
    text = data.decode("utf-8")
    assert "\r" not in text
    assert "�" not in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert not any(line != line.rstrip(" ") for line in text.split("\n"))


def test_orders_are_valid_iob2() -> None:
    tags = [[tag for _, tag in row] for row in read_sentences()]
    assert detect_scheme(tags) == "iob2"
    for row in tags:
        for before, tag in zip(["O", *row], row, strict=False):
            assert not tag.startswith("I-") or before[1:] == tag[1:]
    counts = Counter(kind for row in tags for _, _, kind in extract_entities(row))
    assert set(counts) == TYPES
    assert min(counts.values()) >= 60
    assert 15 <= sum(not extract_entities(row) for row in tags) <= 40  # messages without any


def test_orders_need_context() -> None:
    types_by_word: dict[str, set[str]] = {}
    for row in read_sentences():
        for word, tag in row:
            types_by_word.setdefault(word.lower(), set()).add(tag[2:] or "O")
    ambiguous_words = {word for word, types in types_by_word.items() if len(types) > 1}
    assert len(ambiguous_words) >= 80
    assert {"reading", "may", "bath", "two", "friday", "sandwich"} <= ambiguous_words


def test_orders_come_once_in_both_files() -> None:
    conll_texts = [" ".join(word for word, _ in row).casefold() for row in read_sentences()]
    jsonl_texts = [row["text"].casefold() for row in read_json_lines("orders.jsonl")]
    assert len(set(conll_texts)) == len(conll_texts)
    assert len(set(jsonl_texts)) == len(jsonl_texts)
    squeezed_texts = {"".join(text.split()) for text in conll_texts}
    assert not squeezed_texts & {"".join(text.split()) for text in jsonl_texts}


@pytest.mark.parametrize(("name", "labels"), [("orders.jsonl", TYPES), ("review_aspects.jsonl", POLARITIES)])
def test_spans_are_exact(name: str, labels: set[str]) -> None:
    label_counts: Counter[str] = Counter()
    for row in read_json_lines(name):
        assert set(row) == {"text", "spans"}
        end = 0
        for span in row["spans"]:
            assert end <= span["start"] < span["end"] <= len(row["text"])
            marked_text, end = row["text"][span["start"] : span["end"]], span["end"]
            assert marked_text == marked_text.strip()
            for outside in (row["text"][: span["start"]][-1:], row["text"][end : end + 1]):
                assert not outside.isalnum()  # words are whole
            label_counts[span["label"]] += 1
    assert set(label_counts) == labels
    assert min(label_counts.values()) >= 20


def test_orders_by_characters_are_hard_to_align() -> None:
    texts = [row["text"] for row in read_json_lines("orders.jsonl")]
    assert sum("  " in text for text in texts) >= 4
    assert sum(max(map(ord, text)) > 0xFFFF for text in texts) >= 8  # emoji
    assert sum(any(letter in text for letter in "äöüßÅåéíñŁø") for text in texts) >= 15


def test_answers_stand_in_their_passages() -> None:
    question_list = read_questions()
    assert len(read_passages()) == 12
    assert (
        len({question["id"] for _, question in question_list})
        == len({question["question"] for _, question in question_list})
        == len(question_list)
    )
    for context, question in question_list:
        assert question["is_impossible"] is not bool(question["answers"])
        for answer in question["answers"]:
            start = answer["answer_start"]
            assert answer["text"]
            assert context[start : start + len(answer["text"])] == answer["text"]
            assert not context[start - 1 : start].isalnum()
    without = sum(question["is_impossible"] for _, question in question_list)
    assert without == 31
    assert 0.15 <= without / len(question_list) <= 0.25
    assert sum(len(question["answers"]) > 1 for _, question in question_list) == 9


def test_every_passage_has_both_kinds_of_questions() -> None:
    for passage in read_passages():
        assert {question["is_impossible"] for question in passage["qas"]} == {True, False}
        assert 80 <= len(passage["context"].split()) <= 120


def test_quiz_options() -> None:
    rows = read_csv_rows("quiz.csv")
    assert list(rows[0]) == ["question", "choice0", "choice1", "choice2", "choice3", "label"]
    assert len({row["question"] for row in rows}) == len(rows)
    assert Counter(row["label"] for row in rows) == dict.fromkeys("0123", 40)
    assert sum(not row["choice3"] for row in rows) == 17
    longest = 0
    for row in rows:
        options = [row[f"choice{index}"] for index in range(4)]
        choices = options if options[3] else options[:3]
        assert all(choices)
        assert len(set(choices)) == len(choices)
        assert int(row["label"]) < len(choices)
        longest += max(range(len(choices)), key=lambda index: len(choices[index])) == int(row["label"])
    assert longest / len(rows) < 0.4  # length does not give it away


def test_reviews_share_no_sentence() -> None:
    marked_texts = {row["text"] for row in read_json_lines("review_aspects.jsonl")}
    review_texts = [row["text"] for row in read_csv_rows("reviews.csv")]
    assert len(marked_texts) == len(read_json_lines("review_aspects.jsonl"))
    assert len(set(review_texts)) == len(review_texts) == 80
    other_texts = " ".join([*review_texts, *(row["text"] for row in read_csv_rows("aspects.csv"))])
    assert not [text for text in marked_texts if text in other_texts]
    spans = [row["spans"] for row in read_json_lines("review_aspects.jsonl")]
    assert sum(not row_spans for row_spans in spans) == 12
    assert sum(len({span["label"] for span in row_spans}) > 1 for row_spans in spans) >= 8  # one sentence, two minds
