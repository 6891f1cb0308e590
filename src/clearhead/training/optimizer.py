"""AdamW with groups: no decay on biases and norms, layers below slower, and a rate that is a function of the step."""

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


def layer_depth(name: str, network: Network) -> int:
    """How far from the head a parameter is: 0 for the head and pooler, then the last block, down to the words."""
    part, *rest = name.split(".")
    if part in ("head", "second", "pooler"):
        return 0
    stack = network.decoder if part == "decoder" and network.decoder is not None else network.stack
    blocks = stack.shape.blocks
    if rest[0] in ("blocks", "layers"):
        return blocks - int(rest[1])
    return 1 if rest[0] in ("norm", "align") else blocks + 1


def trainable_parameters(network: Network, settings: TrainSettings, epoch: int) -> NamedParameters:
    """The parameters that learn in an epoch: all, the head alone, or one more layer with each epoch."""
    head = network.shape.head
    still = () if head is None or head.out_bias_learned else ("head.out.bias",)
    named = [(name, p) for name, p in network.named_parameters() if isinstance(p, nn.Parameter) and name not in still]
    if settings.freeze_encoder:
        return [(name, p) for name, p in named if layer_depth(name, network) == 0]
    if settings.gradual_unfreezing:
        return [(name, p) for name, p in named if layer_depth(name, network) <= epoch]
    return named


class RowwiseAdamW(torch.optim.AdamW):
    """AdamW that takes a table's gradient as rows: a batch has some hundred of a vocabulary's many thousand words."""

    def __init__(self, groups: list[dict[str, Any]], beta2: float = 0.999) -> None:
        super().__init__(groups, betas=(0.9, beta2), fused=True)
        self.zeros: dict[Tensor, Tensor] = {}  # a table of zeros for each: rows are laid in and taken out again

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Every row moves, as AdamW has it: those without a gradient by what is left of earlier ones, and by decay."""
        everything = [parameter for group in self.param_groups for parameter in group["params"]]
        tables = [(p, p.grad) for p in everything if p.grad is not None and p.grad.is_sparse]
        for table, rows in tables:
            if table not in self.zeros:
                self.zeros[table] = torch.zeros_like(table)
            table.grad = self.zeros[table].index_copy_(0, rows.indices()[0], rows.values())
        super().step()
        for table, rows in tables:
            self.zeros[table].index_fill_(0, rows.indices()[0], 0.0)
            table.grad = rows


def make_optimizer(network: Network, settings: TrainSettings) -> torch.optim.AdamW:
    """One group per rate and decay; every parameter is in it, frozen ones get no gradient."""
    # a table that is the output matrix as well has a gradient for every word
    tied = settings.lm_weight > 0 or "stack.embed.token.weight" in tensors.tied_tensors(network.shape).values()
    network.stack.embed.token.sparse = not tied
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        decay = settings.weight_decay if parameter.ndim > 1 else 0.0
        far = layer_depth(name, network)
        base = (
            settings.head_learning_rate
            if far == 0 and settings.head_learning_rate is not None
            else settings.learning_rate
        )
        groups.setdefault((base * settings.layer_decay**far, decay), []).append(parameter)
    made = [{"params": ps, "lr": rate, "base": rate, "weight_decay": decay} for (rate, decay), ps in groups.items()]
    return RowwiseAdamW(made, settings.adam_beta2)


def schedule_factor(step: int, steps: int, settings: TrainSettings) -> float:
    """The part of the full rate at a step: grows over the warm-up, then falls as the schedule says."""
    begin = int(settings.warmup_ratio * steps) if settings.warmup_steps is None else settings.warmup_steps
    if step < begin:
        return (step + 1) / begin
    if settings.schedule == "constant":
        return 1.0
    if settings.schedule == "inverse_sqrt":  # min(s^-0.5, s w^-1.5) of the paper, with its largest value as the rate
        return math.sqrt(max(begin, 1) / (step + 1))
    along = (step - begin) / max(1, steps - begin)
    return 0.5 * (1 + math.cos(math.pi * along)) if settings.schedule == "cosine" else 1.0 - along


def set_learning_rate(adam: torch.optim.AdamW, part: float, usual: float) -> float:
    """Give every group its part of its full rate; returns that of `usual`, or the largest where no group has it."""
    for group in adam.param_groups:
        group["lr"] = group["base"] * part
    largest = max(float(group["base"]) for group in adam.param_groups)
    return part * (usual if any(group["base"] == usual for group in adam.param_groups) else largest)


def clip_gradients(parameters: Iterable[Tensor], longest: float) -> float:
    """Shorten the gradient to `longest`; returns how long it was."""
    parts = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()  # a word that comes twice has one row: the sum
            parts.append(parameter.grad.values())
        elif parameter.grad is not None:
            parts.append(parameter.grad)
    length = float(torch.nn.utils.get_total_norm(parts))
    if 0 < longest < length:
        for part in parts:
            part.mul_(longest / length)
    return length
