"""Evaluations: metrics equal those of scikit-learn; calibration, coverage, slices and strict JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, mean_absolute_error, r2_score, roc_auc_score

from clearhead.data import LabelSpace
from clearhead.metrics import expected_calibration_error
from clearhead.tasks import Calibration, get_task
from clearhead.tasks.classify.metrics import MAX_CONFUSION_LABELS
from clearhead.tasks.evaluation import Evaluation, evaluate_logits

CLASSIFY, REGRESS = get_task("classify"), get_task("regress")
THREE = LabelSpace(names=("a", "b", "c"))
MULTILABEL = LabelSpace(names=("a", "b", "c"), kind="multilabel")
NUMBERS = LabelSpace(kind="number")


def make_classes(rows: int = 400, scale: float = 4.0) -> tuple[np.ndarray, np.ndarray]:
    """Overconfident logits, and the true classes."""
    generator = np.random.default_rng(0)
    calibrated_logits = generator.normal(0, 1.5, (rows, 3))
    probs = np.exp(calibrated_logits) / np.exp(calibrated_logits).sum(1, keepdims=True)
    targets = (probs.cumsum(1) > generator.random((rows, 1))).argmax(1)
    return (calibrated_logits * scale).astype(np.float32), targets.astype(np.int32)


def make_multilabel(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    targets = (generator.random((rows, 3)) < 0.4).astype(np.uint8)
    return (2 * targets - 1 + generator.normal(0, 1.5, targets.shape)).astype(np.float32), targets


def to_strict_json(evaluation: Evaluation) -> dict[str, Any]:
    """Round trip through JSON without NaN."""
    plain: dict[str, Any] = json.loads(json.dumps(evaluation.to_json(), allow_nan=False))
    return plain


def test_classes() -> None:
    logits, targets = make_classes()
    evaluation = evaluate_logits(CLASSIFY, THREE, logits, targets, Calibration(), resamples=50)
    predicted = logits.argmax(1)
    assert evaluation.value == evaluation.metrics["accuracy"].value == pytest.approx(accuracy_score(targets, predicted))
    assert evaluation.metrics["f1_macro"].value == pytest.approx(f1_score(targets, predicted, average="macro"))
    assert evaluation.confusion == tuple(map(tuple, confusion_matrix(targets, predicted).tolist()))
    assert [score.label for score in evaluation.label_scores] == ["a", "b", "c"]
    assert (evaluation.task, evaluation.kind, evaluation.labels, evaluation.rows) == (
        "classify",
        "classes",
        ("a", "b", "c"),
        400,
    )
    for interval in evaluation.metrics.values():
        assert interval.low <= interval.value <= interval.high


def test_temperature_improves_calibration_only() -> None:
    logits, targets = make_classes(1000)
    calibration = CLASSIFY.decoding.fit(logits, targets, THREE)
    evaluation = evaluate_logits(CLASSIFY, THREE, logits, targets, calibration, resamples=20)
    plain = evaluate_logits(CLASSIFY, THREE, logits, targets, Calibration(), resamples=20)
    assert evaluation.calibration is not None
    assert plain.calibration is not None
    assert evaluation.calibration.temperature == calibration.temperature > 2
    assert evaluation.calibration.before == pytest.approx(plain.calibration.after)
    assert evaluation.calibration.after < 0.3 * evaluation.calibration.before
    probs = CLASSIFY.decoding.decode(logits, THREE, Calibration()).probs
    assert probs is not None
    assert evaluation.calibration.before == pytest.approx(float(expected_calibration_error(probs, targets)))
    assert sum(entry.rows for entry in evaluation.calibration.bins_after) == 1000
    assert evaluation.confusion == plain.confusion
    assert evaluation.metrics["log_loss"].value < plain.metrics["log_loss"].value


def test_coverage_falls_and_its_accuracy_rises() -> None:
    logits, targets = make_classes(1000)
    evaluation = evaluate_logits(CLASSIFY, THREE, logits, targets, Calibration(temperature=4.0), resamples=20)
    thresholds = [point.threshold for point in evaluation.coverage]
    assert thresholds == sorted(thresholds, reverse=True)
    assert len(evaluation.coverage) <= 50
    last = evaluation.coverage[-1]
    assert last.coverage == 1.0
    assert last.accuracy == pytest.approx(evaluation.value)
    half = next(point for point in evaluation.coverage if point.coverage >= 0.5)
    assert half.accuracy > last.accuracy + 0.1
    assert evaluation.coverage_area is not None
    assert 0 < evaluation.coverage_area < 1 - evaluation.value


def test_abstentions_are_counted_and_do_not_change_the_metrics() -> None:
    logits, targets = make_classes()
    without_threshold = evaluate_logits(CLASSIFY, THREE, logits, targets, Calibration(), resamples=20)
    with_threshold = evaluate_logits(CLASSIFY, THREE, logits, targets, Calibration(abstain_below=0.9), resamples=20)
    assert without_threshold.abstained == 0
    assert 0 < with_threshold.abstained < 400
    assert with_threshold.metrics["accuracy"] == without_threshold.metrics["accuracy"]


def test_several_labels() -> None:
    logits, targets = make_multilabel()
    calibration = Calibration(thresholds=(0.5, 0.9, 0.1))
    evaluation = evaluate_logits(CLASSIFY, MULTILABEL, logits, targets, calibration, resamples=20)
    predicted = 1 / (1 + np.exp(-logits)) >= np.array(calibration.thresholds)
    assert evaluation.main == "f1_micro"
    assert evaluation.value == pytest.approx(f1_score(targets, predicted, average="micro"))
    assert evaluation.metrics["subset_accuracy"].value == pytest.approx(accuracy_score(targets, predicted))
    assert evaluation.metrics["roc_auc"].value == pytest.approx(roc_auc_score(targets, logits))
    assert evaluation.confusion is None
    assert [score.label for score in evaluation.label_scores] == ["a", "b", "c"]
    assert evaluation.calibration is not None
    assert evaluation.coverage[-1].accuracy == pytest.approx(accuracy_score(targets, predicted))
    assert to_strict_json(evaluation)["metrics"]["f1_micro"]["value"] == pytest.approx(evaluation.value)


def test_numbers() -> None:
    generator = np.random.default_rng(2)
    targets = generator.normal(1000, 300, 200)
    logits = (targets + generator.normal(0, 100, 200))[:, None].astype(np.float32)
    sizes = ["small" if target < 1000 else "large" for target in targets]
    evaluation = evaluate_logits(REGRESS, NUMBERS, logits, targets, Calibration(), slices={"size": sizes}, resamples=20)
    assert evaluation.main == "r2"
    assert evaluation.value == pytest.approx(r2_score(targets, logits[:, 0]))
    assert evaluation.metrics["pearson"].value == pytest.approx(np.corrcoef(targets, logits[:, 0])[0, 1])
    assert evaluation.metrics["mae"].value == pytest.approx(mean_absolute_error(targets, logits[:, 0]))
    assert (evaluation.confusion, evaluation.calibration, evaluation.coverage, evaluation.coverage_area) == (
        None,
        None,
        (),
        None,
    )
    assert evaluation.label_scores == ()
    assert {entry.name: entry.rows for entry in evaluation.slices} == {
        name: sizes.count(name) for name in ("small", "large")
    }
    worst = evaluation.slices[0]  # the largest mean error comes first
    assert worst.value == max(entry.value for entry in evaluation.slices)
    to_strict_json(evaluation)


def test_slices_of_classes_have_accuracies() -> None:
    logits, targets = make_classes()
    names = [THREE.names[target] for target in targets]
    evaluation = evaluate_logits(CLASSIFY, THREE, logits, targets, Calibration(), slices={"label": names}, resamples=20)
    is_correct = logits.argmax(1) == targets
    for entry in evaluation.slices:
        has_label = np.array([name == entry.name for name in names])
        assert entry.rows == has_label.sum()
        assert entry.value == pytest.approx(is_correct[has_label].mean())
    assert sum(entry.rows for entry in evaluation.slices) == 400


@pytest.mark.parametrize(
    ("task", "space", "logits", "targets"),
    [
        (CLASSIFY, THREE, np.array([[1.0, 0.0, 0.0]]), np.array([0])),
        (CLASSIFY, MULTILABEL, np.array([[1.0, 0.0, 0.0]]), np.array([[0, 0, 0]])),
        (REGRESS, NUMBERS, np.array([[1.0]]), np.array([2.0])),
    ],
    ids=["classes", "several", "number"],
)
def test_unknown_numbers_of_a_single_row_are_null_in_json(
    task: Any, space: LabelSpace, logits: np.ndarray, targets: np.ndarray
) -> None:
    evaluation = evaluate_logits(task, space, logits, targets, Calibration(), slices={"column": [None]})
    plain = to_strict_json(evaluation)
    assert plain["rows"] == 1
    assert None in [interval["low"] for interval in plain["metrics"].values()]  # one row has no interval
    assert set(plain["metrics"]["roc_auc" if task is CLASSIFY else "pearson"]) == {"value", "low", "high"}


def test_large_confusion_matrices_are_not_stored() -> None:
    space = LabelSpace(names=tuple(f"c{index}" for index in range(MAX_CONFUSION_LABELS + 1)))
    logits = np.eye(len(space), dtype=np.float32)
    evaluation = evaluate_logits(
        CLASSIFY, space, logits, np.arange(len(space), dtype=np.int32), Calibration(), resamples=0
    )
    assert evaluation.confusion is None
    assert len(evaluation.label_scores) == len(space)


def test_row_counts_are_stored() -> None:
    logits, targets = make_classes(20)
    evaluation = evaluate_logits(
        CLASSIFY, THREE, logits, targets, Calibration(), resamples=0, skipped={"empty text": 2}, truncated=3, windowed=4
    )
    plain = to_strict_json(evaluation)
    assert (plain["skipped"], plain["truncated"], plain["windowed"]) == ({"empty text": 2}, 3, 4)
