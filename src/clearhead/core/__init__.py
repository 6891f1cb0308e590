"""The PyTorch models: the readable reference, independent of file formats and Hugging Face.

`build.build_network` builds a network from a `ModelShape`, and `runner.CoreRunner` runs it. Importing this package
loads torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clearhead.machine.threads import load_torch

if TYPE_CHECKING:
    from clearhead.core.attention import Attention, Kernel
    from clearhead.core.build import build_network, convert_to_float32, find_pruned_heads, named_arrays
    from clearhead.core.complexity import time_layers
    from clearhead.core.layout import Layout, PackedLayout, PaddedLayout
    from clearhead.core.models import Network
    from clearhead.core.runner import CoreRunner, check_device, has_cuda
    from clearhead.core.trace import LayerTrace, Trace, trace
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "attention": ("Attention", "Kernel"),
            "build": ("build_network", "named_arrays", "find_pruned_heads", "convert_to_float32"),
            "complexity": ("time_layers",),
            "layout": ("Layout", "PackedLayout", "PaddedLayout"),
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
    "PackedLayout",
    "PaddedLayout",
    "Trace",
    "build_network",
    "check_device",
    "convert_to_float32",
    "find_pruned_heads",
    "has_cuda",
    "named_arrays",
    "time_layers",
    "trace",
]
