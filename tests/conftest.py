"""What every test shares: one thread, steady examples, and where real weights and data lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# before anything imports torch: tiny models are faster on one thread
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile(
    "steady",
    derandomize=True,  # the same examples in every run
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("steady")

BESIDE = Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests run only when a marker expression asks for them: `pytest -m slow`."""
    if config.option.markexpr:
        return
    slow = [item for item in items if "slow" in item.keywords]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if "slow" not in item.keywords]


def _outside(variable: str, default: str) -> Path:
    place = Path(os.environ.get(variable) or BESIDE / default)
    if not place.is_dir():
        pytest.skip(f"{place} is not there; set {variable} to the folder of {default}")
    return place


@pytest.fixture(scope="session")
def weights_folder() -> Path:
    """Real trained weights, beside the project."""
    return _outside("CLEARHEAD_WEIGHTS", "weights")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Public data sets, beside the project."""
    return _outside("CLEARHEAD_DATA", "data")
