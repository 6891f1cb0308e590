"""predict, predict_text and evaluate accept texts, lists, pairs, generators, Series and DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import clearhead
from clearhead.errors import InputError
from tests.tiny_models import make_sentiment_rows

TEXTS = ["the film was great", "a poor plot", "it was nice"]
CONTAINERS: dict[str, Callable[[], Any]] = {
    "list": lambda: TEXTS,
    "tuple": lambda: tuple(TEXTS),
    "generator": lambda: (text for text in TEXTS),
    "array": lambda: np.array(TEXTS),
    "Series": lambda: pd.Series(TEXTS),
    "Series with a name": lambda: pd.Series(TEXTS, index=[7, 3, 5], name="anything"),
    "Index": lambda: pd.Index(TEXTS),
    "Arrow array": lambda: pa.array(TEXTS),
    "Arrow chunks": lambda: pa.chunked_array([TEXTS[:1], TEXTS[1:]]),
    "frame": lambda: pd.DataFrame({"message": TEXTS}),
    "dict of lists": lambda: {"message": TEXTS},
    "dicts": lambda: [{"message": text} for text in TEXTS],
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """TF-IDF models of single texts and of pairs, trained on columns with unusual names."""
    folder = tmp_path_factory.mktemp("models")
    rows = make_sentiment_rows(80)
    single = [{"message": row["text"], "mood": row["label"]} for row in rows]
    pairs = [{"one": row["text"], "two": "a film", "mood": row["label"]} for row in rows]
    choices: dict[str, Any] = {"method": "tfidf", "report": False, "label": "mood"}
    return {
        "single": clearhead.train(single, output=folder / "single", text="message", **choices).folder,
        "pair": clearhead.train(pairs, output=folder / "pair", task="pair", text="one", text_b="two", **choices).folder,
    }


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_form_of_texts_gives_the_same(container: str, models: dict[str, Path]) -> None:
    expected = [clearhead.predict_text(models["single"], text) for text in TEXTS]
    predictions = clearhead.predict(models["single"], CONTAINERS[container]())
    assert [prediction.label for prediction in predictions] == [prediction.label for prediction in expected]
    assert [prediction.probability for prediction in predictions] == pytest.approx(
        [prediction.probability for prediction in expected]
    )


def test_one_text_and_one_row_give_a_list_of_one(models: dict[str, Path], tmp_path: Path) -> None:
    expected = clearhead.predict(models["single"], TEXTS[:1])
    assert len(expected) == 1
    assert clearhead.predict(models["single"], TEXTS[0]) == expected
    assert clearhead.predict(models["single"], "great")[0].label == expected[0].label
    assert clearhead.predict(models["single"], {"message": TEXTS[0]}) == expected
    row = {"one": TEXTS[0], "two": "a film"}
    assert clearhead.predict(models["pair"], row) == clearhead.predict(models["pair"], [(TEXTS[0], "a film")])
    (tmp_path / "rows.csv").write_text("message\n" + "\n".join(TEXTS) + "\n")
    assert len(clearhead.predict(models["single"], str(tmp_path / "rows.csv"))) == 3  # a file stays a file


def test_mixed_kinds_are_named(models: dict[str, Path]) -> None:
    mixed: dict[str, list[Any]] = {
        "row 2: a dict, but row 1 is a text": [TEXTS[0], {"message": TEXTS[1]}],
        "row 3: a pair of texts, but row 1 is a text": [*TEXTS[:2], ("a", "b")],
        "row 2: a text, but row 1 is a dict": [{"message": TEXTS[0]}, TEXTS[1]],
    }
    for message, rows in mixed.items():
        for source in (rows, iter(rows)):
            with pytest.raises(InputError, match=f"{message}; all rows must have the same type"):
                clearhead.predict(models["single"], source)


@pytest.mark.parametrize(
    ("model", "rows", "message"),
    [
        ("single", "", "The text is empty"),
        ("single", "missing.csv", "missing.csv not found"),
        ("single", b"bytes", "data cannot be read from b'bytes'"),
        ("single", 3, "data cannot be read from 3"),
        ("single", [TEXTS[0], 3], "row 2: a int, expected a dict"),
        ("single", pd.Series([TEXTS[0], None]), "row 2: a NoneType, expected a dict"),
        ("single", [("a", "b")], "reads one text, and the list has two in each row"),
        ("pair", TEXTS, r"this model reads two texts; pass pairs such as \[\(text, second text\)\]"),
        ("pair", "one text", r"this model reads two texts; pass pairs such as"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(model: str, rows: Any, message: str, models: dict[str, Path]) -> None:
    with pytest.raises(InputError, match=message):
        clearhead.predict(models[model], rows)


def test_predict_text_takes_strings(models: dict[str, Path]) -> None:
    with pytest.raises(InputError, match=r"Text 1 of 1 is a list, expected a string; .* clearhead\.predict"):
        clearhead.predict_text(models["single"], TEXTS)  # type: ignore[arg-type]


def test_evaluate_takes_texts_with_labels(models: dict[str, Path]) -> None:
    rows = [(text, label) for text, label in zip(TEXTS, ("good", "bad", "good"), strict=True)]
    dicts = [{"message": text, "mood": label} for text, label in rows]
    expected = clearhead.evaluate(models["single"], dicts)
    for source in (rows, tuple(rows), pd.DataFrame(dicts)):
        evaluation = clearhead.evaluate(models["single"], source)
        assert (evaluation.rows, evaluation.metrics) == (3, expected.metrics)
    with pytest.raises(InputError, match="The file name is empty"):
        clearhead.evaluate(models["single"], "")
