"""Exports a model for other runtimes: conventional names, separate weights, and a description as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clearhead import __version__
from clearhead.engine import proto
from clearhead.engine.assemble import GraphSpec, Tensors, assemble
from clearhead.engine.graph import Graph
from clearhead.engine.int8 import Int8Plan, int8_dense
from clearhead.engine.pooling import add_dense_steps, pool_texts
from clearhead.files import atomic_file
from clearhead.progress import Progress, no_progress
from clearhead.shape import ModelShape, Pooling

Array = np.ndarray[Any, Any]
MODEL_FILE, WEIGHTS_FILE, EXPORT_FILE = "model.onnx", "model.onnx.data", "export.json"
MAX_INLINE_BYTES = 16 << 20  # weights up to this size are stored in the model file

# names of inputs and outputs in exported files
EXPORTED_NAMES = {
    "ids": "input_ids",
    "mask": "attention_mask",
    "segments": "token_type_ids",
    "target_ids": "decoder_input_ids",
    "target_mask": "decoder_attention_mask",
    "last": "last_hidden_state",
    "pooled": "pooler_output",
    "next_sentence": "next_sentence_logits",
}
ENCODER_DECODER_NAMES = {"last": "encoder_last_hidden_state", "top": "last_hidden_state"}
SENTENCE_OUTPUT = "sentence_embedding"


def build_export_graph(
    shape: ModelShape,
    tensors: Tensors,
    *,
    portable: bool = False,
    pooling: Pooling | None = None,
    dense: Sequence[Mapping[str, Array]] = (),
    int8: Int8Plan | None = None,
) -> Graph:
    """Build the graph of a file: logits, or hidden states without a head; with `pooling`, also a vector per text."""
    dense_layer = None if int8 is None else int8_dense(tensors, int8)
    has_no_head = shape.head is None
    has_decoder = shape.decoder is not None and pooling is None  # sentence embeddings need no decoder
    spec = GraphSpec(
        last=has_no_head,
        pooled=has_no_head,
        logits=not has_no_head,
        has_mask=True,
        target=has_decoder,
        top=has_no_head and has_decoder,
    )
    names = EXPORTED_NAMES | (ENCODER_DECODER_NAMES if has_decoder else {})
    g = assemble(shape, tensors, spec, portable=portable, names=names, dense=dense_layer)
    if pooling is not None:
        nodes = (EXPORTED_NAMES[name] for name in ("last", "mask", "pooled"))
        vectors = add_dense_steps(g, pool_texts(g, pooling.modes, *nodes), pooling, dense)
        width = pooling.dense[-1].outputs if pooling.dense else shape.stack.width * len(pooling.modes)
        g.output(SENTENCE_OUTPUT, vectors, ("batch", width))
    return g


def write_model(folder: Path, g: Graph, progress: Progress = no_progress) -> None:
    """Write the graph; large weights go into a second file beside it, one at a time."""
    total = sum(array.nbytes for array in g.large_weights.values())
    is_split = total > MAX_INLINE_BYTES
    if is_split:
        with atomic_file(folder / WEIGHTS_FILE) as file:
            for block in g.iter_weight_bytes():
                file.write(block)
                progress(WEIGHTS_FILE, min(file.tell(), total), total)
    with atomic_file(folder / MODEL_FILE) as file:
        file.write(
            g.to_bytes(version=__version__, location=WEIGHTS_FILE if is_split else None, notes={"graph": graph_kind(g)})
        )


def graph_kind(g: Graph) -> str:
    """Whether the graph is "portable" or "fused"."""
    return "portable" if g.portable else "fused"


def describe_graph(g: Graph) -> dict[str, Any]:
    """Describe the inputs and outputs, and the versions that a runtime needs."""
    domains = ("",) if g.portable else tuple(proto.OPSETS)
    return {
        "clearhead": __version__,
        "graph": graph_kind(g),
        "opsets": {domain or "ai.onnx": proto.OPSETS[domain] for domain in domains},
        "ir_version": proto.IR_VERSION,
        "inputs": {name: {"type": dtype, "sides": list(sides)} for name, (dtype, sides) in g.inputs.items()},
        "outputs": {name: {"type": dtype, "sides": list(sides)} for name, (dtype, sides) in g.outputs.items()},
    }
