"""Deployment of trained models: int8 quantization with a quality check, ONNX export, and benchmarks of runtimes.

`quantize` compares int8 with float before it saves a model, `export` writes ONNX files, and `bench` measures each
runtime in its own process (`worker`), in interleaved rounds (`scheduler`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.deploy.bench import Bench, run_bench
    from clearhead.deploy.export import run_export
    from clearhead.deploy.quantize import Quantized, find_held_out_rows, load_texts, run_quantize
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "bench": ("Bench", "run_bench"),
            "export": ("run_export",),
            "quantize": ("Quantized", "find_held_out_rows", "run_quantize", "load_texts"),
        },
    )

__all__ = [
    "Bench",
    "Quantized",
    "find_held_out_rows",
    "load_texts",
    "run_bench",
    "run_export",
    "run_quantize",
]
