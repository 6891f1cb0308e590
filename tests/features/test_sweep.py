"""The layer sweep: features in one pass, cross-validation without leaks, and a model with the best choice."""

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
from clearhead.predict.frozen_features import compute_table_features
from clearhead.tasks.packed import pack_table
from tests.rows import make_multilabel_rows, make_scored_rows
from tests.tiny_models import make_sentiment_rows, tiny_model

ALL_LAYERS = ("first", "last", "second_to_last", "sum_all", "sum_last_four", "concat_last_four")


@pytest.fixture(scope="module")
def deep_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT with five layers."""
    return str(tiny_model(tmp_path_factory.mktemp("deep"), num_hidden_layers=5))


def test_every_choice_equals_a_separate_pass(deep_model: str) -> None:
    model = clearhead.load(deep_model, head=None)
    rows = [
        *make_sentiment_rows(30),
        {"id": "long", "text": "good film and more " * 20, "label": "good"},
    ]  # several windows
    source = open_source(rows)
    table = encode_table(source, guess_columns(source), model.tokenizer, max_length=model.max_length())
    data = pack_table(table, segments=True)
    assert int(data.row_windows.max()) > 1
    choices, notes = list_choices(model)
    assert notes == ()
    assert {(choice.layer, choice.pooling) for choice in choices} == {
        *((layer, pooling) for layer in ALL_LAYERS for pooling in ("cls", "mean", "max")),
        ("last", "pooler"),
    }
    reported: list[tuple[int, int | None]] = []
    features = compute_text_features(model, data, choices, budget=200, progress=lambda _, *done: reported.append(done))
    assert reported[-1] == (len(table.window_rows), len(table.window_rows))
    for choice in choices:
        expected = compute_table_features(model, data, layer=choice.layer, pooling=(choice.pooling,))
        np.testing.assert_allclose(features.select(choice), expected, atol=2e-5, err_msg=str(choice))
        assert features.select(choice).shape[1] == (128 if choice.layer == "concat_last_four" else 32)
    assert features.megabytes == pytest.approx(len(rows) * 32 * 4 * len(features.components) / 1e6)
    assert len(features.components) == 3 * 7 + 1  # choices share their components


def test_every_token_is_encoded_once(deep_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = clearhead.load(deep_model, head=None)
    source = open_source(make_sentiment_rows(40))
    data = pack_table(encode_table(source, guess_columns(source), model.tokenizer, max_length=32), segments=True)
    tokens: list[int] = []
    encode = model.runner.encode

    def count_tokens(batch: Batch, **options: Any) -> Any:
        tokens.append(batch.ids.size if batch.mask is None else int(batch.mask.sum()))
        return encode(batch, **options)

    monkeypatch.setattr(model.runner, "encode", count_tokens)
    compute_text_features(model, data, list_choices(model)[0])
    assert sum(tokens) == int(data.row_tokens.sum())


def test_max_of_a_sum_is_not_the_sum_of_maxima() -> None:
    generator = np.random.default_rng(0)
    hidden = [generator.normal(size=(2, 3, 4)).astype(np.float32) for _ in range(4)]
    mask = np.array([[True, True, True], [True, True, False]])
    poolings = {mode: lambda tokens, mode=mode: pool(tokens, mask, None, (mode,)) for mode in ("cls", "mean", "max")}
    all_layers = (1, 2, 3)
    features = pool_layers(hidden, poolings, [PooledLayers(all_layers, mode) for mode in poolings])
    for mode in poolings:
        expected = pool(choose_layer(hidden, "sum_all"), mask, None, (mode,))
        np.testing.assert_allclose(features[PooledLayers(all_layers, mode)], expected, atol=1e-6)
    word_poolings = {"each": lambda tokens: tokens[mask]}  # features of words are not pooled
    assert pool_layers(hidden, word_poolings, [PooledLayers((0,), "each")])[PooledLayers((0,), "each")].shape == (
        5,
        4,
    )


@pytest.mark.parametrize(("layers", "skipped"), [(1, 4), (2, 2), (3, 2), (4, 0), (12, 0)])
def test_choices_that_need_more_layers_are_skipped_with_a_note(layers: int, skipped: int) -> None:
    available, notes = list_layers(layers)
    assert len(available) == 6 - skipped
    assert len(notes) == skipped
    if skipped:
        assert f"concat_last_four skipped: needs 4 layers, the model has {layers}." in notes


@pytest.mark.learns
def test_the_best_choice_becomes_the_model(tiny: str, reviews: Path, tmp_path: Path) -> None:
    reported: list[tuple[str, int, int | None]] = []
    events = RunEvents(progress=lambda *done: reported.append(done))
    run = train(reviews, output=tmp_path / "run", model=tiny, method="features", layers="sweep", events=events)
    assert len(run.sweep) == 4 * 3 + 1
    assert all(score.score is not None and score.spread is not None and score.seconds > 0 for score in run.sweep)
    best = max(run.sweep, key=lambda score: score.score or 0.0)
    assert (best.score or 0) > 0.8
    trained = json.loads((run.folder / "clearhead.json").read_text())["trained"]
    assert (trained["layer"], trained["pooling"]) == (best.layer, [best.pooling])
    assert f"sweep: {best.layer}, {best.pooling} has the best accuracy" in run.notes[0]
    assert "5-fold cross-validation on 160 training rows" in run.notes[0]
    assert "sum_last_four skipped: needs 4 layers, the model has 2." in run.notes
    stored_sweep = json.loads((run.folder / "metrics.json").read_text())["sweep"]
    assert stored_sweep == run.to_json()["sweep"]
    assert set(stored_sweep[0]) == {"layer", "pooling", "score", "spread", "seconds"}
    page = (run.folder / "report.html").read_text()
    assert "All combinations of layers and pooling, compared by cross-validation" in page
    assert "Layers and poolings compared" in page
    choices: dict[str, Any] = {"method": "features", "layer": best.layer, "pooling": best.pooling}
    explicit = train(reviews, output=tmp_path / "explicit", model=tiny, **choices)
    assert [prediction.label for prediction in predict(run.folder, reviews)] == [
        prediction.label for prediction in predict(explicit.folder, reviews)
    ]
    assert evaluate(run.folder, reviews, part="test").value == run.evaluations["test"].value
    assert any(stage.startswith("sweep: ") for stage, _, _ in reported)


@pytest.mark.learns
@pytest.mark.parametrize("kind", ["multilabel", "number"])
def test_other_labels(kind: str, tiny: str, tmp_path: Path) -> None:
    rows = make_multilabel_rows(80) if kind == "multilabel" else make_scored_rows(80)
    run = train(rows, output=tmp_path / "run", model=tiny, method="features", layers="sweep", C=0.1)
    assert len(run.sweep) == 13
    assert max(score.score or 0.0 for score in run.sweep) > 0.2


def test_a_metric_where_lower_is_better(tiny: str, tmp_path: Path) -> None:
    choices: dict[str, Any] = {"method": "features", "layers": "sweep", "metric": "log_loss", "C": 1.0}
    run = train(make_sentiment_rows(60), output=tmp_path / "run", model=tiny, **choices)
    trained = json.loads((run.folder / "clearhead.json").read_text())["trained"]
    best = min(run.sweep, key=lambda score: score.score or 0.0)
    assert (trained["layer"], trained["pooling"]) == (best.layer, [best.pooling])


def test_large_data_is_sampled_for_the_sweep(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "MAX_ROWS", 50)
    run = train(make_sentiment_rows(120), output=tmp_path / "run", model=tiny, method="features", layers="sweep", C=1.0)
    assert "on 50 of 96 training rows" in run.notes[0]
    assert len(predict(run.folder, ["it was good"])) == 1


def test_folds_are_stratified_and_keep_duplicates_and_groups_together() -> None:
    generator = np.random.default_rng(1)
    labels = generator.choice(4, 300, p=[0.6, 0.2, 0.15, 0.05])
    hashes = generator.integers(0, 220, 300)  # with repeated texts
    groups = np.where(np.arange(300) < 40, 7, np.arange(300) + 1000)  # forty rows of one group
    folds = fold_rows(labels, hashes, groups, folds=5, seed=3)
    assert set(folds.tolist()) == {0, 1, 2, 3, 4}
    for keys in (hashes, groups):
        assert all(len(set(folds[keys == key].tolist())) == 1 for key in np.unique(keys))
    np.testing.assert_array_equal(folds, fold_rows(labels, hashes, groups, folds=5, seed=3))
    order = generator.permutation(300)
    np.testing.assert_array_equal(folds[order], fold_rows(labels[order], hashes[order], groups[order], folds=5, seed=3))
    folds_without_groups = fold_rows(labels, np.arange(300), folds=5)
    for label in range(4):
        counts = np.bincount(folds_without_groups[labels == label], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert np.bincount(folds_without_groups).max() - np.bincount(folds_without_groups).min() <= 4
    assert int(fold_rows(None, np.arange(25), folds=5).max()) == 1  # few rows, fewer folds


def test_too_few_texts_for_folds() -> None:
    with pytest.raises(InputError, match="at least 2 folds and 2 distinct texts, got 5 folds and 1 distinct texts"):
        fold_rows(None, np.zeros(9), folds=5)


def test_undefined_scores_are_left_out_of_the_mean() -> None:
    choices = [LayerChoice(layer="last", pooling=mode) for mode in ("cls", "mean", "max")]
    scores = {"cls": [0.5, float("nan"), 0.7], "mean": [float("nan")] * 3, "max": [0.6, 0.6, 0.6]}
    features_of = {choice: np.array([[index]]) for index, choice in enumerate(choices)}
    layer_scores = cross_validate(
        choices,
        lambda choice: features_of[choice],
        np.zeros(1),
        lambda x, folds: list(scores.values())[int(x[0, 0])],
        progress=lambda *_: None,
    )
    assert [choice.score for choice in layer_scores] == [pytest.approx(0.6), None, pytest.approx(0.6)]
    assert choose_best(layer_scores, "accuracy") == choices[0]  # the first of equal ones
    with pytest.raises(InputError, match="r2 is undefined on every fold"):
        choose_best([LayerScore(layer="last", pooling="mean", score=None, spread=None, seconds=0.0)], "r2")


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"method": "tfidf", "layers": "sweep"}, "layers=sweep applies only to method features"),
        ({"method": "features", "layers": "sweep", "layer": "last"}, "omit layer and pooling"),
        ({"method": "features", "layers": "all"}, "Setting layers.*Choices: sweep"),
    ],
)
def test_invalid_sweeps_are_refused(choices: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        train(make_sentiment_rows(20), output=tmp_path / "run", **choices)
