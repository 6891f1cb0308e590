"""A finished run has no optimizer state; a run killed while it is removed loads its own model folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.errors import CheckpointError, InputError
from clearhead.jobs.events import RunEvents
from fuzz.kill import read_results
from tests.parallel_rows import make_parallel_rows, write_tsv
from tests.planted import write_planted_text
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

SETTINGS: dict[str, Any] = {"epochs": 2, "learning_rate": 3e-3, "batch_size": 16, "threads": 1, "command": "x"}
TRANSLATOR: dict[str, Any] = {
    "task": "translate",
    "family": "rnn",
    "vocab_size": 120,
    "config": '{"width": 8, "encoder_layers": 1, "decoder_layers": 1}',
}
LANGUAGE_MODEL: dict[str, Any] = {
    "preset": "tiny",
    "vocab_size": 400,
    "max_length": 16,
    "max_steps": 4,
    "evaluations": 2,
    "batch_tokens": 128,
    "threads": 1,
    "command": "x",
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


def refuse_step(_: Any) -> None:
    raise AssertionError("the run was trained again")


def remove_last_file(folder: Path) -> dict[str, bytes]:
    """Return the files of a run, and remove the file that marks it as finished."""
    before = read_results(folder)
    assert "fitted" in json.loads(before["run.json"])
    (folder / "metrics.json").unlink()
    return before


def assert_same_files(folder: Path, before: dict[str, bytes]) -> None:
    with_times = ("pretraining.json", "README.md")
    files = read_results(folder)
    assert files.keys() == before.keys()
    assert [name for name in files if name not in with_times and files[name] != before[name]] == []


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("task", ["classify", "regress"])
def test_the_state_goes_and_a_kill_in_between_does_not_hurt(tmp_path: Path, tiny: str, seeds: int, task: str) -> None:
    rows = make_sentiment_rows(80)
    if task == "regress":
        rows = [{"text": row["text"], "label": str(len(row["text"]))} for row in rows]
    data = write_csv(tmp_path / "rows.csv", rows)
    run = clearhead.train(data, output=tmp_path / "run", model=tiny, seeds=seeds, task=task, **SETTINGS)
    assert not list(run.folder.rglob("state"))
    assert clearhead.predict(run.folder, ["a good film"])
    before = remove_last_file(run.folder)
    resumed = clearhead.train(resume=run.folder, events=RunEvents(training_step=refuse_step))
    assert_same_files(run.folder, before)
    assert resumed.seeds == run.seeds
    assert resumed.notes == run.notes
    with pytest.raises(InputError, match="is a finished run and cannot be resumed"):
        clearhead.train(resume=run.folder)


def test_a_translator_too(tmp_path: Path) -> None:
    rows = write_tsv(tmp_path / "pairs.tsv", make_parallel_rows(40))
    run = clearhead.train(rows, output=tmp_path / "run", report=False, **TRANSLATOR, **SETTINGS)
    assert not (run.folder / "state").exists()
    before = remove_last_file(run.folder)
    clearhead.train(resume=run.folder, report=False, events=RunEvents(training_step=refuse_step))
    assert_same_files(run.folder, before)


@pytest.mark.parametrize("family", ["bert", "electra", "gpt2", "t5"])
def test_pretraining_too(tmp_path: Path, family: str) -> None:
    text = write_planted_text(tmp_path / "text.txt", 30, 5)
    run = clearhead.pretrain(text, output=tmp_path / "run", report=False, family=family, **LANGUAGE_MODEL)
    assert not (run.folder / "state").exists()
    before = remove_last_file(run.folder)
    resumed = clearhead.pretrain(resume=run.folder, report=False, events=RunEvents(training_step=refuse_step))
    assert_same_files(run.folder, before)
    assert resumed.held_out == run.held_out


def test_a_kill_while_the_text_of_pretraining_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = write_planted_text(tmp_path / "text.txt", 30, 5)
    uninterrupted = clearhead.pretrain(text, output=tmp_path / "whole", report=False, **LANGUAGE_MODEL)

    remove = shutil.rmtree

    def remove_half(folder: Path, **options: Any) -> None:
        if folder.name != "corpus":
            remove(folder, **options)
            return
        (folder / "00000.tokens").unlink()  # systems list files in any order
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", remove_half)
        with pytest.raises(KeyboardInterrupt):
            clearhead.pretrain(text, output=tmp_path / "half", report=False, **LANGUAGE_MODEL)
    half = clearhead.pretrain(resume=tmp_path / "half", report=False)
    assert half.held_out == uninterrupted.held_out


def test_it_is_kept_where_that_is_wanted(tmp_path: Path, tiny: str) -> None:
    data = write_csv(tmp_path / "rows.csv", make_sentiment_rows(40))
    run = clearhead.train(data, output=tmp_path / "run", model=tiny, keep_state=True, **SETTINGS)
    assert (run.folder / "state" / "latest.json").is_file()
    assert "fitted" not in json.loads((run.folder / "run.json").read_text())


def test_a_model_folder_of_another_run_is_refused(tmp_path: Path, tiny: str) -> None:
    data = write_csv(tmp_path / "rows.csv", make_sentiment_rows(40))
    run = clearhead.train(data, output=tmp_path / "run", model=tiny, **SETTINGS)
    (run.folder / "metrics.json").unlink()
    three_labels = [{**row, "label": "xyz"[index % 3]} for index, row in enumerate(make_sentiment_rows(60))]
    other_run = clearhead.train(three_labels, output=tmp_path / "other", model=tiny, **SETTINGS)
    for name in ("config.json", "model.safetensors", "clearhead.json"):
        (run.folder / name).write_bytes((other_run.folder / name).read_bytes())
    with pytest.raises(CheckpointError, match="are not those of its run"):
        clearhead.train(resume=run.folder)
