"""What can run a model on this machine: the engine in float and int8, the core, and those that others would take."""

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

PORTABLE_BATCH_SIZE = 8  # texts in a call of the plain graph: best for sentences


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """One way to run a model: its name for people, the package it needs, and how a child process loads it."""

    title: str
    package: str
    load: Callable[[BenchJob], LoadedRuntime]

    @property
    def is_installed(self) -> bool:
        """Whether the package is there; it is not imported."""
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
    made: Any = PortableRunner(model.shape, path, job.threads)
    model.runner = made
    return _wrap_model(model)


def _load_sentence_transformers(job: BenchJob) -> LoadedRuntime:
    import_module("torch").set_num_threads(job.threads)
    model: Any = import_module("sentence_transformers").SentenceTransformer(job.folder, device="cpu")
    return LoadedRuntime(embed=lambda texts: model.encode(texts, show_progress_bar=False))


def _wrap_model(model: Model) -> LoadedRuntime:
    def count(texts: list[str]) -> list[int]:
        most = model.max_length(model.pooling)
        lengths = [len(one) for one in model.tokenizer.encode_ids(texts)]
        return lengths if most is None else [min(length, most) for length in lengths]

    return LoadedRuntime(embed=model.embed, count_tokens=count)


def write_portable_graph(model: Model, folder: Path) -> Path:
    """A graph of the ONNX standard's own operators in a file, as an export gives it; made if it is not there."""
    from clearhead.engine.assemble import GraphSpec, assemble
    from clearhead.engine.export import MODEL_FILE, write_model

    path, held = folder / MODEL_FILE, cast("Any", model.runner)
    if path.exists():
        return path
    every, pooled = model.pooling.layer != "last", "pooler" in model.pooling.modes
    wanted = GraphSpec(hidden=every, last=not every, pooled=pooled, has_mask=True)
    write_model(folder, assemble(held.shape, held.tensors, wanted, portable=True))
    return path


class PortableRunner:
    """Such a file in ONNX Runtime with its own optimiser; texts of like length go together, padded."""

    capabilities = Capabilities()

    def __init__(self, shape: ModelShape, path: Path, threads: int, rows: int = PORTABLE_BATCH_SIZE) -> None:
        ort = import_module("onnxruntime")
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.shape, self.batch_size = shape, rows
        self.session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.output_names = [one.name for one in self.session.get_outputs()]

    def encode(self, batch: Batch, *, layers: bool, pooled: bool, is_only_batch: bool = False) -> Output:  # noqa: ARG002
        """Hidden states of every layer or of the last, and the pooler's vector."""
        import numpy as np

        from clearhead.batch import Output

        given = {"ids": batch.ids, "mask": np.ones(batch.ids.shape, np.bool_) if batch.mask is None else batch.mask}
        if self.shape.stack.segments > 1:
            given["segments"] = np.zeros_like(batch.ids) if batch.segments is None else batch.segments
        found = dict(zip(self.output_names, self.session.run(self.output_names, given), strict=True))
        hidden = [found[f"hidden.{place}"] for place in range(len(found)) if f"hidden.{place}" in found]
        return Output(hidden=hidden, last=found.get("last"), pooled=found.get("pooled"))

    def batches(self, lengths: Array, budget: int) -> Iterator[Array]:  # noqa: ARG002
        """Texts of like length together."""
        import numpy as np

        order = np.argsort(-lengths, kind="stable")
        return (order[begin : begin + self.batch_size] for begin in range(0, len(order), self.batch_size))

    def map_jobs(self, work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
        """One after the other: a call has all threads."""
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
