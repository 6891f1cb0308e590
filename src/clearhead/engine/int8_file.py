"""A plan for eight bits in a model folder: what each channel is divided by, beside the weights it was measured with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.checkpoint.weights import (
    MappedTensors,
    has_entry,
    is_finite,
    read_header,
    resolve_inside,
    write_safetensors,
)
from clearhead.engine.int8 import Int8Plan, is_in_block
from clearhead.errors import CheckpointError

Array = np.ndarray[Any, Any]
INT8_FILE = "int8.safetensors"
SMOOTHING_PREFIX, FLOAT_PREFIX, OUTLIER_PREFIX = "even.", "float.", "aside."


def write_plan(folder: Path, plan: Int8Plan) -> None:
    """Save it in a folder."""
    kept = {f"{SMOOTHING_PREFIX}{name}": factors for name, factors in plan.smoothing.items()}
    kept |= {f"{OUTLIER_PREFIX}{name}": channels.astype(np.float32) for name, channels in plan.outlier_channels.items()}
    write_safetensors(
        folder / INT8_FILE,
        kept | {f"{FLOAT_PREFIX}{name}": np.ones(1, np.float32) for name in sorted(plan.float_steps)},
    )


def read_plan(folder: Path, tensors: Mapping[str, Array]) -> Int8Plan | None:
    """The plan of a folder, None where it has none; one that does not fit the weights is refused."""
    if not has_entry(folder, INT8_FILE):
        return None
    stored = read_header(resolve_inside(folder, INT8_FILE))
    mapped = MappedTensors(stored)
    even: dict[str, Array] = {}
    aside: dict[str, Array] = {}
    steps = set()
    for name in stored:
        kind, _, step = name.partition(".")
        weight = tensors.get(f"{step}.weight")
        if (
            kind + "." not in (SMOOTHING_PREFIX, FLOAT_PREFIX, OUTLIER_PREFIX)
            or weight is None
            or not (is_in_block(step) or kind + "." == FLOAT_PREFIX)
        ):
            raise CheckpointError(f"{INT8_FILE} speaks of {name[:80]!r}, which this model does not have.")
        if kind + "." == FLOAT_PREFIX:
            steps.add(step)
            continue
        given, width = mapped.array(name), weight.shape[1]
        if kind + "." == SMOOTHING_PREFIX:
            fits, even[step] = given.shape == (width,) and is_finite(given) and bool((given > 0).all()), given
        else:
            fits = _are_valid_channels(given, width)
            aside[step] = given.astype(np.int64) if fits else given
        if not fits:
            raise CheckpointError(f"{INT8_FILE} does not fit the weights at {step}.")
    return Int8Plan(smoothing=even, outlier_channels=aside, float_steps=frozenset(steps))


def _are_valid_channels(given: Array, width: int) -> bool:
    """Whether these are some of so many channels, in their order."""
    if given.ndim != 1 or not 0 < len(given) <= width or not is_finite(given):
        return False
    return bool((given == np.rint(given)).all() and (np.diff(given) > 0).all() and given[0] >= 0 and given[-1] < width)
