"""Compare recorded values with those of this version, bit for bit or within a tolerance."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from clearhead.deprecation import PLAN_SETTINGS, TRAINING_SETTINGS

FORMER_NAMES = TRAINING_SETTINGS | PLAN_SETTINGS  # settings that have another name in files of this version
# A softmax is invariant to a constant added to all its inputs, so the gradient of these biases is zero except for
# rounding, which AdamW scales up to full steps: biases of keys, of token and option scores, and of the inputs of these.
ROUNDING = ("key.bias", "c_attn.bias", "in_proj_bias")
ROUNDING_OF_SCORES = (*ROUNDING, "qa_outputs.bias", "classifier.bias", "output.LayerNorm.bias")
NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")


def find_differences(recorded: Any, now: Any, tolerance: float, path: str = "") -> list[str]:
    """List where two nested values differ by more than a tolerance, which is relative for numbers above 1.

    Every recorded key must still exist, under its current name if it is a renamed setting; new keys are allowed. The
    version of the writer (`clearhead`) may differ, and so may the wording of notes, but not the numbers in them.
    """
    if isinstance(recorded, Mapping) and isinstance(now, Mapping):
        recorded = {key if key in now else FORMER_NAMES.get(key, key): value for key, value in recorded.items()}
        missing = [f"{path}.{key} is missing" for key in recorded if key not in now]
        common = [key for key in recorded if key in now and key != "clearhead"]
        return missing + [
            difference
            for key in common
            for difference in find_differences(recorded[key], now[key], tolerance, f"{path}.{key}")
        ]
    if isinstance(recorded, list) and isinstance(now, list | tuple) and len(recorded) == len(now):
        if path.endswith(".notes"):
            recorded, now = [list(map(NUMBER.findall, notes)) for notes in (recorded, now)]
        pairs = enumerate(zip(recorded, now, strict=True))
        return [
            difference for index, pair in pairs for difference in find_differences(*pair, tolerance, f"{path}[{index}]")
        ]
    if _is_number(recorded) and _is_number(now):
        same = math.isclose(recorded, now, rel_tol=tolerance, abs_tol=tolerance)
    else:
        same = type(recorded) is type(now) and recorded == now
    return [] if same else [f"{path}: {recorded!r} was recorded, now {now!r}"]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def find_weight_differences(
    recorded: Mapping[str, np.ndarray[Any, Any]],
    now: Mapping[str, np.ndarray[Any, Any]],
    tolerance: float,
    case: str = "",
) -> list[str]:
    """List tensors that are new, missing, of another shape or type, or off by more than a tolerance (0: bit for bit).

    With a tolerance, values determined only by rounding are skipped, since answers do not depend on them.
    """
    rounding = ROUNDING_OF_SCORES if case.startswith(("span", "choice")) else ROUNDING
    names = [f"{name} is only on one side" for name in sorted(recorded.keys() ^ now.keys())]
    for name in sorted(recorded.keys() & now.keys()):
        before, after = recorded[name], now[name]
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            names.append(f"{name}: {before.shape} of {before.dtype} was recorded, now {after.shape} of {after.dtype}")
        elif tolerance == 0 and before.tobytes() != after.tobytes():
            names.append(f"{name}: other bits")
        elif (
            tolerance and not name.endswith(rounding) and not np.allclose(before, after, rtol=tolerance, atol=tolerance)
        ):
            names.append(f"{name}: differs by up to {np.abs(before - after).max():.1e}")
    return names
