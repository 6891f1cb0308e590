"""A finished model made ready for use: int8 behind a quality gate, ONNX export, and speed beside other runtimes.

`quantize` measures before it keeps int8 weights, `export` writes ONNX for others, `bench` runs each runtime in a
process of its own (`worker`), interleaved by `scheduler`.
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
