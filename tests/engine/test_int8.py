"""Int8: no overflow, results independent of the batch, and a small error on real weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead
from clearhead.batch import Batch
from clearhead.core.build import named_arrays
from clearhead.engine.assemble import GraphSpec, assemble
from clearhead.engine.calibrate import calibrate_int8, cosine_similarity
from clearhead.engine.int8 import Int8Plan, int8_dense, quantize_weight
from clearhead.engine.runner import EngineRunner
from clearhead.engine.session import Session
from clearhead.families import FAMILIES
from tests.engine.both import HEADS, build_perturbed, real_outputs, run_checked
from tests.family_configs import FIXED_CONFIGS, SEQ2SEQ_FAMILIES, make_batch_for
from tests.variation import scaled

Array = np.ndarray[Any, Any]
SENTENCES = (
    "The parcel came two days late and the box was torn.",
    "Who can tell me how to reset my password?",
    "We walked along the river until it was dark.",
    "Please cancel my order and send the money back.",
    "The bank closes at four on Fridays.",
    "A nice little film, though far too long.",
    "My train was cancelled, so I missed the meeting in Leipzig.",
    "Is there a discount for students?",
    "It rained all week.",
    "The soup was cold, the waiter was rude, and we had to wait for an hour.",
)


@settings(max_examples=scaled(60), deadline=None)
@given(rows=st.integers(1, 40), columns=st.integers(1, 12), seed=st.integers(0, 999), spread=st.floats(0.0, 6.0))
def test_two_neighbors_never_overflow(rows: int, columns: int, seed: int, spread: float) -> None:
    draw = np.random.default_rng(seed)
    weight = (draw.standard_normal((rows, columns)) * np.exp(spread * draw.standard_normal((1, columns)))).astype("f")
    quantized, scale = quantize_weight(weight)
    padded = (
        np.concatenate([quantized, np.zeros((rows % 2, columns), np.int8)]).astype(np.int64).reshape(-1, 2, columns)
    )
    for sign in (1, -1):
        assert int(255 * np.maximum(sign * padded, 0).sum(1).max(initial=0)) <= 32767
    assert (np.abs(quantized * scale - weight) <= 0.5 * scale * 1.001 + 1e-30).all()


def test_a_wide_product_is_what_it_should_be() -> None:
    draw = np.random.default_rng(0)
    weight = np.sign(draw.standard_normal((64, 256))).astype("f")  # every pair at its limit
    x = np.ones((1, 4, 256), "f")
    from clearhead.engine.graph import Graph

    g = Graph()
    input_node = g.input("x", "float32", ("batch", "length", 256))
    (product,) = int8_dense({"a.blocks.0.weight": weight}, Int8Plan())(g, input_node, "a.blocks.0")
    g.output("y", product, ("batch", "length", 64))
    np.testing.assert_allclose(Session(g).run({"x": x})["y"], x @ weight.T, atol=0.02 * 256)


@pytest.mark.thin(3)
@pytest.mark.parametrize(("family", "head"), [pair for pair in HEADS if pair[0] not in SEQ2SEQ_FAMILIES])
def test_every_family_and_head_in_int8(family: str, head: str | None) -> None:
    shape = FAMILIES[family].model_shape(FIXED_CONFIGS[family], head, 3)
    tensors = named_arrays(build_perturbed(shape))
    exact, rough = EngineRunner(shape, tensors), EngineRunner(shape, tensors, int8=Int8Plan())
    batch = make_batch_for(family, FIXED_CONFIGS[family], (9, 6, 3), pad_left=True)
    expected, actual = (real_outputs(run_checked(runner, batch), batch) for runner in (exact, rough))
    assert expected.keys() == actual.keys()
    for name in expected:
        assert expected[name].shape == actual[name].shape
        assert cosine_similarity(expected[name].ravel(), actual[name].ravel()) > 0.97, name
    assert any(not np.array_equal(expected[name], actual[name]) for name in expected)  # it is not the same computation


def test_no_neighbor_changes_an_answer() -> None:
    shape = FAMILIES["bert"].model_shape(FIXED_CONFIGS["bert"], "classify", 3)
    runner = EngineRunner(shape, named_arrays(build_perturbed(shape)), threads=2, int8=Int8Plan())
    batch = make_batch_for("bert", FIXED_CONFIGS["bert"], (9, 9, 4, 9))
    together = runner.run(Batch(ids=batch.ids, mask=batch.mask, segments=batch.segments)).logits
    assert together is not None
    assert batch.segments is not None
    for row in range(4):
        length = int(batch.mask[row].sum())
        alone = Batch(ids=batch.ids[row : row + 1, :length], segments=batch.segments[row : row + 1, :length])
        np.testing.assert_array_equal(runner.run(alone).logits, together[row : row + 1])
    ids, segments = batch.ids[batch.mask], batch.segments[batch.mask]
    packed, start = runner.run_packed(ids, segments, batch.mask.sum(1)), 0
    for row, length in enumerate(batch.mask.sum(1)):
        span = slice(start, start + length)
        np.testing.assert_array_equal(runner.run_packed(ids[span], segments[span], [length])[0], packed[row])
        start += length


def test_real_weights_lose_little() -> None:
    model = clearhead.load("default", "engine")
    runner: Any = model.runner
    texts = [tokens.ids for tokens in model.tokenizer.encode_ids(SENTENCES)]
    plan = calibrate_int8(model.shape, runner.tensors, texts[:5])
    assert plan.smoothing  # something was uneven
    spec = GraphSpec(last=True)
    plans = {"float": None, "plain": Int8Plan(), "calibrated": plan}
    vectors: dict[str, list[Array]] = {}
    for name, plan_or_none in plans.items():
        dense = None if plan_or_none is None else int8_dense(runner.tensors, plan_or_none)
        session = Session(assemble(model.shape, runner.tensors, spec, dense=dense))
        vectors[name] = [
            session.run({"ids": np.array([ids]), "segments": np.zeros((1, len(ids)), np.int64)})["last"][0].mean(0)
            for ids in texts[5:]
        ]
    pairs = {
        name: list(zip(vectors["float"], quantized_vectors, strict=True)) for name, quantized_vectors in vectors.items()
    }
    cosines = {
        name: np.mean([cosine_similarity(a, b) for a, b in vector_pairs]) for name, vector_pairs in pairs.items()
    }
    assert cosines["calibrated"] > 0.995
    assert cosines["calibrated"] > cosines["plain"]
