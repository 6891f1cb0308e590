"""Invalid arguments raise a one-line error that names them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clearhead import metrics as m
from clearhead.errors import InputError

NAN = float("nan")
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: m.accuracy([], []), "labels is empty"),
    (lambda: m.accuracy([0, 1], [0]), "labels has 2 rows and predictions has 1"),
    (lambda: m.accuracy(["a", "b"], ["a", "b"]), "class ids start at 0"),
    (lambda: m.accuracy(np.array([0, None]), [0, 1]), "must contain numbers"),
    (lambda: m.accuracy([0, -1], [0, 1]), r"labels\[1\] is -1"),
    (lambda: m.accuracy([0, 0.5], [0, 1]), r"labels\[1\] is 0.5"),
    (lambda: m.accuracy([0, NAN], [0, 1]), r"labels\[1\] is nan"),
    (lambda: m.accuracy([[0, 1]], [[0, 1]]), "one value per row"),
    (lambda: m.accuracy(1, 1), "single value"),
    (lambda: m.accuracy([[0], [0, 1]], [0, 1]), "differ in length"),
    (lambda: m.confusion_matrix([0, 3], [0, 1], 3), r"labels\[1\] is 3, but there are 3 classes"),
    (lambda: m.confusion_matrix([0, 10**9], [0, 1]), "too large"),
    (lambda: m.f1([0, 2], [0, 1], average="binary"), "classes 0 and 1"),
    (lambda: m.f1([0, 1], [0, 1], average="mean"), "macro, micro, weighted, binary, samples"),
    (lambda: m.f1([0, 1], [0, 1], average="samples"), "supports only tables"),
    (lambda: m.f1([[0, 1]], [[0, 1]], average="binary"), "supports only class ids"),
    (lambda: m.f1([[0, 2]], [[0, 1]]), r"labels\[0, 1\] is 2"),
    (lambda: m.f1([[0, 1]], [[0, 1, 1]]), "shape"),
    (lambda: m.subset_accuracy([0, 1], [0, 1]), "(rows, labels)"),
    (lambda: m.label_table([0, 1], [0, 1], ["a"]), "there are 1 classes"),
    (lambda: m.label_table([[0, 1]], [[0, 1]], ["a"]), "2 labels and 1 names"),
    (lambda: m.roc_auc([0, 1], [0.1, NAN]), r"scores\[1\] is nan"),
    (lambda: m.roc_auc([0, 2], [0.1, 0.2]), "there are 2 classes"),
    (lambda: m.roc_auc([0, 1], [[[0.1]]] * 2), "shape"),
    (lambda: m.log_loss([0, 1], [0.1, NAN]), r"probs\[1\] is nan"),
    (lambda: m.log_loss([0, 1], [0.1, 1.2]), r"probs\[1\] is 1.2; probabilities are between"),
    (lambda: m.log_loss([0, 1], [[0.5, 0.5], [0.5, 0.6]]), r"probs\[1\] sums to 1.1"),
    (lambda: m.log_loss([0, 2], [[0.5, 0.5], [0.5, 0.5]]), r"labels\[1\] is 2"),
    (lambda: m.brier_score([0], [0.1, 0.2]), "1 row and probs has 2"),
    (lambda: m.pearson([1, 2], [1, float("inf")]), r"predictions\[1\] is inf"),
    (lambda: m.mse([1e200, 2], [1, 2]), "cannot be squared"),
    (lambda: m.kendall([1], [1, 2]), "1 row and "),
    (lambda: m.bootstrap(m.accuracy, [0], [0], n=-1), "n (the number of resamples) must be >= 0, got -1"),
    (lambda: m.bootstrap(m.accuracy, [0], [0], level=95), "level must be between"),
    (lambda: m.bootstrap(m.accuracy, [0, 1], [0, 1], groups=[1]), "one group per row"),
    (lambda: m.bootstrap(m.kendall, [0, 1], [0]), "same number of rows"),
    (lambda: m.bootstrap(m.kendall, [], []), "at least one row"),
    (lambda: m.wilson_interval(3, 2), "3 of 2 rows"),
    (lambda: m.wilson_interval(0, 0), "0 of 0 rows"),
    (lambda: m.paired_test(m.accuracy, [0, 1], [0, 1], [0]), "predictions_b has 1"),
    (lambda: m.paired_test(m.accuracy, [], [], []), "labels must be an array with at least one row"),
    (lambda: m.mcnemar([0, 1], [0], [0, 1]), "predictions_a has 1"),
    (lambda: m.expected_calibration_error([0.5], [0], bins=0), "bins must be at least 1"),
    (lambda: m.expected_calibration_error([0, 1], [0.5, 0.7]), "class ids are integers"),
    (lambda: m.fit_temperature([[1.0], [2.0]], [0, 0]), "2 or more classes"),
    (lambda: m.fit_temperature([[1.0, NAN]], [0]), r"logits\[0, 1\] is nan"),
    (lambda: m.apply_temperature([1.0], 0), "temperature must be above 0"),
    (lambda: m.apply_temperature([1.0], NAN), "temperature must be above 0"),
    (lambda: m.best_threshold([0.1], [0], "speed"), "f1, accuracy, balanced_accuracy, matthews"),
    (lambda: m.best_threshold([[0.1, 0.2, 0.7]], [0]), "one value per row"),
    (lambda: m.best_thresholds([[0.1, 0.2]], [[0]]), "shape"),
    (lambda: m.coverage_curve([0.1], [0.3]), "only 0 and 1"),
    (lambda: m.threshold_for([0.1], [1], accuracy=95), "accuracy must be between"),
    (lambda: m.threshold_for([0.1], [1], level=2), "level must be between"),
    (lambda: m.slice_table({"x": [1]}, m.accuracy, [0, 1], [0, 1]), "Column 'x' has 1 rows"),
    (lambda: m.slice_table({"x": [1]}, m.proportion, [1], top=0), "top and bins"),
    (lambda: m.slice_table({"x": []}, m.proportion), "same number of rows"),
    (lambda: m.measure("rank", [0], [0]), "classify, multilabel, regress"),
    (lambda: m.measure("classify", [0, 3], [0, 1], classes=3), r"labels\[1\] is 3"),
    (lambda: m.measure("classify", [0, 1], [0, 1], [0.5, NAN]), r"probs\[1\] is nan"),
    (lambda: m.measure("regress", [0, 1], [0, NAN]), r"predictions\[1\] is nan"),
    (lambda: m.measure("multilabel", [0, 1], [0, 1]), "rows, labels"),
]


@pytest.mark.parametrize(("call", "expected"), REFUSED, ids=[expected for _, expected in REFUSED])
def test_refused_in_one_sentence(call: Callable[[], Any], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert re.search(expected if "[" in expected else re.escape(expected), message), message
    assert message.endswith(".")
    assert "\n" not in message


def test_arrays_lists_and_booleans_are_all_welcome() -> None:
    labels, predictions = [0, 1, 1], [False, True, False]
    for dtype in (np.int8, np.uint64, np.float32, bool):
        assert m.accuracy(np.array(labels, dtype), predictions) == pytest.approx(2 / 3)
        assert m.bootstrap(m.f1, np.array(labels, dtype), predictions, n=10).value == m.f1(labels, predictions)
