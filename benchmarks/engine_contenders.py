"""The contenders of benchmarks/engine.py, each in its own process.

python benchmarks/engine_contenders.py JOB.json            load a contender and answer requests
python benchmarks/engine_contenders.py JOB.json --prepare  export or convert its files, once
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

PEAK_SHAPE = (512, 768, 3072)  # matrix product that defines the peak speed: a BERT-base feed-forward layer


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A runtime, how it is loaded, and what it needs."""

    title: str
    load: Callable[[BenchJob], LoadedRuntime]
    prepare: Callable[[BenchJob], object] | None = None
    needs: tuple[str, ...] = ()
    int8: bool = False
    has_settings: bool = False  # has settings to choose from

    @property
    def missing_package(self) -> str | None:
        """The first required package that is not installed."""
        return next((name for name in self.needs if find_spec(name) is None), None)


def load_peak(job: BenchJob) -> LoadedRuntime:
    """Run one matrix product per text, to measure the peak speed of the machine."""
    import numpy as np
    import onnxruntime as ort
    import torch
    from onnx import TensorProto, helper, numpy_helper

    torch.set_num_threads(job.threads)
    tokens, width, inner_width = PEAK_SHAPE
    rng = np.random.default_rng(0)
    floats = rng.standard_normal((tokens, width), np.float32), rng.standard_normal((width, inner_width), np.float32)
    integers = rng.integers(0, 255, (tokens, width), np.uint8), rng.integers(-63, 63, (width, inner_width), np.int8)

    def session(op: str, left: Any, right: Any, input_type: int, output_type: int) -> Callable[[], Any]:
        graph = helper.make_graph(
            [helper.make_node(op, ["a", "b"], ["c"])],
            "one",
            [helper.make_tensor_value_info("a", input_type, left.shape)],
            [helper.make_tensor_value_info("c", output_type, None)],
            [numpy_helper.from_array(right, "b")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        options = ort.SessionOptions()
        options.intra_op_num_threads = job.threads
        runtime = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return lambda: runtime.run(None, {"a": left})

    a, b = map(torch.from_numpy, floats)
    products: dict[str, Callable[[], Any]] = {
        "torch": lambda: torch.mm(a, b),
        "float": session("MatMul", *floats, TensorProto.FLOAT, TensorProto.FLOAT),
        "int8": session("MatMulInteger", *integers, TensorProto.UINT8, TensorProto.INT32),
    }
    selected = ["float"]
    return LoadedRuntime(
        embed=lambda texts: [products[selected[0]]() for _ in texts],
        apply_setting=lambda variant: selected.__setitem__(0, variant),
    )


def quantize_folder(job: BenchJob) -> Path:
    """Quantize the folder to int8 with the quality gate of `clearhead quantize`, once."""
    import clearhead

    folder = Path(job.work) / "gated"
    if not (folder / "int8.safetensors").exists():
        clearhead.quantize(job.folder, output=folder)
    return folder


def load_int8(job: BenchJob) -> LoadedRuntime:
    """Load the int8 folder that passed the gate."""
    return RUNTIMES["int8"].load(replace(job, folder=str(Path(job.work) / "gated")))


EXPORT_PACKAGES = ("torch", "transformers", "onnx", "onnxruntime")
CONTENDERS = {
    "sentence-transformers": Contender(
        title="sentence-transformers", load=RUNTIMES["sentence-transformers"].load, needs=("sentence_transformers",)
    ),
    "transformers": Contender(
        title="transformers, sorted", load=peers.load_transformers, needs=("transformers", "torch")
    ),
    "onnx": Contender(
        title="ONNX Runtime",
        load=peers.onnx_runtime_loader("optimised.onnx"),
        prepare=peers.optimize_onnx,
        needs=EXPORT_PACKAGES,
        has_settings=True,
    ),
    "openvino": Contender(
        title="OpenVINO",
        load=peers.load_openvino,
        prepare=peers.export_onnx,
        needs=("openvino", "torch", "transformers"),
        has_settings=True,
    ),
    "ctranslate2": Contender(
        title="CTranslate2",
        load=peers.ctranslate2_loader("float32"),
        prepare=peers.ctranslate2_converter("float32"),
        needs=("ctranslate2",),
        has_settings=True,
    ),
    "engine": Contender(title="clearhead", load=RUNTIMES["engine"].load),
    "onnx-int8": Contender(
        title="ONNX Runtime int8",
        load=peers.onnx_runtime_loader("int8.onnx"),
        prepare=peers.quantize_onnx,
        needs=EXPORT_PACKAGES,
        int8=True,
        has_settings=True,
    ),
    "ctranslate2-int8": Contender(
        title="CTranslate2 int8",
        load=peers.ctranslate2_loader("int8"),
        prepare=peers.ctranslate2_converter("int8"),
        needs=("ctranslate2",),
        int8=True,
        has_settings=True,
    ),
    "int8": Contender(title="clearhead int8", load=load_int8, prepare=quantize_folder, int8=True),
}
PEAK_CONTENDER = Contender(title="peak", load=load_peak, needs=("torch", "onnx"))


def main() -> None:
    """Run the job of a file."""
    replies = redirect_stdout()
    fields = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    job = BenchJob(**{**fields, "texts": tuple(fields["texts"])})
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(job.threads)) | {"HF_HUB_OFFLINE": "1"})
    contender = PEAK_CONTENDER if job.runtime == "peak" else CONTENDERS[job.runtime]
    if "--prepare" in sys.argv:
        if contender.prepare is not None:
            contender.prepare(job)
        return
    serve_requests(lambda: contender.load(job), job.texts, sys.stdin, replies)


if __name__ == "__main__":
    main()
