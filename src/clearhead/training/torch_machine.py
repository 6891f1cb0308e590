"""The machine as torch sees it: detected when a run starts, and compared when the run is resumed."""

from __future__ import annotations

import re
from dataclasses import replace

import torch

from clearhead.core.runner import check_device
from clearhead.machine.cpu import Machine, base_machine
from clearhead.training.precision import resolve_precision

# CPU extensions that libraries use for matrix products
MATRIX_EXTENSIONS = re.compile("vnni|bf16|fp16|amx|int8|i8mm|sve|dot")


def detect_torch_machine(precision: str, device: str) -> Machine:
    """Describe this machine, the device and precision in use, and the current number of threads."""
    torch_device = check_device(device)
    # get_capabilities is missing in older versions of torch
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    device_name = (
        str(torch_device)
        if torch_device.type != "cuda"
        else f"{torch_device.type}: {torch.cuda.get_device_name(torch_device)}"
    )
    return replace(
        base_machine(),
        precision=resolve_precision(precision, str(torch_device)),
        threads=torch.get_num_threads(),
        device=device_name,
        instructions=torch.backends.cpu.get_cpu_capability(),
        extensions=sorted(
            extension
            for extension, is_supported in capabilities.items()
            if is_supported is True and MATRIX_EXTENSIONS.search(extension)
        ),
        libraries={"torch": str(torch.__version__)},
    )
