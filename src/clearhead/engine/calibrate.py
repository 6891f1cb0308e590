"""How to compute a model in eight bits without losing it: measured on texts, step by step.

A few channels of a hidden state are many times as large as the others, and one scale for all of them leaves the small
ones no bits. Dividing each channel by a number of its own, and multiplying the matrix by it, changes nothing in float
and evens out what must be rounded (SmoothQuant, 2022). How far to go is chosen for each step by its own error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from clearhead.engine.assemble import Wanted, assemble
from clearhead.engine.graph import Graph
from clearhead.engine.int8 import Int8Plan, in_blocks, int8_dense, quantised
from clearhead.engine.parts import float_dense
from clearhead.engine.session import Session
from clearhead.shape import ModelShape

Array = np.ndarray[Any, Any]
SHARES = (0.7, 0.8, 0.9)  # of the unevenness that goes from the input to the matrix
MOST_TEXTS = 128  # that are looked at
MOST_TOKENS = 320  # that errors are measured on
LONGEST = 64  # tokens of a text that are read
ENOUGH = 0.998  # mean cosine with the float model's vectors that needs no further step in float
MOST_FLOAT = 0.2  # of the steps may stay in float

Tokens = Sequence[Sequence[int]]
Told = Callable[[int, int], None]


def calibrated(shape: ModelShape, tensors: Mapping[str, Array], texts: Tokens, told: Told | None = None) -> Int8Plan:
    """The plan that loses least on some texts: each step evened out as it needs, the worst few in float."""
    taken = [np.asarray([ids[:LONGEST]], np.int64) for ids in texts[:MOST_TEXTS] if len(ids)]
    session, steps = _tapped(shape, tensors)
    largest, kept, exact = _looked(session, steps, shape, taken)
    even: dict[str, Array] = {}
    errors: dict[tuple[str, ...], float] = {}
    for place, names in enumerate(steps):
        weight = np.concatenate([tensors[f"{name}.weight"] for name in names]).T
        choices = [None, *(_factors(largest[place], weight, share) for share in SHARES)]
        found = [(_error(kept[place], weight, factors), number) for number, factors in enumerate(choices)]
        errors[names], chosen = min(found)
        if (factors := choices[chosen]) is not None:
            even[names[0]] = factors
        if told is not None:
            told(place + 1, len(steps))
    return _with_enough_float(shape, tensors, even, errors, taken, exact)


def _tapped(shape: ModelShape, tensors: Mapping[str, Array]) -> tuple[Session, list[tuple[str, ...]]]:
    """A float graph that also gives the input of every dense step in its blocks."""
    seen: list[tuple[tuple[str, ...], str]] = []
    dense = float_dense(tensors)

    def product(g: Graph, x: str, *names: str) -> tuple[str, ...]:
        if in_blocks(names[0]) and names not in [known for known, _ in seen]:  # a shared block is looked at once
            seen.append((names, x))
        return dense(g, x, *names)

    graph = assemble(shape, tensors, Wanted(last=True, target=shape.decoder is not None), dense=product)
    for place, (names, x) in enumerate(seen):
        graph.output(f"seen.{place}", x, ("rows", "tokens", tensors[f"{names[0]}.weight"].shape[1]))
    return Session(graph), [names for names, _ in seen]


def _given(shape: ModelShape, ids: Array) -> dict[str, Array]:
    given = {"ids": ids}
    if shape.stack.segments > 1:
        given["segments"] = np.zeros_like(ids)
    if shape.decoder is not None:
        given["target_ids"] = ids % shape.decoder.vocab
    return given


def _looked(
    session: Session, steps: Sequence[Any], shape: ModelShape, texts: Sequence[Array]
) -> tuple[list[Array], list[list[Array]], list[Array]]:
    """The largest number of every channel, some inputs of every step, and the vector of every text."""
    largest: list[Array] = []
    kept: list[list[Array]] = [[] for _ in steps]
    vectors, tokens = [], 0
    for ids in texts:
        found = session.run(_given(shape, ids))
        vectors.append(found["last"][0].mean(0))
        inputs = [found[f"seen.{place}"][0] for place in range(len(steps))]
        peaks = [np.abs(x).max(0) for x in inputs]
        largest = [np.maximum(a, b) for a, b in zip(largest, peaks, strict=True)] if largest else peaks
        if tokens < MOST_TOKENS:
            for one, x in zip(kept, inputs, strict=True):
                one.append(x)
            tokens += ids.shape[1]
    return largest, kept, vectors


def _factors(largest: Array, weight: Array, share: float) -> Array:
    """What each channel is divided by, one on average.

    A channel that was quiet on these texts may be loud on others: none is taken for quieter than half of them are.
    """
    inputs = np.maximum(largest, max(float(np.median(largest)), 1e-5))
    matrix = np.maximum(np.abs(weight).max(1), 1e-5)
    factors = inputs**share / matrix ** (1 - share)
    made: Array = (factors / np.exp(np.log(factors).mean())).astype(np.float32)
    return made


def _error(inputs: Sequence[Array], weight: Array, factors: Array | None) -> float:
    """The share of the product that is lost, each text with a scale of its own, as it will be."""
    divided = np.ones(len(weight), np.float32) if factors is None else factors
    whole, scale = quantised(weight * divided[:, None])
    rounded, lost, total = whole * scale, 0.0, 1e-30
    for x in inputs:
        right = x @ weight
        lost += float(((_as_bytes(x / divided) @ rounded - right) ** 2).sum())
        total += float((right**2).sum())
    return lost / total


def _as_bytes(x: Array) -> Array:
    """The numbers that a text's activations become: 256 steps from its least to its largest."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    step = (high - low) / 255 or 1.0
    zero = np.rint(-low / step)
    made: Array = (np.clip(np.rint(x / step) + zero, 0, 255) - zero) * step
    return made.astype(np.float32)


def _with_enough_float(
    shape: ModelShape,
    tensors: Mapping[str, Array],
    even: Mapping[str, Array],
    errors: Mapping[tuple[str, ...], float],
    texts: Sequence[Array],
    exact: Sequence[Array],
) -> Int8Plan:
    """The steps that lose most stay in float, one after the other, as long as the whole model needs it."""
    wanted = Wanted(last=True, target=shape.decoder is not None)
    worst = sorted(errors, key=lambda names: -errors[names])
    plan = Int8Plan(even=even)
    for count in range(int(MOST_FLOAT * len(worst)) + 1):
        left = frozenset(name for names in worst[:count] for name in names)
        plan = Int8Plan(even={name: one for name, one in even.items() if name not in left}, float_steps=left)
        session = Session(assemble(shape, tensors, wanted, dense=int8_dense(tensors, plan)))
        said = [session.run(_given(shape, ids))["last"][0].mean(0) for ids in texts]
        if float(np.mean([cosine(a, b) for a, b in zip(said, exact, strict=True)])) >= ENOUGH:
            break
    return plan


def cosine(a: Array, b: Array) -> float:
    """How alike two vectors point."""
    return float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-30))
