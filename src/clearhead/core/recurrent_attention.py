"""Attention of recurrent models: each decoder state attends to all encoder states and receives their weighted average.

There is one layer with one head: a trace shows it as the cross-attention of layer 0, head 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.core.attention import MASKED_SCORE, AttentionSteps
from clearhead.core.layers import Linear
from clearhead.shape import Recurrence


class DotScore(nn.Module):
    """score(s, h) = s . h, without parameters (Luong's dot)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.width = width

    def project_queries(self, states: Tensor) -> Tensor:
        """Project the decoder's states to queries: (batch, target, ...)."""
        return states

    def project_keys(self, memory: Tensor) -> Tensor:
        """Project the encoder's states to keys, once for all steps: (batch, source, ...)."""
        return memory

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.transpose(1, 2)  # (batch, target, source)


class GeneralScore(DotScore):
    """score(s, h) = s . W h (Luong's general)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__(width, inner)
        self.key = Linear(width, width, bias=False)

    def project_keys(self, memory: Tensor) -> Tensor:
        return self.key(memory)


class AdditiveScore(DotScore):
    """score(s, h) = v . tanh(W s + U h + b) (Bahdanau's)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__(width, inner)
        self.query = Linear(width, inner, bias=False)
        self.key = Linear(width, inner)
        self.out = Linear(inner, 1, bias=False)

    def project_queries(self, states: Tensor) -> Tensor:
        return self.query(states)

    def project_keys(self, memory: Tensor) -> Tensor:
        return self.key(memory)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        hidden = (queries[:, :, None] + keys[:, None]).tanh()  # (batch, target, source, inner)
        return self.out(hidden).squeeze(-1)


class ConcatScore(AdditiveScore):
    """score(s, h) = v . tanh(W [s; h]) (Luong's concat): the halves of W correspond to Bahdanau's W and U."""

    def __init__(self, width: int, inner: int) -> None:
        DotScore.__init__(self, width, inner)
        self.both = Linear(2 * width, inner, bias=False)
        self.out = Linear(inner, 1, bias=False)

    def project_queries(self, states: Tensor) -> Tensor:
        return F.linear(states, self.both.weight[:, : self.width])

    def project_keys(self, memory: Tensor) -> Tensor:
        return F.linear(memory, self.both.weight[:, self.width :])


SCORES: dict[str, type[DotScore]] = {
    "dot": DotScore,
    "general": GeneralScore,
    "additive": AdditiveScore,
    "concat": ConcatScore,
}


@dataclass(frozen=True)
class AttentionSource:
    """What a decoder attends to: the encoder's states, their keys, and which of them are real tokens."""

    states: Tensor  # (batch, source, width)
    keys: Tensor  # (batch, source, ...)
    present: Tensor | None  # (batch, source); None: all

    def reorder(self, rows: Tensor) -> AttentionSource:
        """Select rows of the batch, as beam search does."""
        return AttentionSource(self.states[rows], self.keys[rows], None if self.present is None else self.present[rows])


@dataclass(frozen=True)
class AttentionOutput:
    """Attention output for a sequence of decoder states; without attention, the states themselves."""

    attentional: Tensor  # (batch, target, width): the input of the output layer
    queries: Tensor | None = None
    scores: Tensor | None = None  # (batch, target, source)
    probs: Tensor | None = None  # (batch, target, source), each row sums to one
    context: Tensor | None = None  # (batch, target, width)

    def to_steps(self, source: AttentionSource, *, products: bool) -> list[AttentionSteps]:
        """Convert to the steps of a trace: one head of cross-attention, or none without attention."""
        if self.queries is None or self.scores is None or self.probs is None or self.context is None:
            return []
        parts = (self.queries, source.keys, source.states, self.scores, self.probs, self.context)
        queries, keys, values, scores, probs, context = (part[:, None] for part in parts)
        return [AttentionSteps("cross", 0, queries, keys, values, scores, probs, context, products)]


class NoAttention(nn.Module):
    """Null object: the decoder receives only the encoder's final state and never attends to the source."""

    def prepare_source(self, memory: Tensor, present: Tensor | None) -> AttentionSource:
        """Return the encoder states without projected keys."""
        return AttentionSource(memory, memory, present)

    def forward(self, states: Tensor, source: AttentionSource) -> AttentionOutput:
        return AttentionOutput(states)


class RecurrentAttention(NoAttention):
    """The five steps of attention, for one decoder state or for all states of a text at once."""

    def __init__(self, width: int, recurrence: Recurrence) -> None:
        super().__init__()
        self.score = SCORES[recurrence.score](width, recurrence.score_width)
        self.mix = Linear(2 * width, width, bias=False)

    def prepare_source(self, memory: Tensor, present: Tensor | None) -> AttentionSource:
        """Step 1, once per text: keep all encoder states, not only the last."""
        return AttentionSource(memory, self.score.project_keys(memory), present)

    def forward(self, states: Tensor, source: AttentionSource) -> AttentionOutput:
        # 1. prepare the encoder states (`prepare_source`) and the decoder state
        queries = self.score.project_queries(states)
        # 2. score each encoder state; padding gets a score whose softmax is exactly zero
        scores = self.score(queries, source.keys)  # (batch, target, source)
        if source.present is not None:
            scores = scores.masked_fill(~source.present[:, None], max(MASKED_SCORE, torch.finfo(scores.dtype).min / 2))
        # 3. softmax: scores 13, 9, 9 become 0.96, 0.02, 0.02
        probs = scores.softmax(-1)
        # 4. multiply each encoder state by its weight, and 5. sum them into a context vector: one matrix product
        context = probs @ source.states  # (batch, target, width)
        #    ... concatenated with the decoder state: tanh(W [context; state])
        attentional = self.mix(torch.cat([context, states], -1)).tanh()
        return AttentionOutput(attentional, queries, scores, probs, context)


def build_attention(width: int, recurrence: Recurrence) -> NoAttention:
    """Build the attention that a shape describes."""
    return NoAttention() if recurrence.score == "none" else RecurrentAttention(width, recurrence)
