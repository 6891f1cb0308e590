"""Stopped and resumed runs: bit-identical results; changed settings or rows are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import train
from clearhead.errors import ClearheadError, InputError
from clearhead.jobs.events import RunEvents
from fuzz.kill import read_results
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

SETTINGS: dict[str, Any] = {"epochs": 2, "learning_rate": 3e-3, "batch_size": 16, "save_every": 0.0, "threads": 1}
SETTINGS["keep_state"] = True  # to compare the optimizer state, too


class StopError(Exception):
    """Stands for any interruption."""


def stop_at(step_number: int) -> RunEvents:
    """Stop a run after a number of steps."""

    def stop(training_step: Any) -> None:
        if training_step.step == step_number:
            raise StopError

    return RunEvents(training_step=stop)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "rows.csv", make_sentiment_rows(120))


@pytest.mark.parametrize("number", [1, 6, 7, 12])  # the first step, the end of an epoch, after it, the last
def test_a_stopped_run_ends_in_the_same_bits(tmp_path: Path, tiny: str, data: Path, number: int) -> None:
    train(data, output=tmp_path / "whole", model=tiny, command="x", **SETTINGS)
    with pytest.raises(StopError):
        train(data, output=tmp_path / "half", model=tiny, command="x", events=stop_at(number), **SETTINGS)
    run = train(resume=tmp_path / "half")
    assert read_results(tmp_path / "half") == read_results(tmp_path / "whole")
    assert run.metrics["accuracy"].value >= 0.5


def test_a_finished_run_is_not_resumed(tmp_path: Path, tiny: str, data: Path) -> None:
    train(data, output=tmp_path / "run", model=tiny, **SETTINGS)
    before = read_results(tmp_path / "run")
    with pytest.raises(InputError, match="run is a finished run and cannot be resumed"):
        train(resume=tmp_path / "run")
    assert read_results(tmp_path / "run") == before


def test_several_seeds_resume_too(tmp_path: Path, tiny: str, data: Path) -> None:
    train(data, output=tmp_path / "whole", model=tiny, command="x", seeds=2, **SETTINGS)
    steps = []

    def stop_second_seed(training_step: Any) -> None:
        steps.append(training_step.step)
        if steps.count(3) == 2:  # the third step of the second seed
            raise StopError

    with pytest.raises(StopError):
        train(
            data,
            output=tmp_path / "half",
            model=tiny,
            command="x",
            seeds=2,
            events=RunEvents(training_step=stop_second_seed),
            **SETTINGS,
        )
    train(resume=tmp_path / "half")
    assert read_results(tmp_path / "half") == read_results(tmp_path / "whole")


def test_what_a_kill_left_half_written_is_swept_away(tmp_path: Path, tiny: str, data: Path) -> None:
    train(data, output=tmp_path / "run", model=tiny, **SETTINGS)
    before = read_results(tmp_path / "run")
    debris = [tmp_path / "run" / ".metrics.json.ab_d3f9k", tmp_path / "run" / "state" / ".latest.json.0a1b2c3d"]
    (tmp_path / "run" / "state" / "step-00000001").mkdir()  # killed between the last step and the removal of this one
    debris.append(tmp_path / "run" / "state" / "step-00000001" / "adam.safetensors")
    other_file = tmp_path / "run" / ".gitignore"
    for path in (*debris, other_file):
        path.write_text("half")
    (tmp_path / "run" / "metrics.json").unlink()  # killed before it was finished
    train(resume=tmp_path / "run")
    other_file.unlink()
    assert read_results(tmp_path / "run") == before


def test_rows_from_python_are_given_again(tmp_path: Path, tiny: str) -> None:
    rows = make_sentiment_rows(120)
    with pytest.raises(StopError):
        train(rows, output=tmp_path / "run", model=tiny, events=stop_at(3), **SETTINGS)
    with pytest.raises(InputError, match="No training data given"):
        train(resume=tmp_path / "run")
    train(rows, resume=tmp_path / "run")
    assert (tmp_path / "run" / "metrics.json").exists()


def test_changed_rows_are_refused(tmp_path: Path, tiny: str, data: Path) -> None:
    with pytest.raises(StopError):
        train(data, output=tmp_path / "run", model=tiny, events=stop_at(3), **SETTINGS)
    data.write_text(data.read_text().replace("film", "plot", 1))
    with pytest.raises(InputError, match="rows differ from those of"):
        train(resume=tmp_path / "run")


def test_new_settings_are_refused(tmp_path: Path, tiny: str, data: Path) -> None:
    with pytest.raises(StopError):
        train(data, output=tmp_path / "run", model=tiny, events=stop_at(3), **SETTINGS)
    with pytest.raises(InputError, match="keeps its settings"):
        train(resume=tmp_path / "run", epochs=3)
    with pytest.raises(InputError, match="contains an unfinished run; resume it with resume="):
        train(data, output=tmp_path / "run", model=tiny, **SETTINGS)
    with pytest.raises(InputError, match=r"\(run\.json not found\)"):
        train(resume=tmp_path)


FULL_DISK_SCRIPT = """
import resource, sys
from clearhead.api import train
from clearhead.jobs.events import RunEvents

def step(made):
    if made.step == 5:  # from here on no file can grow beyond 20 kB, as on a disk that is full
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

train(sys.argv[1], output=sys.argv[2], model=sys.argv[3], epochs=2, learning_rate=3e-3, batch_size=16, save_every=0.0,
      threads=1, precision="float", command="x", keep_state=True, events=RunEvents(training_step=step))
"""


def test_a_full_disk_leaves_the_last_state_whole(tmp_path: Path, tiny: str, data: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK_SCRIPT, str(data), str(tmp_path / "run"), tiny]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode != 0
    assert "cannot be written: File too large" in completed.stderr
    assert str(tmp_path / "run" / "state") in completed.stderr
    assert json.loads((tmp_path / "run" / "state" / "latest.json").read_text()) == {"step": "step-00000004"}
    train(resume=tmp_path / "run")
    train(data, output=tmp_path / "whole", model=tiny, command="x", precision="float", **SETTINGS)
    assert read_results(tmp_path / "run") == read_results(tmp_path / "whole")


def test_a_loss_that_is_not_a_number_keeps_the_last_state(tmp_path: Path, tiny: str, data: Path) -> None:
    settings = {**SETTINGS, "learning_rate": 1e30, "max_grad_norm": 0.0, "warmup_ratio": 0.0}
    with pytest.raises(ClearheadError, match=r"at step \d+ \(rows [\d, ]+"):
        train(data, output=tmp_path / "run", model=tiny, **settings)
    steps = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    latest = json.loads((tmp_path / "run" / "state" / "latest.json").read_text())["step"]
    assert latest == f"step-{len(steps):08d}"
