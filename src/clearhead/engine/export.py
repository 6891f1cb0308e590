"""A model as a file for other runtimes: the names that they know, the weights beside it, and a page of facts."""

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
MAX_INLINE_BYTES = 16 << 20  # bytes of weights that go into the model itself

# what is called what in the files of others
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
    """The graph of a file: logits, or hidden states where there is no head; with `pooling`, a vector per text, too."""
    products = None if int8 is None else int8_dense(tensors, int8)
    bare = shape.head is None
    pair = shape.decoder is not None and pooling is None  # texts become vectors without a decoder
    wanted = GraphSpec(last=bare, pooled=bare, logits=not bare, has_mask=True, target=pair, top=bare and pair)
    names = EXPORTED_NAMES | (ENCODER_DECODER_NAMES if pair else {})
    g = assemble(shape, tensors, wanted, portable=portable, names=names, dense=products)
    if pooling is not None:
        given = (EXPORTED_NAMES[name] for name in ("last", "mask", "pooled"))
        vectors = add_dense_steps(g, pool_texts(g, pooling.modes, *given), pooling, dense)
        width = pooling.dense[-1].outputs if pooling.dense else shape.stack.width * len(pooling.modes)
        g.output(SENTENCE_OUTPUT, vectors, ("batch", width))
    return g


def write_model(folder: Path, g: Graph, progress: Progress = no_progress) -> None:
    """The graph as a file; where its weights are large, they go into another one beside it, one after the other."""
    total = sum(array.nbytes for array in g.large_weights.values())
    apart = total > MAX_INLINE_BYTES
    if apart:
        with atomic_file(folder / WEIGHTS_FILE) as file:
            for piece in g.iter_weight_bytes():
                file.write(piece)
                progress(WEIGHTS_FILE, min(file.tell(), total), total)
    with atomic_file(folder / MODEL_FILE) as file:
        file.write(
            g.to_bytes(version=__version__, place=WEIGHTS_FILE if apart else None, notes={"graph": graph_kind(g)})
        )


def graph_kind(g: Graph) -> str:
    """Which of the two graphs it is."""
    return "portable" if g.portable else "fused"


def describe_graph(g: Graph) -> dict[str, Any]:
    """What goes in, what comes out, and what a runtime must know to run it."""
    domains = ("",) if g.portable else tuple(proto.OPSETS)
    return {
        "clearhead": __version__,
        "graph": graph_kind(g),
        "opsets": {domain or "ai.onnx": proto.OPSETS[domain] for domain in domains},
        "ir_version": proto.IR_VERSION,
        "inputs": {name: {"type": dtype, "sides": list(sides)} for name, (dtype, sides) in g.inputs.items()},
        "outputs": {name: {"type": dtype, "sides": list(sides)} for name, (dtype, sides) in g.outputs.items()},
    }
