"""--verbose: settings, timings and tracebacks on stderr; standard output stays the same."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clearhead.cli import verbose
from clearhead.cli.loading import download_bars
from clearhead.cli.screen import model_notes, progress, stages
from clearhead.cli.training import TrainingScreen
from clearhead.cli.verbose import StageTimer, is_verbose, print_plan, split_verbose, use_verbose
from tests.clock import Clock
from tests.tiny_models import make_sentiment_rows, write_csv

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of timings, which only the test advances."""
    clock = Clock()
    clock.install(monkeypatch, verbose)
    return clock


@pytest.mark.parametrize(
    ("arguments", "rest", "enabled"),
    [
        ([], [], False),
        (["tokens", "m", "text"], ["tokens", "m", "text"], False),
        (["--verbose", "tokens", "m"], ["tokens", "m"], True),
        (["tokens", "m", "text", "--verbose"], ["tokens", "m", "text"], True),
        (["tokens", "--verbose", "m", "--", "--verbose"], ["tokens", "m", "--", "--verbose"], True),
        (["tokens", "m", "--", "--verbose"], ["tokens", "m", "--", "--verbose"], False),
    ],
)
def test_the_flag_may_be_anywhere_before_a_double_hyphen(arguments: list[str], rest: list[str], enabled: bool) -> None:
    assert split_verbose(arguments) == (rest, enabled)


def test_it_ends_with_the_command() -> None:
    assert not is_verbose()
    with use_verbose(True):
        assert is_verbose()
        with use_verbose(False):
            assert not is_verbose()
    assert not is_verbose()


@pytest.mark.parametrize("is_first", [True, False])
def test_settings_and_total_time(run: Run, masked_model: Path, clock: Clock, is_first: bool) -> None:
    line = ("tokens", masked_model, "Paris is big")
    code, expected, err = run(*line)
    assert (code, err) == (0, "")
    code, out, err = run(*(("--verbose", *line) if is_first else (*line, "--verbose")))
    assert (code, out) == (0, expected)
    assert err.splitlines() == [
        f"tokens: model = {masked_model}",
        "tokens: text = Paris is big",
        "tokens: json = False",
        "tokens: quiet = False",
        "total: 0.00 s",
    ]


def test_a_text_may_be_the_flag(run: Run, masked_model: Path) -> None:
    code, out, err = run("tokens", masked_model, "--json", "--", "--verbose")
    assert (code, err) == (0, "")
    assert "[UNK]" in json.loads(out)["tokens"]


def test_the_traceback_of_a_mistake(run: Run, tmp_path: Path) -> None:
    line = ("tokens", tmp_path / "nowhere", "a text")
    code, out, message = run(*line)
    assert (code, out, message.count("\n")) == (2, "", 1)
    code, out, err = run(*line, "--verbose")
    assert (code, out) == (2, "")
    assert "Traceback (most recent call last):\n" in err
    assert "raise " in err
    assert err.endswith(message)
    assert "total: " not in err  # the command did not finish


def test_the_traceback_of_an_error_of_the_system(run: Run, masked_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Any:
        raise OSError(5, "Input/output error", "tokenizer.json")

    monkeypatch.setattr("clearhead.api.tokens", fail)
    code, _, message = run("tokens", masked_model, "a text")
    assert (code, message) == (2, "clearhead: tokenizer.json cannot be read or written: Input/output error.\n")
    code, _, err = run("tokens", masked_model, "a text", "--verbose")
    assert code == 2
    assert "Traceback" in err
    assert err.endswith(message)


def test_the_plan_and_the_stages_of_training(run: Run, tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", make_sentiment_rows(60))
    line = ("train", rows, "--method", "majority", "--seed", 3, "-o", tmp_path / "run", "--verbose")
    code, _, err = run(*line)
    assert code == 0
    lines = err.splitlines()
    assert f"train: file = {rows}" in lines
    assert "train: seed = 3" in lines
    assert "train: text = None" not in lines
    assert "plan: method = majority" in lines
    assert "plan: settings.seed = 3" in lines
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["plan"]
    plan_lines = [line.removeprefix("plan: ").split(" = ", 1) for line in lines if line.startswith("plan: ")]
    assert dict(plan_lines)["dev_share"] == str(stored["dev_share"])
    timings = [line for line in lines if re.fullmatch(r"[a-z][a-z -]*: \d+\.\d\d s", line)]
    assert len(timings) >= 3
    assert timings[-1].startswith("total: ")
    assert lines[-1] == timings[-1]
    code, out, err = run(*line[:-2], tmp_path / "again", "--json", "--quiet", "--verbose")
    assert (code, json.loads(out)["run"]) == (0, str(tmp_path / "again"))
    assert "plan: method = majority" in err


def test_a_plan_that_cannot_be_read_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with use_verbose(True):
        print_plan(tmp_path)
    assert capsys.readouterr().err == ""


def test_stages_are_timed_and_reports_passed_on(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    reports: list[tuple[str, int, int | None]] = []
    with use_verbose(True):
        timer = StageTimer(lambda stage, done, total: reports.append((stage, done, total)))
        for stage, done in (("reading", 0), ("reading", 1), ("measuring", 0)):
            timer(stage, done, None)
            clock.advance(1.5)
        timer.stop()
        timer.stop()
    assert capsys.readouterr().err == "reading: 3.00 s\nmeasuring: 1.50 s\n"
    assert reports == [("reading", 0, None), ("reading", 1, None), ("measuring", 0, None)]


def test_every_kind_of_progress_is_timed(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with use_verbose(True):
        with stages(quiet=True) as stage, progress("embedding", quiet=True) as count:
            assert stage is not None
            assert count is not None
            stage("measuring float", 0, 2)
            count(1, 2)
            clock.advance(2)
        with download_bars(quiet=True) as files:
            assert files is not None
            files("model.safetensors", 1, 9)
        with TrainingScreen(quiet=True) as screen:
            screen.progress("loading the model", 0, None)
            clock.advance(1)
    assert capsys.readouterr().err.splitlines() == [
        "embedding: 2.00 s",
        "measuring float: 2.00 s",
        "model.safetensors: 0.00 s",
        "loading the model: 1.00 s",
    ]


def test_debug_messages_of_loading_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("clearhead")
    for enabled, expected in ((True, "read 3 tensors\n"), (False, "")):
        with use_verbose(enabled), model_notes(quiet=True):
            log.debug("read 3 tensors")
        assert capsys.readouterr().err == expected
