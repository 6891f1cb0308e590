"""Names and sizes of all tensors of a shape. Needs no torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from clearhead.shape import HeadShape, ModelShape, Recurrence, Shape

TensorSizes = dict[str, tuple[int, ...]]
PrunedHeads = Mapping[str, Mapping[str, Collection[int]]]  # part, block, heads


def expected_sizes(model: ModelShape) -> TensorSizes:
    """Return the name and size of every tensor of a model; tied tensors are listed once."""
    sizes = {f"stack.{name}": size for name, size in _stack_sizes(model.stack).items()}
    if model.decoder is not None:
        decoder = {f"decoder.{name}": size for name, size in _stack_sizes(model.decoder).items()}
        if model.share_embeddings:
            del decoder["decoder.embed.token.weight"]
        sizes |= decoder
    if model.pooler is not None:
        sizes |= _linear_sizes("pooler.dense", model.stack.width, model.stack.width, bias=True)
    if model.head is not None:
        sizes |= _head_sizes("head", model.head, model.top)
    if model.second_head is not None:
        sizes |= _head_sizes("second", model.second_head, model.top)
    return sizes


def tied_tensors(model: ModelShape) -> dict[str, str]:
    """Return the tied tensors, each with the name of the tensor that it shares."""
    tied = {}
    if model.decoder is not None and model.share_embeddings:
        tied["decoder.embed.token.weight"] = "stack.embed.token.weight"
    if model.head is not None and model.head.tied:
        has_own_embeddings = model.decoder is not None and not model.share_embeddings
        tied["head.out.weight"] = ("decoder" if has_own_embeddings else "stack") + ".embed.token.weight"
    return tied


def count_values(sizes: TensorSizes) -> int:
    """Count the values of tensors with these sizes."""
    total = 0
    for size in sizes.values():
        count = 1
        for side in size:
            count *= side
        total += count
    return total


def check_pruned(model: ModelShape, pruned: PrunedHeads) -> None:
    """Refuse pruned heads that do not exist, and blocks without any remaining head."""
    parts = {"encoder": model.stack} | ({} if model.decoder is None else {"decoder": model.decoder})
    if model.decoder is not None and model.decoder.cross:
        parts["cross"] = model.decoder
    for part, blocks in pruned.items():
        if part not in parts:
            raise ValueError(f"part {part[:40]!r} does not exist, expected {' or '.join(parts)}.")
        for block, heads in blocks.items():
            if not 0 <= int(block) < parts[part].blocks:
                raise ValueError(f"{part} has no block {block[:20]}, only {parts[part].blocks} blocks.")
            if unknown := sorted(set(heads) - set(range(parts[part].heads))):
                raise ValueError(f"block {block} of the {part} has no head {unknown[0]}.")
            if len(set(heads)) >= parts[part].heads:
                raise ValueError(f"block {block} of the {part} must keep a head.")


def count_pruned_values(model: ModelShape, pruned: PrunedHeads) -> int:
    """Count the parameters that pruning removed."""
    total = 0
    for part, blocks in pruned.items():
        shape = model.stack if part == "encoder" else model.top
        biases = 3 if shape.attention_bias else 0
        head_values = shape.head_width * (4 * shape.width + biases)
        if part == "encoder" and shape.relative == "disentangled" and not shape.share_projections:
            head_values += len(shape.relative_terms) * shape.head_width * (shape.width + 1)
        total += head_values * sum(len(heads) for heads in blocks.values())
    return total


def _linear_sizes(name: str, inputs: int, outputs: int, *, bias: bool) -> TensorSizes:
    sizes: TensorSizes = {f"{name}.weight": (outputs, inputs)}
    if bias:
        sizes[f"{name}.bias"] = (outputs,)
    return sizes


def _norm_sizes(name: str, width: int, *, bias: bool) -> TensorSizes:
    sizes: TensorSizes = {f"{name}.weight": (width,)}
    if bias:
        sizes[f"{name}.bias"] = (width,)
    return sizes


def _stack_sizes(shape: Shape) -> TensorSizes:
    if shape.recurrent is not None:
        return _recurrent_sizes(shape, shape.recurrent)
    norm_bias = shape.norm_bias and shape.norm == "layer"
    token_width = shape.token_width
    sizes: TensorSizes = {"embed.token.weight": (shape.vocab_size, token_width)}
    if shape.segments:
        sizes["embed.segment.weight"] = (shape.segments, token_width)
    if shape.embed_norm:
        sizes |= _norm_sizes("embed.norm", shape.width if shape.project == "before" else token_width, bias=norm_bias)
    if shape.project != "none":
        sizes |= _linear_sizes("embed.project", token_width, shape.width, bias=shape.project_bias)
    if shape.positions == "learned":
        sizes["positions.table.weight"] = ((shape.max_length or 0) + shape.position_offset, token_width)
    if shape.relative == "buckets":
        sizes["relative.table.weight"] = (shape.bucket_rows or shape.buckets, shape.heads)
    if shape.relative == "disentangled":
        sizes["relative.table.weight"] = (2 * shape.relative_span, shape.width)
        if shape.relative_norm:
            sizes |= _norm_sizes("relative.norm", shape.width, bias=True)
    for block in range(shape.blocks):
        sizes |= {f"blocks.{block}.{name}": size for name, size in _block_sizes(shape, block).items()}
    if shape.final_norm:
        sizes |= _norm_sizes("norm", shape.width, bias=norm_bias)
    return sizes


def _recurrent_sizes(shape: Shape, recurrence: Recurrence) -> TensorSizes:
    """Return the sizes of a recurrent encoder or decoder; cells have the parameter names of torch."""
    width, gates = shape.width, 4 if recurrence.cell == "lstm" else 3
    direction_width = width // 2 if recurrence.bidirectional else width
    sizes: TensorSizes = {"embed.token.weight": (shape.vocab_size, shape.token_width)}
    if recurrence.independent_directions:
        for name in (f"layers.{layer}.{direction}" for layer in range(shape.layers) for direction in ("forth", "back")):
            sizes |= {f"{name}.weight_{part}_l0": (gates * direction_width, direction_width) for part in ("ih", "hh")}
            sizes |= {f"{name}.bias_{part}_l0": (gates * direction_width,) for part in ("ih", "hh")}
        return sizes
    for layer in range(shape.layers):
        inputs = width if layer else shape.token_width + (width if recurrence.input_feeding else 0)
        for direction in ("", "_reverse") if recurrence.bidirectional else ("",):
            sizes[f"layers.{layer}.weight_ih_l0{direction}"] = (gates * direction_width, inputs)
            sizes[f"layers.{layer}.weight_hh_l0{direction}"] = (gates * direction_width, direction_width)
            sizes |= {f"layers.{layer}.bias_{part}_l0{direction}": (gates * direction_width,) for part in ("ih", "hh")}
    if not shape.causal:
        return sizes
    for layer in range(shape.layers):
        for bridge in ("bridge", "bridge_cell") if recurrence.cell == "lstm" else ("bridge",):
            sizes |= _linear_sizes(f"{bridge}.{layer}", width, width, bias=True)
    if recurrence.score == "general":
        sizes |= _linear_sizes("align.score.key", width, width, bias=False)
    elif recurrence.score == "additive":
        sizes |= _linear_sizes("align.score.query", width, recurrence.score_width, bias=False)
        sizes |= _linear_sizes("align.score.key", width, recurrence.score_width, bias=True)
    elif recurrence.score == "concat":
        sizes |= _linear_sizes("align.score.both", 2 * width, recurrence.score_width, bias=False)
    if recurrence.score in ("additive", "concat"):
        sizes |= _linear_sizes("align.score.out", recurrence.score_width, 1, bias=False)
    return sizes if recurrence.score == "none" else sizes | _linear_sizes("align.mix", 2 * width, width, bias=False)


def _block_sizes(shape: Shape, block: int) -> TensorSizes:
    norm_bias = shape.norm_bias and shape.norm == "layer"
    sizes = _attention_sizes("attend", shape)
    if shape.first_norm or block > 0:
        sizes |= _norm_sizes("attend.norm", shape.width, bias=norm_bias)
    if shape.relative == "disentangled" and not shape.share_projections:
        projection_width = shape.heads * shape.head_width
        if "c2p" in shape.relative_terms:
            sizes |= _linear_sizes("attend.inner.position_k", shape.width, projection_width, bias=True)
        if "p2c" in shape.relative_terms:
            sizes |= _linear_sizes("attend.inner.position_q", shape.width, projection_width, bias=True)
    if shape.cross:
        sizes |= _attention_sizes("cross", shape) | _norm_sizes("cross.norm", shape.width, bias=norm_bias)
    for name in ("up", "gate") if shape.feed_forward == "gated" else ("up",):
        sizes |= _linear_sizes(
            f"feed.inner.{name}", shape.width, shape.feed_forward_width, bias=shape.feed_forward_bias
        )
    sizes |= _linear_sizes("feed.inner.down", shape.feed_forward_width, shape.width, bias=shape.feed_forward_bias)
    sizes |= _norm_sizes("feed.norm", shape.width, bias=norm_bias)
    if shape.conv_kernel and block == 0:
        sizes["convolve.conv.weight"] = (shape.width, shape.width // shape.conv_groups, shape.conv_kernel)
        sizes["convolve.conv.bias"] = (shape.width,)
        sizes |= _norm_sizes("convolve.norm", shape.width, bias=True)
    return sizes


def _attention_sizes(name: str, shape: Shape) -> TensorSizes:
    projection_width = shape.heads * shape.head_width
    sizes: TensorSizes = {}
    for part in "qkv":
        sizes |= _linear_sizes(f"{name}.inner.{part}", shape.width, projection_width, bias=shape.attention_bias)
    return sizes | _linear_sizes(f"{name}.inner.out", projection_width, shape.width, bias=shape.attention_bias)


def _head_sizes(name: str, head: HeadShape, top: Shape) -> TensorSizes:
    sizes: TensorSizes = {}
    width = top.token_width if head.kind == "bilm" else top.width  # one output matrix for both directions
    if head.dense is not None:
        sizes |= _linear_sizes(f"{name}.dense", width, head.dense, bias=head.dense_bias)
        width = head.dense
    if head.norm:
        sizes |= _norm_sizes(f"{name}.norm", width, bias=head.norm_bias)
    sizes |= _linear_sizes(f"{name}.out", width, head.outputs, bias=head.out_bias)
    if head.tied:
        del sizes[f"{name}.out.weight"]
    return sizes
