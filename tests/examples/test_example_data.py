"""The example data matches its README: clean, varied, and neither trivial nor contradictory."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from clearhead.data import Columns, Inspection, inspect_data

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
INTENTS = {"delivery", "refund", "login", "billing", "cancel", "product-question", "bug", "praise"}
CHANNELS = {"email", "chat", "phone-note", "web-form"}
ASPECTS = Columns(text="text", text_b="aspect", label="sentiment")
SIMILARITY = Columns(text="first", text_b="second", label="score")
MAX_NEAR_DUPLICATES = 3


def read_csv_rows(name: str) -> list[dict[str, str]]:
    with (EXAMPLES / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


@pytest.fixture(scope="module")
def support() -> Inspection:
    return inspect_data(EXAMPLES / "support.csv")


@pytest.mark.parametrize(
    ("name", "columns", "rows"),
    [("support.csv", None, 480), ("aspects.csv", ASPECTS, 249), ("similarity.csv", SIMILARITY, 224)],
)
def test_every_row_is_good_and_comes_once(name: str, columns: Columns | None, rows: int) -> None:
    inspection = inspect_data(EXAMPLES / name, columns=columns)
    assert inspection.rows == rows == len(read_csv_rows(name))
    assert (inspection.bad, inspection.bad_rows, inspection.mojibake) == ({}, (), 0)
    assert (inspection.exact.rows, inspection.conflicts.rows) == (0, 0)
    assert f"| `{name}` | {rows} |" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


def test_support_columns_are_guessed(support: Inspection) -> None:
    columns = support.columns
    assert (columns.text, columns.text_b, columns.label, columns.id) == (
        "message",
        None,
        "intent",
        "id",
    )
    assert support.findings == []


def test_support_labels(support: Inspection) -> None:
    assert support.kind == "classes"
    assert set(support.labels) == INTENTS
    assert 40 <= min(support.labels.values()) < max(support.labels.values()) <= 80
    assert support.near.rows <= MAX_NEAR_DUPLICATES


def test_support_is_varied() -> None:
    rows = read_csv_rows("support.csv")
    assert len({row["id"] for row in rows}) == len(rows)
    assert {row["channel"] for row in rows} == CHANNELS
    lengths = [len(row["message"].split()) for row in rows]
    assert 3 <= min(lengths) <= 4
    assert 50 <= max(lengths) <= 60
    for character in ("\n", '"', ",", "€", "£"):
        assert any(character in row["message"] for row in rows)


def test_support_is_shuffled() -> None:
    intents = [row["intent"] for row in read_csv_rows("support.csv")]
    for start in range(0, len(intents), 80):
        assert set(intents[start : start + 80]) == INTENTS


def test_aspects_differ_within_a_text() -> None:
    rows = read_csv_rows("aspects.csv")
    by_text: dict[str, list[str]] = {}
    for row in rows:
        by_text.setdefault(row["text"], []).append(row["sentiment"])
    counts = [len(sentiments) for sentiments in by_text.values()]
    assert (min(counts), max(counts)) == (1, 3)
    assert sum(len(set(sentiments)) > 1 for sentiments in by_text.values()) >= 50  # the text alone cannot tell


def test_aspects_labels() -> None:
    inspection = inspect_data(EXAMPLES / "aspects.csv")
    assert (inspection.columns.text, inspection.columns.text_b, inspection.columns.label) == (
        "text",
        "aspect",
        "sentiment",
    )
    assert set(inspection.labels) == {"positive", "negative", "neutral"}
    assert 40 <= min(inspection.labels.values()) <= max(inspection.labels.values()) <= 110


def test_aspects_texts_are_not_near_each_other() -> None:
    sentiment_by_text = {row["text"]: row["sentiment"] for row in read_csv_rows("aspects.csv")}
    inspection = inspect_data([{"text": text, "label": label} for text, label in sentiment_by_text.items()])
    assert inspection.near.rows <= MAX_NEAR_DUPLICATES


def test_similarity_scores() -> None:
    inspection = inspect_data(EXAMPLES / "similarity.csv", columns=SIMILARITY)
    assert inspection.kind == "number"
    assert inspection.numbers is not None
    lowest, mean, highest = inspection.numbers
    assert (lowest, highest) == (0.0, 5.0)
    assert 2.0 <= mean <= 3.5
    assert inspection.near.rows <= MAX_NEAR_DUPLICATES
    scores = [row["score"] for row in read_csv_rows("similarity.csv")]
    assert all(len(score) == 3 and score[1] == "." for score in scores)  # one decimal
    for low in range(5):
        assert sum(low <= float(score) < low + 1 for score in scores) >= 20
