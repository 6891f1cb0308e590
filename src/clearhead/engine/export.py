"""A model as a file for other runtimes: the names that they know, the weights beside it, and a page of facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clearhead import __version__
from clearhead.engine import proto
from clearhead.engine.assemble import Tensors, Wanted, assemble
from clearhead.engine.graph import Graph
from clearhead.engine.int8 import Int8Plan, int8_dense
from clearhead.engine.pooling import finished, pooled
from clearhead.files import atomic_file
from clearhead.progress import Progress, no_progress
from clearhead.shape import ModelShape, Pooling

Array = np.ndarray[Any, Any]
MODEL, DATA, ABOUT = "model.onnx", "model.onnx.data", "export.json"
ONE_FILE = 16 << 20  # bytes of weights that go into the model itself

# what is called what in the files of others
NAMES = {
    "ids": "input_ids",
    "mask": "attention_mask",
    "segments": "token_type_ids",
    "target_ids": "decoder_input_ids",
    "target_mask": "decoder_attention_mask",
    "last": "last_hidden_state",
    "pooled": "pooler_output",
    "next_sentence": "next_sentence_logits",
}
PAIR = {"last": "encoder_last_hidden_state", "top": "last_hidden_state"}
SENTENCE = "sentence_embedding"


def exported(
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
    wanted = Wanted(last=bare, pooled=bare, logits=not bare, masked=True, target=pair, top=bare and pair)
    names = NAMES | (PAIR if pair else {})
    g = assemble(shape, tensors, wanted, portable=portable, names=names, dense=products)
    if pooling is not None:
        given = (NAMES[name] for name in ("last", "mask", "pooled"))
        vectors = finished(g, pooled(g, pooling.modes, *given), pooling, dense)
        width = pooling.dense[-1].outputs if pooling.dense else shape.stack.width * len(pooling.modes)
        g.output(SENTENCE, vectors, ("batch", width))
    return g


def write_model(folder: Path, g: Graph, progress: Progress = no_progress) -> None:
    """The graph as a file; where its weights are large, they go into another one beside it, one after the other."""
    total = sum(array.nbytes for array in g.large.values())
    apart = total > ONE_FILE
    if apart:
        with atomic_file(folder / DATA) as file:
            for piece in g.pieces():
                file.write(piece)
                progress(DATA, min(file.tell(), total), total)
    with atomic_file(folder / MODEL) as file:
        file.write(g.model(version=__version__, place=DATA if apart else None, notes={"graph": kind(g)}))


def kind(g: Graph) -> str:
    """Which of the two graphs it is."""
    return "portable" if g.portable else "fused"


def about(g: Graph) -> dict[str, Any]:
    """What goes in, what comes out, and what a runtime must know to run it."""
    domains = ("",) if g.portable else tuple(proto.OPSETS)
    return {
        "clearhead": __version__,
        "graph": kind(g),
        "opsets": {domain or "ai.onnx": proto.OPSETS[domain] for domain in domains},
        "ir_version": proto.IR_VERSION,
        "inputs": {name: {"type": dtype, "sides": list(sides)} for name, (dtype, sides) in g.inputs.items()},
        "outputs": {name: {"type": dtype, "sides": list(sides)} for name, (dtype, sides) in g.outputs.items()},
    }
