"""Inspection of data with a model: tokens, texts that are too long, and the estimate of training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import inspect
from clearhead.errors import InputError
from tests.rows import make_multilabel_rows, make_pair_rows, make_scored_rows
from tests.tiny_models import make_sentiment_rows, write_csv


def test_inspection_of_reviews(tiny: str, reviews: Path) -> None:
    inspection = inspect(reviews, model=tiny)
    assert (inspection.rows, inspection.kind, inspection.labels) == (200, "classes", {"good": 107, "bad": 93})
    assert inspection.columns.text == "text"
    assert inspection.tokens is not None
    assert (inspection.max_length, inspection.too_long) == (32, 0)
    assert inspection.estimate is not None
    assert {"seconds", "memory_mb", "tokens_per_second", "epochs", "method", "model"} <= inspection.estimate.keys()
    assert inspection.estimate["seconds"] > 0
    assert inspection.estimate["memory_mb"] > 0
    json.dumps(inspection.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("rows", "kind"),
    [(make_multilabel_rows(60), "multilabel"), (make_pair_rows(60), "classes"), (make_scored_rows(60), "number")],
)
def test_training_is_estimated_for_every_kind_of_labels(rows: Any, kind: str, tiny: str) -> None:
    inspection = inspect(rows, model=tiny)
    assert inspection.kind == kind
    assert inspection.estimate is not None
    assert inspection.estimate["seconds"] > 0
    json.dumps(inspection.to_json(), allow_nan=False)


def test_few_pairs_are_learned_by_features(tiny: str) -> None:
    for rows, method in (
        (make_pair_rows(60), "features"),
        (make_pair_rows(600), "finetune"),
        (make_sentiment_rows(60), "finetune"),
    ):
        inspection = inspect(rows, model=tiny)
        assert inspection.estimate is not None
        assert (inspection.estimate["method"], inspection.estimate["default_method"]) == ("finetune", method)


def test_stages_are_reported(tiny: str) -> None:
    reported: list[tuple[str, int, int | None]] = []
    inspect(make_sentiment_rows(2500), model=tiny, progress=lambda *event: reported.append(event))
    stages = list(dict.fromkeys(stage.split()[0] for stage, _, _ in reported))
    assert stages == ["reading", "timing"]
    steps = [event for event in reported if event[0].startswith("timing")]
    assert steps[0][1:] == (0, 4)
    assert steps[-1][1] >= 2


def test_training_is_estimated_for_rows_sorted_by_label(tiny: str) -> None:
    rows = sorted(make_sentiment_rows(1200), key=lambda row: str(row["label"]))  # the first 512 rows have one label
    inspection = inspect(rows, model=tiny)
    assert inspection.estimate is not None
    assert "notes" not in inspection.estimate
    assert inspection.estimate["seconds"] > 0


def test_without_an_estimate_or_a_model(tiny: str, reviews: Path) -> None:
    without_estimate = inspect(reviews, model=tiny, estimate=False)
    assert without_estimate.tokens is not None
    assert without_estimate.estimate is None
    without_model = inspect(reviews, model=None)
    assert (without_model.tokens, without_model.estimate) == (None, None)


def test_a_missing_model_is_a_note(reviews: Path) -> None:
    inspection = inspect(reviews, model="/nowhere/at/all")
    assert inspection.tokens is None
    assert inspection.estimate is not None
    assert "Lengths are in characters" in inspection.estimate["notes"][0]


def test_a_model_that_cannot_be_trained_is_a_note(tiny: str, reviews: Path, tmp_path: Path) -> None:
    for path in Path(tiny).iterdir():
        if path.suffix != ".safetensors":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    inspection = inspect(reviews, model=str(tmp_path))
    assert inspection.tokens is not None
    assert inspection.estimate is not None
    assert inspection.estimate["notes"][0].startswith("Training could not be estimated: ")


def test_rows_without_labels_and_with_one_label(tiny: str) -> None:
    unlabeled = inspect([row["text"] for row in make_sentiment_rows(30)], model=tiny)
    assert (unlabeled.kind, unlabeled.estimate) == (None, None)
    single_label = inspect([{"text": row["text"], "label": "x"} for row in make_sentiment_rows(30)], model=tiny)
    assert single_label.estimate is not None
    assert "there is nothing to learn" in single_label.estimate["notes"][0]


def test_long_texts_are_counted(tiny: str) -> None:
    rows = [{**row, "text": f"{row['text']} " * (9 if n < 5 else 1)} for n, row in enumerate(make_sentiment_rows(40))]
    assert inspect(rows, model=tiny, estimate=False).too_long == 5


def test_leaks_between_parts(tiny: str, reviews: Path, tmp_path: Path) -> None:
    dev = write_csv(tmp_path / "dev.csv", [*make_sentiment_rows(200)[:6], *make_sentiment_rows(10, seed=2)])
    inspection = inspect(reviews, dev=dev, model=tiny, estimate=False)
    assert inspection.parts == {"train": 200, "dev": 16}
    assert inspection.leaks.rows == 6


def test_bad_rows_are_counted_and_not_refused(tiny: str, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "rows.csv", make_sentiment_rows(40))
    file.write_text(file.read_text() + "r40,,good\nr41,it was\nr42,it was good,\n")
    inspection = inspect(file, model=tiny)
    assert sum(inspection.bad.values()) >= 2
    assert inspection.rows >= 40
    assert inspection.estimate is not None
    assert "seconds" in inspection.estimate


def test_iterators_are_refused(tiny: str) -> None:
    with pytest.raises(InputError, match="can be read only once; save it to a file to inspect it"):
        inspect((row for row in make_sentiment_rows(10)), model=tiny)


def test_missing_columns_are_refused(reviews: Path, tiny: str) -> None:
    with pytest.raises(InputError, match="has no column 'stars' for label"):
        inspect(reviews, label="stars", model=tiny)
    with pytest.raises(InputError, match="has no column 'body' for text"):
        inspect(reviews, text="body", model=tiny)
