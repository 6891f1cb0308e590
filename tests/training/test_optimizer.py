"""A table's gradient as rows gives the same AdamW and the same clipping as a whole table's, in less time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import clearhead
from clearhead.training.optimizer import RowwiseAdamW, clip_gradients, make_optimizer
from clearhead.training.settings import TrainSettings

SIZES: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
SIZES |= {"vocab_size": 40, "max_position_embeddings": 24}


def tables(sparse: bool) -> tuple[nn.Embedding, nn.Linear]:
    torch.manual_seed(0)
    return nn.Embedding(30, 8, sparse=sparse), nn.Linear(8, 3)


@pytest.mark.parametrize("longest", [0.0, 0.05, 100.0])
def test_rows_are_as_good_as_the_whole_table(longest: float) -> None:
    (rows, head), (whole, other) = tables(True), tables(False)

    def groups(table: nn.Embedding, linear: nn.Linear) -> list[dict[str, Any]]:
        matrices = {"params": [table.weight, linear.weight], "weight_decay": 0.1, "lr": 1e-2}
        return [matrices, {"params": [linear.bias], "weight_decay": 0.0, "lr": 1e-2}]

    ours, theirs = RowwiseAdamW(groups(rows, head)), torch.optim.AdamW(groups(whole, other))
    for step in range(30):
        ids = torch.tensor([step % 7, 3, 3, 11 + step % 5])  # word 3 comes twice, words 20 to 29 never
        lengths = []
        for table, linear, adam in ((rows, head, ours), (whole, other, theirs)):
            adam.zero_grad(set_to_none=True)
            for part in ids.split(3):  # two parts, whose gradients add up
                linear(table(part)).square().sum().backward()
            own = [table.weight, *linear.parameters()]
            if table is rows:
                lengths.append(clip_gradients(own, longest))
            else:
                lengths.append(float(nn.utils.clip_grad_norm_(own, longest or float("inf"))))
            adam.step()
        assert lengths[0] == pytest.approx(lengths[1], rel=1e-5)
        torch.testing.assert_close(rows.weight, whole.weight, rtol=0, atol=2e-5)
        torch.testing.assert_close(head.weight, other.weight, rtol=0, atol=2e-5)
    for key, value in theirs.state[whole.weight].items():
        torch.testing.assert_close(ours.state[rows.weight][key], value, rtol=1e-3, atol=1e-6)
    assert not any(table.any() for table in ours.zeros.values())  # taken out again


def test_a_row_without_a_gradient_still_moves() -> None:
    table, _ = tables(True)
    adam = RowwiseAdamW([{"params": [table.weight], "lr": 0.1, "weight_decay": 0.5}])
    for ids in ([1], [2]):
        adam.zero_grad(set_to_none=True)
        table(torch.tensor(ids)).sum().backward()
        clip_gradients([table.weight], 0.0)
        before = table.weight.detach().clone()
        adam.step()
    moved = before - table.weight.detach()
    torch.testing.assert_close(moved[5], 0.05 * before[5])  # decay alone
    assert (moved[1] - 0.05 * before[1] > 0.01).all()  # and what is left of the step before


def test_only_a_table_of_its_own_is_rowwise() -> None:
    settings = TrainSettings()
    for head, expected in (("classify", True), ("masked", False)):
        network = clearhead.create("bert", config=SIZES, head=head).module
        make_optimizer(network, settings)
        assert network.stack.embed.token.sparse is expected
        network(torch.tensor([[5, 6, 5]])).logits.sum().backward()
        assert network.stack.embed.token.weight.grad.is_sparse is expected
