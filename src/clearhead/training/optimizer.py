"""AdamW with parameter groups: no weight decay on biases and norms, layer-wise learning rates, and a schedule."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from clearhead import tensors
from clearhead.core.models import Network
from clearhead.training.settings import TrainSettings

NamedParameters = list[tuple[str, nn.Parameter]]


def measure_depth(name: str, network: Network) -> int:
    """How far a parameter is below the head: 0 for head and pooler, 1 for the last block, most for the embeddings."""
    component, *path = name.split(".")
    if component in ("head", "second", "pooler"):
        return 0
    stack = network.decoder if component == "decoder" and network.decoder is not None else network.stack
    blocks = stack.shape.blocks
    if path[0] in ("blocks", "layers"):
        return blocks - int(path[1])
    return 1 if path[0] in ("norm", "align") else blocks + 1


def select_trainable_parameters(network: Network, settings: TrainSettings, epoch: int) -> NamedParameters:
    """The parameters to train in an epoch: all, only the head, or one more layer with each epoch."""
    head = network.shape.head
    frozen_names = () if head is None or head.out_bias_learned else ("head.out.bias",)
    named = [
        (name, p) for name, p in network.named_parameters() if isinstance(p, nn.Parameter) and name not in frozen_names
    ]
    if settings.freeze_encoder:
        return [(name, p) for name, p in named if measure_depth(name, network) == 0]
    if settings.gradual_unfreezing:
        return [(name, p) for name, p in named if measure_depth(name, network) <= epoch]
    return named


class RowwiseAdamW(torch.optim.AdamW):
    """AdamW for sparse embedding gradients: a batch contains a few hundred tokens of a large vocabulary."""

    def __init__(self, groups: list[dict[str, Any]], beta2: float = 0.999) -> None:
        super().__init__(groups, betas=(0.9, beta2), fused=True)
        self.dense_grads: dict[Tensor, Tensor] = {}  # by table; zero except during a step

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update all rows exactly as AdamW does: rows without a gradient move by momentum and weight decay."""
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        sparse_grads = [(p, p.grad) for p in parameters if p.grad is not None and p.grad.is_sparse]
        for table, row_grads in sparse_grads:
            if table not in self.dense_grads:
                self.dense_grads[table] = torch.zeros_like(table)
            table.grad = self.dense_grads[table].index_copy_(0, row_grads.indices()[0], row_grads.values())
        super().step()
        for table, row_grads in sparse_grads:
            self.dense_grads[table].index_fill_(0, row_grads.indices()[0], 0.0)
            table.grad = row_grads


def make_optimizer(network: Network, settings: TrainSettings) -> torch.optim.AdamW:
    """AdamW with one group per learning rate and weight decay; frozen parameters are included but get no gradient."""
    # a table that is tied to the output matrix has a dense gradient
    tied = settings.lm_weight > 0 or "stack.embed.token.weight" in tensors.tied_tensors(network.shape).values()
    network.stack.embed.token.sparse = not tied
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        decay = settings.weight_decay if parameter.ndim > 1 else 0.0
        depth = measure_depth(name, network)
        base_rate = (
            settings.head_learning_rate
            if depth == 0 and settings.head_learning_rate is not None
            else settings.learning_rate
        )
        groups.setdefault((base_rate * settings.layer_decay**depth, decay), []).append(parameter)
    param_groups = [
        {"params": members, "lr": rate, "base": rate, "weight_decay": decay}
        for (rate, decay), members in groups.items()
    ]
    return RowwiseAdamW(param_groups, settings.adam_beta2)


def compute_schedule_factor(step: int, steps: int, settings: TrainSettings) -> float:
    """The factor on the learning rate at a step: rises during warmup, then follows the schedule."""
    warmup_steps = int(settings.warmup_ratio * steps) if settings.warmup_steps is None else settings.warmup_steps
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if settings.schedule == "constant":
        return 1.0
    if settings.schedule == "inverse_sqrt":  # min(s^-0.5, s w^-1.5) of the paper, scaled to a peak of 1
        return math.sqrt(max(warmup_steps, 1) / (step + 1))
    elapsed = (step - warmup_steps) / max(1, steps - warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * elapsed)) if settings.schedule == "cosine" else 1.0 - elapsed


def set_learning_rate(adam: torch.optim.AdamW, factor: float, base_rate: float) -> float:
    """Scale the rate of every group; return the rate of groups with `base_rate`, or the highest if there are none."""
    for group in adam.param_groups:
        group["lr"] = group["base"] * factor
    max_base_rate = max(float(group["base"]) for group in adam.param_groups)
    return factor * (base_rate if any(group["base"] == base_rate for group in adam.param_groups) else max_base_rate)


def clip_gradients(parameters: Iterable[Tensor], max_norm: float) -> float:
    """Scale the gradients down to `max_norm` and return their norm before; 0 disables clipping."""
    gradients = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()  # sum the rows of tokens that occur several times
            gradients.append(parameter.grad.values())
        elif parameter.grad is not None:
            gradients.append(parameter.grad)
    total_norm = float(torch.nn.utils.get_total_norm(gradients))
    if 0 < max_norm < total_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / total_norm)
    return total_norm
