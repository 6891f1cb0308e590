"""Classic models come back from disk bit for bit, predict without scikit-learn, and learn from real texts."""

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
from tests.classic.texts import FOUR, NUMBER, TAGS, TWO, double, made_features, made_targets, made_texts, single

SPACES = {"two": TWO, "four": FOUR, "labels": TAGS, "number": NUMBER}
TEXTS, OTHERS, FEATURES = made_texts(80, 1), made_texts(80, 2), made_features(80)


def made_model(method: str, space: LabelSpace, pairs: bool = False) -> ClassicModel:
    targets = made_targets(FEATURES, space)
    if method == "majority":
        return ClassicModel(method="majority", majority=fit_majority(targets, space))
    if method == "linear":
        return ClassicModel(method="linear", linear=fit_linear(FEATURES, targets, space))
    tfidf, matrix = fit_tfidf(double(TEXTS, OTHERS) if pairs else single(TEXTS), pairs=pairs)
    return ClassicModel(method="tfidf", tfidf=tfidf, linear=fit_linear(matrix, targets, space))


def answers(model: ClassicModel) -> Array:
    if model.method == "linear":
        return model.logits(features=FEATURES)
    return model.logits(TEXTS, OTHERS if model.tfidf is not None and model.tfidf.settings.pairs else None)


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("method", ["tfidf", "pairs", "linear", "majority"])
def test_round_trip_is_exact(method: str, kind: str, tmp_path: Path) -> None:
    model = made_model(method.replace("pairs", "tfidf"), SPACES[kind], pairs=method == "pairs")
    save_classic(tmp_path / "model", model)
    back = load_classic(tmp_path / "model")
    assert answers(model).shape == (80, model.outputs)
    assert np.array_equal(answers(back), answers(model))
    assert back.method == model.method
    if model.tfidf is not None and back.tfidf is not None:
        assert (back.tfidf.terms, back.tfidf.settings) == (model.tfidf.terms, model.tfidf.settings)
        assert np.array_equal(back.tfidf.idf, model.tfidf.idf)
    if model.linear is not None and back.linear is not None:
        assert np.array_equal(back.linear.weight, model.linear.weight)
        assert (back.linear.strength, back.linear.converged) == (model.linear.strength, model.linear.converged)
    first = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    save_classic(tmp_path / "again", back)
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == first


def test_the_same_rows_give_the_same_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        save_classic(tmp_path / name, made_model("tfidf", FOUR))
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two


def test_another_save_replaces_the_whole_model(tmp_path: Path) -> None:
    save_classic(tmp_path, made_model("tfidf", FOUR))
    loaded = load_classic(tmp_path)
    before = answers(loaded)
    save_classic(tmp_path, made_model("majority", TWO))
    assert {path.name for path in tmp_path.iterdir()} == {"classic.json", "classic.safetensors"}
    assert load_classic(tmp_path).method == "majority"
    assert np.array_equal(answers(loaded), before)  # what was loaded does not change under its reader


PREDICT = """
import sys, json
for name in ("sklearn", "scipy", "torch", "joblib"):
    sys.modules[name] = None
from pathlib import Path
from clearhead.classic import load_classic
given = json.load(sys.stdin)
model = load_classic(Path(given.pop("folder")))
print(json.dumps(model.logits(**given).tolist()))
"""


@pytest.mark.parametrize("method", ["tfidf", "pairs", "linear", "majority"])
def test_prediction_needs_numpy_alone(method: str, tmp_path: Path) -> None:
    model = made_model(method.replace("pairs", "tfidf"), FOUR, pairs=method == "pairs")
    save_classic(tmp_path, model)
    given: dict[str, Any] = {"texts": TEXTS, "folder": str(tmp_path)}
    if method == "pairs":
        given["texts_b"] = OTHERS
    if method == "linear":
        given["features"] = FEATURES.tolist()
    command = [sys.executable, "-W", "error", "-c", PREDICT]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.array(json.loads(done.stdout.splitlines()[0]), np.float32), answers(model))


def test_the_number_of_rows_does_not_change_a_row() -> None:
    model = made_model("tfidf", FOUR)
    alone = np.concatenate([model.logits([text]) for text in TEXTS])
    assert np.array_equal(alone, model.logits(TEXTS))
    assert model.logits([]).shape == (0, 4)


def test_a_text_without_known_words_gets_the_bias() -> None:
    model = made_model("tfidf", FOUR)
    np.testing.assert_array_equal(model.logits(["", "zzz qqq", "\ud800"]), np.tile(model.bias, (3, 1)))


def test_majority_counts_texts_or_features() -> None:
    model = made_model("majority", TWO)
    assert model.logits(TEXTS).shape == model.logits(features=FEATURES).shape == (80, 2)


def test_parts_that_do_not_go_together() -> None:
    line = LinearModel(np.zeros((2, 3), np.float32), np.zeros(2, np.float32))
    tfidf = Tfidf(terms=("aa", "bb"), idf=np.ones(2, np.float32))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"method": "bayes"}, "expected one of"),
        ({"method": "linear"}, "check linear"),
        ({"method": "tfidf", "linear": line}, "check tfidf"),
        ({"method": "majority", "majority": MajorityModel(np.zeros(2, np.float32)), "linear": line}, "check linear"),
        ({"method": "tfidf", "linear": line, "tfidf": tfidf}, "TF-IDF gives 2 features"),
    ]
    for parts, said in wrong:
        with pytest.raises(InputError, match=said):
            ClassicModel(**parts)
    with pytest.raises(InputError, match="encode them first"):
        ClassicModel(method="linear", linear=line).logits(["aa"])


def columns(path: Path, *names: str) -> list[list[str]]:
    return [[str(row.values[name]) for name in names] for row in open_source(path).rows() if isinstance(row, Row)]


def test_tfidf_learns_sentiment_from_two_thousand_sentences(data_folder: Path) -> None:
    train = columns(data_folder / "sst2" / "train.tsv", "sentence", "label")[:2000]
    dev = columns(data_folder / "sst2" / "dev.tsv", "sentence", "label")
    space = LabelSpace(names=("0", "1"))
    tfidf, matrix = fit_tfidf(single([text for text, _ in train]))
    model = ClassicModel(
        method="tfidf", tfidf=tfidf, linear=fit_linear(matrix, [int(label) for _, label in train], space)
    )
    said = model.logits([text for text, _ in dev]).argmax(1)
    assert accuracy([int(label) for _, label in dev], said) > 0.74


def test_tfidf_learns_similarity_of_pairs(data_folder: Path) -> None:
    train = columns(data_folder / "stsb" / "train.tsv", "sentence1", "sentence2", "score")
    dev = columns(data_folder / "stsb" / "dev.tsv", "sentence1", "sentence2", "score")
    tfidf, matrix = fit_tfidf(double([row[0] for row in train], [row[1] for row in train]), pairs=True)
    linear = fit_linear(matrix, [float(row[2]) for row in train], NUMBER)
    model = ClassicModel(method="tfidf", tfidf=tfidf, linear=linear)
    said = model.logits([row[0] for row in dev], [row[1] for row in dev])[:, 0]
    assert pearson([float(row[2]) for row in dev], said) > 0.6
