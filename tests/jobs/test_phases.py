"""Every phase of a run reports progress, and respects the number of threads from the start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.classic import fit_linear
from clearhead.data import LabelSpace
from clearhead.jobs.events import RunEvents
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


def test_fits_of_a_linear_model_are_counted() -> None:
    rng = np.random.default_rng(0)
    features, targets = rng.normal(size=(60, 4)), np.arange(60) % 3
    space = LabelSpace(names=("a", "b", "c"), kind="classes")
    reports: list[tuple[int, int]] = []
    fit_linear(features, targets, space, progress=lambda _, done, total: reports.append((done, total)))
    assert reports[0] == (0, 35)  # seven strengths, five folds
    assert reports[:-1] == [(fit_index, 35) for fit_index in range(len(reports) - 1)]
    assert len(reports) > 5
    assert reports[-1] == (0, 1)  # the fit on all rows


PHASES: dict[str, tuple[str, ...]] = {
    "features": ("loading the model", "features", "fitting the linear model", "measuring", "writing the report"),
    "tfidf": ("counting words", "fitting the linear model", "measuring", "writing the report"),
    "finetune": ("loading the model", "measuring dev rows", "measuring", "writing the report"),
}


@pytest.mark.parametrize("method", PHASES)
def test_phases_are_told(tmp_path: Path, tiny: str, method: str) -> None:
    stages: list[str] = []
    choices: dict[str, Any] = {"epochs": 1} if method == "finetune" else {}
    clearhead.train(
        make_sentiment_rows(80),
        output=tmp_path / "run",
        model=tiny,
        method=method,
        threads=1,
        events=RunEvents(progress=lambda stage, *_: stages.append(stage)),
        **choices,
    )
    phases = list(dict.fromkeys(stages))
    assert [phase for phase in phases if phase in PHASES[method]] == list(PHASES[method])


BLAS = """
import sys
import clearhead
from clearhead.jobs.events import RunEvents
from threadpoolctl import threadpool_info

seen = set()

def count(what, *_):
    seen.update(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas" and what != "loading")

clearhead.train(
    sys.argv[1], output=sys.argv[2], method=sys.argv[3], model=sys.argv[4], threads=1, events=RunEvents(progress=count)
)
print(sorted(seen), sorted({one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}))
"""


@pytest.mark.parametrize("method", ["features", "tfidf"])
def test_blas_keeps_to_the_threads_in_every_phase(tmp_path: Path, tiny: str, method: str) -> None:
    rows = write_csv(tmp_path / "rows.csv", make_sentiment_rows(40))
    environment = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    completed = subprocess.run(
        [sys.executable, "-c", BLAS, str(rows), str(tmp_path / "run"), method, tiny],
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"OPENBLAS_NUM_THREADS": "2"},
    )
    assert completed.returncode == 0, completed.stderr
    during, after = (json.loads(f"{part}]".lstrip(" ")) for part in completed.stdout.strip().split("]")[:2])
    if after != [2]:
        pytest.skip("this BLAS cannot use two threads")
    assert during == [1]
