"""A plan for eight bits in a model folder: what each channel is divided by, beside the weights it was measured with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.checkpoint.weights import Mapped, finite, inside, present, read_header, write_file
from clearhead.engine.int8 import Int8Plan, in_blocks
from clearhead.errors import CheckpointError

Array = np.ndarray[Any, Any]
NAME = "int8.safetensors"
EVEN, FLOAT = "even.", "float."


def write_plan(folder: Path, plan: Int8Plan) -> None:
    """Save it in a folder."""
    kept = {f"{EVEN}{name}": factors for name, factors in plan.even.items()}
    write_file(folder / NAME, kept | {f"{FLOAT}{name}": np.ones(1, np.float32) for name in sorted(plan.float_steps)})


def read_plan(folder: Path, tensors: Mapping[str, Array]) -> Int8Plan | None:
    """The plan of a folder, None where it has none; one that does not fit the weights is refused."""
    if not present(folder, NAME):
        return None
    stored = read_header(inside(folder, NAME))
    mapped = Mapped(stored)
    even, steps = {}, set()
    for name in stored:
        kind, _, step = name.partition(".")
        weight = tensors.get(f"{step}.weight")
        if kind + "." not in (EVEN, FLOAT) or weight is None or not in_blocks(step):
            raise CheckpointError(f"{NAME} speaks of {name[:80]!r}, which this model does not have.")
        if kind + "." == FLOAT:
            steps.add(step)
            continue
        factors = mapped.array(name)
        if factors.shape != weight.shape[1:] or not finite(factors) or not (factors > 0).all():
            raise CheckpointError(f"{NAME} does not fit the weights at {step}.")
        even[step] = factors
    return Int8Plan(even=even, float_steps=frozenset(steps))
