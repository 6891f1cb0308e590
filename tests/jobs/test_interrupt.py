"""Ctrl-C: the step is finished and saved, the message names the command to resume, and the result is identical."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.training import loop
from clearhead.training.interrupt import TrainingInterrupted, deferred_interrupt, on_stop_request
from fuzz.kill import read_results
from tests.parallel_rows import make_parallel_rows, write_tsv
from tests.planted import write_planted_text
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

SETTINGS: dict[str, Any] = {"epochs": 2, "learning_rate": 3e-3, "batch_size": 16, "save_every": 1e6, "threads": 1}
MODEL = '{"width": 8, "encoder_layers": 1, "decoder_layers": 1}'
TRANSLATOR: dict[str, Any] = {"task": "translate", "family": "rnn", "vocab_size": 120, "config": MODEL, "report": False}
LANGUAGE_MODEL: dict[str, Any] = {
    "preset": "tiny",
    "vocab_size": 200,
    "max_length": 16,
    "max_steps": 8,
    "evaluations": 2,
    "batch_tokens": 128,
    "threads": 1,
    "save_every": 1e6,
    "report": False,
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "rows.csv", make_sentiment_rows(120))


def interrupt_in_step(monkeypatch: pytest.MonkeyPatch, module: Any, step: int) -> None:
    """Raise SIGINT in the middle of a step, while its gradient is clipped."""
    calls, clip = [], module.clip_gradients

    def clip_and_interrupt(*arguments: Any) -> float:
        calls.append(1)
        if len(calls) == step:
            signal.raise_signal(signal.SIGINT)
        return float(clip(*arguments))

    monkeypatch.setattr(module, "clip_gradients", clip_and_interrupt)


def saved_step(folder: Path) -> str:
    return str(json.loads((folder / "state" / "latest.json").read_text())["step"])


@pytest.mark.parametrize("step", [1, 5, 6, 12])  # the first step, within an epoch, its end, the last
def test_the_step_is_finished_and_saved(
    tmp_path: Path, tiny: str, data: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clearhead.train(data, output=tmp_path / "whole", model=tiny, command="x", **SETTINGS)
    with monkeypatch.context() as patch:
        interrupt_in_step(patch, loop, step)
        with pytest.raises(TrainingInterrupted, match=f"after step {step} of 12"):
            clearhead.train(data, output=tmp_path / "half", model=tiny, command="x", **SETTINGS)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert saved_step(tmp_path / "half") == f"step-{step:08d}"
    assert len((tmp_path / "half" / "log.jsonl").read_text().splitlines()) == step
    clearhead.train(resume=tmp_path / "half")
    assert read_results(tmp_path / "half") == read_results(tmp_path / "whole")


def test_a_translator_is_saved_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = write_tsv(tmp_path / "pairs.tsv", make_parallel_rows(40))
    choices = TRANSLATOR | SETTINGS | {"batch_size": 8, "command": "x"}
    clearhead.train(rows, output=tmp_path / "whole", **choices)
    with monkeypatch.context() as patch:
        interrupt_in_step(patch, loop, 3)
        with pytest.raises(KeyboardInterrupt):
            clearhead.train(rows, output=tmp_path / "half", **choices)
    assert saved_step(tmp_path / "half") == "step-00000003"
    clearhead.train(resume=tmp_path / "half", report=False)
    assert read_results(tmp_path / "half") == read_results(tmp_path / "whole")


def test_pretraining_is_saved_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = write_planted_text(tmp_path / "text.txt", 30, 5)
    clearhead.pretrain(text, output=tmp_path / "whole", **LANGUAGE_MODEL)
    with monkeypatch.context() as patch:
        interrupt_in_step(patch, loop, 5)
        with pytest.raises(KeyboardInterrupt):
            clearhead.pretrain(text, output=tmp_path / "half", **LANGUAGE_MODEL)
    assert saved_step(tmp_path / "half") == "step-00000005"
    clearhead.pretrain(resume=tmp_path / "half", report=False)
    for name in ("model.safetensors", "evaluations.json", "tokenizer.json"):
        assert (tmp_path / "half" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_the_second_signal_stops_at_once() -> None:
    noticed: list[int] = []
    with on_stop_request(lambda: noticed.append(1)), deferred_interrupt() as stop:
        signal.raise_signal(signal.SIGINT)
        assert (stop.requested, noticed) == (True, [1])
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_the_handler_of_an_application_is_respected() -> None:
    calls: list[int] = []
    before = signal.signal(signal.SIGINT, lambda *_: calls.append(1))
    try:
        with deferred_interrupt() as stop:
            signal.raise_signal(signal.SIGINT)
        assert (calls, stop.requested) == ([1], False)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("flag", ["--quiet", "--json", None])
def test_the_command_line_says_how_to_resume(tmp_path: Path, tiny: str, data: Path, flag: str | None) -> None:
    run = tmp_path / "a run"
    command = [sys.executable, "-m", "clearhead", "train", str(data), "--model", tiny, "-o", str(run)]
    command += ["--epochs", "900", "--batch-size", "16", "--threads", "1", "--set", "save_every=1e6"]
    command += [] if flag is None else [flag]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = run / "log.jsonl"
    while child.poll() is None and (not log.exists() or log.read_bytes().count(b"\n") < 2):
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=120)
    assert (child.returncode, out) == (130, ""), err
    lines = err.splitlines()
    step = len(log.read_text().splitlines())
    assert f"stopped after step {step} of 5400" in lines[-2].replace(",", "")
    assert lines[-1] == f"resume with: clearhead train --resume {shlex.quote(str(run))}"
    assert ("press Ctrl-C again" in err) == (flag is None)
    assert "Traceback" not in err
    assert saved_step(run) == f"step-{step:08d}"


def test_the_handler_of_the_command_line_is_deferred_too() -> None:
    noted: list[int] = []

    def handle(number: int, _: object) -> None:
        noted.append(number)
        raise KeyboardInterrupt

    handle.raises_interrupt = True  # type: ignore[attr-defined]
    before = signal.signal(signal.SIGINT, handle)
    try:
        with deferred_interrupt() as stop:
            signal.raise_signal(signal.SIGINT)
            assert (stop.requested, noted) == (True, [])
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is handle
    finally:
        signal.signal(signal.SIGINT, before)
