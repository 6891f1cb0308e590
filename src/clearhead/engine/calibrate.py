"""Calibrates int8 quantization on texts, layer by layer.

A few channels of a hidden state are many times larger than the others. A single scale for all channels would leave the
small ones almost no bits. Dividing each input channel by a factor and multiplying the matrix by it changes nothing in
float, but makes the rounded values more even (SmoothQuant, 2022). The strength is chosen per layer by its error. Where
smoothing is not enough, the few largest channels are multiplied in float (LLM.int8(), 2022), which costs far less than
keeping the whole layer in float.
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
MIGRATION_STRENGTHS = (
    0.7,
    0.8,
    0.9,
)  # SmoothQuant's alpha: share of the outliers that is moved from activations to weights
MAX_TEXTS = 128  # texts for calibration
MAX_ERROR_TOKENS = 320  # tokens for measuring errors
MAX_LENGTH = 64  # tokens per text
MAX_SMOOTHED_ERROR, MAX_OUTLIER_ERROR = (
    0.75,
    0.33,
)  # smoothing and outlier channels must reduce the error to this share
OUTLIER_CHANNELS = 4  # outlier channels per layer: more help little
MIN_COSINE = 0.998  # mean cosine to the float model's vectors at which no more layers need float
MAX_FLOAT_SHARE = 0.2  # largest share of layers in float

TokenizedTexts = Sequence[Sequence[int]]


def calibrate_int8(
    shape: ModelShape, tensors: Mapping[str, Array], texts: TokenizedTexts, progress: Progress = no_progress
) -> Int8Plan:
    """Find the plan with the smallest error on the texts: each layer smoothed as needed, the worst few in float."""
    longest = min(MAX_LENGTH, *(stack.max_length or MAX_LENGTH for stack in (shape.stack, shape.top)))
    inputs = [np.asarray([ids[:longest]], np.int64) for ids in texts[:MAX_TEXTS] if len(ids)]
    session, layers = _build_tapped_session(shape, tensors)
    largest, samples, exact = _collect_activations(session, layers, shape, inputs)
    smoothing: dict[str, Array] = {}
    outlier_channels: dict[str, Array] = {}
    errors: dict[tuple[str, ...], float] = {}  # remaining error of each layer
    for index, names in enumerate(layers):
        weight = np.concatenate([tensors[f"{name}.weight"] for name in names]).T
        factors, channels, errors[names] = _choose_correction(samples[index], largest[index], weight)
        if factors is not None:
            smoothing[names[0]] = factors
        if channels is not None:
            outlier_channels[names[0]] = channels
        progress("calibrating int8", index + 1, len(layers))
    plan = Int8Plan(smoothing=smoothing, outlier_channels=outlier_channels)
    return _keep_layers_in_float(shape, tensors, plan, errors, inputs, exact)


def _choose_correction(
    inputs: Sequence[Array], largest: Array, weight: Array
) -> tuple[Array | None, Array | None, float]:
    """Choose smoothing factors and outlier channels if they reduce the error enough; return the remaining error."""
    candidates = [_smoothing_scales(largest, weight, strength) for strength in MIGRATION_STRENGTHS]
    smoothed_errors = [_relative_error(inputs, weight, quantize_dense(weight, scales)) for scales in candidates]
    best = int(np.argmin(smoothed_errors))
    plain_error = _relative_error(inputs, weight, quantize_dense(weight))
    is_smoothed = smoothed_errors[best] <= MAX_SMOOTHED_ERROR * plain_error
    factors, error = (candidates[best], smoothed_errors[best]) if is_smoothed else (None, plain_error)
    if len(weight) <= 8 * OUTLIER_CHANNELS:
        return factors, None, error
    peaks = largest if factors is None else largest / factors
    channels = np.sort(np.argsort(-peaks)[:OUTLIER_CHANNELS])
    outlier_error = _relative_error(inputs, weight, quantize_dense(weight, factors, channels))
    return (factors, channels, outlier_error) if outlier_error <= MAX_OUTLIER_ERROR * error else (factors, None, error)


def _build_tapped_session(shape: ModelShape, tensors: Mapping[str, Array]) -> tuple[Session, list[tuple[str, ...]]]:
    """Build a float session that also outputs the input of every dense layer in the blocks."""
    taps: list[tuple[tuple[str, ...], str]] = []
    dense = float_dense(tensors)

    def tapped_dense(g: Graph, x: str, *names: str, bias: str = "") -> tuple[str, ...]:
        if is_in_block(names[0]) and names not in [tapped for tapped, _ in taps]:  # a shared block is measured once
            taps.append((names, x))
        return dense(g, x, *names, bias=bias)

    graph = assemble(shape, tensors, GraphSpec(last=True, target=shape.decoder is not None), dense=tapped_dense)
    for index, (names, x) in enumerate(taps):
        graph.output(f"taps.{index}", x, ("rows", "tokens", tensors[f"{names[0]}.weight"].shape[1]))
    return Session(graph), [names for names, _ in taps]


def _session_inputs(shape: ModelShape, ids: Array) -> dict[str, Array]:
    feeds = {"ids": ids}
    if shape.stack.segments > 1:
        feeds["segments"] = np.zeros_like(ids)
    if shape.decoder is not None:
        feeds["target_ids"] = ids % shape.decoder.vocab_size
    return feeds


def _collect_activations(
    session: Session, layers: Sequence[Any], shape: ModelShape, texts: Sequence[Array]
) -> tuple[list[Array], list[list[Array]], list[Array]]:
    """Collect the largest value of each channel, sample inputs of each layer, and the vector of each text."""
    largest: list[Array] = []
    samples: list[list[Array]] = [[] for _ in layers]
    vectors, tokens = [], 0
    for ids in texts:
        outputs = session.run(_session_inputs(shape, ids))
        vectors.append(outputs["last"][0].mean(0))
        layer_inputs = [outputs[f"taps.{index}"][0] for index in range(len(layers))]
        peaks = [np.abs(x).max(0) for x in layer_inputs]
        largest = [np.maximum(a, b) for a, b in zip(largest, peaks, strict=True)] if largest else peaks
        if tokens < MAX_ERROR_TOKENS:
            for layer_samples, x in zip(samples, layer_inputs, strict=True):
                layer_samples.append(x)
            tokens += ids.shape[1]
    return largest, samples, vectors


def _smoothing_scales(largest: Array, weight: Array, strength: float) -> Array:
    """Compute the factors that divide the input channels, with a geometric mean of 1.

    A channel that is quiet on these texts may be loud on others, so no channel is treated as quieter than the median.
    """
    input_peaks = np.maximum(largest, max(float(np.median(largest)), 1e-5))
    weight_peaks = np.maximum(np.abs(weight).max(1), 1e-5)
    factors = input_peaks**strength / weight_peaks ** (1 - strength)
    scales: Array = (factors / np.exp(np.log(factors).mean())).astype(np.float32)
    return scales


def _relative_error(inputs: Sequence[Array], weight: Array, layer: QuantizedDense) -> float:
    """Compute the relative squared error of an int8 layer, with an activation scale per text as at inference."""
    quantized, lost, total = layer.weight * layer.scale, 0.0, 1e-30
    factors = layer.input_factors
    outliers = None if layer.outlier_weight is None or factors is None else np.flatnonzero(factors == 0)
    for x in inputs:
        expected = x @ weight
        result = _round_to_int8(x if factors is None else x * factors) @ quantized
        if outliers is not None:
            result += x[:, outliers] @ weight[outliers]
        lost += float(((result - expected) ** 2).sum())
        total += float((expected**2).sum())
    return lost / total


def _round_to_int8(x: Array) -> Array:
    """Round activations as int8 inference does: 256 steps from their minimum to their maximum."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    step = (high - low) / 255 or 1.0
    zero = np.rint(-low / step)
    rounded: Array = (np.clip(np.rint(x / step) + zero, 0, 255) - zero) * step
    return rounded.astype(np.float32)


def _keep_layers_in_float(
    shape: ModelShape,
    tensors: Mapping[str, Array],
    plan: Int8Plan,
    errors: Mapping[tuple[str, ...], float],
    texts: Sequence[Array],
    exact: Sequence[Array],
) -> Int8Plan:
    """Keep as few whole layers in float as needed, starting with those with the largest error."""
    spec = GraphSpec(last=True, target=shape.decoder is not None)
    cache: dict[tuple[str, bytes], QuantizedDense] = {}
    for candidate in _iter_plans(plan, errors):
        plan = candidate
        session = Session(assemble(shape, tensors, spec, dense=int8_dense(tensors, plan, cache)))
        vectors = [session.run(_session_inputs(shape, ids))["last"][0].mean(0) for ids in texts]
        if float(np.mean([cosine_similarity(a, b) for a, b in zip(vectors, exact, strict=True)])) >= MIN_COSINE:
            break
    return plan


def _iter_plans(plan: Int8Plan, errors: Mapping[tuple[str, ...], float]) -> Iterator[Int8Plan]:
    """Yield the plan, then plans with more and more of the worst layers in float."""
    yield plan
    for names in sorted(errors, key=lambda names: -errors[names])[: int(MAX_FLOAT_SHARE * len(errors))]:
        smoothing, outlier_channels = (
            {name: array for name, array in part.items() if name not in names}
            for part in (plan.smoothing, plan.outlier_channels)
        )
        plan = Int8Plan(
            smoothing=smoothing, outlier_channels=outlier_channels, float_steps=plan.float_steps | set(names)
        )
        yield plan


def cosine_similarity(a: Array, b: Array) -> float:
    """Cosine similarity of two vectors."""
    return float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-30))
