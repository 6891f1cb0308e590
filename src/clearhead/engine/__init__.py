"""The fast path: ONNX graphs built directly from a Shape and its tensors, run by ONNX Runtime without torch.

`assemble` builds the graphs, `runner.EngineRunner` runs them, `calibrate` and `int8` quantize them, and `export` writes
them to files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.engine.assemble import assemble
    from clearhead.engine.export import write_model
    from clearhead.engine.int8 import Int8Plan
    from clearhead.engine.int8_file import read_plan, write_plan
    from clearhead.engine.runner import EngineRunner
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "assemble": ("assemble",),
            "export": ("write_model",),
            "int8": ("Int8Plan",),
            "int8_file": ("read_plan", "write_plan"),
            "runner": ("EngineRunner",),
        },
    )

__all__ = [
    "EngineRunner",
    "Int8Plan",
    "assemble",
    "read_plan",
    "write_model",
    "write_plan",
]
