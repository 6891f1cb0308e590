"""Texts end to end without padding: the same outputs and the same gradients as in a padded rectangle."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from clearhead.core.attention import Recorder
from clearhead.core.models import ForwardOutput, Network
from clearhead.families import FAMILIES
from tests.core.networks import ENCODERS, EVERY, LENGTHS, batch_of, close, network_of, real, tensors_of
from tests.family_configs import SEQ2SEQ_FAMILIES
from tests.parity_models import TokenBatch

CASES = [
    (family, head)
    for family in EVERY
    for head in (None, *FAMILIES[family].heads)
    if not (family in SEQ2SEQ_FAMILIES and head in (None, "encode"))
]


def packed(network: Network, given: TokenBatch, **how: Any) -> ForwardOutput:
    parts, mask = tensors_of(given), torch.tensor(given.mask)
    segments = parts["segments"][mask] if "segments" in parts else None
    targets = {name: parts[name] for name in ("target_ids", "target_mask") if name in parts}
    return network(parts["ids"][mask], None, segments, **targets, lengths=mask.sum(1), **how)


def as_they_lie(result: ForwardOutput, given: TokenBatch) -> list[torch.Tensor]:
    """The same list as `real`, from a packed pass."""
    mask = torch.tensor(given.mask if given.target_mask is None else given.target_mask)
    made = list(result.hidden)
    if result.target_hidden is not None:
        made += [state[mask] for state in result.target_hidden]
    if result.logits is not None:
        made.append(result.logits[mask] if result.logits.shape[:2] == mask.shape else result.logits)
    if result.pooled is not None:
        made.append(result.pooled)
    return made


@pytest.mark.thin(3)
@pytest.mark.parametrize("lengths", [LENGTHS, (4, 4), (1, 5), (7,)])
@pytest.mark.parametrize(("family", "head"), CASES)
def test_packed_is_padded(family: str, head: str | None, lengths: tuple[int, ...]) -> None:
    network, given = network_of(family, head), batch_of(family, lengths)
    with torch.no_grad():
        padded = real(network(**tensors_of(given)), given)
        close(as_they_lie(packed(network, given), given), padded)
        close(as_they_lie(packed(network, given, kernel=Recorder()), given), padded)


@pytest.mark.thin(3)
@pytest.mark.parametrize(("family", "head"), CASES)
def test_packed_has_the_same_gradients(family: str, head: str | None) -> None:
    network, given = network_of(family, head), batch_of(family)
    grads = []
    for outputs in (
        lambda: real(network(**tensors_of(given)), given),
        lambda: as_they_lie(packed(network, given), given),
    ):
        network.zero_grad()
        torch.stack([(x**2).mean() for x in outputs()]).sum().backward()
        grads.append({name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None})
    assert grads[0].keys() == grads[1].keys()
    for name, grad in grads[0].items():
        torch.testing.assert_close(grads[1][name], grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ENCODERS)
def test_control_texts_do_not_leak_into_each_other(family: str) -> None:
    """The order of texts is changed: each still has its own vectors; one word is changed: only its text hears it."""
    network, given = network_of(family, None), batch_of(family)
    order = [2, 0, 1]
    turned = TokenBatch(
        ids=given.ids[order],
        mask=given.mask[order],
        segments=None if given.segments is None else given.segments[order],
    )
    sizes = given.mask.sum(1).tolist()
    with torch.no_grad():
        first = packed(network, given).last.split(sizes)
        second = packed(network, turned).last.split([sizes[row] for row in order])
        for place, row in enumerate(order):
            torch.testing.assert_close(second[place], first[row], rtol=0, atol=1e-5)
        given.ids[1, 2] = (given.ids[1, 2] + 1) % 40 + 5
        changed = packed(network, given).last.split(sizes)
    assert torch.equal(changed[0], first[0])
    assert torch.equal(changed[2], first[2])
    assert (changed[1] - first[1]).abs().max() > 1e-4
