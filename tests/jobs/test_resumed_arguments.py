"""--resume with further arguments: those of the run are accepted, others are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.api import ladder, train
from clearhead.errors import InputError
from clearhead.jobs.events import RunEvents
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv


class StopError(Exception):
    """Stops a run as soon as it can be resumed."""


def stop(folder: Path) -> None:
    raise StopError


CHOICES: dict[str, Any] = {"method": "tfidf", "seed": 3, "label": "label", "C": 2.0, "dev_share": 0.2}


@pytest.fixture
def stopped_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stopped run in the working directory."""
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "reviews.csv", make_sentiment_rows(60))
    write_csv(tmp_path / "dev.csv", make_sentiment_rows(20, seed=1))
    with pytest.raises(StopError):
        train("reviews.csv", dev="dev.csv", output="run", report=False, events=RunEvents(started=stop), **CHOICES)
    return tmp_path / "run"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"output": "run"},
        {"output": "./run/../run", **CHOICES},
        {"dev": "dev.csv", "seed": 3},
        {"C": 2, "dev-share": 0.2},
    ],
)
def test_the_same_arguments_are_accepted(stopped_run: Path, arguments: dict[str, Any]) -> None:
    train("reviews.csv", resume="run", report=False, **arguments)
    assert (stopped_run / "metrics.json").is_file()


def test_paths_are_the_same_from_anywhere(stopped_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = stopped_run.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "linked.csv").symlink_to(stopped_run.parent / "reviews.csv")
    monkeypatch.chdir(elsewhere)
    train(elsewhere / "linked.csv", resume=stopped_run, dev="../dev.csv", output="../run", report=False, **CHOICES)
    assert (stopped_run / "metrics.json").is_file()


def test_a_recipe_is_compared_too(stopped_run: Path) -> None:
    (stopped_run.parent / "own.toml").write_text('method = "tfidf"\ntrain = "reviews.csv"\nseed = 3\n')
    (stopped_run.parent / "other.toml").write_text("seed = 4\n")
    with pytest.raises(InputError, match="seed was 3, got 4"):
        train(resume="run", recipe="other.toml", report=False)
    train(resume="run", recipe="own.toml", report=False)
    assert (stopped_run / "metrics.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": 4}, "seed was 3, got 4"),
        ({"method": "majority"}, "method was tfidf, got majority"),
        ({"text": "text"}, "text was None, got text"),
        ({"epochs": 3}, "epochs was auto, got 3"),
        ({"skip_bad_rows": True}, "skip_bad_rows was False, got True"),
        ({"output": "other"}, r"the folder was run, got other"),
        ({"dev": "reviews.csv"}, r"dev was .*dev\.csv, got .*reviews\.csv"),
        ({"test": "dev.csv"}, r"test was None, got .*dev\.csv"),
        ({"bogus": 1}, "Unknown setting 'bogus'"),
    ],
)
def test_others_are_refused_by_name(stopped_run: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        train("reviews.csv", resume="run", report=False, **arguments)
    with pytest.raises(InputError, match=r"train was .*reviews\.csv, got .*dev\.csv"):
        train("dev.csv", resume="run", report=False)
    assert not (stopped_run / "metrics.json").exists()


def test_a_file_that_moved_is_known_by_its_rows(stopped_run: Path) -> None:
    Path("moved").mkdir()
    (stopped_run.parent / "reviews.csv").rename("moved/reviews.csv")
    with pytest.raises(InputError, match="differ from those of run"):
        train("dev.csv", resume="run", report=False)
    train("moved/reviews.csv", resume="run", report=False)
    assert (stopped_run / "metrics.json").is_file()


def test_pretraining(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [f"the red drum number {n} is loud and the blue one is not" for n in range(80)]
    Path("text.txt").write_text("\n\n".join(texts))
    choices: dict[str, Any] = {
        "config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16},
        "vocab_size": 60,
        "max_length": 16,
        "batch_tokens": 256,
        "minutes": 0.001,
        "objective": "mlm",
    }

    def interrupt(step: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clearhead.pretrain("text.txt", output="run", report=False, events=RunEvents(training_step=interrupt), **choices)
    with pytest.raises(InputError, match="length was 16, got 32"):
        clearhead.pretrain(resume="run", max_length=32)
    with pytest.raises(InputError, match=r"minutes was 0\.001, got 2"):
        clearhead.pretrain(resume="run", minutes=2)
    Path("other.txt").write_text("another text")
    with pytest.raises(InputError, match=r"files was .*text\.txt.*, got .*other\.txt"):
        clearhead.pretrain("other.txt", resume="run")
    resumed = clearhead.pretrain(tmp_path / "text.txt", resume="run", output=tmp_path / "run", report=False, **choices)
    assert resumed.folder == Path("run")


def test_a_ladder_goes_on_with_a_model_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "reviews.csv", make_sentiment_rows(60))
    tiny_model(tmp_path / "tiny")
    first = ladder("reviews.csv", output="climbed", methods="majority,tfidf", model="tiny/model", rows=40)
    model = str(tmp_path / "tiny" / "model")
    resumed = ladder(
        tmp_path / "reviews.csv", output=tmp_path / "climbed", methods="majority,tfidf", model=model, rows=40
    )
    assert all(rung.reused for rung in resumed.rungs)
    assert [rung.value for rung in resumed.rungs] == [rung.value for rung in first.rungs]
    with pytest.raises(InputError, match="rows was 40, got 30"):
        ladder("reviews.csv", output="climbed", methods="majority,tfidf", model="tiny/model", rows=30)


def test_a_model_named_from_one_folder_is_found_from_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tiny_model(tmp_path / "base")
    write_csv(tmp_path / "reviews.csv", make_sentiment_rows(40))
    quick: dict[str, Any] = {"epochs": 1, "batch_size": 16, "threads": 1, "report": False}
    auto: dict[str, Any] = {"head_pooling": "auto", "precision": "auto"}
    with pytest.raises(StopError):
        train("reviews.csv", model="base/model", output="run", events=RunEvents(started=stop), **quick, **auto)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"model was .*base/model, got default"):
        train(resume="../run", model="default", report=False)
    resumed = train(resume="../run", model="../base/model", report=False, **auto)
    passport = json.loads((Path(resumed.folder) / "clearhead.json").read_text())
    assert passport["trained"]["base"] == "model"  # no local path
