"""The peers of benchmarks/engine.py: how their files are made and how they embed texts.

ONNX Runtime gets an export by torch.onnx and its BERT optimizer (onnxruntime.transformers), for int8 also its
`quantize_dynamic`; OpenVINO reads the plain export; CTranslate2 converts the folder. They tokenize with `tokenizers`,
sort by length, and take 1, 8 or 32 texts per call, on one session with all threads or on workers with one thread each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from clearhead.deploy.worker import BenchJob, LoadedRuntime

MAX_TOKENS = 256
BATCH_SIZES = (1, 8, 32)
INPUT_NAMES = ("input_ids", "attention_mask", "token_type_ids")
EncoderCall = Callable[[dict[str, Any]], Any]  # ids, mask and segments to hidden states


def list_settings(threads: int) -> list[list[int]]:
    """List settings: texts per call, workers, threads per worker."""
    shared = [[rows, 1, threads] for rows in BATCH_SIZES]
    return shared if threads == 1 else shared + [[rows, threads, 1] for rows in BATCH_SIZES]


class TunedEncoder:
    """Embeds texts as normalized token means with a runtime that takes arrays, sorted by length."""

    def __init__(self, folder: str, threads: int, make_session: Callable[[int, int], EncoderCall]) -> None:
        self.tokenizer = load_plain_tokenizer(folder)
        self.threads, self.make_session = threads, make_session
        self.use_setting([8, 1, threads])

    def use_setting(self, setting: Sequence[int]) -> None:
        """Set the number of texts per call, workers and threads per worker."""
        self.batch_rows, self.workers, threads_per_worker = setting
        self.sessions: dict[int, EncoderCall] = {}
        self.threads_per_worker = threads_per_worker
        self.pool = ThreadPoolExecutor(self.workers)

    def get_session(self, threads: int) -> EncoderCall:
        """Return a session with a number of threads, created at first use."""
        if threads not in self.sessions:
            self.sessions[threads] = self.make_session(
                threads, self.workers if threads == self.threads_per_worker else 1
            )
        return self.sessions[threads]

    def __call__(self, texts: list[str]) -> Any:
        import numpy as np

        encoded = [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]
        order = sorted(range(len(encoded)), key=lambda index: -len(encoded[index]))
        batches = [order[start : start + self.batch_rows] for start in range(0, len(order), self.batch_rows)]
        single_batch = len(batches) == 1  # a single batch may use all threads
        run = self.get_session(self.threads if single_batch else self.threads_per_worker)

        def embed_rows(rows: list[int]) -> Any:
            ids = np.zeros((len(rows), len(encoded[rows[0]])), np.int64)
            for index, row in enumerate(rows):
                ids[index, : len(encoded[row])] = encoded[row]
            lengths = np.array([len(encoded[row]) for row in rows])
            mask = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
            return pool_mean(
                run({"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}), mask
            )

        vectors: list[Any] = [None] * len(texts)
        batch_vectors: Iterable[Any] = (
            map(embed_rows, batches) if single_batch or self.workers == 1 else self.pool.map(embed_rows, batches)
        )
        for rows, row_vectors in zip(batches, batch_vectors, strict=True):
            for row, vector in zip(rows, row_vectors, strict=True):
                vectors[row] = vector
        return np.stack(vectors)


def load_plain_tokenizer(folder: str) -> Any:
    """Load the plain tokenizer of a folder: no padding, the truncation that all contenders use."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def pool_mean(hidden: Any, mask: Any) -> Any:
    """Average the real tokens, and normalize."""
    import numpy as np

    weights = mask[..., None].astype(np.float32)
    pooled = (hidden * weights).sum(1) / weights.sum(1)
    return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)


def make_loaded(job: BenchJob, make_session: Callable[[int, int], EncoderCall]) -> LoadedRuntime:
    """Wrap a runtime for the worker."""
    encoder = TunedEncoder(job.folder, job.threads, make_session)
    return LoadedRuntime(embed=encoder, apply_setting=encoder.use_setting)


def load_transformers(job: BenchJob) -> LoadedRuntime:
    """Load AutoModel, with batches of 32 texts of similar length."""
    import torch
    from transformers import AutoModel, AutoTokenizer, logging

    logging.disable_progress_bar()
    torch.set_num_threads(job.threads)
    tokenizer: Any = AutoTokenizer.from_pretrained(job.folder)
    model: Any = AutoModel.from_pretrained(job.folder, dtype=torch.float32).eval()

    def embed(texts: list[str]) -> Any:
        order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        vectors: Any = [None] * len(texts)
        for start in range(0, len(order), 32):
            rows = order[start : start + 32]
            inputs = tokenizer(
                [texts[row] for row in rows], padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
            )
            with torch.inference_mode():
                hidden = model(**inputs).last_hidden_state.numpy()
            for row, vector in zip(rows, pool_mean(hidden, inputs["attention_mask"].numpy()), strict=True):
                vectors[row] = vector
        return vectors

    return LoadedRuntime(embed=embed)


def export_onnx(job: BenchJob) -> Path:
    """Export the encoder with torch.onnx."""
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
    dynamic_axes = {name: {0: "batch", 1: "length"} for name in (*INPUT_NAMES, "last")}
    partial_path = path.with_suffix(".half")
    torch.onnx.export(
        encoder,
        (ids, ids, ids * 0),
        str(partial_path),
        input_names=list(INPUT_NAMES),
        output_names=["last"],
        dynamic_axes=dynamic_axes,
        opset_version=17,
        dynamo=False,
    )
    partial_path.rename(path)
    return path


def optimize_onnx(job: BenchJob) -> Path:
    """Apply the BERT optimizer of ONNX Runtime to the export."""
    path, config = Path(job.work) / "optimised.onnx", json.loads((Path(job.folder) / "config.json").read_text())
    if not path.exists():
        from onnxruntime.transformers.optimizer import optimize_model

        optimized = optimize_model(
            str(export_onnx(job)),
            model_type="bert",
            num_heads=config["num_attention_heads"],
            hidden_size=config["hidden_size"],
        )
        optimized.save_model_to_file(str(path.with_suffix(".half")))
        path.with_suffix(".half").rename(path)
    return path


def quantize_onnx(job: BenchJob) -> Path:
    """Apply the dynamic quantization of ONNX Runtime to the optimized model."""
    path = Path(job.work) / "int8.onnx"
    if not path.exists():
        from onnx import TensorProto
        from onnxruntime.quantization import QuantType, quantize_dynamic

        partial_path = path.with_suffix(".half")
        quantize_dynamic(
            optimize_onnx(job),
            partial_path,
            per_channel=True,
            weight_type=QuantType.QInt8,
            extra_options={"DefaultTensorType": TensorProto.FLOAT},  # for outputs of its fused operators
        )
        partial_path.rename(path)
    return path


def onnx_runtime_loader(name: str) -> Callable[[BenchJob], LoadedRuntime]:
    """Make a loader of a file for ONNX Runtime."""

    def load(job: BenchJob) -> LoadedRuntime:
        import onnxruntime as ort

        def make_session(threads: int, workers: int) -> EncoderCall:  # noqa: ARG001
            options = ort.SessionOptions()
            options.intra_op_num_threads, options.log_severity_level = threads, 3
            session = ort.InferenceSession(str(Path(job.work) / name), options, providers=["CPUExecutionProvider"])
            input_names = {value.name for value in session.get_inputs()}
            return lambda inputs: session.get_session(
                None, {key: value for key, value in inputs.items() if key in input_names}
            )[0]

        return make_loaded(job, make_session)

    return load


def load_openvino(job: BenchJob) -> LoadedRuntime:
    """Load the export in OpenVINO; each worker is a stream."""
    from threading import local

    import openvino as ov

    core = ov.Core()

    def make_session(threads: int, workers: int) -> EncoderCall:
        hint = {"INFERENCE_NUM_THREADS": threads * workers, "NUM_STREAMS": workers, "INFERENCE_PRECISION_HINT": "f32"}
        compiled = core.compile_model(str(Path(job.work) / "export.onnx"), "CPU", hint)
        thread_local = local()

        def run(inputs: dict[str, Any]) -> Any:
            if not hasattr(thread_local, "request"):
                thread_local.request = compiled.create_infer_request()
            return thread_local.request.infer(inputs)[0]

        return run

    return make_loaded(job, make_session)


def ctranslate2_converter(compute_type: str) -> Callable[[BenchJob], None]:
    """Make a function that converts the folder for CTranslate2."""

    def prepare(job: BenchJob) -> None:
        from ctranslate2.converters import TransformersConverter

        model_folder = Path(job.work) / f"ctranslate2-{compute_type}"
        if not (model_folder / "model.bin").exists():
            TransformersConverter(job.folder).convert(str(model_folder), quantization=compute_type, force=True)

    return prepare


def ctranslate2_loader(compute_type: str) -> Callable[[BenchJob], LoadedRuntime]:
    """Make a loader of a converted folder for CTranslate2."""

    def load(job: BenchJob) -> LoadedRuntime:
        import ctranslate2 as ct2
        import numpy as np

        def make_session(threads: int, workers: int) -> EncoderCall:
            model_folder = str(Path(job.work) / f"ctranslate2-{compute_type}")
            encoder = ct2.Encoder(
                model_folder, device="cpu", inter_threads=workers, intra_threads=threads, compute_type=compute_type
            )

            def run(inputs: dict[str, Any]) -> Any:
                lengths = inputs["attention_mask"].sum(1)
                ids = [row[:length].tolist() for row, length in zip(inputs["input_ids"], lengths, strict=True)]
                return np.array(encoder.forward_batch(ids).last_hidden_state)

            return run

        return make_loaded(job, make_session)

    return load
