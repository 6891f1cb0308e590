"""Traces: every step of every attention sub-layer for one text, as arrays, with its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.batch import Batch
from clearhead.core.attention import AttentionSteps, Recorder
from clearhead.core.runner import CoreRunner
from clearhead.deprecation import renamed_fields

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@renamed_fields(products="has_dot_products")
@dataclass(frozen=True, kw_only=True)
class LayerTrace:
    """One attention sub-layer: arrays of (heads, ...)."""

    layer: int
    queries: Array  # (heads, queries, head_width)
    keys: Array  # (heads, keys, head_width)
    values: Array
    scores: Array  # (heads, queries, keys), scaled, before the softmax
    probs: Array  # (heads, queries, keys), each row sums to 1
    context: Array  # (heads, queries, head_width)
    has_dot_products: bool = True  # whether scores are query times key; False for additive attention

    def __repr__(self) -> str:
        heads, queries, keys = self.probs.shape
        return f"LayerTrace(layer {self.layer}, {heads} heads, {queries} queries, {keys} keys)"


@renamed_fields(written="next_tokens", written_special="next_special")
@dataclass(frozen=True, kw_only=True)
class Trace:
    """All attention steps and hidden states of one text, and of its target if the model has a decoder."""

    tokens: list[str]
    target_tokens: list[str] | None
    layers: list[LayerTrace]  # the encoder's self-attention, or GPT's
    decoder: list[LayerTrace]
    cross: list[LayerTrace]
    hidden: list[Array]  # layers + 1 of (length, width)
    target_hidden: list[Array] | None
    logits: Array | None
    next_tokens: list[str] | None = (
        None  # the correct next token of each target position: target_tokens, shifted by one
    )
    text: str | None = None  # the original text
    second: str | None = None  # the second text of a pair
    target: str | None = None  # the target as a text
    special: list[bool] | None = (
        None  # of tokens: whether the tokenizer added them; None: recognized by their names only
    )
    next_special: list[bool] | None = None  # of next_tokens: whether the tokenizer added them

    def attention(self, layer: int, head: int | None = None) -> Array:
        """Attention probabilities of one layer: of one head, or averaged over all heads."""
        probs = self.layers[layer].probs
        return probs.mean(0) if head is None else probs[head]

    def __repr__(self) -> str:
        heads = self.layers[0].probs.shape[0] if self.layers else 0
        return f"Trace({len(self.tokens)} tokens, {len(self.layers)} layers, {heads} heads)"


def trace(
    runner: CoreRunner,
    batch: Batch,
    tokens: list[str],
    target_tokens: list[str] | None = None,
    next_tokens: list[str] | None = None,
    **options: Any,
) -> Trace:
    """Run one text with explicit attention and keep every step."""
    recorder = Recorder()
    out = runner.run(batch, recorder=recorder, **options)
    parts = {
        part: [_layer(steps) for steps in recorder.steps if steps.part == part]
        for part in ("encoder", "decoder", "cross")
    }
    return Trace(
        tokens=tokens,
        target_tokens=target_tokens,
        layers=parts["encoder"],
        decoder=parts["decoder"],
        cross=parts["cross"],
        hidden=[state[0] for state in out.hidden],
        target_hidden=None if out.target_hidden is None else [state[0] for state in out.target_hidden],
        logits=None if out.logits is None else out.logits[0],
        next_tokens=next_tokens,
    )


def _layer(steps: AttentionSteps) -> LayerTrace:
    def array(name: str) -> Array:
        return getattr(steps, name)[0].detach().float().cpu().numpy()

    names = ("queries", "keys", "values", "scores", "probs", "context")
    return LayerTrace(
        layer=steps.layer, has_dot_products=steps.has_dot_products, **{name: array(name) for name in names}
    )
