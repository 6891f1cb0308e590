"""What answers are worth: metrics as scikit-learn has them, calibration, coverage, slices, and strict JSON."""

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
SEVERAL = LabelSpace(names=("a", "b", "c"), kind="multilabel")
NUMBERS = LabelSpace(kind="number")


def classes(rows: int = 400, sure: float = 4.0) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are far too sure of themselves, and the true classes."""
    draw = np.random.default_rng(0)
    honest = draw.normal(0, 1.5, (rows, 3))
    probs = np.exp(honest) / np.exp(honest).sum(1, keepdims=True)
    targets = (probs.cumsum(1) > draw.random((rows, 1))).argmax(1)
    return (honest * sure).astype(np.float32), targets.astype(np.int32)


def several(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(1)
    targets = (draw.random((rows, 3)) < 0.4).astype(np.uint8)
    return (2 * targets - 1 + draw.normal(0, 1.5, targets.shape)).astype(np.float32), targets


def strict(made: Evaluation) -> dict[str, Any]:
    """As JSON that knows no NaN, and back."""
    plain: dict[str, Any] = json.loads(json.dumps(made.to_json(), allow_nan=False))
    return plain


def test_classes() -> None:
    logits, targets = classes()
    made = evaluate_logits(CLASSIFY, THREE, logits, targets, Calibration(), resamples=50)
    said = logits.argmax(1)
    assert made.value == made.metrics["accuracy"].value == pytest.approx(accuracy_score(targets, said))
    assert made.metrics["f1_macro"].value == pytest.approx(f1_score(targets, said, average="macro"))
    assert made.confusion == tuple(map(tuple, confusion_matrix(targets, said).tolist()))
    assert [score.label for score in made.label_scores] == ["a", "b", "c"]
    assert (made.task, made.kind, made.labels, made.rows) == ("classify", "classes", ("a", "b", "c"), 400)
    for interval in made.metrics.values():
        assert interval.low <= interval.value <= interval.high


def test_a_temperature_mends_the_calibration_and_nothing_else() -> None:
    logits, targets = classes(1000)
    reading = CLASSIFY.decoding.fit(logits, targets, THREE)
    made = evaluate_logits(CLASSIFY, THREE, logits, targets, reading, resamples=20)
    plain = evaluate_logits(CLASSIFY, THREE, logits, targets, Calibration(), resamples=20)
    assert made.calibration is not None
    assert plain.calibration is not None
    assert made.calibration.temperature == reading.temperature > 2
    assert made.calibration.before == pytest.approx(plain.calibration.after)
    assert made.calibration.after < 0.3 * made.calibration.before
    probs = CLASSIFY.decoding.decode(logits, THREE, Calibration()).probs
    assert probs is not None
    assert made.calibration.before == pytest.approx(float(expected_calibration_error(probs, targets)))
    assert sum(one.rows for one in made.calibration.bins_after) == 1000
    assert made.confusion == plain.confusion
    assert made.metrics["log_loss"].value < plain.metrics["log_loss"].value


def test_coverage_falls_and_its_accuracy_rises() -> None:
    logits, targets = classes(1000)
    made = evaluate_logits(CLASSIFY, THREE, logits, targets, Calibration(temperature=4.0), resamples=20)
    thresholds = [point.threshold for point in made.coverage]
    assert thresholds == sorted(thresholds, reverse=True)
    assert len(made.coverage) <= 50
    last = made.coverage[-1]
    assert last.coverage == 1.0
    assert last.accuracy == pytest.approx(made.value)
    half = next(point for point in made.coverage if point.coverage >= 0.5)
    assert half.accuracy > last.accuracy + 0.1
    assert made.coverage_area is not None
    assert 0 < made.coverage_area < 1 - made.value


def test_abstentions_are_counted_and_do_not_flatter() -> None:
    logits, targets = classes()
    free = evaluate_logits(CLASSIFY, THREE, logits, targets, Calibration(), resamples=20)
    silent = evaluate_logits(CLASSIFY, THREE, logits, targets, Calibration(abstain_below=0.9), resamples=20)
    assert free.abstained == 0
    assert 0 < silent.abstained < 400
    assert silent.metrics["accuracy"] == free.metrics["accuracy"]


def test_several_labels() -> None:
    logits, targets = several()
    reading = Calibration(thresholds=(0.5, 0.9, 0.1))
    made = evaluate_logits(CLASSIFY, SEVERAL, logits, targets, reading, resamples=20)
    said = 1 / (1 + np.exp(-logits)) >= np.array(reading.thresholds)
    assert made.main == "f1_micro"
    assert made.value == pytest.approx(f1_score(targets, said, average="micro"))
    assert made.metrics["subset_accuracy"].value == pytest.approx(accuracy_score(targets, said))
    assert made.metrics["roc_auc"].value == pytest.approx(roc_auc_score(targets, logits))
    assert made.confusion is None
    assert [score.label for score in made.label_scores] == ["a", "b", "c"]
    assert made.calibration is not None
    assert made.coverage[-1].accuracy == pytest.approx(accuracy_score(targets, said))
    assert strict(made)["metrics"]["f1_micro"]["value"] == pytest.approx(made.value)


def test_numbers() -> None:
    draw = np.random.default_rng(2)
    targets = draw.normal(1000, 300, 200)
    logits = (targets + draw.normal(0, 100, 200))[:, None].astype(np.float32)
    sizes = ["small" if target < 1000 else "large" for target in targets]
    made = evaluate_logits(REGRESS, NUMBERS, logits, targets, Calibration(), slices={"size": sizes}, resamples=20)
    assert made.main == "r2"
    assert made.value == pytest.approx(r2_score(targets, logits[:, 0]))
    assert made.metrics["pearson"].value == pytest.approx(np.corrcoef(targets, logits[:, 0])[0, 1])
    assert made.metrics["mae"].value == pytest.approx(mean_absolute_error(targets, logits[:, 0]))
    assert (made.confusion, made.calibration, made.coverage, made.coverage_area) == (None, None, (), None)
    assert made.label_scores == ()
    assert {one.name: one.rows for one in made.slices} == {name: sizes.count(name) for name in ("small", "large")}
    worst = made.slices[0]  # the largest mean error comes first
    assert worst.value == max(one.value for one in made.slices)
    strict(made)


def test_slices_of_classes_are_shares_of_right_answers() -> None:
    logits, targets = classes()
    names = [THREE.names[target] for target in targets]
    made = evaluate_logits(CLASSIFY, THREE, logits, targets, Calibration(), slices={"label": names}, resamples=20)
    correct = logits.argmax(1) == targets
    for one in made.slices:
        own = np.array([name == one.name for name in names])
        assert one.rows == own.sum()
        assert one.value == pytest.approx(correct[own].mean())
    assert sum(one.rows for one in made.slices) == 400


@pytest.mark.parametrize(
    ("task", "space", "logits", "targets"),
    [
        (CLASSIFY, THREE, np.array([[1.0, 0.0, 0.0]]), np.array([0])),
        (CLASSIFY, SEVERAL, np.array([[1.0, 0.0, 0.0]]), np.array([[0, 0, 0]])),
        (REGRESS, NUMBERS, np.array([[1.0]]), np.array([2.0])),
    ],
    ids=["classes", "several", "number"],
)
def test_one_row_leaves_much_unknown_and_the_json_strict(
    task: Any, space: LabelSpace, logits: np.ndarray, targets: np.ndarray
) -> None:
    made = evaluate_logits(task, space, logits, targets, Calibration(), slices={"column": [None]})
    plain = strict(made)
    assert plain["rows"] == 1
    assert None in [each["low"] for each in plain["metrics"].values()]  # one row has no interval
    assert set(plain["metrics"]["roc_auc" if task is CLASSIFY else "pearson"]) == {"value", "low", "high"}


def test_a_square_of_very_many_classes_is_not_kept() -> None:
    many = LabelSpace(names=tuple(f"c{place}" for place in range(MAX_CONFUSION_LABELS + 1)))
    logits = np.eye(len(many), dtype=np.float32)
    made = evaluate_logits(CLASSIFY, many, logits, np.arange(len(many), dtype=np.int32), Calibration(), resamples=0)
    assert made.confusion is None
    assert len(made.label_scores) == len(many)


def test_counts_of_the_way_are_kept() -> None:
    logits, targets = classes(20)
    made = evaluate_logits(
        CLASSIFY, THREE, logits, targets, Calibration(), resamples=0, skipped={"empty text": 2}, truncated=3, windowed=4
    )
    plain = strict(made)
    assert (plain["skipped"], plain["truncated"], plain["windowed"]) == ({"empty text": 2}, 3, 4)
