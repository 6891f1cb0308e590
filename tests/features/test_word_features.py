"""Linear models on frozen word features, and the sweep over their layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.api import evaluate, load, predict, train
from clearhead.data.columns import Columns
from clearhead.data.row_codec import LengthPolicy
from clearhead.data.sources.source import Row
from clearhead.data.table import encode_rows
from clearhead.errors import InputError
from clearhead.features.taggers import compute_word_features
from clearhead.jobs.method import LayerChoice
from clearhead.model.layers import choose_layer
from clearhead.predict.frozen_features import compute_word_states, encode_unlabeled
from clearhead.tasks.tag.rows import check_row
from clearhead.tasks.tag.task import TAG_ROWS
from tests.task_rows import format_conll, make_tagged_words
from tests.tiny_models import tiny_model

LAYERS = ("first", "last", "second_to_last", "sum_all")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def tagged_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "words.conll"
    path.write_text(format_conll(make_tagged_words(150)))
    return path


def encode_words(model: Any, texts: list[list[str]], max_length: int | None = None) -> Any:
    rows = [check_row(Row(n, {"tokens": text}), Columns(text="tokens"), None) for n, text in enumerate(texts, start=1)]
    length_policy = LengthPolicy(max_length=max_length, stride=2)
    table = encode_rows(rows, Columns(text="tokens"), model.tokenizer, policy=length_policy, codec=TAG_ROWS)  # type: ignore[arg-type]
    return encode_unlabeled(table, model)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_word_has_the_state_of_its_first_token(layer: str, tiny: str) -> None:
    model = load(tiny, head=None)
    texts = [["the", "film", "was", "great"], ["we", "saw", "it"], ["nice"]]
    features = compute_word_states(model, encode_words(model, texts), layer=layer)
    expected = []
    for text in texts:
        encoding = model.tokenizer.encode(text)
        output = model.run(np.array([encoding.ids]), None, np.array([encoding.segments]))
        states = choose_layer(output.hidden, layer)[0]
        expected += [states[encoding.words.index(word)] for word in range(len(text))]
    np.testing.assert_allclose(features, np.array(expected), atol=1e-5)


def test_every_choice_equals_a_separate_pass(tiny: str) -> None:
    model = load(tiny, head=None)
    data = encode_words(model, [["the", "film", "was", "great", "and", "nice"] * 5, ["we", "saw", "it"]], max_length=16)
    assert data.row_windows.tolist() == [3, 1]
    choices = [LayerChoice(layer=layer, pooling="each") for layer in LAYERS]
    features = compute_word_features(model, data, choices, progress=lambda *_: None)
    for choice in choices:
        np.testing.assert_allclose(
            features.select(choice), compute_word_states(model, data, layer=choice.layer), atol=1e-5
        )
        assert len(features.select(choice)) == 33


@pytest.mark.learns
def test_a_tagger_on_features_is_trained_and_saved(tiny: str, tagged_file: Path, tmp_path: Path) -> None:
    run = train(tagged_file, output=tmp_path / "run", model=tiny, method="features", layer="first", report=False)
    assert run.metrics["f1"].value > 0.6
    evaluation = evaluate(run.folder, tagged_file, part="test")
    assert {name: metric.value for name, metric in evaluation.metrics.items()} == pytest.approx(
        {name: metric.value for name, metric in run.metrics.items()}
    )
    prediction = predict(run.folder, ["the film was great"])[0]
    assert prediction.tags is not None
    assert len(prediction.tags) == 4


def test_the_sweep_chooses_the_best_layer(tiny: str, tagged_file: Path, tmp_path: Path) -> None:
    run = train(tagged_file, output=tmp_path / "run", model=tiny, method="features", layers="sweep")
    assert [score.layer for score in run.sweep] == list(LAYERS)  # a model with two layers has no last four
    assert {score.pooling for score in run.sweep} == {"each"}
    best = max(run.sweep, key=lambda score: score.score or 0.0)
    assert any(note.startswith(f"sweep: {best.layer} has the best f1") for note in run.notes)
    assert sum("skipped: needs 4 layers" in note for note in run.notes) == 2
    assert run.report is not None
    assert best.layer in run.report.read_text()


def test_a_tagger_has_no_pooling(tiny: str, tagged_file: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tag uses the first token of each word; omit pooling"):
        train(tagged_file, output=tmp_path / "run", model=tiny, method="features", pooling="mean")
