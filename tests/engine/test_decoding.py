"""Decoder states of the engine equal those of the core, for any selection and order of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clearhead.batch import Batch
from clearhead.engine.kv_cache import beams_per_source
from clearhead.families import FAMILIES
from tests.engine.both import TOLERANCE, build_perturbed, build_runners
from tests.family_configs import FIXED_CONFIGS, SEQ2SEQ_FAMILIES, make_batch_for

Array = np.ndarray[Any, Any]
DECODERS = ("openai-gpt", "gpt2", *SEQ2SEQ_FAMILIES)


def start_both(family: str, threads: int = 1) -> tuple[list[Any], list[Any], int]:
    """Start decoding three texts in core and engine; also return the vocabulary size."""
    shape = FAMILIES[family].model_shape(FIXED_CONFIGS[family], "causal" if "gpt" in family else "seq2seq", 3)
    core, engine = build_runners(build_perturbed(shape), threads=threads)
    batch = make_batch_for(family, FIXED_CONFIGS[family], (7, 4, 5))
    return (
        [core, engine],
        [runner.start(Batch(ids=batch.ids, mask=batch.mask)) for runner in (core, engine)],
        shape.top.vocab_size,
    )


def feed_both(runners: list[Any], states: list[Any], words: Array, **options: Any) -> list[Any]:
    """Feed tokens to both runners, compare their outputs, and return the new states."""
    (expected, core), (actual, engine) = (
        runner.step(state, words, **options) for runner, state in zip(runners, states, strict=True)
    )
    assert expected.shape == actual.shape
    assert np.abs(expected - actual).max() < TOLERANCE
    return [core, engine]


@pytest.mark.parametrize("family", DECODERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_any_walk(family: str, seed: int) -> None:
    """Beams are copied, swapped and dropped with their source; rows are resampled; some steps are padded."""
    draw = np.random.default_rng(seed)
    runners, states, vocab = start_both(family)
    rows = np.arange(3)  # the source of each row
    for step in range(20):
        group = beams_per_source(rows)
        kind = draw.choice(["stay", "cross", "spread", "leave", "any"], p=[0.3, 0.4, 0.1, 0.1, 0.1])
        index = np.arange(len(rows))
        if kind == "cross":  # each beam goes on from one of its source
            index = index // group * group + draw.integers(0, group, len(rows))
        elif kind == "spread" and len(rows) <= 6:
            index = np.repeat(index, 2)
        elif kind == "leave" and len(rows) > group:
            removed = draw.integers(len(rows) // group)
            index = index[index // group != removed]
        elif kind == "any":
            index = draw.integers(0, len(rows), draw.integers(1, 8))
        rows = rows[index]
        states = [state.reorder(index) for state in states]
        words = draw.integers(1, vocab, (len(rows), 2 if step % 7 == 5 else 1))
        states = feed_both(runners, states, words, log=bool(step % 2), last=bool(step % 3))


@pytest.mark.parametrize("family", DECODERS)
def test_a_state_can_be_gone_on_from_twice(family: str) -> None:
    runners, states, _ = start_both(family)
    first = feed_both(runners, states, np.array([[3], [4], [5]]))
    second = feed_both(runners, first, np.array([[6], [7], [8]]))
    alternative = feed_both(
        runners, first, np.array([[9], [9], [2]])
    )  # writes to the positions that the first one used
    feed_both(runners, second, np.array([[2], [3], [4]]))
    feed_both(runners, alternative, np.array([[2], [3], [4]]))
    reordered = [state.reorder([2, 0, 1]) for state in first]
    feed_both(runners, reordered, np.array([[6], [7], [8]]))
    feed_both(runners, second, np.array([[5], [6], [7]]))


@pytest.mark.parametrize(
    ("row_sources", "length"), [([0, 0, 1, 1], 2), ([0, 1, 2], 1), ([4, 4, 4], 3), ([0, 0, 1], 1), ([1, 1, 0, 0], 2)]
)
def test_rows_of_a_source_side_by_side(row_sources: list[int], length: int) -> None:
    assert beams_per_source(np.array(row_sources)) == length
