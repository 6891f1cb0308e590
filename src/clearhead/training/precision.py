"""The precision of a run: float32, or bfloat16 for matrix products on request and on GPUs that support it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch

from clearhead.errors import InputError


def resolve_precision(precision: str, device: str) -> str:
    """Resolve "auto": "bf16" on a GPU that supports it; "float" on every CPU, so that results do not depend on it."""
    if torch.device(device).type != "cuda":
        return "float" if precision == "auto" else precision
    supports_bf16 = has_fast_bf16("cuda")
    if precision == "bf16" and not supports_bf16:
        raise InputError('This GPU does not support bf16; use precision="float".')
    return precision if precision != "auto" else "bf16" if supports_bf16 else "float"


@cache
def has_fast_bf16(device_type: str) -> bool:
    """Whether the hardware multiplies bfloat16 matrices; emulation is slower than float32."""
    if device_type == "cuda":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    # get_capabilities is missing in older versions of torch
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return device_type == "cpu" and bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))


def use_precision(precision: str, device: str) -> AbstractContextManager[object]:
    """A context for the forward pass; weights, gradients and the optimizer's moments stay float32."""
    if resolve_precision(precision, device) == "float":
        return nullcontext()
    return torch.autocast(torch.device(device).type, torch.bfloat16)
