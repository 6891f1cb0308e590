"""A stack as ONNX operators: embedding, positions, blocks, final norm."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from clearhead.engine import positions
from clearhead.engine.attention import AttentionNodes, add_shared_biases, cross_attention, self_attention
from clearhead.engine.layers import GraphBuilder, activate, add_norm
from clearhead.shape import Shape


@dataclass
class StackOutput:
    """Names of the outputs of a stack."""

    hidden: list[str] = field(default_factory=list)  # the embeddings first
    new_cache: list[tuple[str, str]] = field(default_factory=list)  # keys and values of each layer, if there is a cache

    @property
    def last(self) -> str:
        """The last hidden state."""
        return self.hidden[-1]


def add_embedding(
    builder: GraphBuilder, shape: Shape, ids: str, segments: str, positions_node: str, prefix: str, token_table: str
) -> str:
    """Map tokens and segments to vectors, with positions, norm, and a projection if the embeddings are narrower."""
    g = builder.g
    x = g.add("Gather", builder.weight(token_table), ids, axis=0)
    if shape.embed_scale != 1.0:
        x = g.add("Mul", x, g.scalar(shape.embed_scale))
    if shape.segments:
        table = builder.weight(f"{prefix}embed.segment.weight")
        x = g.add("Add", x, g.add("Gather", table, segments or g.constant([0]), axis=0))
    x = positions.add_positions(builder, shape, x, ids, positions_node, prefix)
    if shape.project == "before":
        x = builder.linear(x, f"{prefix}embed.project")
    if shape.embed_norm:
        x = builder.norm(x, f"{prefix}embed.norm", shape)
    return builder.linear(x, f"{prefix}embed.project") if shape.project == "after" else x


def add_stack(
    builder: GraphBuilder,
    shape: Shape,
    ids: str,
    segments: str,
    inputs: AttentionNodes,
    prefix: str,
    token_table: str,
    *,
    first: bool = False,
) -> StackOutput:
    """Compute the hidden states of every layer; with `first`, the last layer computes only the first tokens."""
    x = add_embedding(builder, shape, ids, segments, inputs.query_positions, prefix, token_table)
    inputs = add_shared_biases(builder, shape, inputs, prefix)
    output = StackOutput([x])
    for layer, block in enumerate(shape.block_of_layer):
        if first and layer == shape.layers - 1:
            inputs = restrict_to_first_token(builder, inputs)
        x, new_cache = _add_block(builder, shape, x, f"{prefix}blocks.{block}", block, layer, inputs)
        output.hidden.append(x)
        if new_cache is not None:
            output.new_cache.append(new_cache)
    if shape.final_norm:
        output.hidden[-1] = builder.norm(x, f"{prefix}norm", shape)
    return output


def restrict_to_first_token(builder: GraphBuilder, inputs: AttentionNodes) -> AttentionNodes:
    """Restrict the queries to the first token: keep only the first row of each bias."""
    g = builder.g

    def row(bias: str) -> str:
        return g.add("Slice", bias, g.constant([0]), g.constant([1]), g.constant([2])) if bias else ""

    return replace(inputs, global_bias=row(inputs.global_bias), local_bias=row(inputs.local_bias), first_only=True)


def _add_block(
    builder: GraphBuilder, shape: Shape, x: str, name: str, block: int, layer: int, inputs: AttentionNodes
) -> tuple[str, tuple[str, str] | None]:
    """Add self-attention, optional cross-attention and feed-forward network, each with a residual connection."""
    is_post_norm = shape.norm_position == "after"

    def pre_norm(x: str, part: str) -> str:
        return x if is_post_norm or not _has_norm(shape, block, part) else builder.norm(x, f"{name}.{part}.norm", shape)

    def add_residual(x: str, inner: str, last: str, part: str) -> str:
        total = builder.g.add("Add", x, builder.linear(inner, last))
        return (
            builder.norm(total, f"{name}.{part}.norm", shape)
            if is_post_norm and _has_norm(shape, block, part)
            else total
        )

    inner = f"{name}.attend.inner"
    context, new_cache = self_attention(builder, shape, pre_norm(x, "attend"), inner, block, layer, inputs)
    # the residual stream continues only for the queries
    residual = builder.g.add("Gather", x, builder.g.constant([0]), axis=1) if inputs.first_only else x
    y = add_residual(residual, context, f"{inner}.out", "attend")
    if shape.cross:
        inner = f"{name}.cross.inner"
        context = cross_attention(builder, shape, pre_norm(y, "cross"), inner, block, layer, inputs)
        y = add_residual(y, context, f"{inner}.out", "cross")
    inner = f"{name}.feed.inner"
    y = add_residual(y, _feed_forward_hidden(builder, shape, pre_norm(y, "feed"), inner), f"{inner}.down", "feed")
    return (
        _add_convolution(builder, shape, x, y, f"{name}.convolve", inputs) if shape.conv_kernel and block == 0 else y
    ), new_cache


def _has_norm(shape: Shape, block: int, part: str) -> bool:
    return shape.first_norm or block > 0 or part != "attend"


def _feed_forward_hidden(builder: GraphBuilder, shape: Shape, x: str, name: str) -> str:
    """act(W_1 x), or act(W_g x) * W_1 x: the input of W_2."""
    g = builder.g
    if shape.feed_forward == "plain":
        (up,) = builder.product(x, f"{name}.up")
        return activate(g, shape.activation, up, builder.bias(f"{name}.up"))
    gate, up = builder.product(x, f"{name}.gate", f"{name}.up")
    bias = builder.bias(f"{name}.up")
    activated = activate(g, shape.activation, gate, builder.bias(f"{name}.gate"))
    return g.add("Mul", activated, g.add("Add", up, bias) if bias else up)


def _add_convolution(builder: GraphBuilder, shape: Shape, x: str, y: str, name: str, inputs: AttentionNodes) -> str:
    """DeBERTa's convolution over neighboring tokens, parallel to the first block: norm(y + act(conv(x)))."""
    g = builder.g
    if inputs.present:  # padding must not change its neighbors
        x = g.add("Mul", x, g.add("Cast", g.add("Unsqueeze", inputs.present, g.constant([-1])), to=1))
    padding = (shape.conv_kernel - 1) // 2
    convolved = g.add(
        "Conv",
        g.add("Transpose", x, perm=[0, 2, 1]),
        builder.weight(f"{name}.conv.weight"),
        builder.weight(f"{name}.conv.bias"),
        pads=[padding, padding],
        group=shape.conv_groups,
    )
    activated = activate(g, shape.conv_activation, g.add("Transpose", convolved, perm=[0, 2, 1]))
    return add_norm(builder, g.add("Add", y, activated), f"{name}.norm", eps=shape.eps)
