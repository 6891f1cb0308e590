"""Objectives are values: every task names one, wrappers combine them, and the loop takes any of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from clearhead.tasks import TASKS
from clearhead.tasks.encoded import Encoded, Part
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
from clearhead.training.objectives.next_token import next_token_loss
from clearhead.training.settings import PROBE_OBJECTIVES, TrainSettings
from tests.training.test_loop import QUICK, fresh, rows


def part_of(targets: np.ndarray) -> Part:
    """Texts of two tokens each."""
    count = len(targets)
    ids, owners = np.arange(2 * count) + 10, np.arange(count)
    return Part(ids=ids, segments=None, lengths=np.full(count, 2), owners=owners, targets=targets)


def test_every_task_names_an_objective() -> None:
    from clearhead.data import LabelSpace

    for task in TASKS.values():
        for kind in task.rows.kinds:
            assert task.objective(LabelSpace(names=("a", "b"), kind=kind)) in OBJECTIVES


def test_settings_name_the_objectives_that_have_a_linear_model() -> None:
    linear = [name for name in OBJECTIVES if objective_for(name, TrainSettings()).linear_examples is not None]
    assert set(linear) == set(PROBE_OBJECTIVES)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_smoothing_reaches_the_objective(smoothing: float) -> None:
    logits, targets = torch.randn(4, 3), np.array([0, 2, 1, 1])
    objective = objective_for("cross_entropy", TrainSettings(label_smoothing=smoothing))
    expected = torch.nn.functional.cross_entropy(
        logits, torch.as_tensor(targets), reduction="none", label_smoothing=smoothing
    )
    assert torch.equal(objective.loss(NetworkOutput(logits=logits), part_of(targets)), expected)
    assert objective.auxiliary_loss(NetworkOutput(logits=logits), part_of(targets)) is None


def test_the_next_token_is_learned_beside_and_not_logged() -> None:
    state, data = fresh(QUICK), rows(8)
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
        beside = next_token_loss(output.hidden, output.token_table, batch)
        twice = WithNextToken(wrapped, 2.0)
        assert torch.equal(wrapped.loss(output, batch), plain.loss(output, batch))
        auxiliary, both = wrapped.auxiliary_loss(output, batch), twice.auxiliary_loss(output, batch)
    assert auxiliary is not None
    assert both is not None
    torch.testing.assert_close(auxiliary, 0.5 * beside)
    torch.testing.assert_close(both, 2.5 * beside)
    assert wrapped.constant_loss(data.targets) == plain.constant_loss(data.targets)
    assert wrapped.linear_examples is plain.linear_examples
    with pytest.raises(TypeError, match="hidden states"):
        WithNextToken(plain, 1.0).auxiliary_loss(NetworkOutput(logits=output.logits), batch)


def test_no_constant_answer_costs_less_than_the_best() -> None:
    draw = np.random.default_rng(0)
    weights = draw.uniform(0.5, 2, 50)
    share = weights / weights.sum()
    classes, numbers = draw.integers(0, 3, 50), draw.normal(size=50)
    labels = (draw.random((50, 3)) < 0.3).astype(np.int64)
    frequency = np.bincount(classes, share) * 0.9 + 0.1 / 3
    yes = (share[:, None] * (labels * 0.9 + 0.05)).sum(0)
    cases: list[tuple[Objective, np.ndarray, np.ndarray]] = [
        (CrossEntropy(0.1), classes, np.log(frequency)),
        (BinaryCrossEntropy(0.1), labels, np.log(yes / (1 - yes))),
        (SquaredError(), numbers, np.array([(share * numbers).sum()])),
    ]
    for objective, targets, best in cases:
        lowest = objective.constant_loss(targets, weights)
        assert lowest is not None
        for change in (0.0, 0.1, -0.1):
            answer = best.copy()
            answer[0] += change
            logits = torch.as_tensor(answer).expand(50, -1)
            losses = objective.loss(NetworkOutput(logits=logits), part_of(targets))
            cost = float((losses * torch.as_tensor(share)).sum())
            assert cost > lowest + 1e-5 if change else cost == pytest.approx(lowest, abs=1e-9)


@dataclass(frozen=True)
class Triplets(Objective):
    """Of three rows in turn, the second is to be nearer to the first than the third is."""

    margin: float = 1.0

    def loss(self, output: NetworkOutput, batch: Part) -> Tensor:
        anchor, near, far = output.logits.reshape(batch.rows // 3, 3, -1).unbind(1)
        return torch.relu((anchor - near).norm(dim=1) - (anchor - far).norm(dim=1) + self.margin).repeat_interleave(3)


class InOrder:
    """Every row in one batch, in the order of the data."""

    def __init__(self, data: Encoded) -> None:
        self.data, self.numbers, self.row_tokens = data, data.numbers, np.full(len(data), 5)

    def take(self, rows: np.ndarray) -> Part:
        return self.data.take(np.sort(rows))


@pytest.mark.learns
def test_the_loop_takes_an_objective_over_several_texts() -> None:
    some = rows(400)
    ones, zeros = np.flatnonzero(some.targets == 1), np.flatnonzero(some.targets == 0)
    data = InOrder(some.select(np.concatenate([[ones[2 * n], ones[2 * n + 1], zeros[n]] for n in range(48)])))
    settings = TrainSettings(epochs=60, learning_rate=3e-3, batch_size=144, micro_tokens=10**6)
    steps = list(train_steps(fresh(settings), data, settings, objective=Triplets()))
    assert len(steps) == 60
    assert steps[-1].loss < 0.5 * steps[0].loss
