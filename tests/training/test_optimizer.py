"""Sparse embedding gradients give the same AdamW updates and clipping as dense ones."""

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


def make_layers(sparse: bool) -> tuple[nn.Embedding, nn.Linear]:
    torch.manual_seed(0)
    return nn.Embedding(30, 8, sparse=sparse), nn.Linear(8, 3)


@pytest.mark.parametrize("max_norm", [0.0, 0.05, 100.0])
def test_sparse_and_dense_gradients_give_the_same_updates(max_norm: float) -> None:
    (sparse_table, sparse_linear), (dense_table, dense_linear) = make_layers(True), make_layers(False)

    def param_groups(table: nn.Embedding, linear: nn.Linear) -> list[dict[str, Any]]:
        matrices = {"params": [table.weight, linear.weight], "weight_decay": 0.1, "lr": 1e-2}
        return [matrices, {"params": [linear.bias], "weight_decay": 0.0, "lr": 1e-2}]

    rowwise, reference = (
        RowwiseAdamW(param_groups(sparse_table, sparse_linear)),
        torch.optim.AdamW(param_groups(dense_table, dense_linear)),
    )
    for step in range(30):
        ids = torch.tensor([step % 7, 3, 3, 11 + step % 5])  # token 3 occurs twice, tokens 20 to 29 never
        norms = []
        for table, linear, adam in ((sparse_table, sparse_linear, rowwise), (dense_table, dense_linear, reference)):
            adam.zero_grad(set_to_none=True)
            for micro_ids in ids.split(3):  # two micro-batches, whose gradients add up
                linear(table(micro_ids)).square().sum().backward()
            parameters = [table.weight, *linear.parameters()]
            if table is sparse_table:
                norms.append(clip_gradients(parameters, max_norm))
            else:
                norms.append(float(nn.utils.clip_grad_norm_(parameters, max_norm or float("inf"))))
            adam.step()
        assert norms[0] == pytest.approx(norms[1], rel=1e-5)
        torch.testing.assert_close(sparse_table.weight, dense_table.weight, rtol=0, atol=2e-5)
        torch.testing.assert_close(sparse_linear.weight, dense_linear.weight, rtol=0, atol=2e-5)
    for key, value in reference.state[dense_table.weight].items():
        torch.testing.assert_close(rowwise.state[sparse_table.weight][key], value, rtol=1e-3, atol=1e-6)
    assert not any(table.any() for table in rowwise.dense_grads.values())  # reset after each step


def test_a_row_without_a_gradient_still_moves() -> None:
    table, _ = make_layers(True)
    adam = RowwiseAdamW([{"params": [table.weight], "lr": 0.1, "weight_decay": 0.5}])
    for ids in ([1], [2]):
        adam.zero_grad(set_to_none=True)
        table(torch.tensor(ids)).sum().backward()
        clip_gradients([table.weight], 0.0)
        weight_before = table.weight.detach().clone()
        adam.step()
    decrease = weight_before - table.weight.detach()
    torch.testing.assert_close(decrease[5], 0.05 * weight_before[5])  # only weight decay
    assert (decrease[1] - 0.05 * weight_before[1] > 0.01).all()  # plus the momentum of the previous step


def test_only_an_untied_table_has_sparse_gradients() -> None:
    settings = TrainSettings()
    for head, expected in (("classify", True), ("masked", False)):
        network = clearhead.create("bert", config=SIZES, head=head).module
        make_optimizer(network, settings)
        assert network.stack.embed.token.sparse is expected
        network(torch.tensor([[5, 6, 5]])).logits.sum().backward()
        assert network.stack.embed.token.weight.grad.is_sparse is expected
