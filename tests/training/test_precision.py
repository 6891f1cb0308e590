"""float on every CPU, bf16 where asked for or where a GPU has it; weights stay 32-bit numbers and still learn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from clearhead.errors import InputError
from clearhead.training import precision
from clearhead.training.loop import train_steps
from clearhead.training.objectives import CrossEntropy
from clearhead.training.precision import has_bf16, resolve_precision, use_precision
from tests.training.test_loop import QUICK, fresh, rows

pytestmark = pytest.mark.usefixtures("default_precision")


@pytest.mark.parametrize("known", [{}, {"avx512_bf16": True}, {"amx_bf16": True, "avx512_bf16": True}], ids=str)
def test_every_cpu_computes_in_float_unless_asked(monkeypatch: pytest.MonkeyPatch, known: dict[str, Any]) -> None:
    # another machine's answer stands in for this one's
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known, raising=False)
    has_bf16.cache_clear()
    try:
        assert has_bf16("cpu") is bool(known)
        assert resolve_precision("auto", "cpu") == "float"
        assert resolve_precision("float", "cpu") == "float"
        assert resolve_precision("bf16", "cpu") == "bf16"  # emulated, if need be
    finally:
        has_bf16.cache_clear()


def test_a_torch_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    has_bf16.cache_clear()
    try:
        assert not has_bf16("cpu")
        assert resolve_precision("auto", "cpu") == "float"
    finally:
        has_bf16.cache_clear()


def test_a_gpu_that_has_it_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_bf16", lambda kind: True)
    assert resolve_precision("auto", "cuda:0") == "bf16"
    assert resolve_precision("float", "cuda:0") == "float"


def test_a_gpu_without_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_bf16", lambda kind: False)
    with pytest.raises(InputError, match="does not compute in bf16"):
        resolve_precision("bf16", "cuda:0")
    assert resolve_precision("auto", "cuda:0") == "float"


def test_what_is_computed_in_what() -> None:
    a = torch.randn(4, 4)
    with use_precision("bf16", "cpu"):
        assert (a @ a).dtype == torch.bfloat16
    with use_precision("float", "cpu"):
        assert (a @ a).dtype == torch.float32


def test_learning_in_bf16() -> None:
    data = rows(100)
    chosen = replace(QUICK, precision="bf16", learning_rate=5e-3)
    state = fresh(chosen)
    steps = list(train_steps(state, data, chosen, objective=CrossEntropy()))
    assert steps[-1].loss < steps[0].loss / 2
    assert all(parameter.dtype == torch.float32 for parameter in state.network.parameters())
    assert all(moment.dtype == torch.float32 for kept in state.adam.state.values() for moment in kept.values())
    # the same again, and nearly the same as in 32 bits
    again = next(train_steps(fresh(chosen), data, chosen, objective=CrossEntropy()))
    assert replace(again, seconds=0.0) == replace(steps[0], seconds=0.0)
    plain = replace(chosen, precision="float")
    wide = next(train_steps(fresh(plain), data, plain, objective=CrossEntropy()))
    assert 0 < abs(wide.loss - steps[0].loss) < 0.02
