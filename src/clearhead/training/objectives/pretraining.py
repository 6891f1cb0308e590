"""The losses of pre-training, and the same per target to measure a model with.

They are sums over targets (tokens or texts) of a batch, not one loss per row: each is divided by the number of its
targets in the whole step, and that of tokens takes its gradient on the way forward.
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

SCORE_CHUNK = 1024  # targets whose logits are computed at a time
REPLACED_WEIGHT = 50.0  # ELECTRA's weight of the discriminator's loss, which is far smaller than the generator's


@dataclass(frozen=True, kw_only=True)
class TargetScores:
    """What a network answers at the targets of one kind: "words", "pairs" or "replaced"."""

    losses: Array
    correct: Array  # 1 or 0
    owners: Array  # the text that each belongs to
    truth: Array  # what would have been right


class ElectraPair(nn.Module):
    """ELECTRA: a small generator that fills masks, and the model that finds them again; embeddings are shared."""

    def __init__(
        self, generator: Network, model: Network, *, config: Mapping[str, Any] | None = None, fresh: bool = False
    ) -> None:
        super().__init__()
        self.generator, self.model = generator, model
        self.config = dict(config or {})  # the generator's
        self.fresh = fresh  # nobody has taught the generator yet
        generator.stack.embed.token.weight = model.stack.embed.token.weight
        if model.stack.embed.segment is not None and generator.stack.embed.segment is not None:
            generator.stack.embed.segment.weight = model.stack.embed.segment.weight
        generator.tie()


def count_targets(batch: PretrainBatch, losses: tuple[str, ...]) -> dict[str, int]:
    """How many targets of each kind a batch has."""
    known = {"words": len(batch.labels), "pairs": 0 if batch.pair_labels is None else len(batch.pair_labels)}
    return {name: known.get(name, len(batch.ids)) for name in losses}


def pretrain_losses(network: Any, batch: PretrainBatch, shares: dict[str, float], device: str) -> dict[str, Tensor]:
    """The losses of a batch, each summed over its targets and multiplied by its share."""
    if isinstance(network, ElectraPair):
        return _electra_losses(network, batch, shares, device)
    kernel = dropout_attention if torch.device(device).type == "cpu" else fused_attention
    read, out = _target_states(network, batch, device, kernel), network.head.out
    found = {"words": linear_cross_entropy(read.before, out.weight, out.bias, read.words, shares["words"])}
    if "pairs" in shares:
        logits = _pair_logits(network, read)
        found["pairs"] = F.cross_entropy(logits, _tensor(batch.pair_labels, device), reduction="sum") * shares["pairs"]
    return found


@torch.no_grad()
def score_targets(network: Any, batch: PretrainBatch, device: str, *, seed: int = 0) -> dict[str, TargetScores]:
    """Loss and correctness of every target of a batch, without gradients."""
    if isinstance(network, ElectraPair):
        return _score_electra(network, batch, device, seed)
    read = _target_states(network, batch, device, fused_attention)
    found = {"words": _score_words(read.before, network.head, read.words, _target_owners(batch)[batch.positions])}
    if batch.pair_labels is not None and network.second is not None:
        truth = _tensor(batch.pair_labels, device)
        found["pairs"] = _score_logits(_pair_logits(network, read), truth, np.arange(len(batch.pair_labels)))
    return found


def _pair_logits(network: Any, read: _TargetStates) -> Tensor:
    logits: Tensor = network.second(read.texts, read.layout, network.pooler(read.texts, read.layout))
    return logits.float()


def _target_owners(batch: PretrainBatch) -> Array:
    lengths = batch.lengths if batch.target_lengths is None else batch.target_lengths
    return np.repeat(np.arange(len(lengths)), lengths * batch.targets_per_token)


def _score_words(before: Tensor, head: Any, words: Tensor, owners: Array) -> TargetScores:
    made = []
    for begin in range(0, max(len(words), 1), SCORE_CHUNK):
        part = slice(begin, begin + SCORE_CHUNK)
        logits = F.linear(before[part], head.out.weight, head.out.bias).float()
        made.append(_score_logits(logits, words[part], owners[part]))
    names = ("losses", "correct", "owners", "truth")
    return TargetScores(**{name: np.concatenate([getattr(one, name) for one in made]) for name in names})


def _score_logits(logits: Tensor, truth: Tensor, owners: Array) -> TargetScores:
    losses = F.cross_entropy(logits, truth, reduction="none")
    right = (logits.argmax(-1) == truth).double()
    numbers = losses.double().cpu().numpy()
    return TargetScores(losses=numbers, correct=right.cpu().numpy(), owners=owners, truth=truth.cpu().numpy())


@dataclass(frozen=True)
class _TargetStates:
    """The hidden states that the targets of a batch are predicted from."""

    before: Tensor  # (targets, width): what stands before the output matrix
    words: Tensor  # (targets,): what is right
    texts: Tensor  # hidden states that begin with those of the first tokens, for the pooler, ...
    layout: Layout  # ... and how they lie


def _target_states(network: Network, batch: PretrainBatch, device: str, kernel: Kernel) -> _TargetStates:
    """Hidden states at every target; of the last layer, nothing else is computed."""
    ids, words = _tensor(batch.ids, device), _tensor(batch.labels, device)
    layout: Layout = PackedLayout(_tensor(batch.lengths, device))
    segments = None if network.shape.stack.segments < 2 else _tensor(batch.segments, device)
    target = None
    if batch.target_ids is not None:
        target = _tensor(batch.target_ids, device), PackedLayout(_tensor(batch.target_lengths, device))
    everywhere = len(batch.positions) == len(batch.ids) * batch.targets_per_token and target is None
    if target is not None or everywhere or network.shape.stack.layers < 2 or batch.targets_per_token > 1:
        hidden = network.compute_head_input(ids, layout, segments, target, kernel=kernel)
        if batch.targets_per_token > 1:  # the states of each direction one after the other
            hidden = hidden.reshape(len(hidden) * batch.targets_per_token, -1)
        asked = hidden if everywhere or target is not None else hidden.index_select(0, _tensor(batch.positions, device))
    else:
        picked, rows, columns = _pick_query_positions(batch)
        hidden = network.compute_head_input(ids, layout, segments, kernel=kernel, picked=_tensor(picked, device))
        layout = PaddedLayout(hidden[..., 0], None)
        asked = hidden[_tensor(rows, device), _tensor(columns, device)]
    head = network.head
    assert head is not None
    return _TargetStates(head.before_out(asked), words, hidden, layout)


def _pick_query_positions(batch: PretrainBatch) -> tuple[Array, Array, Array]:
    """The first token and the targets of each text as a rectangle of positions, and where each target is in it."""
    begins = np.cumsum(batch.lengths) - batch.lengths
    rows = np.searchsorted(begins, batch.positions, "right") - 1
    counts = np.bincount(rows, minlength=len(begins))
    columns = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows] + 1
    picked = np.zeros((len(begins), int(counts.max(initial=0)) + 1), np.int64)
    picked[rows, columns] = batch.positions - begins[rows]
    return picked, rows, columns


@dataclass(frozen=True)
class _ElectraRound:
    """One round of ELECTRA's pair: what the generator saw, and what the model says of every word."""

    states: _TargetStates
    answers: Tensor  # (tokens,): above 0 where a word is thought to be replaced
    is_replaced: Tensor  # (tokens,): 1 where it was


def _electra_forward(pair: ElectraPair, batch: PretrainBatch, device: str, kernel: Kernel) -> _ElectraRound:
    """The generator guesses, its guesses are put in, and the model tells at every word whether it was replaced."""
    made = _target_states(pair.generator, batch, device, kernel)
    out = pair.generator.head.out  # type: ignore[union-attr]
    with torch.no_grad():
        logits = F.linear(made.before, out.weight, out.bias).float()
        noise = torch.rand_like(logits).clamp_(1e-9, 1 - 1e-7).log_().neg_().log_().neg_()
        said = (logits + noise).argmax(-1)  # a draw from the softmax: it must be wrong now and then
    ids, places = _tensor(batch.ids, device), _tensor(batch.positions, device)
    read = ids.index_copy(0, places, said)
    wrong = (read != ids.index_copy(0, places, made.words)).float()
    segments = None if pair.model.shape.stack.segments < 2 else _tensor(batch.segments, device)
    hidden = pair.model.encode(read, PackedLayout(_tensor(batch.lengths, device)), segments, kernel=kernel)[-1]
    head = pair.model.head
    answers = head.out(head.before_out(hidden)).squeeze(-1).float()  # type: ignore[union-attr]
    return _ElectraRound(made, answers, wrong)


def _electra_losses(
    pair: ElectraPair, batch: PretrainBatch, shares: dict[str, float], device: str
) -> dict[str, Tensor]:
    made = _electra_forward(
        pair, batch, device, dropout_attention if torch.device(device).type == "cpu" else fused_attention
    )
    out = pair.generator.head.out  # type: ignore[union-attr]
    loss = F.binary_cross_entropy_with_logits(made.answers, made.is_replaced, reduction="sum")
    return {
        "words": linear_cross_entropy(made.states.before, out.weight, out.bias, made.states.words, shares["words"]),
        "replaced": loss * (REPLACED_WEIGHT * shares["replaced"]),
    }


def _score_electra(pair: ElectraPair, batch: PretrainBatch, device: str, seed: int) -> dict[str, TargetScores]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # what the generator draws here must not change what it draws in training
        made = _electra_forward(pair, batch, device, fused_attention)
    owners = _target_owners(batch)
    losses = F.binary_cross_entropy_with_logits(made.answers, made.is_replaced, reduction="none")
    right = ((made.answers > 0) == (made.is_replaced > 0)).double()
    return {
        "words": _score_words(made.states.before, pair.generator.head, made.states.words, owners[batch.positions]),
        "replaced": TargetScores(
            losses=losses.double().cpu().numpy(),
            correct=right.cpu().numpy(),
            owners=owners,
            truth=made.is_replaced.cpu().numpy(),
        ),
    }


def _tensor(array: Any, device: str) -> Tensor:
    return torch.as_tensor(array, device=device)
