"""A model in eight bits beside the one that it was made from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clearhead.engine.int8 import Int8Plan
from clearhead.engine.runner import EngineRunner
from clearhead.model import Model


def quantize_model(model: Model, plan: Int8Plan) -> Model:
    """The same model in eight bits, its other weights shared."""
    runner: Any = model.runner
    return replace(model, runner=EngineRunner(model.shape, runner.tensors, runner.threads, plan))
