"""The model that a run starts from is read once, and its copies have the same bits and the same alignment."""

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
from tests.tiny_models import make_sentiment_rows, tiny_gpt, tiny_model


@pytest.mark.parametrize("view", [np.s_[:], np.s_[:, 5:9], np.s_[1:, ::2], np.s_[3:3]])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("start", [0, 1, 6, 13])
def test_a_copy_keeps_strides_and_alignment(view: Any, transposed: bool, start: int) -> None:
    flat = np.random.default_rng(start).normal(size=start + 15 * 11).astype(np.float32)
    array = (flat[start:].reshape(15, 11).T if transposed else flat[start:].reshape(15, 11))[view]
    copy = copy_aligned(array)
    assert np.array_equal(copy, array)
    assert not np.shares_memory(copy, array)
    assert copy.dtype == array.dtype
    if array.size:
        assert copy.strides == array.strides
        assert (copy.ctypes.data - array.ctypes.data) % ALIGNMENT == 0


@pytest.mark.parametrize("make_model", [tiny_model, tiny_gpt])
def test_training_a_model_does_not_change_later_ones(make_model: Any, tmp_path: Path) -> None:
    folder = str(make_model(tmp_path / "model"))
    plan = RunPlan(model=folder, seeds=2)
    start_models = StartModels(profile_dataset({"train": open_source(make_sentiment_rows(20))}, plan), RunEvents())
    trained, placement = start_models.network(plan, 0), read_placement(start_models.network(plan, 0))
    for parameter in trained.use_core().network.parameters():
        parameter.data.fill_(1.0)
    unaffected = StartModels(
        profile_dataset({"train": open_source(make_sentiment_rows(20))}, plan), RunEvents()
    ).network(plan, 0)
    assert read_placement(unaffected) == read_placement(start_models.network(plan, 0)) == placement
    assert read_bytes(unaffected) == read_bytes(start_models.network(plan, 0))
    assert read_bytes(unaffected) != read_bytes(start_models.network(plan, 1))  # a different new head
    assert read_bytes(load(folder, head=None)) == read_bytes(start_models.encoder(plan))


def test_tensors_in_memory_are_used_only_where_they_fit(tmp_path: Path) -> None:
    folder = str(tiny_model(tmp_path / "model"))
    model = load(folder, "core", head=None)
    name, array = next((name, array) for name, array in model.runner.weights().items() if array.ndim == 2)
    changed_model = load(folder, "core", head=None, weights={name: array + 1})
    assert np.array_equal(changed_model.tensor(name), array + 1)
    assert read_bytes(load(folder, "core", head=None, weights={name: array[1:] + 1})) == read_bytes(model)


def read_bytes(model: Model) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(array).tobytes() for name, array in model.runner.weights().items()}


def read_placement(model: Model) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Address modulo alignment, and strides of the checkpoint's tensors, except embeddings, which may be resized."""
    fresh, arrays = {*model.fresh, EMBEDDING_WEIGHT}, model.runner.weights().items()
    return {name: (array.ctypes.data % ALIGNMENT, array.strides) for name, array in arrays if name not in fresh}
