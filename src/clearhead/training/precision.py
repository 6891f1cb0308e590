"""Which numbers a run computes in: 32-bit ones, or bfloat16 for matrices where asked for, or where a GPU has it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch

from clearhead.errors import InputError


def resolve_precision(asked: str, device: str) -> str:
    """What "auto" means: "float" on every CPU, so that results do not depend on it, "bf16" on a GPU that has it."""
    if torch.device(device).type != "cuda":
        return "float" if asked == "auto" else asked
    has = has_bf16("cuda")
    if asked == "bf16" and not has:
        raise InputError('This GPU does not compute in bf16; use precision="float".')
    return asked if asked != "auto" else "bf16" if has else "float"


@cache
def has_bf16(kind: str) -> bool:
    """Whether matrices are multiplied faster in bfloat16; a machine that only imitates it is slower."""
    if kind == "cuda":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    known: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # an older torch does not tell
    return kind == "cpu" and bool(known.get("amx_bf16") or known.get("avx512_bf16"))


def use_precision(asked: str, device: str) -> AbstractContextManager[object]:
    """For the way forward; weights, gradients and the optimizer's moments stay 32-bit numbers."""
    if resolve_precision(asked, device) == "float":
        return nullcontext()
    return torch.autocast(torch.device(device).type, torch.bfloat16)
