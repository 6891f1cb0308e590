"""The PyTorch models: the readable reference. It knows shapes and tensors, nothing of files or Hugging Face.

`build.build` makes a network of a `ModelShape`, and `runner.CoreRunner` runs it. Importing this package loads torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clearhead.machine.threads import load_torch

if TYPE_CHECKING:
    from clearhead.core.attention import Attention, Kernel
    from clearhead.core.build import build, named_arrays, pruned_heads, widen
    from clearhead.core.complexity import time_layers
    from clearhead.core.layout import Layout, Packed, Padded
    from clearhead.core.models import Network
    from clearhead.core.runner import CoreRunner, check_device, has_cuda
    from clearhead.core.trace import LayerTrace, Trace, trace
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "attention": ("Attention", "Kernel"),
            "build": ("build", "named_arrays", "pruned_heads", "widen"),
            "complexity": ("time_layers",),
            "layout": ("Layout", "Packed", "Padded"),
            "models": ("Network",),
            "runner": ("CoreRunner", "check_device", "has_cuda"),
            "trace": ("LayerTrace", "Trace", "trace"),
        },
    )

load_torch()  # before any module of this package imports it

__all__ = [
    "Attention",
    "CoreRunner",
    "Kernel",
    "LayerTrace",
    "Layout",
    "Network",
    "Packed",
    "Padded",
    "Trace",
    "build",
    "check_device",
    "has_cuda",
    "named_arrays",
    "pruned_heads",
    "time_layers",
    "trace",
    "widen",
]
