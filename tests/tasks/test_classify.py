"""Logits become labels, probabilities and abstentions; calibration on dev rows improves them and stays finite."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score

from clearhead.data import LabelSpace
from clearhead.tasks import Calibration, get_task
from clearhead.tasks.classify.decoding import decode, fit_calibration, get_confidence
from clearhead.tasks.classify.metrics import is_correct
from clearhead.tasks.classify.task import CLASSIFY
from clearhead.tasks.task import Answers

THREE = LabelSpace(names=("a", "b", "c"))
SEVERAL = LabelSpace(names=("a", "b", "c"), kind="multilabel")
LOGITS = np.array([[2.0, 1.0, -1.0], [0.0, 0.1, 0.0], [-3.0, 0.0, 3.0]], np.float32)


def sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def softmax(values: np.ndarray) -> np.ndarray:
    exponentials = np.exp(values - values.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def get_probs(answers: Answers) -> np.ndarray:
    assert answers.probs is not None
    return answers.probs


def draw_classes(probs: np.ndarray, seed: int = 0) -> np.ndarray:
    """Draw a class for each row from its probabilities."""
    return (probs.cumsum(1) > np.random.default_rng(seed).random((len(probs), 1))).argmax(1).astype(np.int32)


def test_classes_are_decoded_by_softmax() -> None:
    answers = decode(LOGITS, THREE, Calibration())
    np.testing.assert_allclose(get_probs(answers), softmax(LOGITS.astype(np.float64)), atol=1e-12)
    assert answers.labels.tolist() == [0, 1, 2]
    assert answers.abstained is None
    assert len(answers) == 3


def test_temperature_changes_confidence_but_not_the_answer() -> None:
    unscaled, sharpened, softened = (decode(LOGITS, THREE, Calibration(temperature=t)) for t in (1.0, 0.5, 4.0))
    assert unscaled.labels.tolist() == sharpened.labels.tolist() == softened.labels.tolist()
    np.testing.assert_allclose(get_probs(softened), softmax(LOGITS.astype(np.float64) / 4), atol=1e-12)
    assert (get_confidence(sharpened) > get_confidence(unscaled)).all()
    assert (get_confidence(softened) < get_confidence(unscaled)).all()


def test_multiple_labels_are_decoded_by_sigmoids_and_thresholds() -> None:
    answers = decode(LOGITS, SEVERAL, Calibration())
    np.testing.assert_allclose(get_probs(answers), sigmoid(LOGITS.astype(np.float64)), atol=1e-12)
    assert answers.labels.tolist() == [[1, 1, 0], [1, 1, 1], [0, 1, 1]]  # 0.5 reaches the threshold
    strict = decode(LOGITS, SEVERAL, Calibration(thresholds=(0.9, 0.6, 0.4)))
    assert strict.labels.tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1]]


def test_abstaining_marks_rows_and_keeps_their_labels() -> None:
    limit = float(get_confidence(decode(LOGITS, THREE, Calibration()))[0])
    answers = decode(LOGITS, THREE, Calibration(abstain_below=limit))
    assert answers.abstained is not None
    assert answers.abstained.tolist() == [False, True, False]  # confidence equal to the threshold is sufficient
    assert answers.labels.tolist() == [0, 1, 2]
    never_abstained = decode(LOGITS, THREE, Calibration(abstain_below=0.0)).abstained
    assert never_abstained is not None
    assert not never_abstained.any()


def test_confidence_of_multilabel_rows_is_that_of_the_least_confident_decision() -> None:
    answers = decode(LOGITS, SEVERAL, Calibration())
    expected = sigmoid(np.array([1.0, 0.0, 0.0]))  # the smallest |logit| of each row
    np.testing.assert_allclose(get_confidence(answers), expected, atol=1e-12)
    abstained = decode(LOGITS, SEVERAL, Calibration(abstain_below=0.6)).abstained
    assert abstained is not None
    assert abstained.tolist() == [False, True, True]


def test_a_row_is_correct_if_all_its_labels_are() -> None:
    assert is_correct(decode(LOGITS, THREE, Calibration()), np.array([0, 2, 2])).tolist() == [True, False, True]
    targets = np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]])
    assert is_correct(decode(LOGITS, SEVERAL, Calibration()), targets).tolist() == [True, False, True]


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
def test_a_known_temperature_is_recovered(temperature: float) -> None:
    calibrated_logits = np.random.default_rng(1).normal(0, 2, (8000, 3))
    calibration = fit_calibration(
        (calibrated_logits * temperature).astype(np.float32), draw_classes(softmax(calibrated_logits)), THREE
    )
    assert calibration.temperature == pytest.approx(temperature, rel=0.06)
    assert calibration.thresholds == ()
    assert calibration.abstain_below is None


def test_a_known_temperature_is_recovered_from_multilabel_rows() -> None:
    generator = np.random.default_rng(2)
    calibrated_logits = generator.normal(0, 2, (6000, 3))
    targets = (generator.random(calibrated_logits.shape) < sigmoid(calibrated_logits)).astype(np.uint8)
    assert fit_calibration(calibrated_logits * 2.5, targets, SEVERAL).temperature == pytest.approx(2.5, rel=0.06)


@pytest.mark.parametrize("margin", [0.5, 5.0, 50.0])
@pytest.mark.parametrize("rows", [10, 20, 200])
def test_a_perfect_dev_set_does_not_lead_to_infinite_confidence(margin: float, rows: int) -> None:
    targets = (np.arange(rows) % 3).astype(np.int32)
    logits = np.eye(3)[targets] * margin
    calibration = fit_calibration(logits, targets, THREE)
    confidence_scores = get_confidence(decode(logits, THREE, calibration))
    assert (
        1 - 2 / rows < confidence_scores.min() <= confidence_scores.max() < 1 - 0.5 / rows
    )  # as confident as one error in rows + 1


def test_few_rows_keep_the_default_temperature() -> None:
    targets = np.array([0, 1, 2], np.int32)
    assert fit_calibration(np.eye(3) * 9, targets, THREE).temperature == 1.0


def test_equal_logits_keep_the_temperature() -> None:
    targets = (np.arange(30) % 3).astype(np.int32)
    assert fit_calibration(np.zeros((30, 3)), targets, THREE).temperature == 1.0


def test_thresholds_of_each_label_beat_one_half_on_skewed_logits() -> None:
    generator = np.random.default_rng(3)
    targets = (generator.random((600, 3)) < (0.3, 0.1, 0.5)).astype(np.uint8)
    logits = (
        2 * targets + generator.normal(0, 1, targets.shape) - np.array([4.0, 2.5, 0.0])
    )  # rare labels have logits that are too low
    calibration = fit_calibration(logits[:300], targets[:300], SEVERAL)
    tuned, untuned = (decode(logits[300:], SEVERAL, fitted).labels for fitted in (calibration, Calibration()))
    score = {
        name: f1_score(targets[300:], labels, average=None) for name, labels in (("tuned", tuned), ("0.5", untuned))
    }
    assert (score["tuned"][:2] > score["0.5"][:2] + 0.1).all()
    assert score["tuned"][2] > score["0.5"][2] - 0.02
    assert len(set(calibration.thresholds)) == 3
    assert calibration.thresholds[0] < calibration.thresholds[1] < calibration.thresholds[2]


def test_a_label_without_dev_rows_keeps_the_default_threshold() -> None:
    generator = np.random.default_rng(4)
    targets = (generator.random((100, 3)) < (0.3, 0.3, 0.0)).astype(np.uint8)
    logits = 3 * targets + generator.normal(0, 1, targets.shape) - 3
    calibration = fit_calibration(logits, targets, SEVERAL)
    assert calibration.thresholds[2] == 0.5
    assert calibration.thresholds[0] != 0.5


def test_every_metric_of_classes_comes_with_an_interval() -> None:
    answers = decode(np.tile(LOGITS, (20, 1)), THREE, Calibration())
    metrics = CLASSIFY.metrics.measure(answers, np.tile(np.array([0, 1, 1]), 20), THREE, 100)
    assert metrics["accuracy"].value == pytest.approx(2 / 3)
    assert metrics["accuracy"].low < 2 / 3 < metrics["accuracy"].high
    assert {"balanced_accuracy", "f1_macro", "matthews", "roc_auc", "pr_auc", "log_loss"} < metrics.keys()
    assert "f1" not in metrics  # f1 exists only for two classes
    quick = CLASSIFY.metrics.measure(answers, np.tile(np.array([0, 1, 1]), 20), THREE, 0)
    assert np.isnan(quick["accuracy"].low)
    assert quick["accuracy"].value == metrics["accuracy"].value


def test_a_number_is_decoded_unchanged() -> None:
    task = get_task("regress")
    for logits in (np.array([[1.5], [-2.0]], np.float32), np.array([1.5, -2.0], np.float32)):
        answers = task.decoding.decode(logits, LabelSpace(kind="number"), Calibration(temperature=9.0))
        assert answers.labels.tolist() == [1.5, -2.0]
        assert answers.labels.dtype == np.float64
        assert answers.probs is None
    assert task.decoding.confidence(answers) is None
    assert task.metrics.is_correct(answers, answers.labels) is None
    assert task.decoding.fit(logits, answers.labels, LabelSpace(kind="number")) == Calibration()
    metrics = task.metrics.measure(answers, np.array([2.0, -1.0]), LabelSpace(kind="number"), 0)
    assert metrics["mae"].value == pytest.approx(0.75)
