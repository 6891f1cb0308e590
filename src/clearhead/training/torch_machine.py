"""The machine as torch sees it: resolved once at the beginning of a run, and compared when the run is resumed."""

from __future__ import annotations

import re
from dataclasses import replace

import torch

from clearhead.core.runner import check_device
from clearhead.machine.cpu import Machine, base_machine
from clearhead.training.precision import resolve_precision

MATRIX_EXTENSIONS = re.compile(
    "vnni|bf16|fp16|amx|int8|i8mm|sve|dot"
)  # extensions that libraries multiply matrices with


def detect_torch_machine(precision: str, device: str) -> Machine:
    """This machine where torch computes, on as many threads as are set."""
    place = check_device(device)
    known: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # an older torch does not tell
    name = str(place) if place.type != "cuda" else f"{place.type}: {torch.cuda.get_device_name(place)}"
    return replace(
        base_machine(),
        precision=resolve_precision(precision, str(place)),
        threads=torch.get_num_threads(),
        device=name,
        instructions=torch.backends.cpu.get_cpu_capability(),
        extensions=sorted(key for key, has in known.items() if has is True and MATRIX_EXTENSIONS.search(key)),
        libraries={"torch": str(torch.__version__)},
    )
