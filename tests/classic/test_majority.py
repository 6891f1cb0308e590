"""The majority class is predicted regardless of the text."""

from __future__ import annotations

import numpy as np
import pytest

from clearhead.classic import fit_majority
from clearhead.errors import InputError
from tests.classic.texts import FOUR_CLASSES, LABELS, NUMBER, sigmoid, softmax


def test_shares_of_classes() -> None:
    model = fit_majority([2, 2, 2, 0, 0, 1], FOUR_CLASSES)
    logits = model.logits(3)
    assert (logits.shape, logits.dtype) == ((3, 4), np.float32)
    np.testing.assert_allclose(softmax(logits), np.tile([0.3, 0.2, 0.4, 0.1], (3, 1)), atol=1e-6)


def test_odds_of_labels() -> None:
    model = fit_majority(np.array([[1, 0, 1], [1, 0, 0], [1, 0, 0]]), LABELS)
    np.testing.assert_allclose(sigmoid(model.logits(1)), [[0.8, 0.2, 0.4]], atol=1e-6)


def test_mean_of_numbers() -> None:
    np.testing.assert_array_equal(fit_majority([1.0, 2.0, 6.0], NUMBER).logits(2), [[3.0], [3.0]])


def test_no_rows() -> None:
    assert fit_majority([0], FOUR_CLASSES).logits(0).shape == (0, 4)
    with pytest.raises(InputError, match="empty"):
        fit_majority([], FOUR_CLASSES)
