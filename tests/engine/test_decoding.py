"""A decoder's state in the engine: whatever rows go on, in whatever order, they say what the core says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clearhead.batch import Batch
from clearhead.engine.kv_cache import beams_per_source
from clearhead.families import FAMILIES
from tests.engine.both import TOLERANCE, network, runners
from tests.family_configs import FIXED_CONFIGS, SEQ2SEQ_FAMILIES, make_batch_for

Array = np.ndarray[Any, Any]
DECODERS = ("openai-gpt", "gpt2", *SEQ2SEQ_FAMILIES)


def both_of(family: str, threads: int = 1) -> tuple[list[Any], list[Any], int]:
    """Core and engine with three texts read, and the number of words they know."""
    shape = FAMILIES[family].model_shape(FIXED_CONFIGS[family], "causal" if "gpt" in family else "seq2seq", 3)
    core, engine = runners(network(shape), threads=threads)
    batch = make_batch_for(family, FIXED_CONFIGS[family], (7, 4, 5))
    return (
        [core, engine],
        [one.start(Batch(ids=batch.ids, mask=batch.mask)) for one in (core, engine)],
        shape.top.vocab_size,
    )


def fed(both: list[Any], states: list[Any], words: Array, **how: Any) -> list[Any]:
    """The states after some words, of which both say the same."""
    (expected, core), (found, engine) = (one.step(state, words, **how) for one, state in zip(both, states, strict=True))
    assert expected.shape == found.shape
    assert np.abs(expected - found).max() < TOLERANCE
    return [core, engine]


@pytest.mark.parametrize("family", DECODERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_any_walk(family: str, seed: int) -> None:
    """Beams spread, cross, leave with their source, and rows are picked at random, also twice; padding now and then."""
    draw = np.random.default_rng(seed)
    both, states, vocab = both_of(family)
    rows = np.arange(3)  # the source of each row
    for turn in range(20):
        group = beams_per_source(rows)
        kind = draw.choice(["stay", "cross", "spread", "leave", "any"], p=[0.3, 0.4, 0.1, 0.1, 0.1])
        index = np.arange(len(rows))
        if kind == "cross":  # each beam goes on from one of its source
            index = index // group * group + draw.integers(0, group, len(rows))
        elif kind == "spread" and len(rows) <= 6:
            index = np.repeat(index, 2)
        elif kind == "leave" and len(rows) > group:
            gone = draw.integers(len(rows) // group)
            index = index[index // group != gone]
        elif kind == "any":
            index = draw.integers(0, len(rows), draw.integers(1, 8))
        rows = rows[index]
        states = [state.reorder(index) for state in states]
        words = draw.integers(1, vocab, (len(rows), 2 if turn % 7 == 5 else 1))
        states = fed(both, states, words, log=bool(turn % 2), last=bool(turn % 3))


@pytest.mark.parametrize("family", DECODERS)
def test_a_state_can_be_gone_on_from_twice(family: str) -> None:
    both, states, _ = both_of(family)
    first = fed(both, states, np.array([[3], [4], [5]]))
    one = fed(both, first, np.array([[6], [7], [8]]))
    other = fed(both, first, np.array([[9], [9], [2]]))  # writes where the first has written
    fed(both, one, np.array([[2], [3], [4]]))
    fed(both, other, np.array([[2], [3], [4]]))
    crossed = [state.reorder([2, 0, 1]) for state in first]
    fed(both, crossed, np.array([[6], [7], [8]]))
    fed(both, one, np.array([[5], [6], [7]]))


@pytest.mark.parametrize(
    ("owners", "length"), [([0, 0, 1, 1], 2), ([0, 1, 2], 1), ([4, 4, 4], 3), ([0, 0, 1], 1), ([1, 1, 0, 0], 2)]
)
def test_rows_of_a_source_side_by_side(owners: list[int], length: int) -> None:
    assert beams_per_source(np.array(owners)) == length
