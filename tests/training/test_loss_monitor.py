"""A run that learns nothing is told why, and never that a rate is wrong which suits the model."""

from __future__ import annotations

from clearhead.training.loss_monitor import LossMonitor
from clearhead.training.settings import TrainSettings


def reasons(rate: float, usual: float) -> str:
    watch = LossMonitor(0.7, TrainSettings(learning_rate=rate), usual_rate=usual)
    for _ in range(5):
        watch.add(0.7)
    return watch.diagnose() or ""


def test_the_usual_rate_is_not_blamed() -> None:
    for usual in (5e-5, 7e-4, 2e-3):
        assert "nothing was learned" in reasons(usual, usual)
        assert "the rate" not in reasons(usual, usual)
    assert "the rate 0.002 is too high for this model (try 5e-05)" in reasons(2e-3, 5e-5)
    assert "the rate 1e-06 is too low (try 5e-05)" in reasons(1e-6, 5e-5)


def test_what_learns_is_left_alone() -> None:
    watch = LossMonitor(0.7, TrainSettings())
    assert watch.diagnose() is None
    watch.add(0.2)
    assert watch.diagnose() is None
