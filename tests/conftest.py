"""Setup of the test suite: one thread, deterministic examples, CPU emulation, and folders of real weights and data."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.variation import IS_VARIED, emulate_cpu, scaled, vary_training

pytest_plugins = ["tests.job_fixtures"]

# before anything imports torch: tiny models are faster on one thread
os.environ.setdefault("OMP_NUM_THREADS", "1")
emulate_cpu()
vary_training()
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore Ctrl-C

settings.register_profile(
    "steady",
    max_examples=scaled(100),
    derandomize=True,  # the same examples in every run
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("steady")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.hookimpl(tryfirst=True)  # before the marker expression selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests run only when a marker expression asks for them: `pytest -m slow`. Thin tests keep every n-th case."""
    case_counts: Counter[str] = Counter()
    for item in items:
        thin = item.get_closest_marker("thin")
        if thin is None:
            continue
        test_name = item.nodeid.partition("[")[0]
        if case_counts[test_name] % thin.args[0]:
            item.add_marker("slow")
        case_counts[test_name] += 1
    if config.option.markexpr:
        return
    slow = [item for item in items if {"slow", "exhaustive"} & set(item.keywords)]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


@pytest.fixture(scope="session", autouse=True)
def trace_the_main_thread_alone() -> None:
    """Python 3.11 can fail to start a thread that is traced for coverage while another one starts."""
    if sys.version_info < (3, 12):
        threading.settrace(None)


@pytest.fixture(scope="module")
def default_precision() -> Iterator[None]:
    """Use the default precision of users, even if the suite runs in another one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(IS_VARIED, "precision", False)
        yield


def _external_folder(variable: str, default: str) -> Path:
    folder = Path(os.environ.get(variable) or SHARED / default)
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there; set {variable} to the folder of {default}")
    return folder


@pytest.fixture(scope="session")
def weights_folder() -> Path:
    """The folder of real weights outside the repository."""
    return _external_folder("CLEARHEAD_WEIGHTS", "weights")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of public datasets outside the repository."""
    return _external_folder("CLEARHEAD_DATA", "data")
