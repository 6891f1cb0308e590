"""Packed texts have the same outputs and gradients as padded ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from clearhead.core.attention import Recorder
from clearhead.core.models import ForwardOutput, Network
from clearhead.families import FAMILIES
from tests.core.networks import (
    ENCODERS,
    FAMILY_NAMES,
    LENGTHS,
    assert_close,
    batch_of,
    network_of,
    real_outputs,
    tensors_of,
)
from tests.family_configs import SEQ2SEQ_FAMILIES
from tests.parity_models import TokenBatch

CASES = [
    (family, head)
    for family in FAMILY_NAMES
    for head in (None, *FAMILIES[family].heads)
    if not (family in SEQ2SEQ_FAMILIES and head in (None, "encode"))
]


def run_packed(network: Network, batch: TokenBatch, **options: Any) -> ForwardOutput:
    parts, mask = tensors_of(batch), torch.tensor(batch.mask)
    segments = parts["segments"][mask] if "segments" in parts else None
    targets = {name: parts[name] for name in ("target_ids", "target_mask") if name in parts}
    return network(parts["ids"][mask], None, segments, **targets, lengths=mask.sum(1), **options)


def packed_outputs(result: ForwardOutput, batch: TokenBatch) -> list[torch.Tensor]:
    """List the outputs of a packed pass in the order of `real_outputs`."""
    mask = torch.tensor(batch.mask if batch.target_mask is None else batch.target_mask)
    outputs = list(result.hidden)
    if result.target_hidden is not None:
        outputs += [state[mask] for state in result.target_hidden]
    if result.logits is not None:
        outputs.append(result.logits[mask] if result.logits.shape[:2] == mask.shape else result.logits)
    if result.pooled is not None:
        outputs.append(result.pooled)
    return outputs


@pytest.mark.thin(3)
@pytest.mark.parametrize("lengths", [LENGTHS, (4, 4), (1, 5), (7,)])
@pytest.mark.parametrize(("family", "head"), CASES)
def test_packed_is_padded(family: str, head: str | None, lengths: tuple[int, ...]) -> None:
    network, batch = network_of(family, head), batch_of(family, lengths)
    with torch.no_grad():
        padded = real_outputs(network(**tensors_of(batch)), batch)
        assert_close(packed_outputs(run_packed(network, batch), batch), padded)
        assert_close(packed_outputs(run_packed(network, batch, kernel=Recorder()), batch), padded)


@pytest.mark.thin(3)
@pytest.mark.parametrize(("family", "head"), CASES)
def test_packed_has_the_same_gradients(family: str, head: str | None) -> None:
    network, batch = network_of(family, head), batch_of(family)
    grads = []
    for compute in (
        lambda: real_outputs(network(**tensors_of(batch)), batch),
        lambda: packed_outputs(run_packed(network, batch), batch),
    ):
        network.zero_grad()
        torch.stack([(x**2).mean() for x in compute()]).sum().backward()
        grads.append({name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None})
    assert grads[0].keys() == grads[1].keys()
    for name, grad in grads[0].items():
        torch.testing.assert_close(grads[1][name], grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ENCODERS)
def test_control_texts_do_not_leak_into_each_other(family: str) -> None:
    """Reordering texts only reorders their outputs, and changing a token affects only its text."""
    network, batch = network_of(family, None), batch_of(family)
    order = [2, 0, 1]
    reordered = TokenBatch(
        ids=batch.ids[order],
        mask=batch.mask[order],
        segments=None if batch.segments is None else batch.segments[order],
    )
    sizes = batch.mask.sum(1).tolist()
    with torch.no_grad():
        first = run_packed(network, batch).last.split(sizes)
        second = run_packed(network, reordered).last.split([sizes[row] for row in order])
        for index, row in enumerate(order):
            torch.testing.assert_close(second[index], first[row], rtol=0, atol=1e-5)
        batch.ids[1, 2] = (batch.ids[1, 2] + 1) % 40 + 5
        changed = run_packed(network, batch).last.split(sizes)
    assert torch.equal(changed[0], first[0])
    assert torch.equal(changed[2], first[2])
    assert (changed[1] - first[1]).abs().max() > 1e-4
