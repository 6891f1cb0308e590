"""New heads that look at the words beside each word: each at its own, wherever it stands in the text."""

from __future__ import annotations

import pytest
import torch

from clearhead.core.trace import trace
from clearhead.model.inputs import checked_batch
from clearhead.model.loading import create
from clearhead.training.local_init import head_offsets, init_local_attention

WORDS = 64


def probabilities(family: str, **config: int) -> tuple[torch.Tensor, bool, list[int]]:
    """(heads, tokens, tokens) of the first block after the start, for a text of random words."""
    model = create(family, "mini", config={"vocab_size": 500, **config})
    done = init_local_attention(model.module)
    ids = torch.randint(5, 500, (WORDS,), generator=torch.Generator().manual_seed(0))
    batch, _ = checked_batch(model.shape, [ids.tolist()], None, None, None, None)
    seen = trace(model.core, batch, [""] * WORDS).layers[0].probs
    return torch.as_tensor(seen), done, head_offsets(model.shape.stack.heads)


GENERATOR = {"hidden_size": 64, "num_attention_heads": 1, "intermediate_size": 256}


@pytest.mark.parametrize(
    ("family", "config"),
    [("bert", {}), ("roberta", {}), ("distilbert", {}), ("electra", {}), ("electra", GENERATOR)],
)
def test_heads_look_where_they_should(family: str, config: dict[str, int]) -> None:
    seen, done, where = probabilities(family, **config)
    assert done
    for head, offset in enumerate(where):
        asked = torch.arange(max(0, -offset), WORDS - max(0, offset))
        share = seen[head, asked, asked + offset]
        assert share.mean() > 10 / WORDS, (family, head)
        assert (seen[head, asked].argmax(-1) == asked + offset).float().mean() > 0.8, (family, head)


def test_where_heads_look() -> None:
    assert head_offsets(5) == [-1, 1, -2, 2, -3]


@pytest.mark.parametrize("family", ["albert", "t5", "deberta-v2", "modernbert", "transformer", "openai-gpt", "gpt2"])
def test_families_that_have_no_need_are_left_as_they_are(family: str) -> None:
    model = create(family, "mini", config={"vocab_size": 500})
    before = {name: p.detach().clone() for name, p in model.module.named_parameters()}
    assert not init_local_attention(model.module)
    assert all(torch.equal(before[name], p) for name, p in model.module.named_parameters())
