"""What a network makes of a lesson: the loss of what it is asked, and how often it is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.core.attention import Kernel, fused
from clearhead.core.layout import Packed
from clearhead.core.models import Network
from clearhead.pretraining.lesson import Lesson
from clearhead.training.dropout import attend
from clearhead.training.word_loss import word_loss

Array = np.ndarray[Any, Any]

SOME = 1024  # questions whose logits are made at a time
REPLACED = 50.0  # ELECTRA's weight of the discriminator's loss, which is far smaller than the generator's


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The answers to questions of one kind: "words", "pairs" or "replaced"."""

    losses: Array
    right: Array  # 1 or 0
    owners: Array  # the text that each belongs to
    truth: Array  # what would have been right


class Game(nn.Module):
    """ELECTRA: a small generator that fills masks, and the model that tells what was filled in; words are shared."""

    def __init__(self, generator: Network, model: Network) -> None:
        super().__init__()
        self.generator, self.model = generator, model
        generator.stack.embed.token.weight = model.stack.embed.token.weight
        if model.stack.embed.segment is not None and generator.stack.embed.segment is not None:
            generator.stack.embed.segment.weight = model.stack.embed.segment.weight
        generator.tie()


def counts_of(lesson: Lesson, losses: tuple[str, ...]) -> dict[str, int]:
    """How many questions of each kind a lesson asks."""
    known = {"words": len(lesson.words), "pairs": 0 if lesson.pairs is None else len(lesson.pairs)}
    return {name: known.get(name, len(lesson.ids)) for name in losses}


def loss_of(network: Any, lesson: Lesson, shares: dict[str, float], device: str) -> dict[str, Tensor]:
    """The losses of a lesson, each summed over its questions and multiplied by its share."""
    if isinstance(network, Game):
        return _game(network, lesson, shares, device)
    kernel = attend if torch.device(device).type == "cpu" else fused
    before, hidden, layout, words = _before_out(network, lesson, device, kernel)
    head = network.head
    found = {"words": word_loss(before, head.out.weight, head.out.bias, words, shares["words"])}
    if "pairs" in shares:
        logits = network.second(hidden, layout, network.pooler(hidden, layout)).float()
        found["pairs"] = F.cross_entropy(logits, _tensor(lesson.pairs, device), reduction="sum") * shares["pairs"]
    return found


@torch.no_grad()
def examine(network: Any, lesson: Lesson, device: str, *, seed: int = 0) -> dict[str, Answers]:
    """Every answer to a lesson, without learning from it."""
    if isinstance(network, Game):
        return _told(network, lesson, device, seed)
    before, hidden, layout, words = _before_out(network, lesson, device, fused)
    owners = _owners(lesson)[lesson.places]
    found = {"words": _word_answers(before, network.head, words, owners)}
    if lesson.pairs is not None and network.second is not None:
        logits = network.second(hidden, layout, network.pooler(hidden, layout)).float()
        found["pairs"] = _answers(logits, _tensor(lesson.pairs, device), np.arange(len(lesson.pairs)))
    return found


def _owners(lesson: Lesson) -> Array:
    lengths = lesson.lengths if lesson.target_lengths is None else lesson.target_lengths
    return np.repeat(np.arange(len(lengths)), lengths)


def _word_answers(before: Tensor, head: Any, words: Tensor, owners: Array) -> Answers:
    made = []
    for begin in range(0, len(words), SOME):
        part = slice(begin, begin + SOME)
        logits = F.linear(before[part], head.out.weight, head.out.bias).float()
        made.append(_answers(logits, words[part], owners[part]))
    names = ("losses", "right", "owners", "truth")
    return Answers(**{name: np.concatenate([getattr(one, name) for one in made]) for name in names})


def _answers(logits: Tensor, truth: Tensor, owners: Array) -> Answers:
    losses = F.cross_entropy(logits, truth, reduction="none")
    right = (logits.argmax(-1) == truth).double()
    numbers = losses.double().cpu().numpy()
    return Answers(losses=numbers, right=right.cpu().numpy(), owners=owners, truth=truth.cpu().numpy())


def _before_out(network: Any, lesson: Lesson, device: str, kernel: Kernel) -> tuple[Tensor, Tensor, Any, Tensor]:
    """What stands before the output matrix at every question, the hidden states, their layout, and the right words."""
    ids, lengths, places = (_tensor(array, device) for array in (lesson.ids, lesson.lengths, lesson.places))
    words = _tensor(lesson.words, device)
    layout = Packed(lengths)
    segments = None if network.shape.stack.segments < 2 else _tensor(lesson.segments, device)
    if network.decoder is None:
        hidden = network.encode(ids, layout, segments, kernel=kernel)[-1]
        asked = hidden if len(places) == len(ids) else hidden.index_select(0, places)
        return network.head.before_out(asked), hidden, layout, words
    target_layout = Packed(_tensor(lesson.target_lengths, device))
    memory = network.encode(ids, layout, None, kernel=kernel)[-1]
    target = _tensor(lesson.target_ids, device)
    hidden = network.decode(target, target_layout, memory, layout, kernel=kernel)[-1]
    return network.head.before_out(hidden), hidden, target_layout, words


@dataclass(frozen=True)
class _Round:
    """One round of ELECTRA's game: what the generator saw, and what the model says of every word."""

    before: Tensor
    words: Tensor
    answers: Tensor  # (tokens,): above 0 where a word is thought to be replaced
    wrong: Tensor  # (tokens,): 1 where it was


def _round(game: Game, lesson: Lesson, device: str, kernel: Kernel) -> _Round:
    """The generator guesses, its guesses are put in, and the model tells at every word whether it was replaced."""
    before, _, layout, words = _before_out(game.generator, lesson, device, kernel)
    out = game.generator.head.out  # type: ignore[union-attr]
    with torch.no_grad():
        logits = F.linear(before, out.weight, out.bias).float()
        noise = torch.rand_like(logits).clamp_(1e-9, 1 - 1e-7).log_().neg_().log_().neg_()
        said = (logits + noise).argmax(-1)  # a draw from the softmax: it must be wrong now and then
    ids, places = _tensor(lesson.ids, device), _tensor(lesson.places, device)
    read = ids.index_copy(0, places, said)
    wrong = (read != ids.index_copy(0, places, words)).float()
    segments = None if game.model.shape.stack.segments < 2 else _tensor(lesson.segments, device)
    hidden = game.model.encode(read, layout, segments, kernel=kernel)[-1]
    head = game.model.head
    answers = head.out(head.before_out(hidden)).squeeze(-1).float()  # type: ignore[union-attr]
    return _Round(before, words, answers, wrong)


def _game(game: Game, lesson: Lesson, shares: dict[str, float], device: str) -> dict[str, Tensor]:
    made = _round(game, lesson, device, attend if torch.device(device).type == "cpu" else fused)
    out = game.generator.head.out  # type: ignore[union-attr]
    loss = F.binary_cross_entropy_with_logits(made.answers, made.wrong, reduction="sum")
    return {
        "words": word_loss(made.before, out.weight, out.bias, made.words, shares["words"]),
        "replaced": loss * (REPLACED * shares["replaced"]),
    }


def _told(game: Game, lesson: Lesson, device: str, seed: int) -> dict[str, Answers]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # what the generator draws here must not change what it draws in training
        made = _round(game, lesson, device, fused)
    owners = _owners(lesson)
    losses = F.binary_cross_entropy_with_logits(made.answers, made.wrong, reduction="none")
    right = ((made.answers > 0) == (made.wrong > 0)).double()
    return {
        "words": _word_answers(made.before, game.generator.head, made.words, owners[lesson.places]),
        "replaced": Answers(
            losses=losses.double().cpu().numpy(), right=right.cpu().numpy(), owners=owners,
            truth=made.wrong.cpu().numpy(),
        ),
    }  # fmt: skip


def _tensor(array: Any, device: str) -> Tensor:
    return torch.as_tensor(array, device=device)
