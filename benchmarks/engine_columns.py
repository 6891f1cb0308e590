"""What benchmarks/engine.py sets side by side, each in a process of its own.

python benchmarks/engine_columns.py JOB.json            load one and take turns
python benchmarks/engine_columns.py JOB.json --prepare  write its files (an export, a conversion), once
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import engine_peers as peers

from clearhead.deploy.runtimes import RUNTIMES
from clearhead.deploy.worker import THREAD_VARIABLES, BenchJob, LoadedRuntime, redirect_stdout, serve_requests

PEAK = (512, 768, 3072)  # the product whose speed is the machine's peak: a BERT-base feed-forward step


@dataclass(frozen=True, kw_only=True)
class Column:
    """One contestant."""

    title: str
    load: Callable[[BenchJob], LoadedRuntime]
    prepare: Callable[[BenchJob], object] | None = None
    needs: tuple[str, ...] = ()
    int8: bool = False
    tuned: bool = False  # has settings to choose from

    @property
    def missing(self) -> str | None:
        """The package that is not installed."""
        return next((name for name in self.needs if find_spec(name) is None), None)


def peak(job: BenchJob) -> LoadedRuntime:
    """No contestant: one matrix product for each text, to know what this machine can do at most."""
    import numpy as np
    import onnxruntime as ort
    import torch
    from onnx import TensorProto, helper, numpy_helper

    torch.set_num_threads(job.threads)
    rows, inner, outer = PEAK
    draw = np.random.default_rng(0)
    floats = draw.standard_normal((rows, inner), np.float32), draw.standard_normal((inner, outer), np.float32)
    whole = draw.integers(0, 255, (rows, inner), np.uint8), draw.integers(-63, 63, (inner, outer), np.int8)

    def session(op: str, a: Any, b: Any, kind: int, out: int) -> Callable[[], Any]:
        graph = helper.make_graph(
            [helper.make_node(op, ["a", "b"], ["c"])],
            "one",
            [helper.make_tensor_value_info("a", kind, a.shape)],
            [helper.make_tensor_value_info("c", out, None)],
            [numpy_helper.from_array(b, "b")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        options = ort.SessionOptions()
        options.intra_op_num_threads = job.threads
        ready = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return lambda: ready.run(None, {"a": a})

    a, b = map(torch.from_numpy, floats)
    ways: dict[str, Callable[[], Any]] = {
        "torch": lambda: torch.mm(a, b),
        "float": session("MatMul", *floats, TensorProto.FLOAT, TensorProto.FLOAT),
        "int8": session("MatMulInteger", *whole, TensorProto.UINT8, TensorProto.INT32),
    }
    chosen = ["float"]
    return LoadedRuntime(
        embed=lambda texts: [ways[chosen[0]]() for _ in texts], apply_setting=lambda way: chosen.__setitem__(0, way)
    )


def gated(job: BenchJob) -> Path:
    """The folder in eight bits, through the gate of `clearhead quantize`; made if it is not there."""
    import clearhead

    folder = Path(job.work) / "gated"
    if not (folder / "int8.safetensors").exists():
        clearhead.quantize(job.folder, output=folder)
    return folder


def int8(job: BenchJob) -> LoadedRuntime:
    """What passed the gate."""
    return RUNTIMES["int8"].load(replace(job, folder=str(Path(job.work) / "gated")))


EXPORT = ("torch", "transformers", "onnx", "onnxruntime")
COLUMNS = {
    "sentence-transformers": Column(
        title="sentence-transformers", load=RUNTIMES["sentence-transformers"].load, needs=("sentence_transformers",)
    ),
    "transformers": Column(
        title="transformers, sorted", load=peers.transformers_sorted, needs=("transformers", "torch")
    ),
    "onnx": Column(
        title="ONNX Runtime",
        load=peers.onnx_runtime("optimised.onnx"),
        prepare=peers.optimised,
        needs=EXPORT,
        tuned=True,
    ),
    "openvino": Column(
        title="OpenVINO",
        load=peers.openvino,
        prepare=peers.export,
        needs=("openvino", "torch", "transformers"),
        tuned=True,
    ),
    "ctranslate2": Column(
        title="CTranslate2",
        load=peers.ctranslate2("float32"),
        prepare=peers.convert("float32"),
        needs=("ctranslate2",),
        tuned=True,
    ),
    "engine": Column(title="clearhead", load=RUNTIMES["engine"].load),
    "onnx-int8": Column(
        title="ONNX Runtime int8",
        load=peers.onnx_runtime("int8.onnx"),
        prepare=peers.quantised,
        needs=EXPORT,
        int8=True,
        tuned=True,
    ),
    "ctranslate2-int8": Column(
        title="CTranslate2 int8",
        load=peers.ctranslate2("int8"),
        prepare=peers.convert("int8"),
        needs=("ctranslate2",),
        int8=True,
        tuned=True,
    ),
    "int8": Column(title="clearhead int8", load=int8, prepare=gated, int8=True),
}
PEAK_COLUMN = Column(title="peak", load=peak, needs=("torch", "onnx"))


def main() -> None:
    """Do the job of a file."""
    answers = redirect_stdout()
    told = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    job = BenchJob(**{**told, "texts": tuple(told["texts"])})
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(job.threads)) | {"HF_HUB_OFFLINE": "1"})
    column = PEAK_COLUMN if job.runtime == "peak" else COLUMNS[job.runtime]
    if "--prepare" in sys.argv:
        if column.prepare is not None:
            column.prepare(job)
        return
    serve_requests(lambda: column.load(job), job.texts, sys.stdin, answers)


if __name__ == "__main__":
    main()
