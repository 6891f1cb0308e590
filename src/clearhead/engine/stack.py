"""A stack as operators: words, positions, blocks, final norm."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from clearhead.engine import positions
from clearhead.engine.attention import AttentionNodes, add_shared_biases, cross_attention, self_attention
from clearhead.engine.layers import GraphBuilder, activate, add_norm
from clearhead.shape import Shape


@dataclass
class StackOutput:
    """What a stack has made, by name."""

    hidden: list[str] = field(default_factory=list)  # the embeddings first
    kept: list[tuple[str, str]] = field(default_factory=list)  # keys and values of each layer, where there is a cache

    @property
    def last(self) -> str:
        """The top."""
        return self.hidden[-1]


def add_embedding(parts: GraphBuilder, shape: Shape, ids: str, segments: str, at: str, prefix: str, words: str) -> str:
    """Words and segments to vectors, with positions, norm, and a projection where words are narrower."""
    g = parts.g
    x = g.add("Gather", parts.weight(words), ids, axis=0)
    if shape.embed_scale != 1.0:
        x = g.add("Mul", x, g.scalar(shape.embed_scale))
    if shape.segments:
        table = parts.weight(f"{prefix}embed.segment.weight")
        x = g.add("Add", x, g.add("Gather", table, segments or g.constant([0]), axis=0))
    x = positions.add_positions(parts, shape, x, ids, at, prefix)
    if shape.project == "before":
        x = parts.linear(x, f"{prefix}embed.project")
    if shape.embed_norm:
        x = parts.norm(x, f"{prefix}embed.norm", shape)
    return parts.linear(x, f"{prefix}embed.project") if shape.project == "after" else x


def add_stack(
    parts: GraphBuilder,
    shape: Shape,
    ids: str,
    segments: str,
    seen: AttentionNodes,
    prefix: str,
    words: str,
    *,
    first: bool = False,
) -> StackOutput:
    """Hidden states of every layer; with `first`, the last layer works out each text's first token alone."""
    x = add_embedding(parts, shape, ids, segments, seen.queries, prefix, words)
    seen = add_shared_biases(parts, shape, seen, prefix)
    made = StackOutput([x])
    for layer, block in enumerate(shape.block_of_layer):
        if first and layer == shape.layers - 1:
            seen = restrict_to_first_token(parts, seen)
        x, kept = _add_block(parts, shape, x, f"{prefix}blocks.{block}", block, layer, seen)
        made.hidden.append(x)
        if kept is not None:
            made.kept.append(kept)
    if shape.final_norm:
        made.hidden[-1] = parts.norm(x, f"{prefix}norm", shape)
    return made


def restrict_to_first_token(parts: GraphBuilder, seen: AttentionNodes) -> AttentionNodes:
    """What is given where only the first token asks: the first row of each bias."""
    g = parts.g

    def row(bias: str) -> str:
        return g.add("Slice", bias, g.constant([0]), g.constant([1]), g.constant([2])) if bias else ""

    return replace(seen, wide=row(seen.wide), narrow=row(seen.narrow), first=True)


def _add_block(
    parts: GraphBuilder, shape: Shape, x: str, name: str, block: int, layer: int, seen: AttentionNodes
) -> tuple[str, tuple[str, str] | None]:
    """Self-attention, cross-attention where there is an encoder, feed-forward, each with a way around it."""
    after = shape.norm_position == "after"

    def before(x: str, part: str) -> str:
        return x if after or not _has_norm(shape, block, part) else parts.norm(x, f"{name}.{part}.norm", shape)

    def joined(x: str, inner: str, last: str, part: str) -> str:
        total = parts.g.add("Add", x, parts.linear(inner, last))
        return parts.norm(total, f"{name}.{part}.norm", shape) if after and _has_norm(shape, block, part) else total

    inner = f"{name}.attend.inner"
    context, kept = self_attention(parts, shape, before(x, "attend"), inner, block, layer, seen)
    # what is said is added onto those that ask
    asking = parts.g.add("Gather", x, parts.g.constant([0]), axis=1) if seen.first else x
    y = joined(asking, context, f"{inner}.out", "attend")
    if shape.cross:
        inner = f"{name}.cross.inner"
        context = cross_attention(parts, shape, before(y, "cross"), inner, block, layer, seen)
        y = joined(y, context, f"{inner}.out", "cross")
    inner = f"{name}.feed.inner"
    y = joined(y, _feed_forward_hidden(parts, shape, before(y, "feed"), inner), f"{inner}.down", "feed")
    return (
        _add_convolution(parts, shape, x, y, f"{name}.convolve", seen) if shape.conv_kernel and block == 0 else y
    ), kept


def _has_norm(shape: Shape, block: int, part: str) -> bool:
    return shape.first_norm or block > 0 or part != "attend"


def _feed_forward_hidden(parts: GraphBuilder, shape: Shape, x: str, name: str) -> str:
    """act(W_1 x), or act(W_g x) * W_1 x: what W_2 is given."""
    g = parts.g
    if shape.feed_forward == "plain":
        (up,) = parts.product(x, f"{name}.up")
        return activate(g, shape.activation, up, parts.bias(f"{name}.up"))
    gate, up = parts.product(x, f"{name}.gate", f"{name}.up")
    bias = parts.bias(f"{name}.up")
    opened = activate(g, shape.activation, gate, parts.bias(f"{name}.gate"))
    return g.add("Mul", opened, g.add("Add", up, bias) if bias else up)


def _add_convolution(parts: GraphBuilder, shape: Shape, x: str, y: str, name: str, seen: AttentionNodes) -> str:
    """DeBERTa's convolution over neighbouring words, beside the first block: norm(y + act(conv(x)))."""
    g = parts.g
    if seen.present:  # padding is silence to its neighbours
        x = g.add("Mul", x, g.add("Cast", g.add("Unsqueeze", seen.present, g.constant([-1])), to=1))
    side = (shape.conv_kernel - 1) // 2
    wide = g.add(
        "Conv",
        g.add("Transpose", x, perm=[0, 2, 1]),
        parts.weight(f"{name}.conv.weight"),
        parts.weight(f"{name}.conv.bias"),
        pads=[side, side],
        group=shape.conv_groups,
    )
    beside = activate(g, shape.conv_activation, g.add("Transpose", wide, perm=[0, 2, 1]))
    return add_norm(parts, g.add("Add", y, beside), f"{name}.norm", eps=shape.eps)
