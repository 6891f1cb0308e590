"""Thread pools: OpenMP sleeps while waiting, BLAS uses one thread for small products, and limits are restored."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

import clearhead
from clearhead.classic import fit_linear, solver
from clearhead.classic.mixture import fit_scalar_mix
from clearhead.data import LabelSpace
from clearhead.engine.session import import_onnxruntime, spin_settings
from clearhead.jobs.job import JobRequest, run_job
from clearhead.jobs.plan import RunPlan
from clearhead.machine.threads import (
    BLAS_VARIABLES,
    WAIT_VARIABLES,
    call_at_end,
    count_cores,
    get_max_threads,
    limit_blas,
    limit_threads,
    passive_waiting,
)
from clearhead.words import learn, steps
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

TWO_CLASSES = LabelSpace(names=("no", "yes"), kind="classes")


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """BLAS on two threads, independent of the machine and the environment."""
    import sklearn.linear_model  # noqa: F401
    from threadpoolctl import threadpool_limits

    for name in BLAS_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with threadpool_limits(2, "blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS library cannot use two threads")
        yield


def read_spin_counts(code: str) -> list[int]:
    """How often each OpenMP library of a process spins before its threads sleep; libgomp's default is 300,000."""
    environment_base = {
        name: value for name, value in os.environ.items() if name not in (*WAIT_VARIABLES, "OMP_NUM_THREADS")
    }
    command, environment = [sys.executable, "-c", code], environment_base | {"OMP_DISPLAY_ENV": "verbose"}
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert process.returncode == 0, process.stderr
    spin_counts = [int(count) for count in re.findall(r"GOMP_SPINCOUNT = '(\d+)'", process.stderr)]
    if not spin_counts:
        pytest.skip("this torch has another OpenMP than GNU's")
    return spin_counts


def test_openmp_of_torch_sleeps_while_it_waits() -> None:
    assert read_spin_counts("import clearhead.core.models; import os; assert 'OMP_WAIT_POLICY' not in os.environ") == [
        1000
    ]


@pytest.mark.slow
def test_other_libraries_may_be_loaded_before() -> None:
    others = "import numpy, sklearn.linear_model, onnxruntime"
    code = f"{others}; from clearhead.model.loading import require_torch; require_torch('x')"
    assert read_spin_counts(code)[-1] == 1000


@pytest.mark.parametrize("name", WAIT_VARIABLES)
def test_the_users_wait_policy_wins(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for variable in WAIT_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    with passive_waiting():
        assert os.environ["OMP_WAIT_POLICY"] == "passive"
    assert "OMP_WAIT_POLICY" not in os.environ
    monkeypatch.setenv(name, "active")
    before = dict(os.environ)
    with passive_waiting():
        assert dict(os.environ) == before


def record_blas_threads(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[set[int]]:
    """The threads that BLAS has whenever a function is called."""
    thread_counts: list[set[int]] = []
    original = getattr(module, name)

    def record_and_call(*args: Any, **kwargs: Any) -> Any:
        thread_counts.append(blas_threads())
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, record_and_call)
    return thread_counts


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("strength", [None, 1.0])
def test_small_fits_have_one_thread(monkeypatch: pytest.MonkeyPatch, strength: float | None) -> None:
    thread_counts = record_blas_threads(monkeypatch, solver, "_fit_estimator")
    rng = np.random.default_rng(0)
    fit_linear(rng.normal(size=(40, 3)), rng.integers(0, 2, 40), TWO_CLASSES, strength=strength)
    assert thread_counts
    assert all(count == {1} for count in thread_counts)
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_threads")
def test_large_fits_keep_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    thread_counts = record_blas_threads(monkeypatch, solver, "_fit_estimator")
    monkeypatch.setattr(solver, "MIN_PARALLEL_SIZE", 100)
    monkeypatch.setattr(solver, "get_max_threads", lambda: 8)
    rng = np.random.default_rng(0)
    fit_linear(rng.normal(size=(40, 3)), rng.integers(0, 2, 40), TWO_CLASSES, strength=1.0)
    assert thread_counts == [{2}]


@pytest.mark.usefixtures("two_threads")
def test_the_users_blas_threads_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    with limit_blas(1):
        assert blas_threads() == {2}
    with limit_threads(1):  # set later, for this job
        assert blas_threads() == {1}


@pytest.mark.usefixtures("two_threads")
def test_weighing_layers_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    import clearhead.classic.mixture as mixture

    thread_counts = record_blas_threads(monkeypatch, mixture, "_loss_and_gradient")
    rng = np.random.default_rng(0)
    fit_scalar_mix([rng.normal(size=(20, 3)) for _ in range(2)], rng.integers(0, 2, 20), TWO_CLASSES, strength=1.0)
    assert thread_counts
    assert all(count == {1} for count in thread_counts)


@pytest.mark.usefixtures("two_threads")
def test_word2vec_has_one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    thread_counts = record_blas_threads(monkeypatch, learn, "_train_chunk")
    learn.learn_words([["a", "b", "c", "d"]] * 9, steps.WordSettings(width=4, epochs=1, min_count=1))
    assert thread_counts == [{1}]


@pytest.mark.usefixtures("two_threads")
def test_the_smallest_limit_holds_and_all_end() -> None:
    outer, inner = limit_blas(1), limit_blas(2)
    outer.__enter__()
    inner.__enter__()
    assert blas_threads() == {1}
    outer.__exit__(None, None, None)  # another thread may end first
    assert blas_threads() == {2}
    inner.__exit__(None, None, None)
    assert blas_threads() == {2}
    with pytest.raises(ValueError, match="stop"), limit_blas(1):
        raise ValueError("stop")
    assert blas_threads() == {2}


def test_a_limit_is_for_every_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    monkeypatch.delenv("RAYON_NUM_THREADS", raising=False)
    before, callbacks = dict(os.environ), []
    with limit_threads(1):
        call_at_end(lambda: callbacks.append(True))
        assert get_max_threads() == 1
        assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
        assert os.environ["RAYON_NUM_THREADS"] == "1"
        with limit_threads(None):
            assert get_max_threads() == 1
    assert callbacks == [True]
    assert (get_max_threads(), dict(os.environ)) == (count_cores(), before)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    with limit_threads(1):
        assert os.environ["TOKENIZERS_PARALLELISM"] == "true"
    with limit_threads(10**9):
        assert get_max_threads() == count_cores()
        assert int(os.environ["RAYON_NUM_THREADS"]) == count_cores()


def test_the_engine_keeps_the_limit(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "tiny")
    with limit_threads(1):
        assert clearhead.load(folder, "engine").runner.threads == 1  # type: ignore[attr-defined]
    assert clearhead.load(folder, "engine", threads=3).runner.threads == 3  # type: ignore[attr-defined]


def test_threads_of_the_engine_spin_for_microseconds() -> None:
    spinning, duration = "session.intra_op.allow_spinning", "session.intra_op.spin_duration_us"
    assert spin_settings(1, "1.31.1") == {spinning: "0"}
    assert spin_settings(2, "1.31.1") == {spinning: "1", duration: "20"}
    assert spin_settings(2, "1.25.0") == {spinning: "0"}  # it would spin for milliseconds
    assert spin_settings(2, "2.0.0rc1")[duration] == "20"


def test_a_session_has_these_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    session_options: dict[str, str] = {}
    ort = import_onnxruntime()

    class Options(ort.SessionOptions):  # type: ignore[name-defined]
        def add_session_config_entry(self, name: str, value: str) -> None:
            session_options[name] = value
            super().add_session_config_entry(name, value)

    monkeypatch.setattr(ort, "SessionOptions", Options)
    model = clearhead.load(tiny_model(tmp_path / "tiny"), "engine", threads=2)
    model.embed(["a film"])
    assert session_options == spin_settings(2, ort.__version__)


def test_a_job_uses_the_threads_of_its_plan() -> None:
    class ThreadJob:
        """A job that reports how many threads it may use."""

        request: JobRequest[RunPlan] = JobRequest(plan=RunPlan(threads=1), folder=Path("run"))

        def __init__(self) -> None:
            self.seen: list[int] = []

        def step(self) -> None:
            self.seen.append(get_max_threads())

        plan = prepare = fit = measure = save = step

        def report(self) -> list[int]:
            self.step()
            return self.seen

    assert run_job(ThreadJob()) == [1] * 6


THREADS = """
import json, sys
import clearhead, torch
from threadpoolctl import threadpool_info
from clearhead.classic import solver

seen, real = set(), solver._fit_estimator
def fitted(*args, **kwargs):
    seen.update(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
    return real(*args, **kwargs)
solver._fit_estimator, solver.MIN_PARALLEL_SIZE = fitted, 1
folder, rows, model = sys.argv[1:4]
torch.set_num_threads(4)
made = {}
for name, choices in json.loads(sys.argv[4]).items():
    clearhead.train(rows, output=f"{folder}/{name}", model=model, report=False, **choices)
    plan = json.load(open(f"{folder}/{name}/run.json"))["plan"]
    made[name] = plan["threads"], torch.get_num_threads()
print(json.dumps({"plans": made, "blas": sorted(seen)}))
"""


@pytest.mark.slow
def test_threads_of_a_run(tmp_path: Path) -> None:
    """A tiny model gets one thread, `threads` limits BLAS too, and afterwards torch has as many as before."""
    rows, tiny = write_csv(tmp_path / "rows.csv", make_sentiment_rows(60)), tiny_model(tmp_path / "model")
    jobs: dict[str, dict[str, Any]] = {
        "tiny": {"epochs": 1, "baselines": False},
        "said": {"epochs": 1, "threads": 2, "baselines": False},
        "wide": {"epochs": 1, "baselines": False, "batch_tokens": 1 << 22, "micro_tokens": 1 << 22},
        "features": {"method": "features", "threads": 1, "strength": 1.0},
        "tfidf": {"method": "tfidf", "threads": 1, "strength": 1.0},
    }
    environment_base = {
        name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    }
    command = [sys.executable, "-c", THREADS, str(tmp_path), str(rows), str(tiny), json.dumps(jobs)]
    process = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment_base | {"OPENBLAS_NUM_THREADS": "2"}
    )
    assert process.returncode == 0, process.stderr
    run_threads = json.loads(process.stdout)
    assert run_threads["plans"] == {
        "tiny": [1, 4],
        "said": [2, 4],
        "wide": [4, 4],
        "features": [1, 4],
        "tfidf": [1, 4],
    }
    assert run_threads["blas"] == [1]


def test_threads_are_chosen_by_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from clearhead.training.settings import TrainSettings
    from clearhead.training.threads import choose_threads, use_threads

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    config = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 9}
    small = clearhead.create("bert", config={**config, "intermediate_size": 128}).shape
    wide = clearhead.create("bert", config={**config, "intermediate_size": 1024}).shape
    before = torch.get_num_threads()
    with limit_threads(None):
        use_threads(4)
        assert choose_threads(small, TrainSettings()) == 1
        assert choose_threads(wide, TrainSettings()) == 4
        assert choose_threads(wide, TrainSettings(micro_tokens=512)) == 2
        assert choose_threads(small, TrainSettings(batch_size=None, batch_tokens=1 << 20, micro_tokens=1 << 20)) == 4
        assert use_threads(None, small) == 1
        assert use_threads(3, small) == 3
        monkeypatch.setenv("OMP_NUM_THREADS", "4")
        assert choose_threads(small, TrainSettings()) == 3  # as many as torch has
    assert torch.get_num_threads() == before
