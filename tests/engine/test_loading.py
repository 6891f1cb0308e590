"""Loading into the engine: the same calls and results as the core, and clear errors."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.errors import CheckpointError, InputError
from clearhead.model.embedding import TruncationWarning
from clearhead.model.runtime import UncheckedInt8Warning
from tests.tiny_models import make_sentence, tiny_model

DRAW = Random(0)
TEXTS = [make_sentence(DRAW, [], length, length) for length in (3, 9, 1, 9, 20, 3, 7, 9, 9, 12)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tiny_model(tmp_path_factory.mktemp("tiny")))


def test_the_engine_is_what_runs_unless_torch_is_asked_for(folder: Path) -> None:
    model = clearhead.load(folder)
    assert type(model.runner).__name__ == "EngineRunner"
    before = model.embed(TEXTS)
    assert model.parameters == clearhead.load(folder, "core").parameters
    model.trace(TEXTS[0])
    assert type(model.runner).__name__ == "EngineRunner"  # a trace leaves it as it is
    assert model.use_core().network is model.runner.network  # type: ignore[attr-defined]
    np.testing.assert_allclose(model.embed(TEXTS), before, atol=1e-5)


def test_changed_weights_of_the_core_are_used(folder: Path) -> None:
    import torch

    model = clearhead.load(folder)
    before = model.embed(TEXTS[:1])
    with torch.no_grad():
        model.use_core().network.stack.get_parameter("blocks.0.feed.inner.down.bias")[0] += 1.0
    assert np.abs(model.embed(TEXTS[:1]) - before).max() > 1e-3


def test_a_head_that_is_drawn_anew_needs_torch(folder: Path) -> None:
    with pytest.raises(InputError, match="no classify head to run"):
        clearhead.load(folder, "engine", head="classify", labels=("a", "b"))
    assert clearhead.load(folder, head="classify", labels=("a", "b"), fresh=True).runner.capabilities.gradients


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runtime": "fast"}, "runtime must be one of auto, engine, core"),
        ({"precision": "int4"}, "precision must be one of float, int8"),
        ({"runtime": "core", "precision": "int8"}, "int8 runs in the engine"),
        ({"runtime": "engine", "device": "cuda"}, "The engine runs only on the CPU"),
        ({"runtime": "engine", "threads": 0}, "threads must be an integer >= 1, got 0"),
    ],
)
def test_what_cannot_be_is_one_sentence(options: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(InputError, match=message):
        clearhead.load(folder, **options)


def test_order_and_neighbors_change_nothing(folder: Path) -> None:
    model = clearhead.load(folder, "engine", threads=2)
    together = model.embed(TEXTS)
    for index, text in enumerate(TEXTS):
        np.testing.assert_allclose(model.embed([text])[0], together[index], atol=1e-5)
    reversed_vectors = model.embed(TEXTS[::-1])
    np.testing.assert_allclose(reversed_vectors[::-1], together, atol=1e-5)
    np.testing.assert_allclose(clearhead.load(folder, "core").embed(TEXTS), together, atol=1e-5)


@pytest.mark.parametrize("layer", [None, 1, "sum_all", "second_to_last"])
@pytest.mark.parametrize("pooling", [None, "first", "max", "lasttoken"])
def test_every_layer_and_pooling(layer: Any, pooling: Any, folder: Path) -> None:
    engine_vectors, core_vectors = (
        clearhead.load(folder, runtime).embed(TEXTS, layer=layer, pooling=pooling) for runtime in RUNTIMES
    )
    np.testing.assert_allclose(engine_vectors, core_vectors, atol=1e-5)


RUNTIMES = ("engine", "core")


def test_bad_input(folder: Path) -> None:
    model = clearhead.load(folder, "engine")
    assert model.embed([]).shape == (0, model.shape.stack.width)
    assert np.isfinite(model.embed(["", " ", "\u200b", "a"])).all()
    with pytest.raises(InputError, match="surrogate"):
        model.embed(["fine", "bad \ud800"])
    with pytest.raises(InputError, match=r"texts\[1\] is int"):
        model.embed(["fine", 3])  # type: ignore[list-item]
    with pytest.raises(InputError, match="put it in a list"):
        model.embed("one text")
    with pytest.raises(InputError, match="vocabulary has"):
        model.run([[10**6]])


def test_a_megabyte_of_text_is_cut_and_said(folder: Path) -> None:
    model = clearhead.load(folder, "engine")
    with pytest.warns(TruncationWarning, match="1 of 3 texts"):
        vectors = model.embed(["a b", "word " * 200_000, "c"])
    np.testing.assert_allclose(vectors[2], model.embed(["c"])[0], atol=1e-5)


def test_a_stream_is_read_as_it_comes(folder: Path) -> None:
    model = clearhead.load(folder, "engine")
    count = 0

    def endless() -> Iterator[str]:
        nonlocal count
        while True:
            count += 1
            yield TEXTS[count % len(TEXTS)]

    stream: Any = model.embed_stream(endless())
    first = next(stream)
    assert first.shape[1] == model.shape.stack.width
    assert count <= len(first) + 2 * 4096  # no more than the next piece is read ahead
    stream.close()


def test_a_worker_that_fails_raises(folder: Path) -> None:
    model = clearhead.load(folder, "engine", threads=2)
    runner: Any = model.runner

    def work(job: int) -> int:
        if job == 3:
            raise ValueError("job 3")
        return job

    with pytest.raises(ValueError, match="job 3"):
        list(runner.map_jobs(work, list(range(8))))
    assert list(runner.map_jobs(work, [0, 1, 2])) == [0, 1, 2]


def test_int8_that_nobody_measured_warns(folder: Path) -> None:
    with pytest.warns(UncheckedInt8Warning, match="has not been measured"):
        model = clearhead.load(folder, precision="int8")
    exact = clearhead.load(folder, precision="float")
    a, b = model.embed(TEXTS), exact.embed(TEXTS)
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert cosines.min() > 0.97
    assert not np.array_equal(a, b)


def test_a_quantized_folder_runs_in_int8_and_reports_its_cost(folder: Path, tmp_path: Path) -> None:
    result = clearhead.quantize(folder, TEXTS * 4, output=tmp_path / "small", min_cosine=0.9)
    assert result.verdict.passed
    assert result.verdict.metric == "cosine"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = clearhead.load(tmp_path / "small")
    runner: Any = model.runner
    assert runner.int8 is not None
    assert model.passport is not None
    assert model.passport.int8 == result.verdict
    assert clearhead.load(tmp_path / "small", precision="float").runner.int8 is None  # type: ignore[attr-defined]
    copied = clearhead.load(model.save(tmp_path / "copy"))  # what is saved anew is float: its verdict is gone
    assert copied.runner.int8 is None  # type: ignore[attr-defined]


def test_a_plan_that_does_not_fit_is_refused(folder: Path, tmp_path: Path) -> None:
    from clearhead.checkpoint.weights import write_safetensors

    clearhead.quantize(folder, TEXTS * 4, output=tmp_path / "small", min_cosine=0.9)
    for name, array in {
        "even.stack.blocks.9.feed.inner.up": np.ones(4, np.float32),
        "even.stack.blocks.0.feed.inner.up": np.ones(3, np.float32),
        "even.stack.blocks.0.attend.inner.q": np.zeros(clearhead.load(folder).shape.stack.width, np.float32),
        "else.stack.blocks.0.feed.inner.up": np.ones(3, np.float32),
    }.items():
        write_safetensors(tmp_path / "small" / "int8.safetensors", {name: array})
        with pytest.raises(CheckpointError, match=r"int8\.safetensors"):
            clearhead.load(tmp_path / "small")


@pytest.mark.parametrize(
    ("texts", "message"),
    [("one text", "put it in a list"), (None, "got NoneType"), ([1], r"texts\[0\] is int"), (["a", b"b"], "bytes")],
)
def test_texts_that_are_none_are_refused(texts: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        clearhead.load("default").embed(texts)
