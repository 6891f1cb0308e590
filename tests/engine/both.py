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


def build_perturbed(shape: ModelShape, seed: int = 0) -> Network:
    """Build a network in which every weight affects the output."""
    perturbed: Network = perturb_weights(build_network(shape, seed=seed), seed)
    return perturbed


def build_runners(net: Network, threads: int = 1) -> tuple[CoreRunner, EngineRunner]:
    """Create both runtimes with the same weights."""
    return CoreRunner(net, "cpu"), EngineRunner(net.shape, named_arrays(net), threads=threads)


def run_checked(runner: Any, batch: TokenBatch, *, hidden: bool = True) -> Output:
    """Run a batch after the input checks of `Model.run`."""
    inputs, _ = check_batch(runner.shape, *(batch.to_clearhead().get(name) for name in NAMES))
    out: Output = runner.run(inputs, hidden=hidden)
    return out


NAMES = ("ids", "mask", "segments", "target_ids", "target_mask")


def real_outputs(out: Output, batch: TokenBatch) -> dict[str, Array]:
    """Return every output at real tokens, by name."""
    outputs = {f"hidden {layer}": state[batch.mask] for layer, state in enumerate(out.hidden)}
    target_mask = batch.mask
    if out.target_hidden is not None:
        assert batch.target_mask is not None
        target_mask = batch.target_mask
        outputs |= {f"target hidden {layer}": state[target_mask] for layer, state in enumerate(out.target_hidden)}
    if out.last is not None:
        outputs["last"] = out.last[batch.mask]
    if out.logits is not None:
        outputs["logits"] = out.logits[target_mask] if out.logits.shape[:2] == target_mask.shape else out.logits
    for name in ("pooled", "next_sentence"):
        if getattr(out, name) is not None:
            outputs[name] = getattr(out, name)
    return outputs


def max_difference(expected: dict[str, Array], actual: dict[str, Array]) -> float:
    """Return the largest difference, relative for large values; both must have the same outputs."""
    assert expected.keys() == actual.keys()
    return max(
        float((np.abs(expected[name] - actual[name]) / np.maximum(np.abs(expected[name]), 1)).max())
        for name in expected
    )


def run_file(path: Path, feeds: dict[str, Array]) -> dict[str, Array]:
    """Run a file with ONNX Runtime's default settings."""
    options = import_onnxruntime().SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 2  # warnings, too
    session = import_onnxruntime().InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    assert {node.name for node in session.get_inputs()} == feeds.keys()
    return dict(zip((node.name for node in session.get_outputs()), session.run(None, feeds), strict=True))
