"""The peers of benchmarks/engine.py: how their files are made and how they turn texts into vectors.

ONNX Runtime gets an export by torch.onnx and its own optimiser for BERT (onnxruntime.transformers), in int8 also its
own `quantize_dynamic`; OpenVINO reads the plain export; CTranslate2 converts the folder. They tokenise with
`tokenizers`, sort by length, and may take 1, 8 or 32 texts a call, on one session with all threads or on workers with
one thread each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from clearhead.deploy.worker import BenchJob, LoadedRuntime

MOST_TOKENS = 256
BATCHES = (1, 8, 32)
NAMES = ("input_ids", "attention_mask", "token_type_ids")
Run = Callable[[dict[str, Any]], Any]  # ids, mask and segments to hidden states


def settings(threads: int) -> list[list[int]]:
    """Texts in a call, workers, threads of each."""
    shared = [[rows, 1, threads] for rows in BATCHES]
    return shared if threads == 1 else shared + [[rows, threads, 1] for rows in BATCHES]


class Tuned:
    """Texts to unit vectors by the mean of their tokens, for a runtime that takes arrays; sorted by length."""

    def __init__(self, folder: str, threads: int, make: Callable[[int, int], Run]) -> None:
        self.tokenizer = tokenizer_of(folder)
        self.threads, self.make = threads, make
        self.set([8, 1, threads])

    def set(self, setting: Sequence[int]) -> None:
        """Another number of texts in a call, of workers and their threads."""
        self.rows, self.workers, each = setting
        self.made: dict[int, Run] = {}
        self.each = each
        self.pool = ThreadPoolExecutor(self.workers)

    def run(self, threads: int) -> Run:
        """A session for so many threads, made when it is first needed."""
        if threads not in self.made:
            self.made[threads] = self.make(threads, self.workers if threads == self.each else 1)
        return self.made[threads]

    def __call__(self, texts: list[str]) -> Any:
        import numpy as np

        encoded = [one.ids for one in self.tokenizer.encode_batch(texts)]
        order = sorted(range(len(encoded)), key=lambda place: -len(encoded[place]))
        jobs = [order[begin : begin + self.rows] for begin in range(0, len(order), self.rows)]
        alone = len(jobs) == 1  # then nothing runs beside it, and it may have all threads
        run = self.run(self.threads if alone else self.each)

        def work(rows: list[int]) -> Any:
            ids = np.zeros((len(rows), len(encoded[rows[0]])), np.int64)
            for place, row in enumerate(rows):
                ids[place, : len(encoded[row])] = encoded[row]
            lengths = np.array([len(encoded[row]) for row in rows])
            mask = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
            return mean(run({"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}), mask)

        vectors: list[Any] = [None] * len(texts)
        done: Iterable[Any] = map(work, jobs) if alone or self.workers == 1 else self.pool.map(work, jobs)
        for rows, made in zip(jobs, done, strict=True):
            for row, vector in zip(rows, made, strict=True):
                vectors[row] = vector
        return np.stack(vectors)


def tokenizer_of(folder: str) -> Any:
    """A folder's tokenizer without what is around it: no padding, cut where all columns cut."""
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    made.no_padding()
    made.enable_truncation(MOST_TOKENS)
    return made


def mean(hidden: Any, mask: Any) -> Any:
    """The mean of the real tokens, one long."""
    import numpy as np

    real = mask[..., None].astype(np.float32)
    pooled = (hidden * real).sum(1) / real.sum(1)
    return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)


def tuned(job: BenchJob, make: Callable[[int, int], Run]) -> LoadedRuntime:
    """A runtime of others, ready."""
    made = Tuned(job.folder, job.threads, make)
    return LoadedRuntime(embed=made, apply_setting=made.set)


def transformers_sorted(job: BenchJob) -> LoadedRuntime:
    """AutoModel as it comes, 32 texts of like length at a time."""
    import torch
    from transformers import AutoModel, AutoTokenizer, logging

    logging.disable_progress_bar()
    torch.set_num_threads(job.threads)
    tokenizer: Any = AutoTokenizer.from_pretrained(job.folder)
    model: Any = AutoModel.from_pretrained(job.folder, dtype=torch.float32).eval()

    def embed(texts: list[str]) -> Any:
        order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
        vectors: Any = [None] * len(texts)
        for begin in range(0, len(order), 32):
            rows = order[begin : begin + 32]
            given = tokenizer(
                [texts[row] for row in rows], padding=True, truncation=True, max_length=MOST_TOKENS, return_tensors="pt"
            )
            with torch.inference_mode():
                hidden = model(**given).last_hidden_state.numpy()
            for row, vector in zip(rows, mean(hidden, given["attention_mask"].numpy()), strict=True):
                vectors[row] = vector
        return vectors

    return LoadedRuntime(embed=embed)


def export(job: BenchJob) -> Path:
    """The encoder as torch.onnx writes it."""
    path = Path(job.work) / "export.onnx"
    if path.exists():
        return path
    import torch
    from transformers import AutoModel

    model: Any = AutoModel.from_pretrained(job.folder, dtype=torch.float32, attn_implementation="eager").eval()

    class Encoder(torch.nn.Module):
        def forward(self, ids: Any, mask: Any, segments: Any) -> Any:
            return model(input_ids=ids, attention_mask=mask, token_type_ids=segments).last_hidden_state

    encoder = Encoder()
    encoder.model = model
    ids = torch.ones((2, 8), dtype=torch.long)
    sides = {name: {0: "batch", 1: "length"} for name in (*NAMES, "last")}
    half = path.with_suffix(".half")
    torch.onnx.export(
        encoder,
        (ids, ids, ids * 0),
        str(half),
        input_names=list(NAMES),
        output_names=["last"],
        dynamic_axes=sides,
        opset_version=17,
        dynamo=False,
    )
    half.rename(path)
    return path


def optimised(job: BenchJob) -> Path:
    """The export after ONNX Runtime's own optimiser for BERT."""
    path, config = Path(job.work) / "optimised.onnx", json.loads((Path(job.folder) / "config.json").read_text())
    if not path.exists():
        from onnxruntime.transformers.optimizer import optimize_model

        made = optimize_model(
            str(export(job)),
            model_type="bert",
            num_heads=config["num_attention_heads"],
            hidden_size=config["hidden_size"],
        )
        made.save_model_to_file(str(path.with_suffix(".half")))
        path.with_suffix(".half").rename(path)
    return path


def quantised(job: BenchJob) -> Path:
    """The same after ONNX Runtime's own dynamic quantisation."""
    path = Path(job.work) / "int8.onnx"
    if not path.exists():
        from onnx import TensorProto
        from onnxruntime.quantization import QuantType, quantize_dynamic

        half = path.with_suffix(".half")
        quantize_dynamic(
            optimised(job),
            half,
            per_channel=True,
            weight_type=QuantType.QInt8,
            extra_options={"DefaultTensorType": TensorProto.FLOAT},  # of what its fused operators make
        )
        half.rename(path)
    return path


def onnx_runtime(name: str) -> Callable[[BenchJob], LoadedRuntime]:
    """A file in ONNX Runtime."""

    def load(job: BenchJob) -> LoadedRuntime:
        import onnxruntime as ort

        def make(threads: int, workers: int) -> Run:  # noqa: ARG001
            options = ort.SessionOptions()
            options.intra_op_num_threads, options.log_severity_level = threads, 3
            session = ort.InferenceSession(str(Path(job.work) / name), options, providers=["CPUExecutionProvider"])
            taken = {one.name for one in session.get_inputs()}
            return lambda given: session.run(None, {key: one for key, one in given.items() if key in taken})[0]

        return tuned(job, make)

    return load


def openvino(job: BenchJob) -> LoadedRuntime:
    """The export in OpenVINO; several workers are several streams."""
    from threading import local

    import openvino as ov

    core = ov.Core()

    def make(threads: int, workers: int) -> Run:
        hint = {"INFERENCE_NUM_THREADS": threads * workers, "NUM_STREAMS": workers, "INFERENCE_PRECISION_HINT": "f32"}
        compiled = core.compile_model(str(Path(job.work) / "export.onnx"), "CPU", hint)
        own = local()

        def run(given: dict[str, Any]) -> Any:
            if not hasattr(own, "request"):
                own.request = compiled.create_infer_request()
            return own.request.infer(given)[0]

        return run

    return tuned(job, make)


def convert(kind: str) -> Callable[[BenchJob], None]:
    """The folder in CTranslate2's form."""

    def prepare(job: BenchJob) -> None:
        from ctranslate2.converters import TransformersConverter

        place = Path(job.work) / f"ctranslate2-{kind}"
        if not (place / "model.bin").exists():
            TransformersConverter(job.folder).convert(str(place), quantization=kind, force=True)

    return prepare


def ctranslate2(kind: str) -> Callable[[BenchJob], LoadedRuntime]:
    """A converted folder in CTranslate2."""

    def load(job: BenchJob) -> LoadedRuntime:
        import ctranslate2 as ct2
        import numpy as np

        def make(threads: int, workers: int) -> Run:
            place = str(Path(job.work) / f"ctranslate2-{kind}")
            encoder = ct2.Encoder(place, device="cpu", inter_threads=workers, intra_threads=threads, compute_type=kind)

            def run(given: dict[str, Any]) -> Any:
                lengths = given["attention_mask"].sum(1)
                ids = [row[:length].tolist() for row, length in zip(given["input_ids"], lengths, strict=True)]
                return np.array(encoder.forward_batch(ids).last_hidden_state)

            return run

        return tuned(job, make)

    return load
