"""The engine equals the core for every family, head, configuration and padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from clearhead.batch import Batch
from clearhead.core.build import named_arrays
from clearhead.engine.assemble import GraphSpec, assemble
from clearhead.engine.runner import EngineRunner
from clearhead.engine.session import Session
from clearhead.errors import ClearheadError
from clearhead.families import FAMILIES
from clearhead.shape import ModelShape
from tests.engine.both import (
    HEADS,
    TOLERANCE,
    build_perturbed,
    build_runners,
    max_difference,
    real_outputs,
    run_checked,
)
from tests.family_configs import CONFIGS, FIXED_CONFIGS, SEQ2SEQ_FAMILIES, make_batch_for
from tests.parity_models import TokenBatch
from tests.variation import scaled

DECODERS = ("openai-gpt", "gpt2", *SEQ2SEQ_FAMILIES)


def batch_for(family: str, config: Any, shape: ModelShape, lengths: tuple[int, ...], **options: Any) -> TokenBatch:
    """Create a batch for the model, with targets if it has a decoder."""
    return make_batch_for(family, config, lengths, **options, **({} if shape.decoder is not None else {"targets": ()}))


@pytest.mark.thin(3)
@pytest.mark.parametrize(("family", "head"), HEADS)
def test_every_family_and_head(family: str, head: str | None) -> None:
    shape = FAMILIES[family].model_shape(FIXED_CONFIGS[family], head, 3)
    core, engine = build_runners(build_perturbed(shape))
    for lengths, left in (((9, 6, 3), False), ((5, 5), False), ((9, 6, 3), True), ((1,), False)):
        batch = batch_for(family, FIXED_CONFIGS[family], shape, lengths, pad_left=left)
        expected, actual = (real_outputs(run_checked(runner, batch), batch) for runner in (core, engine))
        assert max_difference(expected, actual) < TOLERANCE, (lengths, left)


@pytest.mark.parametrize("family", CONFIGS)
@settings(max_examples=scaled(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_configuration(family: str, data: Any) -> None:
    config = data.draw(CONFIGS[family]())
    head = data.draw(st.sampled_from((None, *FAMILIES[family].heads)))
    try:
        shape = FAMILIES[family].model_shape(config, head, 3)
    except ClearheadError:
        assume(False)
    core, engine = build_runners(build_perturbed(shape, seed=data.draw(st.integers(0, 99))))
    lengths = tuple(data.draw(st.lists(st.integers(1, 24), min_size=1, max_size=4)))
    options = {"seed": data.draw(st.integers(0, 99)), "pad_left": data.draw(st.booleans())}
    batch = batch_for(family, config, shape, lengths, **options)
    expected, actual = (real_outputs(run_checked(runner, batch), batch) for runner in (core, engine))
    assert max_difference(expected, actual) < TOLERANCE


@pytest.mark.parametrize("family", FIXED_CONFIGS)
def test_plain_operators_say_the_same(family: str) -> None:
    head = "classify" if "classify" in FAMILIES[family].heads else None
    shape = FAMILIES[family].model_shape(FIXED_CONFIGS[family], head, 3)
    tensors = named_arrays(build_perturbed(shape))
    spec = GraphSpec(hidden=True, last=True, pooled=True, logits=True, target=family in SEQ2SEQ_FAMILIES)
    batch = make_batch_for(family, FIXED_CONFIGS[family], (7, 7), targets=(4, 4) if family in SEQ2SEQ_FAMILIES else ())
    inputs: dict[str, Any] = {"ids": batch.ids}
    if shape.stack.segments > 1:
        inputs["segments"] = np.zeros_like(batch.ids) if batch.segments is None else batch.segments
    if batch.target_ids is not None:
        inputs["target_ids"] = batch.target_ids
    fused, plain = (
        Session(assemble(shape, tensors, spec, portable=portable)).run(inputs) for portable in (False, True)
    )
    assert max_difference(fused, plain) < TOLERANCE


@pytest.mark.parametrize("family", DECODERS)
def test_word_by_word(family: str) -> None:
    head = "causal" if "gpt" in family else "seq2seq"
    shape = FAMILIES[family].model_shape(FIXED_CONFIGS[family], head, 3)
    core, engine = build_runners(build_perturbed(shape))
    batch = make_batch_for(family, FIXED_CONFIGS[family], (7, 4, 5))
    words = (batch.ids if batch.target_ids is None else batch.target_ids) % shape.top.vocab_size
    runners: list[Any] = [core, engine]
    states = [runner.start(Batch(ids=batch.ids, mask=batch.mask)) for runner in runners]
    real = np.ones_like(words, dtype=np.bool_)
    real[0, 0] = False  # a row that starts later
    for start, end in ((0, 2), (2, 3)):
        new, new_mask = words[:, start:end], real[:, start:end]
        if new.size == 0:
            break
        (expected, core_state), (actual, engine_state) = (
            runner.step(state, new, new_mask) for runner, state in zip(runners, states, strict=True)
        )
        assert np.abs(expected - actual)[new_mask].max() < TOLERANCE
        states = [core_state.reorder([2, 0, 1]), engine_state.reorder([2, 0, 1])]
        words, real = words[[2, 0, 1]], real[[2, 0, 1]]


@pytest.mark.parametrize(("family", "head"), [pair for pair in HEADS if pair[1] and pair[0] not in DECODERS])
def test_packed_texts(family: str, head: str) -> None:
    shape = FAMILIES[family].model_shape(FIXED_CONFIGS[family], head, 3)
    core, engine = build_runners(build_perturbed(shape), threads=2)
    batch = make_batch_for(family, FIXED_CONFIGS[family], (9, 6, 3, 6, 6, 1))
    ids, lengths = batch.ids[batch.mask], batch.mask.sum(1)
    segments = None if batch.segments is None or shape.stack.segments < 2 else batch.segments[batch.mask]
    expected, actual = (runner.run_packed(ids, segments, lengths) for runner in (core, engine))
    assert expected.shape == actual.shape
    assert np.abs(expected - actual).max() < TOLERANCE


CONTROLS: dict[str, Callable[[dict[str, Any]], None]] = {
    "a word": lambda tensors: tensors["stack.embed.token.weight"].__setitem__((9, 0), 3.0),
    "a bias": lambda tensors: tensors["stack.blocks.1.feed.inner.down.bias"].__setitem__(0, 0.5),
    "a query": lambda tensors: tensors["stack.blocks.2.attend.inner.q.weight"].__setitem__((0, 0), 1.0),
}


@pytest.mark.parametrize("change", CONTROLS)
def test_one_wrong_number_is_seen(change: str) -> None:
    net = build_perturbed(FAMILIES["bert"].model_shape(FIXED_CONFIGS["bert"], "masked", 3))
    core, _ = build_runners(net)
    tensors = {name: array.copy() for name, array in named_arrays(net).items()}
    CONTROLS[change](tensors)
    batch = make_batch_for("bert", FIXED_CONFIGS["bert"], (9, 9))
    batch.ids[0, 0] = 9
    expected = real_outputs(run_checked(core, batch), batch)
    assert (
        max_difference(expected, real_outputs(run_checked(EngineRunner(net.shape, tensors), batch), batch)) > TOLERANCE
    )
