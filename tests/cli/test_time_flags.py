"""--minutes, --finish and --keep-state on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from clearhead.api import train
from clearhead.jobs.events import RunEvents
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(tmp_path: Path) -> tuple[object, ...]:
    rows = write_csv(tmp_path / "rows.csv", make_sentiment_rows(60))
    return ("train", rows, "--model", tiny_model(tmp_path / "tiny"), "--threads", "1", "-o", tmp_path / "run")


@pytest.mark.parametrize("minutes", ["0", "-3", "nan", "inf"])
def test_no_time_is_refused(run: Run, command: tuple[object, ...], tmp_path: Path, minutes: str) -> None:
    code, _, err = run(*command, "--minutes", minutes)
    assert (code, "minutes must be above 0" in err, err.count("\n")) == (2, True, 1)
    assert not (tmp_path / "run").exists()


def test_enough_time_and_the_state(run: Run, command: tuple[object, ...], tmp_path: Path) -> None:
    code, out, _ = run(*command, "--epochs", "2", "--minutes", "100", "--keep-state", "--json")
    assert (code, json.loads(out)["run"]) == (0, str(tmp_path / "run"))
    assert (tmp_path / "run" / "state" / "latest.json").is_file()
    code, _, err = run("train", "--resume", tmp_path / "run")
    assert (code, "is a finished run" in err) == (2, True)


def test_finish(run: Run, command: tuple[object, ...], tmp_path: Path) -> None:
    code, _, err = run(*command, "--finish")
    assert (code, "name it with --resume" in err) == (2, True)

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(
            command[1], output=tmp_path / "run", model=str(command[3]), threads=1, events=RunEvents(training_step=stop)
        )
    code, out, _ = run("train", "--resume", tmp_path / "run", "--finish", "--json")
    assert code == 0
    assert json.loads(out)["notes"][0].startswith("finished early at epoch 1 of ")
    assert not (tmp_path / "run" / "state").exists()
