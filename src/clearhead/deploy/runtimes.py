"""Runtimes for benchmarks: the engine in float and int8, the core, plain ONNX Runtime and sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from clearhead.deploy.worker import BenchJob, LoadedRuntime
from clearhead.runner import Capabilities

if TYPE_CHECKING:
    import numpy as np

    from clearhead.batch import Batch, Output
    from clearhead.model import Model
    from clearhead.shape import ModelShape

    Array = np.ndarray[Any, Any]

PORTABLE_BATCH_SIZE = 8  # texts per call of the portable graph; fastest for sentences


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """A runtime: display title, required package, and the function that loads a model in a worker process."""

    title: str
    package: str
    load: Callable[[BenchJob], LoadedRuntime]

    @property
    def is_installed(self) -> bool:
        """Whether the required package is installed; it is not imported."""
        return find_spec(self.package) is not None


def _load_engine(job: BenchJob) -> LoadedRuntime:
    from clearhead.model.loading import load

    return _wrap_model(load(job.folder, runtime="engine", precision="float", head=None, threads=job.threads))


def _load_int8(job: BenchJob) -> LoadedRuntime:
    from clearhead.model.loading import load

    return _wrap_model(load(job.folder, runtime="engine", precision="int8", head=None, threads=job.threads))


def _load_core(job: BenchJob) -> LoadedRuntime:
    from clearhead.model.loading import load

    import_module("torch").set_num_threads(job.threads)
    return _wrap_model(load(job.folder, runtime="core", device="cpu", head=None))


def _load_portable(job: BenchJob) -> LoadedRuntime:
    from clearhead.model.loading import load

    model = load(job.folder, runtime="engine", precision="float", head=None, threads=job.threads)
    path = write_portable_graph(model, Path(job.work))
    runner: Any = PortableRunner(model.shape, path, job.threads)
    model.runner = runner
    return _wrap_model(model)


def _load_sentence_transformers(job: BenchJob) -> LoadedRuntime:
    import_module("torch").set_num_threads(job.threads)
    model: Any = import_module("sentence_transformers").SentenceTransformer(job.folder, device="cpu")
    return LoadedRuntime(embed=lambda texts: model.encode(texts, show_progress_bar=False))


def _wrap_model(model: Model) -> LoadedRuntime:
    def count_tokens(texts: list[str]) -> list[int]:
        max_length = model.max_length(model.pooling)
        lengths = [len(token_ids) for token_ids in model.tokenizer.encode_ids(texts)]
        return lengths if max_length is None else [min(length, max_length) for length in lengths]

    return LoadedRuntime(embed=model.embed, count_tokens=count_tokens)


def write_portable_graph(model: Model, folder: Path) -> Path:
    """Write a graph of standard ONNX operators, as a portable export does, unless it exists; return its path."""
    from clearhead.engine.assemble import GraphSpec, assemble
    from clearhead.engine.export import MODEL_FILE, write_model

    path, runner = folder / MODEL_FILE, cast("Any", model.runner)
    if path.exists():
        return path
    needs_all_layers, needs_pooler = model.pooling.layer != "last", "pooler" in model.pooling.modes
    spec = GraphSpec(hidden=needs_all_layers, last=not needs_all_layers, pooled=needs_pooler, has_mask=True)
    write_model(folder, assemble(runner.shape, runner.tensors, spec, portable=True))
    return path


class PortableRunner:
    """A portable graph in ONNX Runtime with its default optimizations, on padded batches of similar length."""

    capabilities = Capabilities()

    def __init__(self, shape: ModelShape, path: Path, threads: int, batch_size: int = PORTABLE_BATCH_SIZE) -> None:
        ort = import_module("onnxruntime")
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.shape, self.batch_size = shape, batch_size
        self.session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.output_names = [output.name for output in self.session.get_outputs()]

    def encode(self, batch: Batch, *, layers: bool, pooled: bool, is_only_batch: bool = False) -> Output:  # noqa: ARG002
        """Compute hidden states of all layers or of the last one, and pooler output."""
        import numpy as np

        from clearhead.batch import Output

        inputs = {"ids": batch.ids, "mask": np.ones(batch.ids.shape, np.bool_) if batch.mask is None else batch.mask}
        if self.shape.stack.segments > 1:
            inputs["segments"] = np.zeros_like(batch.ids) if batch.segments is None else batch.segments
        outputs = dict(zip(self.output_names, self.session.run(self.output_names, inputs), strict=True))
        hidden = [outputs[f"hidden.{layer}"] for layer in range(len(outputs)) if f"hidden.{layer}" in outputs]
        return Output(hidden=hidden, last=outputs.get("last"), pooled=outputs.get("pooled"))

    def batches(self, lengths: Array, budget: int) -> Iterator[Array]:  # noqa: ARG002
        """Yield batches of rows of similar length."""
        import numpy as np

        order = np.argsort(-lengths, kind="stable")
        return (order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size))

    def map_jobs(self, work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
        """Run jobs sequentially: each call uses all threads."""
        return map(work, jobs)


RUNTIMES = {
    "engine": Runtime(title="engine float", package="onnxruntime", load=_load_engine),
    "int8": Runtime(title="engine int8", package="onnxruntime", load=_load_int8),
    "core": Runtime(title="core torch", package="torch", load=_load_core),
    "onnx": Runtime(title="ONNX Runtime", package="onnxruntime", load=_load_portable),
    "sentence-transformers": Runtime(
        title="sentence-transformers", package="sentence_transformers", load=_load_sentence_transformers
    ),
}
