"""How to compute a model in eight bits without losing it: measured on texts, step by step.

A few channels of a hidden state are many times as large as the others, and one scale for all of them leaves the small
ones no bits. Dividing each channel by a number of its own, and multiplying the matrix by it, changes nothing in float
and evens out what must be rounded (SmoothQuant, 2022). How far to go is chosen for each step by its own error. Where
that is not enough, the few largest channels of a step are multiplied in float beside the others (LLM.int8(), 2022),
which costs far less than the whole step in float.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from clearhead.engine.assemble import GraphSpec, assemble
from clearhead.engine.graph import Graph
from clearhead.engine.int8 import Int8Plan, QuantizedDense, int8_dense, is_in_block, quantize_dense
from clearhead.engine.layers import float_dense
from clearhead.engine.session import Session
from clearhead.progress import Progress, no_progress
from clearhead.shape import ModelShape

Array = np.ndarray[Any, Any]
MIGRATION_STRENGTHS = (0.7, 0.8, 0.9)  # of the unevenness that goes from the input to the matrix
MAX_TEXTS = 128  # that are looked at
MAX_ERROR_TOKENS = 320  # that errors are measured on
MAX_LENGTH = 64  # tokens of a text that are read
MAX_SMOOTHED_ERROR, MAX_OUTLIER_ERROR = (
    0.75,
    0.33,
)  # of the error that may be left, for evening out, or channels in float, to be worth it
OUTLIER_CHANNELS = 4  # of a step that go in float beside the others: more help little
MIN_COSINE = 0.998  # mean cosine with the float model's vectors that needs nothing more in float
MAX_FLOAT_SHARE = 0.2  # of the steps may stay in float

TokenizedTexts = Sequence[Sequence[int]]


def calibrate_int8(
    shape: ModelShape, tensors: Mapping[str, Array], texts: TokenizedTexts, progress: Progress = no_progress
) -> Int8Plan:
    """The plan that loses least on some texts: each step evened out as it needs, the worst few in float."""
    longest = min(MAX_LENGTH, *(one.max_length or MAX_LENGTH for one in (shape.stack, shape.top)))
    taken = [np.asarray([ids[:longest]], np.int64) for ids in texts[:MAX_TEXTS] if len(ids)]
    session, steps = _build_tapped_session(shape, tensors)
    largest, kept, exact = _collect_activations(session, steps, shape, taken)
    even: dict[str, Array] = {}
    aside: dict[str, Array] = {}
    left: dict[tuple[str, ...], float] = {}  # what each step still loses
    for place, names in enumerate(steps):
        weight = np.concatenate([tensors[f"{name}.weight"] for name in names]).T
        factors, channels, left[names] = _choose_correction(kept[place], largest[place], weight)
        if factors is not None:
            even[names[0]] = factors
        if channels is not None:
            aside[names[0]] = channels
        progress("looking at activations", place + 1, len(steps))
    return _keep_steps_in_float(shape, tensors, Int8Plan(smoothing=even, outlier_channels=aside), left, taken, exact)


def _choose_correction(
    inputs: Sequence[Array], largest: Array, weight: Array
) -> tuple[Array | None, Array | None, float]:
    """What channels are divided by, those that go in float, and the error that is left; each only if it is worth it."""
    choices = [_smoothing_scales(largest, weight, share) for share in MIGRATION_STRENGTHS]
    best, chosen = min(
        (_relative_error(inputs, weight, quantize_dense(weight, one)), at) for at, one in enumerate(choices)
    )
    plain = _relative_error(inputs, weight, quantize_dense(weight))
    factors, error = (choices[chosen], best) if best <= MAX_SMOOTHED_ERROR * plain else (None, plain)
    if len(weight) <= 8 * OUTLIER_CHANNELS:
        return factors, None, error
    loud = largest if factors is None else largest / factors
    channels = np.sort(np.argsort(-loud)[:OUTLIER_CHANNELS])
    helped = _relative_error(inputs, weight, quantize_dense(weight, factors, channels))
    return (factors, channels, helped) if helped <= MAX_OUTLIER_ERROR * error else (factors, None, error)


def _build_tapped_session(shape: ModelShape, tensors: Mapping[str, Array]) -> tuple[Session, list[tuple[str, ...]]]:
    """A float graph that also gives the input of every dense step in its blocks."""
    seen: list[tuple[tuple[str, ...], str]] = []
    dense = float_dense(tensors)

    def product(g: Graph, x: str, *names: str, bias: str = "") -> tuple[str, ...]:
        if is_in_block(names[0]) and names not in [known for known, _ in seen]:  # a shared block is looked at once
            seen.append((names, x))
        return dense(g, x, *names, bias=bias)

    graph = assemble(shape, tensors, GraphSpec(last=True, target=shape.decoder is not None), dense=product)
    for place, (names, x) in enumerate(seen):
        graph.output(f"seen.{place}", x, ("rows", "tokens", tensors[f"{names[0]}.weight"].shape[1]))
    return Session(graph), [names for names, _ in seen]


def _session_inputs(shape: ModelShape, ids: Array) -> dict[str, Array]:
    given = {"ids": ids}
    if shape.stack.segments > 1:
        given["segments"] = np.zeros_like(ids)
    if shape.decoder is not None:
        given["target_ids"] = ids % shape.decoder.vocab_size
    return given


def _collect_activations(
    session: Session, steps: Sequence[Any], shape: ModelShape, texts: Sequence[Array]
) -> tuple[list[Array], list[list[Array]], list[Array]]:
    """The largest number of every channel, some inputs of every step, and the vector of every text."""
    largest: list[Array] = []
    kept: list[list[Array]] = [[] for _ in steps]
    vectors, tokens = [], 0
    for ids in texts:
        found = session.run(_session_inputs(shape, ids))
        vectors.append(found["last"][0].mean(0))
        inputs = [found[f"seen.{place}"][0] for place in range(len(steps))]
        peaks = [np.abs(x).max(0) for x in inputs]
        largest = [np.maximum(a, b) for a, b in zip(largest, peaks, strict=True)] if largest else peaks
        if tokens < MAX_ERROR_TOKENS:
            for one, x in zip(kept, inputs, strict=True):
                one.append(x)
            tokens += ids.shape[1]
    return largest, kept, vectors


def _smoothing_scales(largest: Array, weight: Array, share: float) -> Array:
    """What each channel is divided by, one on average.

    A channel that was quiet on these texts may be loud on others: none is taken for quieter than half of them are.
    """
    inputs = np.maximum(largest, max(float(np.median(largest)), 1e-5))
    matrix = np.maximum(np.abs(weight).max(1), 1e-5)
    factors = inputs**share / matrix ** (1 - share)
    made: Array = (factors / np.exp(np.log(factors).mean())).astype(np.float32)
    return made


def _relative_error(inputs: Sequence[Array], weight: Array, small: QuantizedDense) -> float:
    """The share of the product that is lost, each text with a scale of its own, as it will be."""
    rounded, lost, total = small.whole * small.scale, 0.0, 1e-30
    apart = None if small.outlier_weight is None or small.factors is None else np.flatnonzero(small.factors == 0)
    for x in inputs:
        right = x @ weight
        made = _round_to_int8(x if small.factors is None else x * small.factors) @ rounded
        if apart is not None:
            made += x[:, apart] @ weight[apart]
        lost += float(((made - right) ** 2).sum())
        total += float((right**2).sum())
    return lost / total


def _round_to_int8(x: Array) -> Array:
    """The numbers that a text's activations become: 256 steps from its least to its largest."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    step = (high - low) / 255 or 1.0
    zero = np.rint(-low / step)
    made: Array = (np.clip(np.rint(x / step) + zero, 0, 255) - zero) * step
    return made.astype(np.float32)


def _keep_steps_in_float(
    shape: ModelShape,
    tensors: Mapping[str, Array],
    plan: Int8Plan,
    left: Mapping[tuple[str, ...], float],
    texts: Sequence[Array],
    exact: Sequence[Array],
) -> Int8Plan:
    """As few whole steps in float as the model needs, those that lose most first."""
    wanted = GraphSpec(last=True, target=shape.decoder is not None)
    made: dict[tuple[str, bytes], QuantizedDense] = {}
    for one in _iter_plans(plan, left):
        plan = one
        session = Session(assemble(shape, tensors, wanted, dense=int8_dense(tensors, plan, made)))
        said = [session.run(_session_inputs(shape, ids))["last"][0].mean(0) for ids in texts]
        if float(np.mean([cosine_similarity(a, b) for a, b in zip(said, exact, strict=True)])) >= MIN_COSINE:
            break
    return plan


def _iter_plans(plan: Int8Plan, left: Mapping[tuple[str, ...], float]) -> Iterator[Int8Plan]:
    """The plan itself, then with more and more of the steps that lose most in float."""
    yield plan
    for names in sorted(left, key=lambda names: -left[names])[: int(MAX_FLOAT_SHARE * len(left))]:
        even, aside = (
            {name: one for name, one in part.items() if name not in names}
            for part in (plan.smoothing, plan.outlier_channels)
        )
        plan = Int8Plan(smoothing=even, outlier_channels=aside, float_steps=plan.float_steps | set(names))
        yield plan


def cosine_similarity(a: Array, b: Array) -> float:
    """How alike two vectors point."""
    return float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-30))
