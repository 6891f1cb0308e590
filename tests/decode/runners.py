"""Runners made for the tests: one that decodes without a cache, one whose words come out of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.batch import Batch
from clearhead.decode import Decoder, Decoding, resolve_plan
from clearhead.shape import HeadShape, ModelShape, Shape

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Words:
    """A state that is nothing but what was read and said."""

    said: Array
    source: Batch

    def reorder(self, rows: Any) -> Words:
        mask = None if self.source.mask is None else self.source.mask[rows]
        return Words(self.said[rows], Batch(ids=self.source.ids[rows], mask=mask))


class Uncached:
    """Reads everything anew for each word; prompts must have one length."""

    def __init__(self, runner: Any) -> None:
        self.runner, self.shape = runner, runner.shape

    def start(self, batch: Batch) -> Words:
        return Words(np.zeros((len(batch.ids), 0), np.int64), batch)

    def step(
        self, state: Words, ids: Any, mask: Any = None, *, log: bool = False, last: bool = False
    ) -> tuple[Array, Words]:
        assert mask is None
        said = np.concatenate([state.said, ids], 1)
        batch = (
            Batch(ids=said)
            if self.shape.decoder is None
            else Batch(ids=state.source.ids, mask=state.source.mask, target_ids=said)
        )
        logits = self.runner.run(batch, hidden=False).logits
        return answered(logits[:, -ids.shape[1] :], log=log, last=last), Words(said, state.source)


def answered(logits: Array, *, log: bool, last: bool) -> Array:
    """Logits as a runner gives them: of all new words or of the last, as they are or as log probabilities."""
    found = logits[:, -1:] if last else logits
    if not log:
        return found
    exact = found.astype(np.float64)
    largest = exact.max(-1, keepdims=True)
    total = np.log(np.exp(exact - largest).sum(-1, keepdims=True)) + largest
    return (exact - total).astype(np.float32)


class Table:
    """A language of a few words in which each beginning has its own random continuations."""

    def __init__(self, vocab: int, seed: int, spread: float = 2.0, fixed: Array | None = None) -> None:
        stack = Shape(
            vocab_size=vocab,
            width=4,
            layers=1,
            heads=1,
            feed_forward_width=4,
            head_width=4,
            causal=True,
            positions="none",
            max_length=None,
        )
        head = HeadShape(kind="causal", pooling="each", outputs=vocab)
        self.shape = ModelShape(family="table", stack=stack, head=head)
        self.seed, self.spread, self.fixed, self.fed = seed, spread, fixed, 0

    def start(self, batch: Batch) -> Words:
        return Words(np.zeros((len(batch.ids), 0), np.int64), batch)

    def logits(self, said: tuple[int, ...]) -> Array:
        """What follows these words."""
        if self.fixed is not None:
            return self.fixed
        draws = np.random.default_rng([self.seed, *said])
        return (draws.standard_normal(self.shape.top.vocab_size) * self.spread).astype(np.float32)

    def step(
        self, state: Words, ids: Any, mask: Any = None, *, log: bool = False, last: bool = False
    ) -> tuple[Array, Words]:
        self.fed += ids.size
        said = np.concatenate([state.said, np.where(mask, ids, -1) if mask is not None else ids], 1)
        each = [
            [self.logits(tuple(row[: place + 1][row[: place + 1] >= 0].tolist())) for place in range(len(row))]
            for row in said
        ]
        logits = np.array(each, np.float32)[:, -ids.shape[1] :]
        return answered(logits, log=log, last=last), Words(said, state.source)


def decoder(runner: Any, ends: list[int], **choices: Any) -> Decoder:
    """A decoder over a table, whose folder names nothing but the end symbols."""
    return Decoder(runner, resolve_plan(Decoding(**choices), runner.shape, {"eos_token_id": ends}, None, None))
