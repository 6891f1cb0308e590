"""Every layer and pooling in one pass, judged on folds that leak nothing; the best becomes the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.api import evaluate, predict, train
from clearhead.batch import Batch
from clearhead.data import encode_table, fold_rows, guess_columns, open_source
from clearhead.errors import InputError
from clearhead.features import sweep as sweeping
from clearhead.features.layer_choices import PooledLayers, compute_text_features, list_choices, list_layers, pool_layers
from clearhead.features.sweep import choose_best, cross_validate
from clearhead.jobs.events import RunEvents
from clearhead.jobs.method import LayerChoice, LayerScore
from clearhead.model.layers import choose_layer, pool
from clearhead.predict.scoring import compute_table_features
from clearhead.tasks.packed import pack_table
from tests.rows import scored, tagged
from tests.tiny_models import labelled, tiny_model

SIX = ("first", "last", "second_to_last", "sum_all", "sum_last_four", "concat_last_four")


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT of five layers."""
    return str(tiny_model(tmp_path_factory.mktemp("deep"), num_hidden_layers=5))


def test_every_choice_is_what_a_pass_of_its_own_gives(deep: str) -> None:
    model = clearhead.load(deep, head=None)
    rows = [*labelled(30), {"id": "long", "text": "good film and more " * 20, "label": "good"}]  # several windows
    source = open_source(rows)
    table = encode_table(source, guess_columns(source), model.tokenizer, max_length=model.max_length())
    data = pack_table(table, segments=True)
    assert int(data.row_windows.max()) > 1
    choices, left = list_choices(model)
    assert left == ()
    assert {(one.layer, one.pooling) for one in choices} == {
        *((layer, pooling) for layer in SIX for pooling in ("cls", "mean", "max")),
        ("last", "pooler"),
    }
    reported: list[tuple[int, int | None]] = []
    made = compute_text_features(model, data, choices, budget=200, progress=lambda _, *done: reported.append(done))
    assert reported[-1] == (len(table.window_rows), len(table.window_rows))
    for one in choices:
        alone = compute_table_features(model, data, layer=one.layer, pooling=(one.pooling,))
        np.testing.assert_allclose(made.select(one), alone, atol=2e-5, err_msg=str(one))
        assert made.select(one).shape[1] == (128 if one.layer == "concat_last_four" else 32)
    assert made.megabytes == pytest.approx(len(rows) * 32 * 4 * len(made.components) / 1e6)
    assert len(made.components) == 3 * 7 + 1  # a choice shares what it can with the others


def test_one_pass_is_one_pass(deep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = clearhead.load(deep, head=None)
    source = open_source(labelled(40))
    data = pack_table(encode_table(source, guess_columns(source), model.tokenizer, max_length=32), segments=True)
    tokens: list[int] = []
    encode = model.runner.encode

    def counted(batch: Batch, **more: Any) -> Any:
        tokens.append(batch.ids.size if batch.mask is None else int(batch.mask.sum()))
        return encode(batch, **more)

    monkeypatch.setattr(model.runner, "encode", counted)
    compute_text_features(model, data, list_choices(model)[0])
    assert sum(tokens) == int(data.row_tokens.sum())


def test_max_of_a_sum_is_not_the_sum_of_maxima() -> None:
    draw = np.random.default_rng(0)
    hidden = [draw.normal(size=(2, 3, 4)).astype(np.float32) for _ in range(4)]
    mask = np.array([[True, True, True], [True, True, False]])
    pools = {mode: lambda tokens, mode=mode: pool(tokens, mask, None, (mode,)) for mode in ("cls", "mean", "max")}
    every = (1, 2, 3)
    made = pool_layers(hidden, pools, [PooledLayers(every, mode) for mode in pools])
    for mode in pools:
        true = pool(choose_layer(hidden, "sum_all"), mask, None, (mode,))
        np.testing.assert_allclose(made[PooledLayers(every, mode)], true, atol=1e-6)
    tokens = {"each": lambda tokens: tokens[mask]}  # a task of tokens pools nothing and uses the same code
    assert pool_layers(hidden, tokens, [PooledLayers((0,), "each")])[PooledLayers((0,), "each")].shape == (5, 4)


@pytest.mark.parametrize(("layers", "left"), [(1, 4), (2, 2), (3, 2), (4, 0), (12, 0)])
def test_a_shallow_model_leaves_choices_out_with_a_reason(layers: int, left: int) -> None:
    kept, said = list_layers(layers)
    assert len(kept) == 6 - left
    assert len(said) == left
    if left:
        assert f"concat_last_four is left out: it needs 4 layers, and there are {layers}." in said


@pytest.mark.learns
def test_the_best_choice_becomes_the_model(tiny: str, reviews: Path, tmp_path: Path) -> None:
    counted: list[tuple[str, int, int | None]] = []
    told = RunEvents(progress=lambda *done: counted.append(done))
    run = train(reviews, output=tmp_path / "run", model=tiny, method="features", layers="sweep", events=told)
    assert len(run.sweep) == 4 * 3 + 1
    assert all(one.score is not None and one.spread is not None and one.seconds > 0 for one in run.sweep)
    best = max(run.sweep, key=lambda one: one.score or 0.0)
    assert (best.score or 0) > 0.8
    trained = json.loads((run.folder / "clearhead.json").read_text())["trained"]
    assert (trained["layer"], trained["pooling"]) == (best.layer, [best.pooling])
    assert f"sweep: {best.layer}, {best.pooling} has the best accuracy" in run.notes[0]
    assert "5-fold cross-validation on 160 training rows" in run.notes[0]
    assert "sum_last_four is left out: it needs 4 layers, and there are 2." in run.notes
    written = json.loads((run.folder / "metrics.json").read_text())["sweep"]
    assert written == run.to_json()["sweep"]
    assert set(written[0]) == {"layer", "pooling", "score", "spread", "seconds"}
    page = (run.folder / "report.html").read_text()
    assert "Which layer" in page
    assert "Layers and poolings compared" in page
    choices: dict[str, Any] = {"method": "features", "layer": best.layer, "pooling": best.pooling}
    said = train(reviews, output=tmp_path / "said", model=tiny, **choices)
    assert [one.label for one in predict(run.folder, reviews)] == [one.label for one in predict(said.folder, reviews)]
    assert evaluate(run.folder, reviews, part="test").value == run.evaluations["test"].value
    assert any(what.startswith("sweep: ") for what, _, _ in counted)


@pytest.mark.learns
@pytest.mark.parametrize("kind", ["multilabel", "number"])
def test_other_labels(kind: str, tiny: str, tmp_path: Path) -> None:
    rows = tagged(80) if kind == "multilabel" else scored(80)
    run = train(rows, output=tmp_path / "run", model=tiny, method="features", layers="sweep", C=0.1)
    assert len(run.sweep) == 13
    assert max(one.score or 0.0 for one in run.sweep) > 0.2


def test_a_metric_of_which_less_is_better(tiny: str, tmp_path: Path) -> None:
    choices: dict[str, Any] = {"method": "features", "layers": "sweep", "metric": "log_loss", "C": 1.0}
    run = train(labelled(60), output=tmp_path / "run", model=tiny, **choices)
    trained = json.loads((run.folder / "clearhead.json").read_text())["trained"]
    best = min(run.sweep, key=lambda one: one.score or 0.0)
    assert (trained["layer"], trained["pooling"]) == (best.layer, [best.pooling])


def test_more_rows_than_are_judged(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "MAX_ROWS", 50)
    run = train(labelled(120), output=tmp_path / "run", model=tiny, method="features", layers="sweep", C=1.0)
    assert "on 50 of 96 training rows" in run.notes[0]
    assert len(predict(run.folder, ["it was good"])) == 1


def test_folds_are_stratified_and_keep_together_what_is_the_same() -> None:
    draw = np.random.default_rng(1)
    labels = draw.choice(4, 300, p=[0.6, 0.2, 0.15, 0.05])
    hashes = draw.integers(0, 220, 300)  # some texts come again
    groups = np.where(np.arange(300) < 40, 7, np.arange(300) + 1000)  # forty rows of one person
    folds = fold_rows(labels, hashes, groups, folds=5, seed=3)
    assert set(folds.tolist()) == {0, 1, 2, 3, 4}
    for name in (hashes, groups):
        assert all(len(set(folds[name == value].tolist())) == 1 for value in np.unique(name))
    np.testing.assert_array_equal(folds, fold_rows(labels, hashes, groups, folds=5, seed=3))
    shuffled = draw.permutation(300)
    np.testing.assert_array_equal(
        folds[shuffled], fold_rows(labels[shuffled], hashes[shuffled], groups[shuffled], folds=5, seed=3)
    )
    plain = fold_rows(labels, np.arange(300), folds=5)
    for label in range(4):
        counts = np.bincount(plain[labels == label], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert np.bincount(plain).max() - np.bincount(plain).min() <= 4
    assert int(fold_rows(None, np.arange(25), folds=5).max()) == 1  # few rows, fewer folds


def test_what_cannot_be_cut_into_folds() -> None:
    with pytest.raises(InputError, match="1 different texts cannot be cut into folds"):
        fold_rows(None, np.zeros(9), folds=5)


def test_undefined_scores_are_left_out_of_the_mean() -> None:
    choices = [LayerChoice(layer="last", pooling=mode) for mode in ("cls", "mean", "max")]
    scores = {"cls": [0.5, float("nan"), 0.7], "mean": [float("nan")] * 3, "max": [0.6, 0.6, 0.6]}
    named = {one: np.array([[place]]) for place, one in enumerate(choices)}
    made = cross_validate(
        choices,
        lambda one: named[one],
        np.zeros(1),
        lambda x, folds: list(scores.values())[int(x[0, 0])],
        progress=lambda *_: None,
    )
    assert [one.score for one in made] == [pytest.approx(0.6), None, pytest.approx(0.6)]
    assert choose_best(made, "accuracy") == choices[0]  # of equal ones the first
    with pytest.raises(InputError, match="r2 is not defined on any fold"):
        choose_best([LayerScore(layer="last", pooling="mean", score=None, spread=None, seconds=0.0)], "r2")


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"method": "tfidf", "layers": "sweep"}, "layers=sweep is for method features"),
        ({"method": "features", "layers": "sweep", "layer": "last"}, "omit layer and pooling"),
        ({"method": "features", "layers": "all"}, "Setting layers.*Choices: sweep"),
    ],
)
def test_sweeps_that_cannot_be(choices: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        train(labelled(20), output=tmp_path / "run", **choices)
