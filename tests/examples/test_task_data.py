"""The example data of tags, answers, options and aspects is what its README says: exact to the letter, and varied."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from clearhead.metrics import detect_scheme, extract_entities
from tests.examples.test_example_data import EXAMPLES, cells

TYPES = {"PRODUCT", "QUANTITY", "DATE", "PLACE"}
POLARITIES = {"positive", "negative", "neutral"}


def sentences() -> list[list[tuple[str, str]]]:
    blocks = (EXAMPLES / "orders.conll").read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    return [[(word, tag) for word, tag in (line.split("\t") for line in block.split("\n"))] for block in blocks]


def objects(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (EXAMPLES / name).read_text(encoding="utf-8").splitlines()]


def passages() -> list[dict[str, Any]]:
    whole = json.loads((EXAMPLES / "handbook.json").read_text(encoding="utf-8"))
    assert whole["version"] == "v2.0"
    return [passage for part in whole["data"] for passage in part["paragraphs"]]


def questions() -> list[tuple[str, dict[str, Any]]]:
    return [(passage["context"], asked) for passage in passages() for asked in passage["qas"]]


def test_the_readme_counts_them() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    counts = {
        "orders.conll": len(sentences()),
        "orders.jsonl": len(objects("orders.jsonl")),
        "handbook.json": len(questions()),
        "quiz.csv": len(cells("quiz.csv")),
        "review_aspects.jsonl": len(objects("review_aspects.jsonl")),
        "reviews.csv": len(cells("reviews.csv")),
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
    tags = [[tag for _, tag in row] for row in sentences()]
    assert detect_scheme(tags) == "iob2"
    for row in tags:
        for before, tag in zip(["O", *row], row, strict=False):
            assert not tag.startswith("I-") or before[1:] == tag[1:]
    counts = Counter(kind for row in tags for _, _, kind in extract_entities(row))
    assert set(counts) == TYPES
    assert min(counts.values()) >= 60
    assert 15 <= sum(not extract_entities(row) for row in tags) <= 40  # messages without any


def test_orders_need_context() -> None:
    readings: dict[str, set[str]] = {}
    for row in sentences():
        for word, tag in row:
            readings.setdefault(word.lower(), set()).add(tag[2:] or "O")
    several = {word for word, found in readings.items() if len(found) > 1}
    assert len(several) >= 80
    assert {"reading", "may", "bath", "two", "friday", "sandwich"} <= several


def test_orders_come_once_in_both_files() -> None:
    plain = [" ".join(word for word, _ in row).casefold() for row in sentences()]
    other = [row["text"].casefold() for row in objects("orders.jsonl")]
    assert len(set(plain)) == len(plain)
    assert len(set(other)) == len(other)
    squeezed = {"".join(text.split()) for text in plain}
    assert not squeezed & {"".join(text.split()) for text in other}


@pytest.mark.parametrize(("name", "labels"), [("orders.jsonl", TYPES), ("review_aspects.jsonl", POLARITIES)])
def test_spans_are_exact(name: str, labels: set[str]) -> None:
    seen: Counter[str] = Counter()
    for row in objects(name):
        assert set(row) == {"text", "spans"}
        end = 0
        for span in row["spans"]:
            assert end <= span["start"] < span["end"] <= len(row["text"])
            marked, end = row["text"][span["start"] : span["end"]], span["end"]
            assert marked == marked.strip()
            for outside in (row["text"][: span["start"]][-1:], row["text"][end : end + 1]):
                assert not outside.isalnum()  # words are whole
            seen[span["label"]] += 1
    assert set(seen) == labels
    assert min(seen.values()) >= 20


def test_orders_by_characters_are_hard_to_align() -> None:
    texts = [row["text"] for row in objects("orders.jsonl")]
    assert sum("  " in text for text in texts) >= 4
    assert sum(max(map(ord, text)) > 0xFFFF for text in texts) >= 8  # emoji
    assert sum(any(letter in text for letter in "äöüßÅåéíñŁø") for text in texts) >= 15


def test_answers_stand_in_their_passages() -> None:
    asked = questions()
    assert len(passages()) == 12
    assert len({one["id"] for _, one in asked}) == len({one["question"] for _, one in asked}) == len(asked)
    for context, one in asked:
        assert one["is_impossible"] is not bool(one["answers"])
        for answer in one["answers"]:
            start = answer["answer_start"]
            assert answer["text"]
            assert context[start : start + len(answer["text"])] == answer["text"]
            assert not context[start - 1 : start].isalnum()
    without = sum(one["is_impossible"] for _, one in asked)
    assert without == 31
    assert 0.15 <= without / len(asked) <= 0.25
    assert sum(len(one["answers"]) > 1 for _, one in asked) == 9


def test_every_passage_has_both_kinds_of_questions() -> None:
    for passage in passages():
        assert {one["is_impossible"] for one in passage["qas"]} == {True, False}
        assert 80 <= len(passage["context"].split()) <= 120


def test_quiz_options() -> None:
    rows = cells("quiz.csv")
    assert list(rows[0]) == ["question", "choice0", "choice1", "choice2", "choice3", "label"]
    assert len({row["question"] for row in rows}) == len(rows)
    assert Counter(row["label"] for row in rows) == dict.fromkeys("0123", 40)
    assert sum(not row["choice3"] for row in rows) == 17
    longest = 0
    for row in rows:
        options = [row[f"choice{place}"] for place in range(4)]
        given = options if options[3] else options[:3]
        assert all(given)
        assert len(set(given)) == len(given)
        assert int(row["label"]) < len(given)
        longest += max(range(len(given)), key=lambda place: len(given[place])) == int(row["label"])
    assert longest / len(rows) < 0.4  # length does not give it away


def test_reviews_share_no_sentence() -> None:
    marked = {row["text"] for row in objects("review_aspects.jsonl")}
    free = [row["text"] for row in cells("reviews.csv")]
    assert len(marked) == len(objects("review_aspects.jsonl"))
    assert len(set(free)) == len(free) == 80
    known = " ".join([*free, *(row["text"] for row in cells("aspects.csv"))])
    assert not [text for text in marked if text in known]
    spans = [row["spans"] for row in objects("review_aspects.jsonl")]
    assert sum(not found for found in spans) == 12
    assert sum(len({span["label"] for span in found}) > 1 for found in spans) >= 8  # one sentence, two minds
