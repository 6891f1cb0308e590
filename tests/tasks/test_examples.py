"""Selected rows: confident errors, suspicious labels, and examples of each cell of the confusion matrix."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from clearhead.data import Columns, LabelSpace
from clearhead.tasks import TASKS, Calibration, infer_task
from clearhead.tasks.evaluation import evaluate_logits
from clearhead.tasks.examples import MAX_CELLS, MAX_ROWS_PER_CELL, MAX_WORST, RowSelection
from clearhead.tasks.task import Answers

ABC = LabelSpace(names=("a", "b", "c"))


def select_rows(answers: Answers, targets: Any, space: LabelSpace, row_numbers: Sequence[int] | Any) -> RowSelection:
    """Select rows as the task of these labels does."""
    return infer_task(Columns(text="text"), space).examples.select(answers, targets, space, row_numbers)


def make_answers(probs: list[list[float]]) -> Answers:
    probabilities = np.array(probs)
    return Answers(labels=probabilities.argmax(-1), probs=probabilities)


def test_worst_rows_are_the_most_confident_errors() -> None:
    answers = make_answers([[0.9, 0.1, 0], [0.2, 0.8, 0], [0.05, 0.95, 0], [0.3, 0.1, 0.6], [0.1, 0.2, 0.7]])
    selection = select_rows(answers, np.array([0, 0, 0, 0, 2]), ABC, [11, 12, 13, 14, 15])
    assert selection is not None
    assert [(pick.row, pick.truth + pick.answer) for pick in selection.worst] == [(13, "ab"), (12, "ab"), (14, "ac")]
    assert selection.worst[0].confidence == pytest.approx(0.95)
    assert selection.worst[0].label_probability == pytest.approx(0.05)
    assert selection.error_count == 3
    cells = {(cell.true, cell.predicted): (cell.count, [pick.row for pick in cell.rows]) for cell in selection.cells}
    assert cells == {(0, 1): (2, [13, 12]), (0, 2): (1, [14]), (0, 0): (1, [11]), (2, 2): (1, [15])}
    assert [cell.true == cell.predicted for cell in selection.cells] == [False, False, True, True]


def test_wrong_labels_are_suspicious() -> None:
    generator = np.random.default_rng(0)
    true = generator.integers(0, 3, 300)
    logits = generator.normal(0, 0.6, (300, 3))
    logits[np.arange(300), true] += 4
    labels = true.copy()
    wrong_rows = [7, 77, 177]
    labels[wrong_rows] = (labels[wrong_rows] + 1) % 3
    answers = TASKS["classify"].decoding.decode(logits, ABC, Calibration())
    selection = select_rows(answers, labels, ABC, np.arange(1, 301))
    assert selection is not None
    assert {row + 1 for row in wrong_rows} <= {pick.row for pick in selection.suspicious}
    assert selection.suspicious_count <= 6


def test_unconfident_errors_are_not_suspicious() -> None:
    selection = select_rows(make_answers([[0.45, 0.3, 0.25], [0.9, 0.05, 0.05]]), np.array([1, 0]), ABC, [1, 2])
    assert selection is not None
    assert [pick.row for pick in selection.worst] == [1]
    assert not selection.suspicious


def test_multilabel_rows_show_their_most_confident_error() -> None:
    space = LabelSpace(names=("a", "b"), kind="multilabel", separator="|")
    probs = np.array([[0.9, 0.2], [0.1, 0.97], [0.02, 0.9]])
    answers = Answers(labels=(probs >= 0.5).astype(np.int64), probs=probs)
    selection = select_rows(answers, np.array([[1, 0], [0, 0], [1, 1]]), space, [1, 2, 3])
    assert selection is not None
    first, second = selection.worst
    assert (first.row, first.truth, first.answer, first.output_index, first.is_negated) == (3, "a, b", "b", 0, True)
    assert (second.row, second.truth, second.answer, second.output_index, second.is_negated) == (
        2,
        "(none)",
        "b",
        1,
        False,
    )
    assert [first.confidence, second.confidence] == pytest.approx([0.98, 0.97])


def test_numbers_are_selected_by_error() -> None:
    generator = np.random.default_rng(1)
    targets = generator.uniform(0, 5, 100)
    predicted = targets + generator.normal(0, 0.2, 100)
    predicted[40] -= 4
    selection = select_rows(Answers(labels=predicted), targets, LabelSpace(kind="number"), np.arange(100))
    assert selection is not None
    assert selection.worst[0].row == 40
    assert selection.worst[0].error == pytest.approx(predicted[40] - targets[40])
    assert [pick.row for pick in selection.suspicious] == [40]
    assert len(selection.worst) == MAX_WORST
    exact_selection = select_rows(Answers(labels=targets), targets, LabelSpace(kind="number"), np.arange(100))
    assert exact_selection is not None
    assert not exact_selection.worst
    assert not exact_selection.suspicious


def test_very_many_classes_keep_few_rows() -> None:
    generator = np.random.default_rng(2)
    space = LabelSpace(names=tuple(f"class {n}" for n in range(1000)))
    targets = generator.integers(0, 1000, 5000)
    logits = generator.normal(0, 1, (5000, 1000))
    logits[np.arange(5000), targets // 2] += 8
    evaluation = evaluate_logits(
        TASKS["classify"], space, logits, targets, Calibration(), resamples=0, row_numbers=range(5000)
    )
    assert evaluation.picks is not None
    assert len(evaluation.picks.cells) == MAX_CELLS
    assert all(len(cell.rows) <= MAX_ROWS_PER_CELL for cell in evaluation.picks.cells)
    assert "cells" not in evaluation.to_json()["picks"]
    assert len(json.dumps(evaluation.to_json()["picks"])) < 10_000


def test_without_row_numbers_nothing_is_selected() -> None:
    evaluation = evaluate_logits(TASKS["classify"], ABC, np.eye(3), np.arange(3), Calibration(), resamples=0)
    assert evaluation.picks is None
    assert evaluation.to_json()["picks"] is None
