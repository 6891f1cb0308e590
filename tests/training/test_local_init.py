"""Local-attention initialization: every head attends to its own offset at every position."""

from __future__ import annotations

import pytest
import torch

from clearhead.core.trace import trace
from clearhead.model.inputs import check_batch
from clearhead.model.loading import create
from clearhead.training.local_init import init_local_attention, list_head_offsets

TOKENS = 64


def compute_initial_attention(family: str, **config: int) -> tuple[torch.Tensor, bool, list[int]]:
    """Attention probabilities (heads, tokens, tokens) of an initialized first block for random tokens."""
    model = create(family, "mini", config={"vocab_size": 500, **config})
    is_supported = init_local_attention(model.module)
    ids = torch.randint(5, 500, (TOKENS,), generator=torch.Generator().manual_seed(0))
    batch, _ = check_batch(model.shape, [ids.tolist()], None, None, None, None)
    probs = trace(model.core, batch, [""] * TOKENS).layers[0].probs
    return torch.as_tensor(probs), is_supported, list_head_offsets(model.shape.stack.heads)


ELECTRA_GENERATOR = {"hidden_size": 64, "num_attention_heads": 1, "intermediate_size": 256}


@pytest.mark.parametrize(
    ("family", "config"),
    [("bert", {}), ("roberta", {}), ("distilbert", {}), ("electra", {}), ("electra", ELECTRA_GENERATOR)],
)
def test_heads_attend_to_their_offsets(family: str, config: dict[str, int]) -> None:
    probs, is_supported, offsets = compute_initial_attention(family, **config)
    assert is_supported
    for head, offset in enumerate(offsets):
        queries = torch.arange(max(0, -offset), TOKENS - max(0, offset))
        neighbor_probs = probs[head, queries, queries + offset]
        assert neighbor_probs.mean() > 10 / TOKENS, (family, head)
        assert (probs[head, queries].argmax(-1) == queries + offset).float().mean() > 0.8, (family, head)


def test_offsets_alternate_around_the_token() -> None:
    assert list_head_offsets(5) == [-1, 1, -2, 2, -3]


@pytest.mark.parametrize("family", ["albert", "t5", "deberta-v2", "modernbert", "transformer", "openai-gpt", "gpt2"])
def test_unsupported_families_are_left_unchanged(family: str) -> None:
    model = create(family, "mini", config={"vocab_size": 500})
    weights_before = {name: p.detach().clone() for name, p in model.module.named_parameters()}
    assert not init_local_attention(model.module)
    assert all(torch.equal(weights_before[name], p) for name, p in model.module.named_parameters())
