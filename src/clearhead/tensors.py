"""The parts list of a shape: every tensor's name and size, known before a byte is read and without torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from clearhead.shape import HeadShape, ModelShape, Recurrence, Shape

TensorSizes = dict[str, tuple[int, ...]]
PrunedHeads = Mapping[str, Mapping[str, Collection[int]]]  # part, block, heads


def expected_sizes(model: ModelShape) -> TensorSizes:
    """Name and size of every tensor that a model of this shape needs, tied ones once."""
    sizes = {f"stack.{name}": size for name, size in _stack(model.stack).items()}
    if model.decoder is not None:
        decoder = {f"decoder.{name}": size for name, size in _stack(model.decoder).items()}
        if model.share_embeddings:
            del decoder["decoder.embed.token.weight"]
        sizes |= decoder
    if model.pooler is not None:
        sizes |= _linear("pooler.dense", model.stack.width, model.stack.width, bias=True)
    if model.head is not None:
        sizes |= _head("head", model.head, model.top)
    if model.second_head is not None:
        sizes |= _head("second", model.second_head, model.top)
    return sizes


def tied_tensors(model: ModelShape) -> dict[str, str]:
    """Tensors that are another tensor: the name and the one it is tied to."""
    tied = {}
    if model.decoder is not None and model.share_embeddings:
        tied["decoder.embed.token.weight"] = "stack.embed.token.weight"
    if model.head is not None and model.head.tied:
        own_table = model.decoder is not None and not model.share_embeddings
        tied["head.out.weight"] = ("decoder" if own_table else "stack") + ".embed.token.weight"
    return tied


def count_values(sizes: TensorSizes) -> int:
    """How many numbers these tensors hold."""
    total = 0
    for size in sizes.values():
        product = 1
        for side in size:
            product *= side
        total += product
    return total


def check_pruned(model: ModelShape, pruned: PrunedHeads) -> None:
    """Refuse heads that a model of this shape never had, and a block that would have none left."""
    parts = {"encoder": model.stack} | ({} if model.decoder is None else {"decoder": model.decoder})
    if model.decoder is not None and model.decoder.cross:
        parts["cross"] = model.decoder
    for part, blocks in pruned.items():
        if part not in parts:
            raise ValueError(f"there is no part {part[:40]!r}.")
        for block, heads in blocks.items():
            if not 0 <= int(block) < parts[part].blocks:
                raise ValueError(f"there is no block {block[:20]} in the {part}; it has {parts[part].blocks}.")
            if unknown := sorted(set(heads) - set(range(parts[part].heads))):
                raise ValueError(f"block {block} of the {part} has no head {unknown[0]}.")
            if len(set(heads)) >= parts[part].heads:
                raise ValueError(f"block {block} of the {part} must keep a head.")


def count_pruned_values(model: ModelShape, pruned: PrunedHeads) -> int:
    """How many numbers went with pruned heads."""
    total = 0
    for part, blocks in pruned.items():
        shape = model.stack if part == "encoder" else model.top
        biases = 3 if shape.attention_bias else 0
        each = shape.head_width * (4 * shape.width + biases)
        if part == "encoder" and shape.relative == "disentangled" and not shape.share_projections:
            each += len(shape.relative_terms) * shape.head_width * (shape.width + 1)
        total += each * sum(len(heads) for heads in blocks.values())
    return total


def _linear(name: str, inputs: int, outputs: int, *, bias: bool) -> TensorSizes:
    sizes: TensorSizes = {f"{name}.weight": (outputs, inputs)}
    if bias:
        sizes[f"{name}.bias"] = (outputs,)
    return sizes


def _norm(name: str, width: int, *, bias: bool) -> TensorSizes:
    sizes: TensorSizes = {f"{name}.weight": (width,)}
    if bias:
        sizes[f"{name}.bias"] = (width,)
    return sizes


def _stack(shape: Shape) -> TensorSizes:
    if shape.recurrent is not None:
        return _layers(shape, shape.recurrent)
    norm_bias = shape.norm_bias and shape.norm == "layer"
    words = shape.token_width
    sizes: TensorSizes = {"embed.token.weight": (shape.vocab_size, words)}
    if shape.segments:
        sizes["embed.segment.weight"] = (shape.segments, words)
    if shape.embed_norm:
        sizes |= _norm("embed.norm", shape.width if shape.project == "before" else words, bias=norm_bias)
    if shape.project != "none":
        sizes |= _linear("embed.project", words, shape.width, bias=shape.project_bias)
    if shape.positions == "learned":
        sizes["positions.table.weight"] = ((shape.max_length or 0) + shape.position_offset, words)
    if shape.relative == "buckets":
        sizes["relative.table.weight"] = (shape.bucket_rows or shape.buckets, shape.heads)
    if shape.relative == "disentangled":
        sizes["relative.table.weight"] = (2 * shape.relative_span, shape.width)
        if shape.relative_norm:
            sizes |= _norm("relative.norm", shape.width, bias=True)
    for block in range(shape.blocks):
        sizes |= {f"blocks.{block}.{name}": size for name, size in _block(shape, block).items()}
    if shape.final_norm:
        sizes |= _norm("norm", shape.width, bias=norm_bias)
    return sizes


def _layers(shape: Shape, how: Recurrence) -> TensorSizes:
    """One side of a recurrent pair, under the names that torch gives a cell's matrices."""
    width, gates = shape.width, 4 if how.cell == "lstm" else 3
    each = width // 2 if how.bidirectional else width
    sizes: TensorSizes = {"embed.token.weight": (shape.vocab_size, shape.token_width)}
    if how.independent_directions:
        for name in (f"layers.{layer}.{way}" for layer in range(shape.layers) for way in ("forth", "back")):
            sizes |= {f"{name}.weight_{part}_l0": (gates * each, each) for part in ("ih", "hh")}
            sizes |= {f"{name}.bias_{part}_l0": (gates * each,) for part in ("ih", "hh")}
        return sizes
    for layer in range(shape.layers):
        inputs = width if layer else shape.token_width + (width if how.input_feeding else 0)
        for way in ("", "_reverse") if how.bidirectional else ("",):
            sizes[f"layers.{layer}.weight_ih_l0{way}"] = (gates * each, inputs)
            sizes[f"layers.{layer}.weight_hh_l0{way}"] = (gates * each, each)
            sizes |= {f"layers.{layer}.bias_{part}_l0{way}": (gates * each,) for part in ("ih", "hh")}
    if not shape.causal:
        return sizes
    for layer in range(shape.layers):
        for bridge in ("bridge", "bridge_cell") if how.cell == "lstm" else ("bridge",):
            sizes |= _linear(f"{bridge}.{layer}", width, width, bias=True)
    if how.score == "general":
        sizes |= _linear("align.score.key", width, width, bias=False)
    elif how.score == "additive":
        sizes |= _linear("align.score.query", width, how.score_width, bias=False)
        sizes |= _linear("align.score.key", width, how.score_width, bias=True)
    elif how.score == "concat":
        sizes |= _linear("align.score.both", 2 * width, how.score_width, bias=False)
    if how.score in ("additive", "concat"):
        sizes |= _linear("align.score.out", how.score_width, 1, bias=False)
    return sizes if how.score == "none" else sizes | _linear("align.mix", 2 * width, width, bias=False)


def _block(shape: Shape, block: int) -> TensorSizes:
    norm_bias = shape.norm_bias and shape.norm == "layer"
    sizes = _attention("attend", shape)
    if shape.first_norm or block > 0:
        sizes |= _norm("attend.norm", shape.width, bias=norm_bias)
    if shape.relative == "disentangled" and not shape.share_projections:
        inner = shape.heads * shape.head_width
        if "c2p" in shape.relative_terms:
            sizes |= _linear("attend.inner.position_k", shape.width, inner, bias=True)
        if "p2c" in shape.relative_terms:
            sizes |= _linear("attend.inner.position_q", shape.width, inner, bias=True)
    if shape.cross:
        sizes |= _attention("cross", shape) | _norm("cross.norm", shape.width, bias=norm_bias)
    for name in ("up", "gate") if shape.feed_forward == "gated" else ("up",):
        sizes |= _linear(f"feed.inner.{name}", shape.width, shape.feed_forward_width, bias=shape.feed_forward_bias)
    sizes |= _linear("feed.inner.down", shape.feed_forward_width, shape.width, bias=shape.feed_forward_bias)
    sizes |= _norm("feed.norm", shape.width, bias=norm_bias)
    if shape.conv_kernel and block == 0:
        sizes["convolve.conv.weight"] = (shape.width, shape.width // shape.conv_groups, shape.conv_kernel)
        sizes["convolve.conv.bias"] = (shape.width,)
        sizes |= _norm("convolve.norm", shape.width, bias=True)
    return sizes


def _attention(name: str, shape: Shape) -> TensorSizes:
    inner = shape.heads * shape.head_width
    sizes: TensorSizes = {}
    for part in "qkv":
        sizes |= _linear(f"{name}.inner.{part}", shape.width, inner, bias=shape.attention_bias)
    return sizes | _linear(f"{name}.inner.out", inner, shape.width, bias=shape.attention_bias)


def _head(name: str, head: HeadShape, top: Shape) -> TensorSizes:
    sizes: TensorSizes = {}
    width = top.token_width if head.kind == "bilm" else top.width  # one matrix for each of two directions
    if head.dense is not None:
        sizes |= _linear(f"{name}.dense", width, head.dense, bias=head.dense_bias)
        width = head.dense
    if head.norm:
        sizes |= _norm(f"{name}.norm", width, bias=head.norm_bias)
    sizes |= _linear(f"{name}.out", width, head.outputs, bias=head.out_bias)
    if head.tied:
        del sizes[f"{name}.out.weight"]
    return sizes
