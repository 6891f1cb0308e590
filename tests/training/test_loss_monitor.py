"""A run that learns nothing gets a list of likely reasons, which never include a suitable learning rate."""

from __future__ import annotations

from clearhead.training.loss_monitor import LossMonitor
from clearhead.training.settings import TrainSettings


def diagnose_flat_loss(rate: float, default_rate: float) -> str:
    monitor = LossMonitor(0.7, TrainSettings(learning_rate=rate), default_rate=default_rate)
    for _ in range(5):
        monitor.add(0.7)
    return monitor.diagnose() or ""


def test_the_default_rate_is_not_a_reason() -> None:
    for default_rate in (5e-5, 7e-4, 2e-3):
        assert "the model learned nothing" in diagnose_flat_loss(default_rate, default_rate)
        assert "learning rate" not in diagnose_flat_loss(default_rate, default_rate)
    assert "the learning rate 0.002 is too high for this model (try 5e-05)" in diagnose_flat_loss(2e-3, 5e-5)
    assert "the learning rate 1e-06 is too low (try 5e-05)" in diagnose_flat_loss(1e-6, 5e-5)


def test_a_falling_loss_is_not_reported() -> None:
    monitor = LossMonitor(0.7, TrainSettings())
    assert monitor.diagnose() is None
    monitor.add(0.2)
    assert monitor.diagnose() is None
