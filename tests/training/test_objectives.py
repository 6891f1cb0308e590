"""Objectives: every task names one, wrappers combine them, and the training loop accepts any."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from clearhead.tasks import TASKS
from clearhead.tasks.packed import PackedBatch, PackedDataset
from clearhead.training.loop import compute_output, train_steps
from clearhead.training.objectives import (
    OBJECTIVES,
    BinaryCrossEntropy,
    CrossEntropy,
    NetworkOutput,
    Objective,
    SquaredError,
    WithNextToken,
    objective_for,
)
from clearhead.training.objectives.next_token import compute_next_token_loss
from clearhead.training.settings import PROBE_OBJECTIVES, TrainSettings
from tests.training.test_loop import QUICK, make_rows, make_state


def make_batch(targets: np.ndarray) -> PackedBatch:
    """Texts of two tokens each."""
    count = len(targets)
    ids, owners = np.arange(2 * count) + 10, np.arange(count)
    return PackedBatch(ids=ids, segments=None, lengths=np.full(count, 2), window_rows=owners, targets=targets)


def test_every_task_names_an_objective() -> None:
    from clearhead.data import LabelSpace

    for task in TASKS.values():
        for kind in task.rows.label_kinds:
            assert task.objective(LabelSpace(names=("a", "b"), kind=kind)) in OBJECTIVES


def test_settings_name_the_objectives_that_have_a_linear_model() -> None:
    with_linear_examples = [
        name for name in OBJECTIVES if objective_for(name, TrainSettings()).linear_examples is not None
    ]
    assert set(with_linear_examples) == set(PROBE_OBJECTIVES)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_smoothing_reaches_the_objective(smoothing: float) -> None:
    logits, targets = torch.randn(4, 3), np.array([0, 2, 1, 1])
    objective = objective_for("cross_entropy", TrainSettings(label_smoothing=smoothing))
    expected = torch.nn.functional.cross_entropy(
        logits, torch.as_tensor(targets), reduction="none", label_smoothing=smoothing
    )
    assert torch.equal(objective.loss(NetworkOutput(logits=logits), make_batch(targets)), expected)
    assert objective.auxiliary_loss(NetworkOutput(logits=logits), make_batch(targets)) is None


def test_the_next_token_loss_is_minimized_but_not_logged() -> None:
    state, data = make_state(QUICK), make_rows(8)
    batch = data.take(np.arange(8))
    plain, wrapped = CrossEntropy(), objective_for("cross_entropy", TrainSettings(lm_weight=0.5))
    assert isinstance(wrapped, WithNextToken)
    assert (plain.needs_hidden, wrapped.needs_hidden) == (False, True)
    with torch.no_grad():
        network = state.network.eval()
        output = compute_output(network, batch, "cpu", wrapped)
        assert output.hidden is not None
        assert output.token_table is not None
        assert compute_output(network, batch, "cpu", plain).hidden is None
        lm_loss = compute_next_token_loss(output.hidden, output.token_table, batch)
        wrapped_twice = WithNextToken(wrapped, 2.0)
        assert torch.equal(wrapped.loss(output, batch), plain.loss(output, batch))
        auxiliary, auxiliary_twice = wrapped.auxiliary_loss(output, batch), wrapped_twice.auxiliary_loss(output, batch)
    assert auxiliary is not None
    assert auxiliary_twice is not None
    torch.testing.assert_close(auxiliary, 0.5 * lm_loss)
    torch.testing.assert_close(auxiliary_twice, 2.5 * lm_loss)
    assert wrapped.constant_loss(data.targets) == plain.constant_loss(data.targets)
    assert wrapped.linear_examples is plain.linear_examples
    with pytest.raises(TypeError, match="hidden states"):
        WithNextToken(plain, 1.0).auxiliary_loss(NetworkOutput(logits=output.logits), batch)


def test_no_constant_answer_has_a_lower_loss() -> None:
    generator = np.random.default_rng(0)
    weights = generator.uniform(0.5, 2, 50)
    normalized = weights / weights.sum()
    classes, numbers = generator.integers(0, 3, 50), generator.normal(size=50)
    labels = (generator.random((50, 3)) < 0.3).astype(np.int64)
    class_probs = np.bincount(classes, normalized) * 0.9 + 0.1 / 3
    label_probs = (normalized[:, None] * (labels * 0.9 + 0.05)).sum(0)
    cases: list[tuple[Objective, np.ndarray, np.ndarray]] = [
        (CrossEntropy(0.1), classes, np.log(class_probs)),
        (BinaryCrossEntropy(0.1), labels, np.log(label_probs / (1 - label_probs))),
        (SquaredError(), numbers, np.array([(normalized * numbers).sum()])),
    ]
    for objective, targets, best_logits in cases:
        constant_loss = objective.constant_loss(targets, weights)
        assert constant_loss is not None
        for change in (0.0, 0.1, -0.1):
            changed_logits = best_logits.copy()
            changed_logits[0] += change
            logits = torch.as_tensor(changed_logits).expand(50, -1)
            losses = objective.loss(NetworkOutput(logits=logits), make_batch(targets))
            mean_loss = float((losses * torch.as_tensor(normalized)).sum())
            assert mean_loss > constant_loss + 1e-5 if change else mean_loss == pytest.approx(constant_loss, abs=1e-9)


@dataclass(frozen=True)
class TripletMargin(Objective):
    """Triplet margin loss over consecutive rows: anchor, positive, negative."""

    margin: float = 1.0

    def loss(self, output: NetworkOutput, batch: PackedBatch) -> Tensor:
        anchor, positive, negative = output.logits.reshape(batch.rows // 3, 3, -1).unbind(1)
        return torch.relu(
            (anchor - positive).norm(dim=1) - (anchor - negative).norm(dim=1) + self.margin
        ).repeat_interleave(3)


class OrderedRows:
    """A dataset whose batches keep the order of the rows."""

    def __init__(self, data: PackedDataset) -> None:
        self.data, self.row_numbers, self.row_tokens = data, data.row_numbers, np.full(len(data), 5)

    def take(self, rows: np.ndarray) -> PackedBatch:
        return self.data.take(np.sort(rows))


@pytest.mark.learns
def test_the_loop_takes_an_objective_over_several_texts() -> None:
    dataset = make_rows(400)
    positives, negatives = np.flatnonzero(dataset.targets == 1), np.flatnonzero(dataset.targets == 0)
    data = OrderedRows(
        dataset.select(np.concatenate([[positives[2 * n], positives[2 * n + 1], negatives[n]] for n in range(48)]))
    )
    settings = TrainSettings(epochs=60, learning_rate=3e-3, batch_size=144, micro_tokens=10**6)
    steps = list(train_steps(make_state(settings), data, settings, objective=TripletMargin()))
    assert len(steps) == 60
    assert steps[-1].loss < 0.5 * steps[0].loss
