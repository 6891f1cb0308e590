"""Precision: float on every CPU, bf16 on request or on a GPU that supports it; weights stay float32."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from clearhead.errors import InputError
from clearhead.training import precision
from clearhead.training.loop import train_steps
from clearhead.training.objectives import CrossEntropy
from clearhead.training.precision import has_fast_bf16, resolve_precision, use_precision
from tests.training.test_loop import QUICK, make_rows, make_state

pytestmark = pytest.mark.usefixtures("default_precision")


@pytest.mark.parametrize("capabilities", [{}, {"avx512_bf16": True}, {"amx_bf16": True, "avx512_bf16": True}], ids=str)
def test_every_cpu_computes_in_float_unless_asked(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, Any]
) -> None:
    # the capabilities of another machine
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    has_fast_bf16.cache_clear()
    try:
        assert has_fast_bf16("cpu") is bool(capabilities)
        assert resolve_precision("auto", "cpu") == "float"
        assert resolve_precision("float", "cpu") == "float"
        assert resolve_precision("bf16", "cpu") == "bf16"  # emulated if necessary
    finally:
        has_fast_bf16.cache_clear()


def test_a_torch_version_without_capabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    has_fast_bf16.cache_clear()
    try:
        assert not has_fast_bf16("cpu")
        assert resolve_precision("auto", "cpu") == "float"
    finally:
        has_fast_bf16.cache_clear()


def test_a_gpu_with_bf16_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_fast_bf16", lambda kind: True)
    assert resolve_precision("auto", "cuda:0") == "bf16"
    assert resolve_precision("float", "cuda:0") == "float"


def test_bf16_is_refused_on_a_gpu_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_fast_bf16", lambda kind: False)
    with pytest.raises(InputError, match="does not support bf16"):
        resolve_precision("bf16", "cuda:0")
    assert resolve_precision("auto", "cuda:0") == "float"


def test_matrix_products_use_the_precision() -> None:
    a = torch.randn(4, 4)
    with use_precision("bf16", "cpu"):
        assert (a @ a).dtype == torch.bfloat16
    with use_precision("float", "cpu"):
        assert (a @ a).dtype == torch.float32


def test_learning_in_bf16() -> None:
    data = make_rows(100)
    settings = replace(QUICK, precision="bf16", learning_rate=5e-3)
    state = make_state(settings)
    steps = list(train_steps(state, data, settings, objective=CrossEntropy()))
    assert steps[-1].loss < steps[0].loss / 2
    assert all(parameter.dtype == torch.float32 for parameter in state.network.parameters())
    assert all(moment.dtype == torch.float32 for moments in state.adam.state.values() for moment in moments.values())
    # reproducible, and nearly equal to float32
    repeated = next(train_steps(make_state(settings), data, settings, objective=CrossEntropy()))
    assert replace(repeated, seconds=0.0) == replace(steps[0], seconds=0.0)
    float_settings = replace(settings, precision="float")
    float_step = next(train_steps(make_state(float_settings), data, float_settings, objective=CrossEntropy()))
    assert 0 < abs(float_step.loss - steps[0].loss) < 0.02
