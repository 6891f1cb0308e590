"""Training with a time budget, and finishing a stopped run, on a simulated clock."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.errors import InputError
from clearhead.jobs.events import RunEvents
from clearhead.train import network
from clearhead.training import budget, loop, optimizer
from fuzz.kill import read_results
from tests.clock import Clock
from tests.parallel_rows import make_parallel_rows, write_tsv
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

# 96 training rows: 6 steps an epoch, 60 in all
SETTINGS: dict[str, Any] = {
    "epochs": 10,
    "learning_rate": 3e-3,
    "batch_size": 16,
    "threads": 1,
    "save_every": 1e6,
    "report": False,
    "command": "x",
    "keep_state": True,
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(autouse=True)
def few_dev_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let twelve dev rows be enough to select the best epoch."""
    monkeypatch.setattr(network, "MIN_DEV_ROWS", 10)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "rows.csv", make_sentiment_rows(120))


@pytest.fixture
def set_step_seconds(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], float]], None]:
    """Set the duration of each step on a simulated clock."""

    def install(seconds: Callable[[int], float]) -> None:
        clock, clip, step_count = Clock(), optimizer.clip_gradients, [0]
        for module in (budget, loop):
            clock.install(monkeypatch, module)

        def clip_and_advance(*arguments: Any) -> float:
            step_count[0] += 1
            clock.advance(seconds(step_count[0]))
            return float(clip(*arguments))

        monkeypatch.setattr(loop, "clip_gradients", clip_and_advance)

    return install


def stop_at(step_number: int) -> RunEvents:
    def stop(training_step: Any) -> None:
        if training_step.step == step_number:
            raise KeyboardInterrupt

    return RunEvents(training_step=stop)


def read_log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def read_progress(folder: Path) -> dict[str, Any]:
    latest = json.loads((folder / "state" / "latest.json").read_text())["step"]
    progress: dict[str, Any] = json.loads((folder / "state" / latest / "progress.json").read_text())
    return progress


def test_the_schedule_fits_the_time(tmp_path: Path, tiny: str, data: Path, set_step_seconds: Any) -> None:
    set_step_seconds(lambda _: 1.0)
    run = clearhead.train(data, output=tmp_path / "run", model=tiny, minutes=0.5, **SETTINGS)
    log, progress = read_log(run.folder), read_progress(run.folder)
    assert 20 <= len(log) == progress["planned"] <= 30  # 90 % of 30 seconds, one second per step
    assert not progress["stopped"]
    assert log[0]["steps"] == 60
    assert log[-1]["steps"] == len(log)
    assert log[-1]["rate"] < 0.1 * max(line["rate"] for line in log)  # the learning rate was decayed
    assert "score" in log[-1]  # evaluated at the end
    epoch, best = log[-1]["epoch"] + 1, progress["best_epoch"] + 1
    assert run.notes[0] == f"stopped after 0.5 minutes at epoch {epoch} of 10; kept epoch {best}"
    assert clearhead.predict(run.folder, ["a good film"])


@pytest.mark.parametrize("step", [3, 6, 10, 20])  # before the plan, when it is made, after it
def test_a_resumed_run_keeps_the_plan(tmp_path: Path, tiny: str, data: Path, set_step_seconds: Any, step: int) -> None:
    set_step_seconds(lambda _: 1.0)
    clearhead.train(data, output=tmp_path / "whole", model=tiny, minutes=0.5, **SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        clearhead.train(data, output=tmp_path / "half", model=tiny, minutes=0.5, events=stop_at(step), **SETTINGS)
    clearhead.train(resume=tmp_path / "half", minutes=0.5, report=False)
    half_files, whole_files = read_results(tmp_path / "half"), read_results(tmp_path / "whole")
    if step >= 6:  # before that, the plan was made after other steps were timed
        assert half_files == whole_files
    else:
        assert half_files.keys() >= {"model.safetensors", "metrics.json"}


def test_a_machine_that_becomes_slower_stops_in_time(
    tmp_path: Path, tiny: str, data: Path, set_step_seconds: Any
) -> None:
    set_step_seconds(lambda step: 1.0 if step < 10 else 4.0)
    run = clearhead.train(data, output=tmp_path / "run", model=tiny, minutes=0.5, **SETTINGS)
    progress, log = read_progress(run.folder), read_log(run.folder)
    assert progress["stopped"]
    assert len(log) == 15 < progress["planned"]  # 9 seconds, then 6 steps of 4
    assert "score" in log[-1]
    assert run.notes[0].startswith("stopped after 0.5 minutes at epoch 3 of 10; kept epoch ")


def test_time_for_everything_changes_nothing(tmp_path: Path, tiny: str, data: Path, set_step_seconds: Any) -> None:
    set_step_seconds(lambda _: 1.0)
    short = SETTINGS | {"epochs": 2}
    timed = clearhead.train(data, output=tmp_path / "one", model=tiny, minutes=10, **short)
    untimed = clearhead.train(data, output=tmp_path / "two", model=tiny, **short)
    weights = [(run.folder / "model.safetensors").read_bytes() for run in (timed, untimed)]
    assert weights[0] == weights[1]
    assert not any("stopped" in note for note in timed.notes)


def test_not_one_epoch_is_measured_all_the_same(tmp_path: Path, tiny: str, data: Path, set_step_seconds: Any) -> None:
    set_step_seconds(lambda _: 20.0)
    run = clearhead.train(data, output=tmp_path / "run", model=tiny, minutes=1, **SETTINGS)
    log = read_log(run.folder)
    assert 1 <= len(log) <= 3
    assert [line.get("score") is not None for line in log] == [False] * (len(log) - 1) + [True]
    assert "at epoch 1 of 10; kept epoch 1" in run.notes[0]


def test_a_translator_too(tmp_path: Path, set_step_seconds: Any) -> None:
    set_step_seconds(lambda _: 1.0)
    rows = write_tsv(tmp_path / "pairs.tsv", make_parallel_rows(40))
    config = '{"width": 8, "encoder_layers": 1, "decoder_layers": 1}'
    choices = SETTINGS | {"task": "translate", "family": "rnn", "vocab_size": 120, "config": config, "batch_size": 8}
    run = clearhead.train(rows, output=tmp_path / "run", minutes=0.25, **choices)
    assert len(read_log(run.folder)) <= 15
    assert run.notes[0].startswith("stopped after 0.25 minutes")


@pytest.mark.parametrize("minutes", [0, -1, float("nan"), float("inf"), "soon"])
def test_no_time_at_all_is_refused(tmp_path: Path, data: Path, minutes: Any) -> None:
    with pytest.raises(InputError, match="minutes"):
        clearhead.train(data, output=tmp_path / "run", minutes=minutes)


@pytest.mark.parametrize("method", ["tfidf", "features", "majority"])
def test_methods_without_a_network_have_no_minutes(tmp_path: Path, data: Path, method: str) -> None:
    with pytest.raises(InputError, match="minutes applies only to methods that train a network: finetune and head"):
        clearhead.train(data, output=tmp_path / "run", method=method, minutes=1)


@pytest.mark.parametrize("step", [4, 12, 15])  # before the first epoch ends, at the end of one, within one
def test_a_stopped_run_is_finished_as_it_is(tmp_path: Path, tiny: str, data: Path, step: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        clearhead.train(data, output=tmp_path / "run", model=tiny, events=stop_at(step), **SETTINGS)
    run = clearhead.train(resume=tmp_path / "run", finish=True)
    assert len(read_log(run.folder)) == step
    progress = read_progress(run.folder)
    assert len(progress["scores"]) == -(-step // 6)
    assert run.evaluations["dev"].rows > 0
    epoch = (step - 1) // 6 + 1
    assert run.notes[0] == f"finished early at epoch {epoch} of 10; kept epoch {progress['best_epoch'] + 1}"
    assert run.report is not None
    assert clearhead.predict(run.folder, ["a good film"])


def test_seeds_that_were_begun_are_finished(tmp_path: Path, tiny: str, data: Path) -> None:
    steps: list[int] = []

    def stop_second_seed(training_step: Any) -> None:
        steps.append(training_step.step)
        if steps.count(3) == 2:  # of the second seed
            raise KeyboardInterrupt

    choices = SETTINGS | {"epochs": 1}
    with pytest.raises(KeyboardInterrupt):
        clearhead.train(
            data,
            output=tmp_path / "run",
            model=tiny,
            seeds=3,
            events=RunEvents(training_step=stop_second_seed),
            **choices,
        )
    run = clearhead.train(resume=tmp_path / "run", finish=True, report=False)
    assert [score.seed for score in run.seeds] == [0, 1]


def test_nothing_to_finish_is_refused(tmp_path: Path, tiny: str, data: Path) -> None:
    with pytest.raises(InputError, match="finish needs an interrupted run"):
        clearhead.train(data, output=tmp_path / "run", model=tiny, finish=True)

    def stop(_: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clearhead.train(data, output=tmp_path / "run", model=tiny, events=RunEvents(started=stop), **SETTINGS)
    with pytest.raises(InputError, match="has no finished training step yet"):
        clearhead.train(resume=tmp_path / "run", finish=True)
