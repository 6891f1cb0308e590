"""One kind of attention of a trace, checked and ready to draw: queries, keys and probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.errors import InputError
from clearhead.explain.tokens import Token, label_tokens

if TYPE_CHECKING:
    from clearhead.core.trace import LayerTrace, Trace

    Array = np.ndarray[Any, Any]

PARTS = ("encoder", "decoder", "cross")
MAX_TOKENS = 512  # larger pictures are not readable
MIN_DRAWN_PROB = 0.01  # lines below this probability are not drawn


@dataclass(frozen=True)
class AttentionView:
    """The attention of one part of a trace: encoder, decoder or cross."""

    part: str
    name: str
    queries: list[Token]
    keys: list[Token]
    layers: list[LayerTrace]

    def probs(self, layer: int) -> Array:
        """Return the probabilities (heads, queries, keys) of one layer."""
        return self.layers[layer].probs

    @property
    def heads(self) -> int:
        """The largest number of heads of a layer."""
        return max(len(layer.probs) for layer in self.layers)


def list_parts(trace: Trace) -> list[str]:
    """List the kinds of attention that a trace contains."""
    return [part for part in PARTS if _part_layers(trace, part)]


def _part_layers(trace: Trace, part: str) -> list[LayerTrace]:
    return {"encoder": trace.layers, "decoder": trace.decoder, "cross": trace.cross}[part]


def view_part(trace: Trace, part: str = "encoder", *, as_alignment: bool = False) -> AttentionView:
    """Return one part of a trace, or raise InputError if it cannot be drawn.

    `as_alignment` labels target positions with the generated token instead of the input token.
    """
    parts = list_parts(trace)
    if not parts:
        raise InputError(
            "This trace has no attention: no layer was recorded. A recurrent model needs a target and must be created "
            "with attention."
        )
    if part not in parts:
        raise InputError(f"part must be one of {', '.join(parts)} for this trace, got {part!r}.")
    source, target = label_trace_tokens(trace, as_alignment=as_alignment)
    queries, keys = source if part == "encoder" else target, target if part == "decoder" else source
    token_count = max(len(queries), len(keys))
    if token_count > MAX_TOKENS:
        raise InputError(
            f"The text has {token_count} tokens; attention is drawn for at most {MAX_TOKENS}. Use a shorter text."
        )
    layers = _part_layers(trace, part)
    for layer in layers:
        if layer.probs.ndim != 3 or layer.probs.shape[1:] != (len(queries), len(keys)) or not len(layer.probs):
            raise InputError(
                f"Layer {layer.layer} of the {part} has probabilities of shape {layer.probs.shape}; "
                f"expected (heads, {len(queries)}, {len(keys)}) for these tokens."
            )
        if not np.isfinite(layer.probs).all():
            raise InputError(f"Layer {layer.layer} of the {part} has non-finite probabilities.")
    names = {"encoder": "Encoder self-attention", "decoder": "Decoder self-attention", "cross": "Cross-attention"}
    name = names[part] if "decoder" in parts or part != "encoder" else "Self-attention"
    return AttentionView(part, name, queries, keys, layers)


def label_trace_tokens(trace: Trace, *, as_alignment: bool = False) -> tuple[list[Token], list[Token]]:
    """Return the display tokens of the text and of the target."""
    target, special = trace.target_tokens or [], trace.next_special
    if as_alignment and trace.next_tokens:
        target = trace.next_tokens
    elif special is not None:
        special = [True, *special[:-1]]  # inputs are shifted by one: start symbol first
    return _label_tokens(trace.tokens, trace.special), _label_tokens(target, special)


def _label_tokens(tokens: list[str], special: list[bool] | None) -> list[Token]:
    return label_tokens(tokens, special if special is not None and len(special) == len(tokens) else None)


def check_layer(attention: AttentionView, layer: int) -> int:
    """Return the layer index, or raise InputError if out of range."""
    return _check_index("layer", layer, len(attention.layers))


def check_head(attention: AttentionView, layer: int, head: int) -> int:
    """Return the head index, or raise InputError if the layer has no such head."""
    return _check_index("head", head, len(attention.probs(layer)))


def check_any_head(attention: AttentionView, head: int) -> int:
    """Return the head index, or raise InputError if no layer has such a head."""
    return check_head(attention, max(range(len(attention.layers)), key=lambda layer: len(attention.probs(layer))), head)


def _check_index(index_name: str, value: int, count: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{index_name} must be an integer, got {value!r}.")
    if not 0 <= value < count:
        raise InputError(f"There is no {index_name} {value}: they are numbered from 0 to {count - 1}.")
    return int(value)


def mask_informative_links(attention: AttentionView) -> Array:
    """Return a mask (queries, keys) of informative links.

    It excludes links from or to special tokens, to the token itself, to its direct neighbors, and to the first token of
    a causal model: heads attend there when they have nothing to contribute.
    """
    mask = np.ones((len(attention.queries), len(attention.keys)), bool)
    mask[[token.special for token in attention.queries]] = False
    mask[:, [token.special for token in attention.keys]] = False
    if attention.part != "cross":
        for index in range(len(attention.queries)):
            mask[index, max(0, index - 1) : index + 2] = False
        if is_causal(attention):
            mask[:, 0] = False
    return mask


def find_informative_layer(attention: AttentionView, words: list[int] | None = None, head: int | None = None) -> int:
    """Return the layer with the most focused attention: the largest sum of squared probabilities.

    Each link counts with the probability of its strongest head.
    """
    rows = list(range(len(attention.queries))) if words is None else words
    mask = mask_informative_links(attention)
    best_focus, best_layer = 0.0, len(attention.layers) - 1
    for layer, trace_layer in enumerate(attention.layers):
        if head is not None and head >= len(trace_layer.probs):
            continue
        probs = trace_layer.probs if head is None else trace_layer.probs[head : head + 1]
        focus = float((np.where(mask, probs.max(0), 0.0)[rows] ** 2).sum())
        if focus > best_focus + 1e-9:
            best_focus, best_layer = focus, layer
    return best_layer


def find_strongest_link(
    attention: AttentionView, layer: int, words: list[int] | None, head: int | None
) -> tuple[int, int]:
    """Return the head and the query of the strongest informative link."""
    probs = np.where(mask_informative_links(attention), attention.probs(layer), 0.0)
    heads = list(range(len(probs))) if head is None else [head]
    rows = list(range(len(attention.queries))) if words is None else words
    strongest = probs[heads][:, rows].max(-1)  # (heads, rows)
    head_index, row = np.unravel_index(int(strongest.argmax()), strongest.shape)
    return heads[head_index], rows[row]


def is_causal(attention: AttentionView) -> bool:
    """Whether no token attends to later tokens."""
    if attention.part == "cross" or len(attention.queries) < 2:
        return False
    return all(float(np.triu(layer.probs, 1).max()) == 0.0 for layer in attention.layers)
