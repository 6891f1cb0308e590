"""The losses of pre-training, summed for training and per target for evaluation.

They are sums over the targets (tokens or texts) of a batch instead of one loss per row, and each is divided by the
number of its targets in the whole step. The loss of tokens computes its gradient in the forward pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.core.attention import Kernel, fused_attention
from clearhead.core.layout import Layout, PackedLayout, PaddedLayout
from clearhead.core.models import Network
from clearhead.pretraining.batch import PretrainBatch
from clearhead.training.dropout import dropout_attention
from clearhead.training.objectives.linear_cross_entropy import linear_cross_entropy

Array = np.ndarray[Any, Any]

SCORE_CHUNK = 1024  # number of targets whose logits are computed at once
REPLACED_WEIGHT = 50.0  # weight of ELECTRA's discriminator loss, which is far smaller than the generator's


@dataclass(frozen=True, kw_only=True)
class TargetScores:
    """The scores of the targets of one kind: "words" (masked tokens), "pairs" or "replaced" (tokens)."""

    losses: Array
    correct: Array  # 1 or 0
    text_indices: Array  # index of the text of each target
    labels: Array


class ElectraPair(nn.Module):
    """ELECTRA: a small generator that fills masks, and the discriminator that detects them; embeddings are shared."""

    def __init__(
        self, generator: Network, model: Network, *, config: Mapping[str, Any] | None = None, fresh: bool = False
    ) -> None:
        super().__init__()
        self.generator, self.model = generator, model
        self.config = dict(config or {})  # of the generator
        self.fresh = fresh  # whether the generator is newly initialized
        generator.stack.embed.token.weight = model.stack.embed.token.weight
        if model.stack.embed.segment is not None and generator.stack.embed.segment is not None:
            generator.stack.embed.segment.weight = model.stack.embed.segment.weight
        generator.tie()


def count_targets(batch: PretrainBatch, losses: tuple[str, ...]) -> dict[str, int]:
    """The number of targets of each kind in a batch."""
    counts = {"words": len(batch.labels), "pairs": 0 if batch.pair_labels is None else len(batch.pair_labels)}
    return {name: counts.get(name, len(batch.ids)) for name in losses}


def compute_pretrain_losses(
    network: Any, batch: PretrainBatch, scales: dict[str, float], device: str
) -> dict[str, Tensor]:
    """The losses of a batch, each summed over its targets and multiplied by its scale."""
    if isinstance(network, ElectraPair):
        return _compute_electra_losses(network, batch, scales, device)
    kernel = dropout_attention if torch.device(device).type == "cpu" else fused_attention
    states, output_layer = _compute_target_states(network, batch, device, kernel), network.head.out
    weight, bias = output_layer.weight, output_layer.bias
    losses = {"words": linear_cross_entropy(states.inputs, weight, bias, states.labels, scales["words"])}
    if "pairs" in scales:
        logits, labels = _compute_pair_logits(network, states), _to_tensor(batch.pair_labels, device)
        losses["pairs"] = F.cross_entropy(logits, labels, reduction="sum") * scales["pairs"]
    return losses


@torch.no_grad()
def score_targets(network: Any, batch: PretrainBatch, device: str, *, seed: int = 0) -> dict[str, TargetScores]:
    """Compute the loss and correctness of every target of a batch, without gradients."""
    if isinstance(network, ElectraPair):
        return _score_electra(network, batch, device, seed)
    states = _compute_target_states(network, batch, device, fused_attention)
    text_indices = _list_target_texts(batch)[batch.positions]
    scores = {"words": _score_words(states.inputs, network.head, states.labels, text_indices)}
    if batch.pair_labels is not None and network.second is not None:
        logits, labels = _compute_pair_logits(network, states), _to_tensor(batch.pair_labels, device)
        scores["pairs"] = _score_logits(logits, labels, np.arange(len(batch.pair_labels)))
    return scores


def _compute_pair_logits(network: Any, states: _TargetStates) -> Tensor:
    logits: Tensor = network.second(states.hidden, states.layout, network.pooler(states.hidden, states.layout))
    return logits.float()


def _list_target_texts(batch: PretrainBatch) -> Array:
    """The index of the text of every possible target."""
    lengths = batch.lengths if batch.target_lengths is None else batch.target_lengths
    return np.repeat(np.arange(len(lengths)), lengths * batch.targets_per_token)


def _score_words(inputs: Tensor, head: Any, labels: Tensor, text_indices: Array) -> TargetScores:
    chunks = []
    for start in range(0, max(len(labels), 1), SCORE_CHUNK):
        chunk_slice = slice(start, start + SCORE_CHUNK)
        logits = F.linear(inputs[chunk_slice], head.out.weight, head.out.bias).float()
        chunks.append(_score_logits(logits, labels[chunk_slice], text_indices[chunk_slice]))
    fields = ("losses", "correct", "text_indices", "labels")
    return TargetScores(**{field: np.concatenate([getattr(chunk, field) for chunk in chunks]) for field in fields})


def _score_logits(logits: Tensor, labels: Tensor, text_indices: Array) -> TargetScores:
    losses = F.cross_entropy(logits, labels, reduction="none")
    is_correct = (logits.argmax(-1) == labels).double()
    numbers = losses.double().cpu().numpy()
    return TargetScores(
        losses=numbers, correct=is_correct.cpu().numpy(), text_indices=text_indices, labels=labels.cpu().numpy()
    )


@dataclass(frozen=True)
class _TargetStates:
    """The hidden states that the targets of a batch are predicted from."""

    inputs: Tensor  # (targets, width): input of the output layer
    labels: Tensor  # (targets,)
    hidden: Tensor  # hidden states that include the first token of each text, for the pooler
    layout: Layout  # of hidden


def _compute_target_states(network: Network, batch: PretrainBatch, device: str, kernel: Kernel) -> _TargetStates:
    """Hidden states at every target; the last layer computes only these if possible."""
    ids, labels = _to_tensor(batch.ids, device), _to_tensor(batch.labels, device)
    layout: Layout = PackedLayout(_to_tensor(batch.lengths, device))
    segments = None if network.shape.stack.segments < 2 else _to_tensor(batch.segments, device)
    target = None
    if batch.target_ids is not None:
        target = _to_tensor(batch.target_ids, device), PackedLayout(_to_tensor(batch.target_lengths, device))
    are_all_targets = len(batch.positions) == len(batch.ids) * batch.targets_per_token and target is None
    if target is not None or are_all_targets or network.shape.stack.layers < 2 or batch.targets_per_token > 1:
        hidden = network.compute_head_input(ids, layout, segments, target, kernel=kernel)
        if batch.targets_per_token > 1:  # the states of both directions of a token, one after the other
            hidden = hidden.reshape(len(hidden) * batch.targets_per_token, -1)
        target_states = hidden
        if not are_all_targets and target is None:
            target_states = hidden.index_select(0, _to_tensor(batch.positions, device))
    else:
        query_positions, rows, columns = _pick_query_positions(batch)
        hidden = network.compute_head_input(
            ids, layout, segments, kernel=kernel, query_index=_to_tensor(query_positions, device)
        )
        layout = PaddedLayout(hidden[..., 0], None)
        target_states = hidden[_to_tensor(rows, device), _to_tensor(columns, device)]
    head = network.head
    assert head is not None
    return _TargetStates(head.before_out(target_states), labels, hidden, layout)


def _pick_query_positions(batch: PretrainBatch) -> tuple[Array, Array, Array]:
    """Positions of the first token and the targets of each text, padded to a table, and the cell of each target."""
    text_starts = np.cumsum(batch.lengths) - batch.lengths
    rows = np.searchsorted(text_starts, batch.positions, "right") - 1
    counts = np.bincount(rows, minlength=len(text_starts))
    columns = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows] + 1
    query_positions = np.zeros((len(text_starts), int(counts.max(initial=0)) + 1), np.int64)
    query_positions[rows, columns] = batch.positions - text_starts[rows]
    return query_positions, rows, columns


@dataclass(frozen=True)
class _ElectraOutput:
    """A forward pass of the ELECTRA pair: the generator's states and the discriminator's logits."""

    states: _TargetStates
    logits: Tensor  # (tokens,): above 0 if the token is predicted to be replaced
    is_replaced: Tensor  # (tokens,): 1 or 0


def _run_electra(pair: ElectraPair, batch: PretrainBatch, device: str, kernel: Kernel) -> _ElectraOutput:
    """Replace masks with tokens sampled from the generator, and let the discriminator predict which are replaced."""
    states = _compute_target_states(pair.generator, batch, device, kernel)
    output_layer = pair.generator.head.out  # type: ignore[union-attr]
    with torch.no_grad():
        logits = F.linear(states.inputs, output_layer.weight, output_layer.bias).float()
        noise = torch.rand_like(logits).clamp_(1e-9, 1 - 1e-7).log_().neg_().log_().neg_()
        sampled = (logits + noise).argmax(-1)  # Gumbel noise: a sample from the softmax
    ids, positions = _to_tensor(batch.ids, device), _to_tensor(batch.positions, device)
    replaced_ids = ids.index_copy(0, positions, sampled)
    is_replaced = (replaced_ids != ids.index_copy(0, positions, states.labels)).float()
    segments = None if pair.model.shape.stack.segments < 2 else _to_tensor(batch.segments, device)
    layout = PackedLayout(_to_tensor(batch.lengths, device))
    hidden = pair.model.encode(replaced_ids, layout, segments, kernel=kernel)[-1]
    head = pair.model.head
    discriminator_logits = head.out(head.before_out(hidden)).squeeze(-1).float()  # type: ignore[union-attr]
    return _ElectraOutput(states, discriminator_logits, is_replaced)


def _compute_electra_losses(
    pair: ElectraPair, batch: PretrainBatch, scales: dict[str, float], device: str
) -> dict[str, Tensor]:
    kernel = dropout_attention if torch.device(device).type == "cpu" else fused_attention
    output = _run_electra(pair, batch, device, kernel)
    states, out = output.states, pair.generator.head.out  # type: ignore[union-attr]
    replaced_loss = F.binary_cross_entropy_with_logits(output.logits, output.is_replaced, reduction="sum")
    return {
        "words": linear_cross_entropy(states.inputs, out.weight, out.bias, states.labels, scales["words"]),
        "replaced": replaced_loss * (REPLACED_WEIGHT * scales["replaced"]),
    }


def _score_electra(pair: ElectraPair, batch: PretrainBatch, device: str, seed: int) -> dict[str, TargetScores]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # samples of the evaluation must not change those of training
        output = _run_electra(pair, batch, device, fused_attention)
    states, text_indices = output.states, _list_target_texts(batch)
    losses = F.binary_cross_entropy_with_logits(output.logits, output.is_replaced, reduction="none")
    is_correct = ((output.logits > 0) == (output.is_replaced > 0)).double()
    return {
        "words": _score_words(states.inputs, pair.generator.head, states.labels, text_indices[batch.positions]),
        "replaced": TargetScores(
            losses=losses.double().cpu().numpy(),
            correct=is_correct.cpu().numpy(),
            text_indices=text_indices,
            labels=output.is_replaced.cpu().numpy(),
        ),
    }


def _to_tensor(array: Any, device: str) -> Tensor:
    return torch.as_tensor(array, device=device)
