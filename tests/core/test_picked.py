"""A pass that computes of the last layer only what the head reads: the same logits and gradients, and less work."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from clearhead.core.attention import Recorder
from clearhead.core.models import ForwardOutput, Network
from clearhead.families import FAMILIES
from tests.core.networks import EVERY, LENGTHS, batch_of, network_of, tensors_of
from tests.family_configs import SEQ2SEQ_FAMILIES
from tests.parity_models import TokenBatch

ONE = [  # heads that read one token of each text
    (family, head)
    for family in EVERY
    if family not in SEQ2SEQ_FAMILIES
    for head in FAMILIES[family].heads
    if network_of(family, head).shape.head is not None
    and network_of(family, head).shape.head.pooling in ("first", "last", "pooled")  # type: ignore[union-attr]
]


def passed(network: Network, given: TokenBatch, *, packed: bool, **how: Any) -> ForwardOutput:
    parts, mask = tensors_of(given), torch.tensor(given.mask)
    if not packed:
        return network(**parts, **how)
    segments = parts["segments"][mask] if "segments" in parts else None
    return network(parts["ids"][mask], None, segments, lengths=mask.sum(1), **how)


def test_there_are_such_heads() -> None:
    assert {family for family, _ in ONE} >= {"bert", "roberta", "distilbert", "electra", "albert", "deberta-v2", "gpt2"}


@pytest.mark.thin(5)
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("lengths", [LENGTHS, (4, 4), (1, 5)], ids=str)
@pytest.mark.parametrize(("family", "head"), ONE)
def test_the_same_logits_and_gradients(family: str, head: str, lengths: tuple[int, ...], packed: bool) -> None:
    network, given = network_of(family, head), batch_of(family, lengths)
    found = []
    for all_tokens in (True, False):
        network.zero_grad()
        result = passed(network, given, packed=packed, all_tokens=all_tokens)
        assert result.logits is not None
        result.logits.square().sum().backward()
        found.append((result, {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}))
    (all_of_it, gradients), (part, fewer) = found
    assert part.last.shape == (len(lengths), 1, all_of_it.last.shape[-1])  # one token of each text
    torch.testing.assert_close(part.logits, all_of_it.logits, rtol=0, atol=1e-5)
    assert gradients.keys() == fewer.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(fewer[name], gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("family", "head"), ONE)
def test_step_by_step_too(family: str, head: str) -> None:
    network, given = network_of(family, head), batch_of(family)
    with torch.no_grad():
        fused = passed(network, given, packed=True, all_tokens=False).logits
        torch.testing.assert_close(
            passed(network, given, packed=True, all_tokens=False, kernel=Recorder()).logits, fused, rtol=0, atol=1e-5
        )


@pytest.mark.parametrize("family", ["bert", "modernbert", "t5"])
def test_where_every_token_is_read_nothing_changes(family: str) -> None:
    head = "seq2seq" if family == "t5" else "tag"
    network, given = network_of(family, head), batch_of(family)
    with torch.no_grad():
        whole = network(**tensors_of(given))
        part = network(**tensors_of(given), all_tokens=False)
    assert torch.equal(part.last, whole.last)
    assert torch.equal(part.logits, whole.logits)
