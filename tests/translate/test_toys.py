"""The training path can really learn: to copy, to reverse and to write dates, by the Transformer and by the RNN."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clearhead
from tests.toys import make_toy_pairs
from tests.variation import THREADS

CONFIGS: dict[str, dict[str, Any]] = {
    "transformer": {"width": 64, "heads": 8, "feed_width": 128, "norm_first": True},
    "rnn": {"width": 64, "attention": "additive"},
}
WIDER = {"width": 128, "attention_width": 64}
LAYERS = {"encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
PLAN: dict[str, Any] = {
    "task": "translate",
    "pieces": "characters",
    "vocab_size": 100,
    "label_smoothing": 0.0,
    "average_epochs": 1,
    "dev_share": 0.0,
    "schedule": "linear",
    "num_beams": 1,
    "threads": THREADS,
}
FIVE = {"rows": 5000, "batch_tokens": 512}
CASES: dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any]]] = {  # what each needs to be learned surely
    ("transformer", "copy"): ({}, FIVE | {"epochs": 5, "learning_rate": 4e-3}),
    ("transformer", "reverse"): ({}, FIVE | {"epochs": 5, "learning_rate": 4e-3}),
    ("transformer", "dates"): ({}, {"rows": 6000, "batch_tokens": 768, "epochs": 3, "learning_rate": 5e-3}),
    ("rnn", "copy"): ({}, FIVE | {"epochs": 3, "learning_rate": 6e-3}),
    ("rnn", "reverse"): ({}, FIVE | {"epochs": 3, "learning_rate": 6e-3}),
    ("rnn", "dates"): (WIDER, {"rows": 5000, "batch_tokens": 1024, "epochs": 3, "learning_rate": 3e-3}),
}


@pytest.mark.slow
@pytest.mark.learns
@pytest.mark.parametrize(("family", "name"), CASES)
def test_a_toy_language_is_learned(family: str, name: str, tmp_path: Path) -> None:
    shape, settings = CASES[family, name]
    rows = make_toy_pairs(name, settings["rows"])
    run = clearhead.train(
        rows,
        test=make_toy_pairs(name, 300, seed=1, without=rows),
        family=family,
        output=tmp_path / "model",
        config=json.dumps(CONFIGS[family] | shape | LAYERS),
        **PLAN | settings,
    )
    assert run.metrics["exact_match"].value > 0.99
