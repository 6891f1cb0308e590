"""A look at data with a model beside it: its tokens, what is too long, and what training would take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import inspect
from clearhead.errors import InputError
from tests.rows import paired, scored, tagged
from tests.tiny_models import labelled, write_csv


def test_what_is_found(tiny: str, reviews: Path) -> None:
    found = inspect(reviews, model=tiny)
    assert (found.rows, found.kind, found.labels) == (200, "classes", {"good": 107, "bad": 93})
    assert found.columns.text == "text"
    assert found.tokens is not None
    assert (found.max_length, found.too_long) == (32, 0)
    assert found.estimate is not None
    assert {"seconds", "memory_mb", "tokens_per_second", "epochs", "method", "model"} <= found.estimate.keys()
    assert found.estimate["seconds"] > 0
    assert found.estimate["memory_mb"] > 0
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("rows", "kind"), [(tagged(60), "multilabel"), (paired(60), "classes"), (scored(60), "number")]
)
def test_every_kind_of_rows_is_tried_out(rows: Any, kind: str, tiny: str) -> None:
    found = inspect(rows, model=tiny)
    assert found.kind == kind
    assert found.estimate is not None
    assert found.estimate["seconds"] > 0
    json.dumps(found.to_json(), allow_nan=False)


def test_few_pairs_are_learned_by_features(tiny: str) -> None:
    for rows, method in ((paired(60), "features"), (paired(600), "finetune"), (labelled(60), "finetune")):
        found = inspect(rows, model=tiny)
        assert found.estimate is not None
        assert (found.estimate["method"], found.estimate["default_method"]) == ("finetune", method)


def test_phases_are_told(tiny: str) -> None:
    told: list[tuple[str, int, int | None]] = []
    inspect(labelled(2500), model=tiny, progress=lambda *one: told.append(one))
    order = list(dict.fromkeys(what.split()[0] for what, _, _ in told))
    assert order == ["reading", "trying"]
    steps = [one for one in told if one[0].startswith("trying")]
    assert steps[0][1:] == (0, 4)
    assert steps[-1][1] >= 2


def test_a_file_in_the_order_of_its_labels_is_tried_out(tiny: str) -> None:
    rows = sorted(labelled(1200), key=lambda row: str(row["label"]))  # the first 512 rows have one label
    found = inspect(rows, model=tiny)
    assert found.estimate is not None
    assert "notes" not in found.estimate
    assert found.estimate["seconds"] > 0


def test_without_a_trial_or_a_model(tiny: str, reviews: Path) -> None:
    plain = inspect(reviews, model=tiny, estimate=False)
    assert plain.tokens is not None
    assert plain.estimate is None
    bare = inspect(reviews, model=None)
    assert (bare.tokens, bare.estimate) == (None, None)


def test_a_model_that_is_not_there_is_a_note(reviews: Path) -> None:
    found = inspect(reviews, model="/nowhere/at/all")
    assert found.tokens is None
    assert found.estimate is not None
    assert "Lengths are in characters" in found.estimate["notes"][0]


def test_a_model_that_cannot_be_trained_is_a_note(tiny: str, reviews: Path, tmp_path: Path) -> None:
    for path in Path(tiny).iterdir():
        if path.suffix != ".safetensors":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    found = inspect(reviews, model=str(tmp_path))
    assert found.tokens is not None
    assert found.estimate is not None
    assert found.estimate["notes"][0].startswith("Training was not tried out: ")


def test_rows_without_labels_and_with_one_label(tiny: str) -> None:
    texts = inspect([row["text"] for row in labelled(30)], model=tiny)
    assert (texts.kind, texts.estimate) == (None, None)
    one = inspect([{"text": row["text"], "label": "x"} for row in labelled(30)], model=tiny)
    assert one.estimate is not None
    assert "there is nothing to learn" in one.estimate["notes"][0]


def test_long_texts_are_counted(tiny: str) -> None:
    rows = [{**row, "text": f"{row['text']} " * (9 if n < 5 else 1)} for n, row in enumerate(labelled(40))]
    assert inspect(rows, model=tiny, estimate=False).too_long == 5


def test_leaks_between_parts(tiny: str, reviews: Path, tmp_path: Path) -> None:
    dev = write_csv(tmp_path / "dev.csv", [*labelled(200)[:6], *labelled(10, seed=2)])
    found = inspect(reviews, dev=dev, model=tiny, estimate=False)
    assert found.parts == {"train": 200, "dev": 16}
    assert found.leaks.rows == 6


def test_bad_rows_are_counted_and_not_refused(tiny: str, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "rows.csv", labelled(40))
    file.write_text(file.read_text() + "r40,,good\nr41,it was\nr42,it was good,\n")
    found = inspect(file, model=tiny)
    assert sum(found.bad.values()) >= 2
    assert found.rows >= 40
    assert found.estimate is not None
    assert "seconds" in found.estimate


def test_what_can_be_read_once_is_refused(tiny: str) -> None:
    with pytest.raises(InputError, match="can be read only once; put it in a file to inspect it"):
        inspect((row for row in labelled(10)), model=tiny)


def test_columns_that_are_not_there(reviews: Path, tiny: str) -> None:
    with pytest.raises(InputError, match="has no column 'stars' for label"):
        inspect(reviews, label="stars", model=tiny)
    with pytest.raises(InputError, match="has no column 'body' for text"):
        inspect(reviews, text="body", model=tiny)
