"""A small network of every family with stirred weights, and batches for it."""

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

EVERY = tuple(FIXED_CONFIGS)
DECODERS = ("openai-gpt", "gpt2", *SEQ2SEQ_FAMILIES)
ENCODERS = tuple(family for family in EVERY if family not in DECODERS)
HEAD = {
    family: "causal" if "gpt" in family else "seq2seq" if family in SEQ2SEQ_FAMILIES else "masked" for family in EVERY
}
PARTS = [
    (family, part)
    for family in EVERY
    for part in (("encoder", "decoder", "cross") if family in SEQ2SEQ_FAMILIES else ("encoder",))
]
LENGTHS = (9, 6, 3)


def shape_of(family: str, head: str | None = "its own", **changes: Any) -> ModelShape:
    """The family's small shape under its word head, another, or none."""
    head = HEAD[family] if head == "its own" else head
    return FAMILIES[family].model_shape(FIXED_CONFIGS[family] | changes, head, 3)


def network_of(family: str, head: str | None = "its own", **changes: Any) -> Network:
    """A network whose numbers all matter."""
    made: Network = perturb_weights(build_network(shape_of(family, head, **changes), seed=0))
    return made


def model_of(family: str, head: str | None = "its own", **changes: Any) -> Model:
    """The same as a Model that can be saved."""
    return Model(
        runner=CoreRunner(network_of(family, head, **changes)),
        config=FIXED_CONFIGS[family] | changes,
        family=FAMILIES[family],
        head=HEAD[family] if head == "its own" else head,
        labels=("a", "b", "c"),
    )


def batch_of(family: str, lengths: tuple[int, ...] = LENGTHS, **how: Any) -> TokenBatch:
    """A ragged batch for the small network."""
    return make_batch_for(family, FIXED_CONFIGS[family], lengths, **how)


def tensors_of(given: TokenBatch) -> dict[str, torch.Tensor]:
    """The batch as keyword arguments of a network."""
    return {name: torch.tensor(array) for name, array in given.to_clearhead().items()}


def real(result: ForwardOutput, given: TokenBatch) -> list[torch.Tensor]:
    """Every output of a pass at real positions."""
    mask = torch.tensor(given.mask)
    made = [state[mask] for state in result.hidden]
    top = mask
    if result.target_hidden is not None:
        top = torch.tensor(given.target_mask)
        made += [state[top] for state in result.target_hidden]
    if result.logits is not None:
        made.append(result.logits[top] if result.logits.shape[:2] == top.shape else result.logits)
    if result.pooled is not None:
        made.append(result.pooled)
    return made


def close(a: list[torch.Tensor], b: list[torch.Tensor], tolerance: float = 1e-5) -> None:
    """Two passes gave the same."""
    assert len(a) == len(b) > 0
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=tolerance)
