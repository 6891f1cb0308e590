"""Runners for tests: one that decodes without a cache, one with random logits for each token sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.batch import Batch
from clearhead.decode import Decoder, Decoding, resolve_plan
from clearhead.shape import HeadShape, ModelShape, Shape

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class TokenState:
    """A decoder state that consists of the tokens and the source."""

    ids: Array
    source: Batch

    def reorder(self, rows: Any) -> TokenState:
        mask = None if self.source.mask is None else self.source.mask[rows]
        return TokenState(self.ids[rows], Batch(ids=self.source.ids[rows], mask=mask))


class UncachedRunner:
    """Runs the model on all tokens at each step; prompts must have the same length."""

    def __init__(self, runner: Any) -> None:
        self.runner, self.shape = runner, runner.shape

    def start(self, batch: Batch) -> TokenState:
        return TokenState(np.zeros((len(batch.ids), 0), np.int64), batch)

    def step(
        self, state: TokenState, ids: Any, mask: Any = None, *, log: bool = False, last: bool = False
    ) -> tuple[Array, TokenState]:
        assert mask is None
        token_ids = np.concatenate([state.ids, ids], 1)
        batch = (
            Batch(ids=token_ids)
            if self.shape.decoder is None
            else Batch(ids=state.source.ids, mask=state.source.mask, target_ids=token_ids)
        )
        logits = self.runner.run(batch, hidden=False).logits
        return select_logits(logits[:, -ids.shape[1] :], log=log, last=last), TokenState(token_ids, state.source)


def select_logits(logits: Array, *, log: bool, last: bool) -> Array:
    """Select logits of all new tokens or only the last, optionally as log probabilities."""
    selected = logits[:, -1:] if last else logits
    if not log:
        return selected
    float64_logits = selected.astype(np.float64)
    largest = float64_logits.max(-1, keepdims=True)
    log_sum = np.log(np.exp(float64_logits - largest).sum(-1, keepdims=True)) + largest
    return (float64_logits - log_sum).astype(np.float32)


class TableRunner:
    """A model with a small vocabulary and independent random logits for each token sequence."""

    def __init__(self, vocab: int, seed: int, scale: float = 2.0, fixed: Array | None = None) -> None:
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
        self.seed, self.scale, self.fixed, self.fed_count = seed, scale, fixed, 0

    def start(self, batch: Batch) -> TokenState:
        return TokenState(np.zeros((len(batch.ids), 0), np.int64), batch)

    def logits(self, token_ids: tuple[int, ...]) -> Array:
        """The logits after these tokens."""
        if self.fixed is not None:
            return self.fixed
        rng = np.random.default_rng([self.seed, *token_ids])
        return (rng.standard_normal(self.shape.top.vocab_size) * self.scale).astype(np.float32)

    def step(
        self, state: TokenState, ids: Any, mask: Any = None, *, log: bool = False, last: bool = False
    ) -> tuple[Array, TokenState]:
        self.fed_count += ids.size
        token_ids = np.concatenate([state.ids, np.where(mask, ids, -1) if mask is not None else ids], 1)
        row_logits = [
            [self.logits(tuple(row[: position + 1][row[: position + 1] >= 0].tolist())) for position in range(len(row))]
            for row in token_ids
        ]
        logits = np.array(row_logits, np.float32)[:, -ids.shape[1] :]
        return select_logits(logits, log=log, last=last), TokenState(token_ids, state.source)


def make_decoder(runner: Any, end_ids: list[int], **choices: Any) -> Decoder:
    """Make a decoder whose folder specifies only the end tokens."""
    return Decoder(runner, resolve_plan(Decoding(**choices), runner.shape, {"eos_token_id": end_ids}, None, None))
