"""Frozen features of words under a linear model, and the sweep over their layers."""

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
from clearhead.predict.scoring import compute_word_states, encode_unlabeled
from clearhead.tasks.tag.rows import check
from clearhead.tasks.tag.task import TAG_ROWS
from tests.task_rows import conll, words_and_tags
from tests.tiny_models import tiny_model

LAYERS = ("first", "last", "second_to_last", "sum_all")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("data") / "words.conll"
    place.write_text(conll(words_and_tags(150)))
    return place


def encoded(model: Any, texts: list[list[str]], max_length: int | None = None) -> Any:
    rows = [check(Row(n, {"tokens": text}), Columns(text="tokens"), None) for n, text in enumerate(texts, start=1)]
    fit = LengthPolicy(max_length=max_length, stride=2)
    table = encode_rows(rows, Columns(text="tokens"), model.tokenizer, fit=fit, form=TAG_ROWS)  # type: ignore[arg-type]
    return encode_unlabeled(table, model)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_word_has_the_state_of_its_first_token(layer: str, tiny: str) -> None:
    model = load(tiny, head=None)
    texts = [["the", "film", "was", "great"], ["we", "saw", "it"], ["nice"]]
    made = compute_word_states(model, encoded(model, texts), layer=layer)
    expected = []
    for text in texts:
        encoding = model.tokenizer.encode(text)
        out = model.run(np.array([encoding.ids]), None, np.array([encoding.segments]))
        states = choose_layer(out.hidden, layer)[0]
        expected += [states[encoding.words.index(word)] for word in range(len(text))]
    np.testing.assert_allclose(made, np.array(expected), atol=1e-5)


def test_all_choices_of_one_pass_are_those_of_their_own(tiny: str) -> None:
    model = load(tiny, head=None)
    data = encoded(model, [["the", "film", "was", "great", "and", "nice"] * 5, ["we", "saw", "it"]], max_length=16)
    assert data.row_windows.tolist() == [3, 1]
    choices = [LayerChoice(layer=layer, pooling="each") for layer in LAYERS]
    found = compute_word_features(model, data, choices, progress=lambda *_: None)
    for choice in choices:
        np.testing.assert_allclose(
            found.select(choice), compute_word_states(model, data, layer=choice.layer), atol=1e-5
        )
        assert len(found.select(choice)) == 33


@pytest.mark.learns
def test_features_tag_and_are_kept(tiny: str, tagged: Path, tmp_path: Path) -> None:
    run = train(tagged, output=tmp_path / "run", model=tiny, method="features", layer="first", report=False)
    assert run.metrics["f1"].value > 0.6
    again = evaluate(run.folder, tagged, part="test")
    assert {name: one.value for name, one in again.metrics.items()} == pytest.approx(
        {name: one.value for name, one in run.metrics.items()}
    )
    said = predict(run.folder, ["the film was great"])[0]
    assert said.tags is not None
    assert len(said.tags) == 4


def test_the_sweep_takes_the_best_layer(tiny: str, tagged: Path, tmp_path: Path) -> None:
    run = train(tagged, output=tmp_path / "run", model=tiny, method="features", layers="sweep")
    assert [one.layer for one in run.sweep] == list(LAYERS)  # two layers have no last four
    assert {one.pooling for one in run.sweep} == {"each"}
    best = max(run.sweep, key=lambda one: one.score or 0.0)
    assert any(note.startswith(f"sweep: {best.layer} has the best f1") for note in run.notes)
    assert sum("is left out: it needs 4 layers" in note for note in run.notes) == 2
    assert run.report is not None
    assert best.layer in run.report.read_text()


def test_a_tagger_has_no_pooling(tiny: str, tagged: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tag reads the token of each word; leave pooling out"):
        train(tagged, output=tmp_path / "run", model=tiny, method="features", pooling="mean")
