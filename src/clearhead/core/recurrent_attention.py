"""Attention as the recurrent ancestor has it: each decoder state looks at every encoder state and takes their mixture.

One head, one layer: a trace shows it as the cross-attention of layer 0, head 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.core.attention import LOW, AttentionSteps
from clearhead.core.layers import Linear
from clearhead.shape import Recurrence


class DotScore(nn.Module):
    """score(s, h) = s . h, without a parameter (Luong's dot)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.width = width

    def queries(self, states: Tensor) -> Tensor:
        """The decoder's states as they are compared: (batch, target, ...)."""
        return states

    def keys(self, memory: Tensor) -> Tensor:
        """The encoder's states as they are compared, made once for all steps: (batch, source, ...)."""
        return memory

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.transpose(1, 2)  # (batch, target, source)


class GeneralScore(DotScore):
    """score(s, h) = s . W h (Luong's general)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__(width, inner)
        self.key = Linear(width, width, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.key(memory)


class AdditiveScore(DotScore):
    """score(s, h) = v . tanh(W s + U h + b) (Bahdanau's)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__(width, inner)
        self.query = Linear(width, inner, bias=False)
        self.key = Linear(width, inner)
        self.out = Linear(inner, 1, bias=False)

    def queries(self, states: Tensor) -> Tensor:
        return self.query(states)

    def keys(self, memory: Tensor) -> Tensor:
        return self.key(memory)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        both = (queries[:, :, None] + keys[:, None]).tanh()  # (batch, target, source, inner)
        return self.out(both).squeeze(-1)


class ConcatScore(AdditiveScore):
    """score(s, h) = v . tanh(W [s; h]) (Luong's concat): one matrix, whose two halves are Bahdanau's W and U."""

    def __init__(self, width: int, inner: int) -> None:
        DotScore.__init__(self, width, inner)
        self.both = Linear(2 * width, inner, bias=False)
        self.out = Linear(inner, 1, bias=False)

    def queries(self, states: Tensor) -> Tensor:
        return F.linear(states, self.both.weight[:, : self.width])

    def keys(self, memory: Tensor) -> Tensor:
        return F.linear(memory, self.both.weight[:, self.width :])


SCORES: dict[str, type[DotScore]] = {
    "dot": DotScore,
    "general": GeneralScore,
    "additive": AdditiveScore,
    "concat": ConcatScore,
}


@dataclass(frozen=True)
class AttentionSource:
    """What a decoder may look at: the encoder's states, how they are compared, and which of them are real words."""

    states: Tensor  # (batch, source, width)
    keys: Tensor  # (batch, source, ...)
    present: Tensor | None  # (batch, source); None: all

    def reorder(self, rows: Tensor) -> AttentionSource:
        """The same for other rows of the batch."""
        return AttentionSource(self.states[rows], self.keys[rows], None if self.present is None else self.present[rows])


@dataclass(frozen=True)
class AttentionOutput:
    """What attention made of some decoder states; without attention, the states themselves."""

    attentional: Tensor  # (batch, target, width): what the output layer reads
    queries: Tensor | None = None
    scores: Tensor | None = None  # (batch, target, source)
    probs: Tensor | None = None  # (batch, target, source), each row sums to one
    context: Tensor | None = None  # (batch, target, width)

    def steps(self, source: AttentionSource, *, products: bool) -> list[AttentionSteps]:
        """The same as a trace keeps it: one head of cross-attention, or none."""
        if self.queries is None or self.scores is None or self.probs is None or self.context is None:
            return []
        parts = (self.queries, source.keys, source.states, self.scores, self.probs, self.context)
        queries, keys, values, scores, probs, context = (part[:, None] for part in parts)
        return [AttentionSteps("cross", 0, queries, keys, values, scores, probs, context, products)]


class NoAttention(nn.Module):
    """No attention: only the encoder's last states are handed over, and the decoder never looks back."""

    def source(self, memory: Tensor, present: Tensor | None) -> AttentionSource:
        """Nothing to compare with."""
        return AttentionSource(memory, memory, present)

    def forward(self, states: Tensor, source: AttentionSource) -> AttentionOutput:
        return AttentionOutput(states)


class RecurrentAttention(NoAttention):
    """The five steps of attention, for one decoder state or for all of a sentence at once."""

    def __init__(self, width: int, how: Recurrence) -> None:
        super().__init__()
        self.score = SCORES[how.score](width, how.score_width)
        self.mix = Linear(2 * width, width, bias=False)

    def source(self, memory: Tensor, present: Tensor | None) -> AttentionSource:
        """Step 1, once for each text: every encoder state is kept, not only the last."""
        return AttentionSource(memory, self.score.keys(memory), present)

    def forward(self, states: Tensor, source: AttentionSource) -> AttentionOutput:
        # 1. prepare the encoder states (`source`) and the decoder state
        queries = self.score.queries(states)
        # 2. score each encoder state; padding gets what the softmax turns into exactly zero
        scores = self.score(queries, source.keys)  # (batch, target, source)
        if source.present is not None:
            scores = scores.masked_fill(~source.present[:, None], max(LOW, torch.finfo(scores.dtype).min / 2))
        # 3. softmax: scores 13, 9, 9 become 0.96, 0.02, 0.02
        probs = scores.softmax(-1)
        # 4. multiply each encoder state by its weight, and 5. sum them into a context vector: one matrix product
        context = probs @ source.states  # (batch, target, width)
        #    ... concatenated with the decoder state: tanh(W [context; state])
        mixed = self.mix(torch.cat([context, states], -1)).tanh()
        return AttentionOutput(mixed, queries, scores, probs, context)


def build_attention(width: int, how: Recurrence) -> NoAttention:
    """The attention that a shape asks for."""
    return NoAttention() if how.score == "none" else RecurrentAttention(width, how)
