"""A small network of every family with perturbed weights, and batches for it."""

from __future__ import annotations

from typing import Any

import torch

from clearhead import Model
from clearhead.core.build import build_network
from clearhead.core.models import ForwardOutput, Network
from clearhead.core.runner import CoreRunner
from clearhead.families import FAMILIES
from clearhead.shape import ModelShape
from tests.family_configs import FIXED_CONFIGS, SEQ2SEQ_FAMILIES, make_batch_for
from tests.parity_models import TokenBatch, perturb_weights

FAMILY_NAMES = tuple(FIXED_CONFIGS)
DECODERS = ("openai-gpt", "gpt2", *SEQ2SEQ_FAMILIES)
ENCODERS = tuple(family for family in FAMILY_NAMES if family not in DECODERS)
HEAD = {
    family: "causal" if "gpt" in family else "seq2seq" if family in SEQ2SEQ_FAMILIES else "masked"
    for family in FAMILY_NAMES
}
PARTS = [
    (family, part)
    for family in FAMILY_NAMES
    for part in (("encoder", "decoder", "cross") if family in SEQ2SEQ_FAMILIES else ("encoder",))
]
LENGTHS = (9, 6, 3)


def shape_of(family: str, head: str | None = "default", **changes: Any) -> ModelShape:
    """Return the small shape of a family, with its language-model head, another head or none."""
    head = HEAD[family] if head == "default" else head
    return FAMILIES[family].model_shape(FIXED_CONFIGS[family] | changes, head, 3)


def network_of(family: str, head: str | None = "default", **changes: Any) -> Network:
    """Build a network in which every weight affects the output."""
    network: Network = perturb_weights(build_network(shape_of(family, head, **changes), seed=0))
    return network


def model_of(family: str, head: str | None = "default", **changes: Any) -> Model:
    """Build the same network as a Model that can be saved."""
    return Model(
        runner=CoreRunner(network_of(family, head, **changes)),
        config=FIXED_CONFIGS[family] | changes,
        family=FAMILIES[family],
        head=HEAD[family] if head == "default" else head,
        labels=("a", "b", "c"),
    )


def batch_of(family: str, lengths: tuple[int, ...] = LENGTHS, **options: Any) -> TokenBatch:
    """Create a ragged batch for the small network."""
    return make_batch_for(family, FIXED_CONFIGS[family], lengths, **options)


def tensors_of(batch: TokenBatch) -> dict[str, torch.Tensor]:
    """Convert the batch to keyword arguments of a network."""
    return {name: torch.tensor(array) for name, array in batch.to_clearhead().items()}


def real_outputs(result: ForwardOutput, batch: TokenBatch) -> list[torch.Tensor]:
    """List every output of a pass at real tokens."""
    mask = torch.tensor(batch.mask)
    outputs = [state[mask] for state in result.hidden]
    target_mask = mask
    if result.target_hidden is not None:
        target_mask = torch.tensor(batch.target_mask)
        outputs += [state[target_mask] for state in result.target_hidden]
    if result.logits is not None:
        outputs.append(result.logits[target_mask] if result.logits.shape[:2] == target_mask.shape else result.logits)
    if result.pooled is not None:
        outputs.append(result.pooled)
    return outputs


def assert_close(a: list[torch.Tensor], b: list[torch.Tensor], tolerance: float = 1e-5) -> None:
    """Check that two passes have equal outputs."""
    assert len(a) == len(b) > 0
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=tolerance)
