"""Int8 translation models: close to float, and independent of the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clearhead.batch import Batch
from clearhead.core.build import named_arrays
from clearhead.engine.int8 import Int8Plan
from clearhead.engine.runner import EngineRunner
from clearhead.families import FAMILIES
from tests.engine.both import build_perturbed
from tests.family_configs import FIXED_CONFIGS, SEQ2SEQ_FAMILIES, make_batch_for

Array = np.ndarray[Any, Any]


def decode_words(runner: EngineRunner, ids: Array, mask: Array | None, words: Array) -> Array:
    """Return the logits of tokens fed one after the other."""
    state, step_logits = runner.start(Batch(ids=ids, mask=mask)), []
    for index in range(words.shape[1]):
        logits, state = runner.step(state, words[:, index : index + 1])
        step_logits.append(logits[:, 0])
    return np.stack(step_logits, 1)


@pytest.mark.parametrize("family", SEQ2SEQ_FAMILIES)
def test_near_to_float_and_no_neighbor_changes_an_answer(family: str) -> None:
    shape = FAMILIES[family].model_shape(FIXED_CONFIGS[family], "seq2seq", 3)
    tensors = named_arrays(build_perturbed(shape))
    exact, quantized = EngineRunner(shape, tensors), EngineRunner(shape, tensors, int8=Int8Plan())
    batch = make_batch_for(family, FIXED_CONFIGS[family], (7, 4, 5))
    words = np.random.default_rng(0).integers(1, shape.top.vocab_size, (3, 6))
    expected, actual = (decode_words(runner, batch.ids, batch.mask, words) for runner in (exact, quantized))
    error = np.linalg.norm(actual - expected) / np.linalg.norm(expected - expected.mean())
    assert 0 < error < 0.06  # rounding errors are present but small
    for row in range(3):
        length = int(batch.mask[row].sum())
        alone = decode_words(quantized, batch.ids[row : row + 1, :length], None, words[row : row + 1])
        assert np.abs(alone - actual[row]).max() < 1e-4 * np.abs(actual).max()
    all_layers = frozenset(name.removesuffix(".weight") for name in tensors)
    float_runner = EngineRunner(shape, tensors, int8=Int8Plan(float_steps=all_layers))
    assert np.abs(decode_words(float_runner, batch.ids, batch.mask, words) - expected).max() < 1e-5
