"""A network and the engine's graph of the same weights, run on the same batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from clearhead.batch import Output
from clearhead.core.build import build_network, named_arrays
from clearhead.core.models import Network
from clearhead.core.runner import CoreRunner
from clearhead.engine.runner import EngineRunner
from clearhead.engine.session import import_onnxruntime
from clearhead.families import FAMILIES
from clearhead.model.inputs import check_batch
from clearhead.shape import ModelShape
from tests.family_configs import FIXED_CONFIGS
from tests.parity_models import TokenBatch, perturb_weights

Array = np.ndarray[Any, Any]
TOLERANCE = 1e-4

HEADS = [(family, head) for family in FIXED_CONFIGS for head in (None, *FAMILIES[family].heads)]


def network(shape: ModelShape, seed: int = 0) -> Network:
    """A network whose numbers all matter."""
    made: Network = perturb_weights(build_network(shape, seed=seed), seed)
    return made


def runners(net: Network, threads: int = 1) -> tuple[CoreRunner, EngineRunner]:
    """The same weights in both runtimes."""
    return CoreRunner(net, "cpu"), EngineRunner(net.shape, named_arrays(net), threads=threads)


def said(runner: Any, given: TokenBatch, *, hidden: bool = True) -> Output:
    """What a runner says of a batch, its inputs checked as `Model.run` does it."""
    batch, _ = check_batch(runner.shape, *(given.to_clearhead().get(name) for name in NAMES))
    out: Output = runner.run(batch, hidden=hidden)
    return out


NAMES = ("ids", "mask", "segments", "target_ids", "target_mask")


def arrays(out: Output, given: TokenBatch) -> dict[str, Array]:
    """Every output at real positions, by name."""
    made = {f"hidden {place}": state[given.mask] for place, state in enumerate(out.hidden)}
    top = given.mask
    if out.target_hidden is not None:
        assert given.target_mask is not None
        top = given.target_mask
        made |= {f"target hidden {place}": state[top] for place, state in enumerate(out.target_hidden)}
    if out.last is not None:
        made["last"] = out.last[given.mask]
    if out.logits is not None:
        made["logits"] = out.logits[top] if out.logits.shape[:2] == top.shape else out.logits
    for name in ("pooled", "next_sentence"):
        if getattr(out, name) is not None:
            made[name] = getattr(out, name)
    return made


def furthest(one: dict[str, Array], other: dict[str, Array]) -> float:
    """The largest difference, relative where numbers are large; the two must have the same outputs."""
    assert one.keys() == other.keys()
    return max(float((np.abs(one[name] - other[name]) / np.maximum(np.abs(one[name]), 1)).max()) for name in one)


def from_file(path: Path, given: dict[str, Array]) -> dict[str, Array]:
    """What ONNX Runtime says of a file, as it loads files for everybody."""
    options = import_onnxruntime().SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 2  # warnings, too
    session = import_onnxruntime().InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    assert {one.name for one in session.get_inputs()} == given.keys()
    return dict(zip((one.name for one in session.get_outputs()), session.run(None, given), strict=True))
