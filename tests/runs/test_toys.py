"""The training path can really learn: copying, reversing and dates, by the 2017 Transformer and by the attentive RNN."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clearhead
from tests.toys import TOYS, toy

CONFIGS: dict[str, dict[str, Any]] = {
    "transformer": {"width": 64, "heads": 8, "feed_width": 128, "norm_first": True},
    "rnn": {"width": 64, "attention": "additive"},
}
LAYERS = {"encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
PLAN: dict[str, Any] = {
    "task": "translate", "pieces": "characters", "vocabulary": 100, "smoothing": 0.0, "average": 1, "dev_share": 0.0,
    "schedule": "linear", "beam": 1, "threads": 1,
}  # fmt: skip
ROWS = {"copy": 5000, "reverse": 5000, "dates": 6000}
EPOCHS = {
    ("transformer", "copy"): 4, ("transformer", "reverse"): 5, ("transformer", "dates"): 4,
    ("rnn", "copy"): 3, ("rnn", "reverse"): 3, ("rnn", "dates"): 4,
}  # fmt: skip


@pytest.mark.parametrize("name", TOYS)
@pytest.mark.parametrize("family", CONFIGS)
def test_a_toy_language_is_learned(family: str, name: str, tmp_path: Path) -> None:
    rows = toy(name, ROWS[name])
    run = clearhead.train(
        rows, test=toy(name, 300, seed=1, without=rows), family=family, config=json.dumps(CONFIGS[family] | LAYERS),
        rate=5e-3, batch_tokens=768 if name == "dates" else 512, epochs=EPOCHS[family, name],
        output=tmp_path / "model", **PLAN,
    )  # fmt: skip
    assert run.metrics["exact_match"].value > 0.99
