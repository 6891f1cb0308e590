"""The model that a run starts from: read once, and the same bits at the same alignment wherever it is used again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.data import open_source
from clearhead.jobs.events import RunEvents
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.profile import profile_dataset
from clearhead.model import Model
from clearhead.model.loading import load
from clearhead.model.runtime import ALIGNMENT, copy_aligned
from clearhead.train.gpt_inputs import EMBEDDING_WEIGHT
from clearhead.train.start import StartModels
from tests.tiny_models import labelled, tiny_gpt, tiny_model


@pytest.mark.parametrize("view", [np.s_[:], np.s_[:, 5:9], np.s_[1:, ::2], np.s_[3:3]])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("start", [0, 1, 6, 13])
def test_a_copy_has_the_strides_and_the_alignment(view: Any, transposed: bool, start: int) -> None:
    flat = np.random.default_rng(start).normal(size=start + 15 * 11).astype(np.float32)
    array = (flat[start:].reshape(15, 11).T if transposed else flat[start:].reshape(15, 11))[view]
    copied = copy_aligned(array)
    assert np.array_equal(copied, array)
    assert not np.shares_memory(copied, array)
    assert copied.dtype == array.dtype
    if array.size:
        assert copied.strides == array.strides
        assert (copied.ctypes.data - array.ctypes.data) % ALIGNMENT == 0


@pytest.mark.parametrize("make", [tiny_model, tiny_gpt])
def test_what_is_trained_changes_no_later_model(make: Any, tmp_path: Path) -> None:
    folder = str(make(tmp_path / "model"))
    plan = RunPlan(model=folder, seeds=2)
    start = StartModels(profile_dataset({"train": open_source(labelled(20))}, plan), RunEvents())
    first, before = start.network(plan, 0), _placed(start.network(plan, 0))
    for parameter in first.use_core().network.parameters():
        parameter.data.fill_(1.0)
    second = StartModels(profile_dataset({"train": open_source(labelled(20))}, plan), RunEvents()).network(plan, 0)
    assert _placed(second) == _placed(start.network(plan, 0)) == before
    assert _bits(second) == _bits(start.network(plan, 0))
    assert _bits(second) != _bits(start.network(plan, 1))  # another new head
    assert _bits(load(folder, head=None)) == _bits(start.encoder(plan))


def test_tensors_in_memory_are_used_only_where_they_fit(tmp_path: Path) -> None:
    folder = str(tiny_model(tmp_path / "model"))
    whole = load(folder, "core", head=None)
    name, array = next((name, array) for name, array in whole.runner.weights().items() if array.ndim == 2)
    other = load(folder, "core", head=None, weights={name: array + 1})
    assert np.array_equal(other.tensor(name), array + 1)
    assert _bits(load(folder, "core", head=None, weights={name: array[1:] + 1})) == _bits(whole)


def _bits(model: Model) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(array).tobytes() for name, array in model.runner.weights().items()}


def _placed(model: Model) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Where tensors of the checkpoint lie, modulo the alignment, and their strides; a word table may be made anew."""
    fresh, arrays = {*model.fresh, EMBEDDING_WEIGHT}, model.runner.weights().items()
    return {name: (array.ctypes.data % ALIGNMENT, array.strides) for name, array in arrays if name not in fresh}
