"""Texts of many megabytes are refused or truncated, never passed to a network as a whole."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.api import predict, train
from clearhead.errors import InputError
from clearhead.model import embedding, model
from clearhead.model.embedding import TruncationWarning
from clearhead.text import load_tokenizer
from tests.rows import QUICK
from tests.text.tokenizer_folders import write_marian
from tests.tiny_models import make_sentiment_rows, tiny_gpt, tiny_model


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return clearhead.load(tiny_gpt(tmp_path_factory.mktemp("gpt")), device="cpu")


def test_a_long_prompt_is_refused_before_generation(gpt: Any) -> None:
    with pytest.raises(InputError, match=r"The prompt of row 1 has 500\d tokens, but the model has 48 positions"):
        gpt.generate(["good", "!" * 5_000], max_length=2)


def test_fill_and_trace_count_without_encoding_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_model(tmp_path)
    masked_model = clearhead.load(folder, head="masked", device="cpu")
    text = "[MASK] " + "film! " * 20_000
    backend: Any = masked_model.tokenizer._backend
    sizes: list[int] = []
    encode = backend.encode

    def encode_measured(texts: Any, *, split: bool) -> Any:
        sizes.extend(map(len, texts))
        return encode(texts, split=split)

    monkeypatch.setattr(backend, "encode", encode_measured)
    for call in (masked_model.fill, masked_model.trace):
        with pytest.raises(InputError, match="The text has 40,003 tokens, but the model reads 32"):
            call(text)
    assert sum(sizes) < 10_000


def test_a_model_without_a_maximum_length_has_a_default_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = clearhead.load(tiny_model(tmp_path, max_position_embeddings=64), device="cpu")
    monkeypatch.setattr(model.Model, "max_length", lambda *_: None)
    monkeypatch.setattr(embedding, "MAX_TOKENS", 16)
    with pytest.warns(TruncationWarning, match="longer than 16 tokens: 486 tokens"):
        vectors = tiny.embed(["film " * 500])
    np.testing.assert_allclose(vectors, tiny.embed(["film " * 14]), atol=1e-6)


def test_a_text_of_three_million_characters_is_refused(tmp_path: Path) -> None:
    tokenizer = clearhead.load(tiny_model(tmp_path), device="cpu").tokenizer
    for call in (
        tokenizer.encode,
        lambda text: tokenizer.encode_ids([text]),
        lambda text: tokenizer.encode_plain([text]),
    ):
        with pytest.raises(InputError, match="3,000,000 characters, more than the maximum of 2,000,000"):
            call("film " * 600_000)


def test_one_long_row_in_training_and_prediction(tmp_path: Path) -> None:
    rows = [*make_sentiment_rows(20), {"text": "film " * 3_000, "label": "good"}]
    folder = tiny_model(tmp_path / "base")
    run = train(rows, output=tmp_path / "run", model=str(folder), epochs=1, max_tokens=96, **QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        (answer,) = predict(run.folder, ["film " * 3_000])
    assert answer.truncated == 3_002 - 96
    assert answer.windows == 4


def test_a_long_source_is_refused(tmp_path: Path) -> None:
    source = load_tokenizer(tmp_path, write_marian(tmp_path), {}).source
    with pytest.raises(InputError, match="300,001 characters, more than the maximum of 300,000"):
        source.encode_ids(["a" * 300_001], max_length=16)
