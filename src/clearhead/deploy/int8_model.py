"""Build an int8 model that shares weights with the original."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clearhead.engine.int8 import Int8Plan
from clearhead.engine.runner import EngineRunner
from clearhead.model import Model


def quantize_model(model: Model, plan: Int8Plan) -> Model:
    """Return an int8 version of a model; weights that stay float are shared."""
    runner: Any = model.runner
    return replace(model, runner=EngineRunner(model.shape, runner.tensors, runner.threads, plan))
