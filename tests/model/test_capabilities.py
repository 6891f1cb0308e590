"""Runners declare their capabilities correctly, and weights change only in the core."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.core.runner import CoreRunner
from clearhead.engine.runner import EngineRunner
from tests.tiny_models import tiny_model

TEXT = "The old lighthouse keeper lived alone."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tiny_model(tmp_path_factory.mktemp("tiny")))


def test_the_core_can_do_everything_and_the_engine_what_the_protocol_has(folder: Path) -> None:
    core, engine = (clearhead.load(folder, runtime).runner for runtime in ("core", "engine"))
    assert all(asdict(core.capabilities).values())
    assert not any(asdict(engine.capabilities).values())
    for runner in (core, engine):
        able = runner.capabilities
        assert able.gradients == isinstance(runner, CoreRunner)
        assert able.source_attention == callable(getattr(runner, "step_with_attention", None))


def test_precision_is_that_of_the_matrices(folder: Path) -> None:
    assert clearhead.load(folder, "core").runner.precision == "float"
    assert clearhead.load(folder, "engine", precision="float").runner.precision == "float"
    with pytest.warns(UserWarning, match="has not been measured"):
        assert clearhead.load(folder, precision="int8").runner.precision == "int8"


def test_both_runners_give_the_same_weights(folder: Path) -> None:
    core, engine = (dict(clearhead.load(folder, runtime).runner.weights()) for runtime in ("core", "engine"))
    assert core.keys() == engine.keys()
    for name, weight in core.items():
        np.testing.assert_array_equal(weight, engine[name])


@pytest.mark.parametrize("switch", ["use_core", "module", "prune"])
def test_no_engine_is_left_with_old_weights(folder: Path, tmp_path: Path, switch: str) -> None:
    model: Any = clearhead.load(folder, "engine")
    before = model.embed([TEXT])
    core = model.core
    assert type(model.runner) is EngineRunner  # to read from the core changes nothing
    if switch == "prune":
        model.prune({0: [0]})
    else:
        if switch == "use_core":
            network = model.use_core().network
        else:
            with pytest.warns(DeprecationWarning, match=r"use_core\(\)"):
                network = model.module
        with torch.no_grad():
            network.stack.blocks[0].feed.inner.down.bias[0] += 1.0
    assert model.runner is core
    changed = model.embed([TEXT])
    assert np.abs(changed - before).max() > 1e-4
    again = clearhead.load(model.save(tmp_path / "changed"), "engine")
    np.testing.assert_allclose(again.embed([TEXT]), changed, atol=1e-5)


def test_a_module_that_runs_is_only_read(folder: Path) -> None:
    model = clearhead.load(folder, "core")
    runner = model.runner
    assert model.module is model.module
    assert model.use_core() is model.runner is runner
