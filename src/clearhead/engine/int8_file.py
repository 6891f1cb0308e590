"""The int8 plan in a model folder, stored next to the weights that it was calibrated on."""

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
    """Write the plan to a folder."""
    arrays = {f"{SMOOTHING_PREFIX}{name}": factors for name, factors in plan.smoothing.items()}
    arrays |= {
        f"{OUTLIER_PREFIX}{name}": channels.astype(np.float32) for name, channels in plan.outlier_channels.items()
    }
    write_safetensors(
        folder / INT8_FILE,
        arrays | {f"{FLOAT_PREFIX}{name}": np.ones(1, np.float32) for name in sorted(plan.float_steps)},
    )


def read_plan(folder: Path, tensors: Mapping[str, Array]) -> Int8Plan | None:
    """Read the plan of a folder, or None; a plan that does not fit the weights is an error."""
    if not has_entry(folder, INT8_FILE):
        return None
    stored = read_header(resolve_inside(folder, INT8_FILE))
    mapped = MappedTensors(stored)
    smoothing: dict[str, Array] = {}
    outlier_channels: dict[str, Array] = {}
    steps = set()
    for name in stored:
        kind, _, step = name.partition(".")
        weight = tensors.get(f"{step}.weight")
        if (
            kind + "." not in (SMOOTHING_PREFIX, FLOAT_PREFIX, OUTLIER_PREFIX)
            or weight is None
            or not (is_in_block(step) or kind + "." == FLOAT_PREFIX)
        ):
            raise CheckpointError(f"{INT8_FILE} names {name[:80]!r}, which is not a dense layer of this model.")
        if kind + "." == FLOAT_PREFIX:
            steps.add(step)
            continue
        values, width = mapped.array(name), weight.shape[1]
        if kind + "." == SMOOTHING_PREFIX:
            fits, smoothing[step] = values.shape == (width,) and is_finite(values) and bool((values > 0).all()), values
        else:
            fits = _are_valid_channels(values, width)
            outlier_channels[step] = values.astype(np.int64) if fits else values
        if not fits:
            raise CheckpointError(f"{INT8_FILE} does not fit the weights at {step}.")
    return Int8Plan(smoothing=smoothing, outlier_channels=outlier_channels, float_steps=frozenset(steps))


def _are_valid_channels(values: Array, width: int) -> bool:
    """Whether the values are ascending channel indices below `width`."""
    if values.ndim != 1 or not 0 < len(values) <= width or not is_finite(values):
        return False
    return bool(
        (values == np.rint(values)).all() and (np.diff(values) > 0).all() and values[0] >= 0 and values[-1] < width
    )
