"""The machine of a run: recorded in all its files; resuming on a different one must be allowed explicitly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.api import ladder, pretrain, train
from clearhead.checkpoint.passport import read_passport
from clearhead.errors import InputError
from clearhead.files import read_json, write_json
from clearhead.jobs.events import RunEvents
from clearhead.machine.cpu import LIMIT_VARIABLES, Machine, base_machine, list_differences
from fuzz.run_folders import StopError, stop_after_step
from tests.planted import write_planted_text
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

QUICK: dict[str, Any] = {"epochs": 1, "batch_size": 16, "learning_rate": 3e-3, "save_every": 0.0, "threads": 1}
OTHER_INSTRUCTIONS = "DEFAULT" if torch.backends.cpu.get_cpu_capability() != "DEFAULT" else "AVX2"

pytestmark = pytest.mark.usefixtures("default_precision")


@pytest.fixture(scope="module", autouse=True)
def no_limits() -> Iterator[None]:
    """Remove environment variables that limit the CPU instructions."""
    with pytest.MonkeyPatch.context() as patch:
        for name in LIMIT_VARIABLES:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module")
def stopped_runs(tmp_path_factory: pytest.TempPathFactory, default_precision: None, no_limits: None) -> Path:
    """A fine-tuning and a pre-training, both stopped."""
    base = tmp_path_factory.mktemp("machine")
    rows, model = write_csv(base / "rows.csv", make_sentiment_rows(60)), str(tiny_model(base / "tiny"))
    with pytest.raises(StopError):
        train(rows, output=base / "half", model=model, events=stop_after_step(2), **QUICK)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16}
    with pytest.raises(StopError):
        pretrain(
            write_planted_text(base / "text.txt", 30, 5),
            output=base / "learned",
            events=stop_after_step(2),
            config=sizes,
            max_length=16,
            preset="tiny",
            vocab_size=200,
            max_steps=3,
            batch_tokens=128,
            save_every=0.0,
            threads=1,
            evaluations=1,
        )
    return base


@pytest.fixture
def half_run(stopped_runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped_runs / "half", tmp_path / "half"))


def pretend_other_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: OTHER_INSTRUCTIONS)


def test_a_run_records_its_machine_everywhere(half_run: Path) -> None:
    saved = read_json(half_run / "run.json")
    machine = saved["machine"]
    assert (machine["precision"], machine["threads"], machine["device"]) == ("float", 1, "cpu")
    assert machine["instructions"] == torch.backends.cpu.get_cpu_capability()
    assert machine["libraries"] == {"torch": torch.__version__}
    assert saved["plan"]["settings"]["precision"] == "float"  # resolved when the run started
    run = train(resume=half_run)
    passport = read_passport(half_run)
    assert passport is not None
    assert passport.trained is not None
    assert passport.trained.machine == run.machine == Machine(**machine)
    assert run.to_json()["machine"] == machine
    assert run.report is not None
    page = run.report.read_text()
    assert 'id="machine"' in page
    assert f"torch {torch.__version__}" in page


def test_another_cpu_is_refused_and_allowed(half_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_other_cpu(monkeypatch)
    with pytest.raises(InputError, match=rf"instruction set \w+, here {OTHER_INSTRUCTIONS}.*allow_different_cpu=True"):
        train(resume=half_run)
    messages: list[str] = []
    run = train(resume=half_run, allow_different_cpu=True, report=False, events=RunEvents(message=messages.append))
    assert any("Resumed on another machine" in line for line in messages)
    assert any("not reproducible bit for bit" in note for note in run.notes)
    saved = read_json(half_run / "run.json")
    assert saved["machine"]["instructions"] != OTHER_INSTRUCTIONS
    assert [machine["instructions"] for machine in saved["resumed_on"]] == [OTHER_INSTRUCTIONS]
    passport = read_passport(half_run)
    assert passport is not None
    assert passport.trained is not None
    assert [machine.instructions for machine in passport.trained.resumed_on] == [OTHER_INSTRUCTIONS]
    (half_run / "metrics.json").unlink()  # as if killed just before the end
    train(resume=half_run, report=False)  # no second permission needed on the same machine


@pytest.mark.parametrize(
    ("module", "name", "value", "message"),
    [
        (torch, "__version__", "1.0.0", "libraries torch=.*, here torch=1.0.0"),
        (torch.cpu, "get_capabilities", lambda: {"amx_bf16": True}, "CPU extensions .*, here amx_bf16"),
    ],
    ids=["torch", "extensions"],
)
def test_what_else_changes_bits(
    half_run: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, value: Any, message: str
) -> None:
    monkeypatch.setattr(module, name, value, raising=False)
    with pytest.raises(InputError, match=message):
        train(resume=half_run)


def test_a_limit_in_the_environment_counts(half_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    with pytest.raises(InputError, match="limits of instructions none, here ONEDNN_MAX_CPU_ISA=AVX2"):
        train(resume=half_run)


def test_a_run_of_an_earlier_version_resumes_with_a_note(half_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = read_json(half_run / "run.json")
    write_json(half_run / "run.json", {key: saved[key] for key in ("format", "command", "plan", "data")})
    messages: list[str] = []
    train(resume=half_run, report=False, events=RunEvents(message=messages.append))
    assert any("does not record its CPU" in line for line in messages)
    pretend_other_cpu(monkeypatch)
    (half_run / "metrics.json").unlink()
    with pytest.raises(
        InputError, match="allow_different_cpu=True"
    ):  # the machine was recorded when the run was resumed
        train(resume=half_run)


def test_pretraining_does_the_same(stopped_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretraining = Path(shutil.copytree(stopped_runs / "learned", tmp_path / "learned"))
    assert read_json(pretraining / "run.json")["machine"]["precision"] == "float"
    with monkeypatch.context() as patch:
        pretend_other_cpu(patch)
        with pytest.raises(InputError, match=rf"here {OTHER_INSTRUCTIONS}.*allow_different_cpu=True"):
            pretrain(resume=pretraining)
        run = pretrain(resume=pretraining, allow_different_cpu=True)
    facts = read_json(pretraining / "pretraining.json")
    assert [machine["instructions"] for machine in facts["resumed_on"]] == [OTHER_INSTRUCTIONS]
    assert "Computed in float on 1 thread with torch" in (pretraining / "README.md").read_text()
    assert run.report is not None
    assert 'id="machine"' in run.report.read_text()


def test_a_ladder_does_the_same(stopped_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choices: dict[str, Any] = {"methods": "head", "model": str(stopped_runs / "tiny" / "model"), **QUICK}
    with pytest.raises(KeyboardInterrupt):
        ladder(stopped_runs / "rows.csv", output=tmp_path / "out", events=RunEvents(training_step=interrupt), **choices)
    pretend_other_cpu(monkeypatch)
    with pytest.raises(InputError, match="allow_different_cpu=True"):
        ladder(stopped_runs / "rows.csv", output=tmp_path / "out", **choices)
    finished = ladder(stopped_runs / "rows.csv", output=tmp_path / "out", allow_different_cpu=True, **choices)
    assert finished.rung("head").left_out is None


def interrupt(_: object) -> None:
    raise KeyboardInterrupt


def test_words_are_counted_alike_on_every_cpu(
    stopped_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(stopped_runs / "rows.csv", output=tmp_path / "words", method="tfidf", report=False)
    assert run.machine is not None
    assert (run.machine.threads, run.machine.libraries) == (None, {})
    pretend_other_cpu(monkeypatch)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    (tmp_path / "words" / "metrics.json").unlink()
    train(resume=tmp_path / "words", report=False)


def test_features_record_what_the_model_computes_in(stopped_runs: Path, tmp_path: Path) -> None:
    model = str(stopped_runs / "tiny" / "model")
    run = train(
        stopped_runs / "rows.csv", output=tmp_path / "run", method="features", model=model, report=False, threads=1
    )
    assert run.machine is not None
    assert (run.machine.precision, run.machine.threads) == ("float", 1)
    assert "torch" in run.machine.libraries


@pytest.mark.slow
def test_a_real_other_instruction_set(stopped_runs: Path, half_run: Path) -> None:
    """Run the command line in a process whose torch uses another instruction set."""
    command = [sys.executable, "-m", "clearhead", "train", "--resume", str(half_run)]
    completed = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=stopped_runs,
        env=os.environ | {"ATEN_CPU_CAPABILITY": "default" if OTHER_INSTRUCTIONS == "DEFAULT" else "avx2"},
    )
    assert completed.returncode == 2
    assert "--allow-different-cpu" in completed.stderr
    assert "Traceback" not in completed.stderr


def test_what_is_not_known_is_not_compared() -> None:
    machine = replace(base_machine(), libraries={"torch": "2"}, vendor="", precision="")
    assert list_differences(machine, replace(machine, vendor="GenuineIntel", precision="bf16")) == []
    in_float, in_bf16 = replace(machine, precision="float"), replace(machine, precision="bf16")
    assert list_differences(in_float, in_bf16) == ["precision float, here bf16"]
    assert list_differences(replace(machine, threads=1), replace(machine, threads=2)) == ["threads 1, here 2"]
    assert json.dumps(machine.lines())
