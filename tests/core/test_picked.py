"""Computing only the tokens that the head reads gives the same logits and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from clearhead.core.attention import Recorder
from clearhead.core.models import ForwardOutput, Network
from clearhead.families import FAMILIES
from tests.core.networks import FAMILY_NAMES, LENGTHS, batch_of, network_of, tensors_of
from tests.family_configs import SEQ2SEQ_FAMILIES
from tests.parity_models import TokenBatch

ONE_TOKEN_HEADS = [  # heads that read one token of each text
    (family, head)
    for family in FAMILY_NAMES
    if family not in SEQ2SEQ_FAMILIES
    for head in FAMILIES[family].heads
    if network_of(family, head).shape.head is not None
    and network_of(family, head).shape.head.pooling in ("first", "last", "pooled")  # type: ignore[union-attr]
]


def run_network(network: Network, batch: TokenBatch, *, packed: bool, **options: Any) -> ForwardOutput:
    parts, mask = tensors_of(batch), torch.tensor(batch.mask)
    if not packed:
        return network(**parts, **options)
    segments = parts["segments"][mask] if "segments" in parts else None
    return network(parts["ids"][mask], None, segments, lengths=mask.sum(1), **options)


def test_there_are_such_heads() -> None:
    assert {family for family, _ in ONE_TOKEN_HEADS} >= {
        "bert",
        "roberta",
        "distilbert",
        "electra",
        "albert",
        "deberta-v2",
        "gpt2",
    }


@pytest.mark.thin(5)
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("lengths", [LENGTHS, (4, 4), (1, 5)], ids=str)
@pytest.mark.parametrize(("family", "head"), ONE_TOKEN_HEADS)
def test_the_same_logits_and_gradients(family: str, head: str, lengths: tuple[int, ...], packed: bool) -> None:
    network, batch = network_of(family, head), batch_of(family, lengths)
    runs = []
    for all_tokens in (True, False):
        network.zero_grad()
        result = run_network(network, batch, packed=packed, all_tokens=all_tokens)
        assert result.logits is not None
        result.logits.square().sum().backward()
        runs.append((result, {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}))
    (full, gradients), (part, part_gradients) = runs
    assert part.last.shape == (len(lengths), 1, full.last.shape[-1])  # one token of each text
    torch.testing.assert_close(part.logits, full.logits, rtol=0, atol=1e-5)
    assert gradients.keys() == part_gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(part_gradients[name], gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("family", "head"), ONE_TOKEN_HEADS)
def test_step_by_step_too(family: str, head: str) -> None:
    network, batch = network_of(family, head), batch_of(family)
    with torch.no_grad():
        fused = run_network(network, batch, packed=True, all_tokens=False).logits
        torch.testing.assert_close(
            run_network(network, batch, packed=True, all_tokens=False, kernel=Recorder()).logits,
            fused,
            rtol=0,
            atol=1e-5,
        )


@pytest.mark.parametrize("family", ["bert", "modernbert", "t5"])
def test_where_every_token_is_read_nothing_changes(family: str) -> None:
    head = "seq2seq" if family == "t5" else "tag"
    network, batch = network_of(family, head), batch_of(family)
    with torch.no_grad():
        full = network(**tensors_of(batch))
        part = network(**tensors_of(batch), all_tokens=False)
    assert torch.equal(part.last, full.last)
    assert torch.equal(part.logits, full.logits)
