"""Translators in eight bits: near to float, and the same alone and in any batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clearhead.batch import Batch
from clearhead.core.build import named_arrays
from clearhead.engine.int8 import Int8Plan
from clearhead.engine.runner import EngineRunner
from clearhead.families import FAMILIES
from tests.engine.both import network
from tests.family_configs import FIXED_CONFIGS, SEQ2SEQ_FAMILIES, make_batch_for

Array = np.ndarray[Any, Any]


def said(runner: EngineRunner, ids: Array, mask: Array | None, words: Array) -> Array:
    """Logits of some words, fed one after the other."""
    state, made = runner.start(Batch(ids=ids, mask=mask)), []
    for place in range(words.shape[1]):
        logits, state = runner.step(state, words[:, place : place + 1])
        made.append(logits[:, 0])
    return np.stack(made, 1)


@pytest.mark.parametrize("family", SEQ2SEQ_FAMILIES)
def test_near_to_float_and_no_neighbour_changes_an_answer(family: str) -> None:
    shape = FAMILIES[family].model_shape(FIXED_CONFIGS[family], "seq2seq", 3)
    tensors = named_arrays(network(shape))
    exact, small = EngineRunner(shape, tensors), EngineRunner(shape, tensors, int8=Int8Plan())
    batch = make_batch_for(family, FIXED_CONFIGS[family], (7, 4, 5))
    words = np.random.default_rng(0).integers(1, shape.top.vocab_size, (3, 6))
    right, found = (said(one, batch.ids, batch.mask, words) for one in (exact, small))
    off = np.linalg.norm(found - right) / np.linalg.norm(right - right.mean())
    assert 0 < off < 0.06  # rounded, and little
    for row in range(3):
        length = int(batch.mask[row].sum())
        alone = said(small, batch.ids[row : row + 1, :length], None, words[row : row + 1])
        assert np.abs(alone - found[row]).max() < 1e-4 * np.abs(found).max()
    every = frozenset(name.removesuffix(".weight") for name in tensors)
    kept = EngineRunner(shape, tensors, int8=Int8Plan(float_steps=every))
    assert np.abs(said(kept, batch.ids, batch.mask, words) - right).max() < 1e-5
