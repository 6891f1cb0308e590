"""The loop learns, weighs rows alike in any micro-batches, and resumes in the same bits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.data.table import TokenTable
from clearhead.errors import CheckpointError, InputError
from clearhead.tasks.packed import PackedDataset, pack_table
from clearhead.training.loop import (
    DivergedError,
    TrainingStep,
    compute_logits,
    count_steps,
    make_batches,
    split_micro_batches,
    train_steps,
)
from clearhead.training.objectives import BinaryCrossEntropy, CrossEntropy, objective_for
from clearhead.training.objectives.pooling import pool_windows
from clearhead.training.optimizer import (
    compute_schedule_factor,
    make_optimizer,
    measure_depth,
    select_trainable_parameters,
)
from clearhead.training.settings import TrainSettings
from clearhead.training.state import TrainingProgress, TrainingState, collect_moments, load_state, save_state

SIZES = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24}
SIZES |= {"vocab_size": 40, "max_position_embeddings": 24}


def make_table(windows: list[list[list[int]]], labels: Any) -> TokenTable:
    """A token table of rows, each a list of windows of token ids."""
    all_windows = [ids for row in windows for ids in row]
    return TokenTable(
        ids=np.array([token for ids in all_windows for token in ids], np.uint16),
        starts=np.cumsum([0, *(len(ids) for ids in all_windows)]),
        segment_starts=np.array([len(ids) - 1 for ids in all_windows]),
        window_rows=np.repeat(np.arange(len(windows)), [len(row) for row in windows]),
        labels=None if labels is None else np.asarray(labels),
        space=None,
        rows=np.arange(1, len(windows) + 1),
        hashes=np.zeros(len(windows), np.uint64),
        truncated=np.zeros(len(windows), np.int64),
    )


def make_rows(count: int, seed: int = 0, windows: int = 1) -> PackedDataset:
    """Texts with a synthetic rule: class 1 if every window contains token 7, otherwise class 0."""
    generator = np.random.default_rng(seed)
    texts, targets = [], []
    for _ in range(count):
        label = int(generator.integers(2))
        text = []
        for _ in range(int(generator.integers(1, windows + 1))):
            ids = generator.integers(10, 40, int(generator.integers(3, 12))).tolist()
            if label:
                ids[int(generator.integers(len(ids)))] = 7
            text.append(ids)
        texts.append(text)
        targets.append(label)
    return pack_table(make_table(texts, targets), segments=True)


def make_state(settings: TrainSettings, seed: int = 0, **config: Any) -> TrainingState:
    model = clearhead.create("bert", config={**SIZES, **config}, head="classify", seed=seed)
    return TrainingState(model.module, make_optimizer(model.module, settings), TrainingProgress())


def measure_accuracy(state: TrainingState, data: PackedDataset) -> float:
    with torch.no_grad():
        batch = data.take(np.arange(len(data)))
        window_logits = compute_logits(state.network.eval(), batch, "cpu")
        logits = pool_windows(window_logits, torch.as_tensor(batch.window_rows), batch.rows)
    return float((logits.argmax(-1).numpy() == data.targets).mean())


QUICK = TrainSettings(epochs=12, learning_rate=3e-3, batch_size=16)


@pytest.mark.learns
def test_a_synthetic_rule_is_learned() -> None:
    data, dev = make_rows(200), make_rows(100, seed=1)
    state = make_state(QUICK)
    accuracy_before = measure_accuracy(state, dev)
    steps = list(train_steps(state, data, QUICK, objective=CrossEntropy(), score=lambda: measure_accuracy(state, dev)))
    assert len(steps) == count_steps(data, QUICK) == steps[-1].steps
    state.restore_best()
    assert measure_accuracy(state, dev) == state.progress.best_score == max(state.progress.scores)
    assert measure_accuracy(state, dev) > max(0.95, accuracy_before)
    assert steps[-1].loss < steps[0].loss / 2


@pytest.mark.parametrize("objective", ["cross_entropy", "binary", "squared"])
def test_accumulation_weighs_rows_alike(objective: str) -> None:
    data = make_rows(24, windows=3)
    if objective == "binary":
        data = replace(data, targets=np.stack([data.targets, 1 - data.targets], 1))
    weights = np.linspace(0.5, 2, len(data))
    no_dropout: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    outcomes = []
    for micro_tokens in (10_000, 30, 1):
        settings = TrainSettings(
            epochs=1, batch_size=24, micro_tokens=micro_tokens, max_grad_norm=0.0, precision="float"
        )
        state = make_state(settings, **no_dropout)
        if objective == "squared":
            state = TrainingState(
                clearhead.create("bert", config=SIZES | no_dropout, head="classify", labels=["score"]).module,
                state.adam,
                TrainingProgress(),
            )
            state.adam = make_optimizer(state.network, settings)
        step = next(
            train_steps(state, data, settings, objective=objective_for(objective, settings), row_weights=weights)
        )
        named_parameters = state.network.named_parameters()
        outcomes.append((step.loss, {name: p.grad.clone() for name, p in named_parameters if p.grad is not None}))
    for loss, gradients in outcomes[1:]:
        assert loss == pytest.approx(outcomes[0][0], abs=1e-6)
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, outcomes[0][1][name], atol=1e-6, rtol=1e-4)


def train_to_end(state: TrainingState, data: PackedDataset, settings: TrainSettings) -> list[TrainingStep]:
    return list(
        train_steps(state, data, settings, objective=CrossEntropy(), score=lambda: measure_accuracy(state, data))
    )


@pytest.mark.parametrize("stop", [1, 4, 5, 6, 13])
def test_a_stopped_run_ends_in_the_same_bits(tmp_path: Path, stop: int) -> None:
    settings = TrainSettings(epochs=3, learning_rate=1e-3, batch_size=None, batch_tokens=60, patience=2)
    data = make_rows(40, windows=2)
    uninterrupted = make_state(settings)
    steps = train_to_end(uninterrupted, data, settings)
    assert stop < len(steps)

    stopped = make_state(settings)
    for step_number, _ in enumerate(
        train_steps(stopped, data, settings, objective=CrossEntropy(), score=lambda: measure_accuracy(stopped, data)),
        start=1,
    ):
        if step_number == stop:
            save_state(tmp_path, stopped)
            break
    resumed = make_state(settings, seed=9)  # different weights: everything must be read from the file
    assert load_state(tmp_path, resumed)
    resumed_steps = train_to_end(resumed, data, settings)
    assert [replace(step, seconds=0.0) for step in resumed_steps] == [
        replace(step, seconds=0.0) for step in steps[stop:]
    ]
    assert resumed.progress == uninterrupted.progress
    for name, tensor in uninterrupted.named_weights().items():
        assert torch.equal(tensor, resumed.named_weights()[name]), name
        assert torch.equal(uninterrupted.best[name], resumed.best[name]), name
    moments, resumed_moments = collect_moments(uninterrupted), collect_moments(resumed)
    assert moments.keys() == resumed_moments.keys()
    assert all(torch.equal(moments[name], resumed_moments[name]) for name in moments)


def test_a_half_written_state_is_never_read(tmp_path: Path) -> None:
    state = make_state(QUICK)
    state.progress.step = 3
    save_state(tmp_path, state)
    (tmp_path / ".step-00000004.part").mkdir()
    (tmp_path / "step-00000005").mkdir()  # renamed, but latest.json was not updated
    loaded = make_state(QUICK, seed=4)
    assert load_state(tmp_path, loaded)
    assert loaded.progress.step == 3
    (tmp_path / "latest.json").write_text(json.dumps({"step": "step-00000009"}))
    with pytest.raises(CheckpointError, match="which does not exist"):
        load_state(tmp_path, loaded)
    assert not load_state(tmp_path / "nothing", loaded)


def test_a_broken_loss_stops_at_once_and_keeps_the_weights() -> None:
    data = replace(make_rows(32), targets=np.full(32, np.nan))
    settings = TrainSettings(epochs=1, batch_size=8)
    state = make_state(settings)
    weights_before = {name: tensor.clone() for name, tensor in state.named_weights().items()}
    with pytest.raises(DivergedError, match=r"step 1 \(rows "):
        next(
            train_steps(
                state, replace(data, targets=np.full((32, 2), np.nan)), settings, objective=BinaryCrossEntropy()
            )
        )
    assert all(torch.equal(weights_before[name], tensor) for name, tensor in state.named_weights().items())
    assert state.progress.step == 0


def test_the_rate_follows_its_schedule() -> None:
    linear = TrainSettings(warmup_ratio=0.1)
    assert [round(compute_schedule_factor(step, 100, linear), 3) for step in (0, 4, 9, 10, 55, 99)] == [
        0.1,
        0.5,
        1.0,
        1.0,
        0.5,
        0.011,
    ]
    cosine = TrainSettings(warmup_ratio=0.0, schedule="cosine")
    assert compute_schedule_factor(0, 100, cosine) == 1.0
    assert compute_schedule_factor(50, 100, cosine) == pytest.approx(0.5)
    assert compute_schedule_factor(70, 100, TrainSettings(warmup_ratio=0.5, schedule="constant")) == 1.0


def test_groups_and_depth() -> None:
    settings = TrainSettings(learning_rate=1e-3, head_learning_rate=1e-2, layer_decay=0.5)
    state = make_state(settings)
    network = state.network
    assert measure_depth("head.out.weight", network) == 0
    assert measure_depth("stack.blocks.2.feed.norm.weight", network) == 1
    assert measure_depth("stack.blocks.0.attend.inner.q.weight", network) == 3
    assert measure_depth("stack.embed.token.weight", network) == 4
    group_of = {id(p): group for group in state.adam.param_groups for p in group["params"]}
    for name, parameter in network.named_parameters():
        group = group_of[id(parameter)]
        depth = measure_depth(name, network)
        assert group["base"] == pytest.approx(1e-2 if depth == 0 else 1e-3 * 0.5**depth)
        assert group["weight_decay"] == (0.01 if parameter.ndim > 1 else 0.0)


def test_frozen_and_unfrozen_layers() -> None:
    data = make_rows(32)
    frozen = TrainSettings(epochs=1, freeze_encoder=True, batch_size=8)
    state = make_state(frozen)
    weights_before = {name: tensor.clone() for name, tensor in state.named_weights().items()}
    list(train_steps(state, data, frozen, objective=CrossEntropy()))
    changed = {name for name, tensor in state.named_weights().items() if not torch.equal(weights_before[name], tensor)}
    assert changed == {"pooler.dense.weight", "pooler.dense.bias", "head.out.weight", "head.out.bias"}
    gradual = TrainSettings(gradual_unfreezing=True)
    counts = [len(select_trainable_parameters(state.network, gradual, epoch)) for epoch in range(6)]
    assert counts == sorted(counts)
    assert counts[0] < counts[1] < counts[-1] == len(list(state.network.named_parameters()))


def test_windows_are_averaged_and_every_row_is_seen_once() -> None:
    data = make_rows(50, windows=4)
    logits = torch.arange(12.0).reshape(6, 2)
    owners = torch.tensor([0, 0, 1, 2, 2, 2])
    torch.testing.assert_close(pool_windows(logits, owners, 3), torch.tensor([[1.0, 2.0], [4.0, 5.0], [8.0, 9.0]]))
    batch = data.take(np.array([3, 1]))
    assert len(batch.ids) == int(batch.lengths.sum()) == int(data.row_tokens[[3, 1]].sum())
    assert batch.window_rows.tolist() == [0] * int(data.row_windows[3]) + [1] * int(data.row_windows[1])
    start = data.starts[data.first_windows[3]]
    assert batch.ids[:3].tolist() == data.ids[start : start + 3].tolist()
    settings = TrainSettings(batch_size=None, batch_tokens=64, seed=3)
    for epoch in (0, 1):
        assert sorted(np.concatenate(make_batches(data, settings, epoch)).tolist()) == list(range(50))
    first, again, second = (
        [batch_rows.tolist() for batch_rows in make_batches(data, settings, epoch)] for epoch in (0, 0, 1)
    )
    assert first == again
    assert first != second
    assert split_micro_batches(np.array([5, 5, 20, 1]), 10) == [slice(0, 2), slice(2, 3), slice(3, 4)]


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 0},
        {"learning_rate": 0.0},
        {"batch_tokens": 10},
        {"batch_size": None},
        {"batch_size": 0},
        {"warmup_ratio": 1.0},
        {"label_smoothing": 1.0},
        {"layer_decay": 0.0},
        {"patience": 0},
        {"max_grad_norm": -1.0},
        {"weight_decay": -0.1},
        {"micro_tokens": 0},
        {"head_learning_rate": 0.0},
    ],
    ids=str,
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="Training settings"):
        TrainSettings(**settings).check()


def test_rows_that_cannot_be_learned_are_refused() -> None:
    with pytest.raises(InputError, match="Row 2 has no tokens"):
        pack_table(make_table([[[5]], [[]]], [0, 1]), segments=False)
    with pytest.raises(InputError, match="no labels"):
        pack_table(make_table([[[5]]], None), segments=False)
    batch = pack_table(make_table([[[5, 6, 7], [8, 9]]], [1]), segments=True).take(np.array([0]))
    assert batch.segments is not None
    assert batch.segments.tolist() == [0, 0, 1, 0, 1]
