"""Classic models round-trip exactly, predict without scikit-learn, and learn from real texts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.classic import (
    ClassicModel,
    LinearModel,
    MajorityModel,
    Tfidf,
    fit_linear,
    fit_majority,
    fit_tfidf,
    load_classic,
    save_classic,
)
from clearhead.data import LabelSpace, Row, open_source
from clearhead.errors import InputError
from clearhead.metrics import accuracy, pearson
from clearhead.metrics.checks import Array
from tests.classic.texts import (
    FOUR_CLASSES,
    LABELS,
    NUMBER,
    TWO_CLASSES,
    iter_text_pairs,
    iter_texts,
    make_features,
    make_targets,
    make_texts,
)

SPACES = {"two": TWO_CLASSES, "four": FOUR_CLASSES, "labels": LABELS, "number": NUMBER}
TEXTS, SECOND_TEXTS, FEATURES = make_texts(80, 1), make_texts(80, 2), make_features(80)


def make_model(method: str, space: LabelSpace, pairs: bool = False) -> ClassicModel:
    targets = make_targets(FEATURES, space)
    if method == "majority":
        return ClassicModel(method="majority", majority=fit_majority(targets, space))
    if method == "linear":
        return ClassicModel(method="linear", linear=fit_linear(FEATURES, targets, space))
    tfidf, matrix = fit_tfidf(iter_text_pairs(TEXTS, SECOND_TEXTS) if pairs else iter_texts(TEXTS), pairs=pairs)
    return ClassicModel(method="tfidf", tfidf=tfidf, linear=fit_linear(matrix, targets, space))


def compute_logits(model: ClassicModel) -> Array:
    if model.method == "linear":
        return model.logits(features=FEATURES)
    return model.logits(TEXTS, SECOND_TEXTS if model.tfidf is not None and model.tfidf.settings.pairs else None)


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("method", ["tfidf", "pairs", "linear", "majority"])
def test_round_trip_is_exact(method: str, kind: str, tmp_path: Path) -> None:
    model = make_model(method.replace("pairs", "tfidf"), SPACES[kind], pairs=method == "pairs")
    save_classic(tmp_path / "model", model)
    loaded = load_classic(tmp_path / "model")
    assert compute_logits(model).shape == (80, model.outputs)
    assert np.array_equal(compute_logits(loaded), compute_logits(model))
    assert loaded.method == model.method
    if model.tfidf is not None and loaded.tfidf is not None:
        assert (loaded.tfidf.terms, loaded.tfidf.settings) == (model.tfidf.terms, model.tfidf.settings)
        assert np.array_equal(loaded.tfidf.idf, model.tfidf.idf)
    if model.linear is not None and loaded.linear is not None:
        assert np.array_equal(loaded.linear.weight, model.linear.weight)
        assert (loaded.linear.strength, loaded.linear.converged) == (model.linear.strength, model.linear.converged)
    files = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    save_classic(tmp_path / "again", loaded)
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == files


def test_the_same_rows_give_the_same_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        save_classic(tmp_path / name, make_model("tfidf", FOUR_CLASSES))
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert first == second


def test_another_save_replaces_the_whole_model(tmp_path: Path) -> None:
    save_classic(tmp_path, make_model("tfidf", FOUR_CLASSES))
    loaded = load_classic(tmp_path)
    before = compute_logits(loaded)
    save_classic(tmp_path, make_model("majority", TWO_CLASSES))
    assert {path.name for path in tmp_path.iterdir()} == {"classic.json", "classic.safetensors"}
    assert load_classic(tmp_path).method == "majority"
    assert np.array_equal(compute_logits(loaded), before)  # a loaded model is not affected


PREDICT = """
import sys, json
for name in ("sklearn", "scipy", "torch", "joblib"):
    sys.modules[name] = None
from pathlib import Path
from clearhead.classic import load_classic
request = json.load(sys.stdin)
model = load_classic(Path(request.pop("folder")))
print(json.dumps(model.logits(**request).tolist()))
"""


@pytest.mark.parametrize("method", ["tfidf", "pairs", "linear", "majority"])
def test_prediction_needs_only_numpy(method: str, tmp_path: Path) -> None:
    model = make_model(method.replace("pairs", "tfidf"), FOUR_CLASSES, pairs=method == "pairs")
    save_classic(tmp_path, model)
    request: dict[str, Any] = {"texts": TEXTS, "folder": str(tmp_path)}
    if method == "pairs":
        request["texts_b"] = SECOND_TEXTS
    if method == "linear":
        request["features"] = FEATURES.tolist()
    command = [sys.executable, "-W", "error", "-c", PREDICT]
    process = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert np.array_equal(np.array(json.loads(process.stdout.splitlines()[0]), np.float32), compute_logits(model))


def test_the_number_of_rows_does_not_change_a_row() -> None:
    model = make_model("tfidf", FOUR_CLASSES)
    single_rows = np.concatenate([model.logits([text]) for text in TEXTS])
    assert np.array_equal(single_rows, model.logits(TEXTS))
    assert model.logits([]).shape == (0, 4)


def test_a_text_without_known_words_gets_the_bias() -> None:
    model = make_model("tfidf", FOUR_CLASSES)
    np.testing.assert_array_equal(model.logits(["", "zzz qqq", "\ud800"]), np.tile(model.bias, (3, 1)))


def test_majority_counts_texts_or_features() -> None:
    model = make_model("majority", TWO_CLASSES)
    assert model.logits(TEXTS).shape == model.logits(features=FEATURES).shape == (80, 2)


def test_parts_that_do_not_go_together() -> None:
    linear = LinearModel(np.zeros((2, 3), np.float32), np.zeros(2, np.float32))
    tfidf = Tfidf(terms=("aa", "bb"), idf=np.ones(2, np.float32))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"method": "bayes"}, "must be one of"),
        ({"method": "linear"}, "check linear"),
        ({"method": "tfidf", "linear": linear}, "check tfidf"),
        ({"method": "majority", "majority": MajorityModel(np.zeros(2, np.float32)), "linear": linear}, "check linear"),
        ({"method": "tfidf", "linear": linear, "tfidf": tfidf}, "TF-IDF produces 2 features"),
    ]
    for parts, message in cases:
        with pytest.raises(InputError, match=message):
            ClassicModel(**parts)
    with pytest.raises(InputError, match="encode them first"):
        ClassicModel(method="linear", linear=linear).logits(["aa"])


def read_columns(path: Path, *names: str) -> list[list[str]]:
    return [[str(row.values[name]) for name in names] for row in open_source(path).rows() if isinstance(row, Row)]


def test_tfidf_learns_sentiment_from_two_thousand_sentences(data_folder: Path) -> None:
    train = read_columns(data_folder / "sst2" / "train.tsv", "sentence", "label")[:2000]
    dev = read_columns(data_folder / "sst2" / "dev.tsv", "sentence", "label")
    space = LabelSpace(names=("0", "1"))
    tfidf, matrix = fit_tfidf(iter_texts([text for text, _ in train]))
    model = ClassicModel(
        method="tfidf", tfidf=tfidf, linear=fit_linear(matrix, [int(label) for _, label in train], space)
    )
    predicted = model.logits([text for text, _ in dev]).argmax(1)
    assert accuracy([int(label) for _, label in dev], predicted) > 0.74


def test_tfidf_learns_similarity_of_pairs(data_folder: Path) -> None:
    train = read_columns(data_folder / "stsb" / "train.tsv", "sentence1", "sentence2", "score")
    dev = read_columns(data_folder / "stsb" / "dev.tsv", "sentence1", "sentence2", "score")
    tfidf, matrix = fit_tfidf(iter_text_pairs([row[0] for row in train], [row[1] for row in train]), pairs=True)
    linear = fit_linear(matrix, [float(row[2]) for row in train], NUMBER)
    model = ClassicModel(method="tfidf", tfidf=tfidf, linear=linear)
    predicted = model.logits([row[0] for row in dev], [row[1] for row in dev])[:, 0]
    assert pearson([float(row[2]) for row in dev], predicted) > 0.6
