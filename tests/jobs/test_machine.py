"""Where a run computes: written down everywhere, and resumed elsewhere only by those who accept other digits."""

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
from clearhead.machine.cpu import LIMITS, Machine, base_machine, differences
from fuzz.run_folders import StopError, stop_at
from tests.planted import planted_text
from tests.tiny_models import labelled, tiny_model, write_csv

QUICK: dict[str, Any] = {"epochs": 1, "batch_size": 16, "learning_rate": 3e-3, "save_every": 0.0, "threads": 1}
OTHER = "DEFAULT" if torch.backends.cpu.get_cpu_capability() != "DEFAULT" else "AVX2"

pytestmark = pytest.mark.usefixtures("default_precision")


@pytest.fixture(scope="module", autouse=True)
def no_limits() -> Iterator[None]:
    """An environment that forbids instructions, as that of a test of other CPUs, is no part of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in LIMITS:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, default_precision: None, no_limits: None) -> Path:
    """A fine-tuning and a pre-training, both stopped."""
    base = tmp_path_factory.mktemp("machine")
    rows, model = write_csv(base / "rows.csv", labelled(60)), str(tiny_model(base / "tiny"))
    with pytest.raises(StopError):
        train(rows, output=base / "half", model=model, events=stop_at(2), **QUICK)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16}
    with pytest.raises(StopError):
        pretrain(
            planted_text(base / "text.txt", 30, 5),
            output=base / "learned",
            events=stop_at(2),
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
def half(place: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(place / "half", tmp_path / "half"))


def as_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: OTHER)


def test_a_run_records_its_machine_everywhere(half: Path) -> None:
    saved = read_json(half / "run.json")
    now = saved["machine"]
    assert (now["precision"], now["threads"], now["device"]) == ("float", 1, "cpu")
    assert now["instructions"] == torch.backends.cpu.get_cpu_capability()
    assert now["libraries"] == {"torch": torch.__version__}
    assert saved["plan"]["settings"]["precision"] == "float"  # resolved, so that it stays so
    run = train(resume=half)
    passport = read_passport(half)
    assert passport is not None
    assert passport.trained is not None
    assert passport.trained.machine == run.machine == Machine(**now)
    assert run.to_json()["machine"] == now
    assert run.report is not None
    page = run.report.read_text()
    assert 'id="machine"' in page
    assert f"torch {torch.__version__}" in page


def test_another_cpu_is_refused_and_allowed(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_other(monkeypatch)
    with pytest.raises(InputError, match=rf"instruction set \w+, here {OTHER}.*allow_different_cpu=True"):
        train(resume=half)
    said: list[str] = []
    run = train(resume=half, allow_different_cpu=True, report=False, events=RunEvents(message=said.append))
    assert any("Resumed on another machine" in line for line in said)
    assert any("not reproducible bit for bit" in note for note in run.notes)
    saved = read_json(half / "run.json")
    assert saved["machine"]["instructions"] != OTHER
    assert [one["instructions"] for one in saved["resumed_on"]] == [OTHER]
    passport = read_passport(half)
    assert passport is not None
    assert passport.trained is not None
    assert [one.instructions for one in passport.trained.resumed_on] == [OTHER]
    (half / "metrics.json").unlink()  # as if it had been killed at its end
    train(resume=half, report=False)  # there it goes on without being asked again


@pytest.mark.parametrize(
    ("where", "name", "value", "said"),
    [
        (torch, "__version__", "1.0.0", "libraries torch=.*, here torch=1.0.0"),
        (torch.cpu, "get_capabilities", lambda: {"amx_bf16": True}, "CPU extensions .*, here amx_bf16"),
    ],
    ids=["torch", "extensions"],
)
def test_what_else_changes_bits(
    half: Path, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, value: Any, said: str
) -> None:
    monkeypatch.setattr(where, name, value, raising=False)
    with pytest.raises(InputError, match=said):
        train(resume=half)


def test_a_limit_in_the_environment_counts(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    with pytest.raises(InputError, match="limits of instructions none, here ONEDNN_MAX_CPU_ISA=AVX2"):
        train(resume=half)


def test_a_run_of_an_earlier_version_resumes_with_a_note(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = read_json(half / "run.json")
    write_json(half / "run.json", {key: saved[key] for key in ("format", "command", "plan", "data")})
    said: list[str] = []
    train(resume=half, report=False, events=RunEvents(message=said.append))
    assert any("does not record the CPU" in line for line in said)
    as_other(monkeypatch)
    (half / "metrics.json").unlink()
    with pytest.raises(InputError, match="allow_different_cpu=True"):  # since then it is known
        train(resume=half)


def test_pretraining_does_the_same(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = Path(shutil.copytree(place / "learned", tmp_path / "learned"))
    assert read_json(half / "run.json")["machine"]["precision"] == "float"
    with monkeypatch.context() as patch:
        as_other(patch)
        with pytest.raises(InputError, match=rf"here {OTHER}.*allow_different_cpu=True"):
            pretrain(resume=half)
        run = pretrain(resume=half, allow_different_cpu=True)
    facts = read_json(half / "pretraining.json")
    assert [one["instructions"] for one in facts["resumed_on"]] == [OTHER]
    assert "Computed in float on 1 thread with torch" in (half / "README.md").read_text()
    assert run.report is not None
    assert 'id="machine"' in run.report.read_text()


def test_a_ladder_does_the_same(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choices: dict[str, Any] = {"methods": "head", "model": str(place / "tiny" / "model"), **QUICK}
    with pytest.raises(KeyboardInterrupt):
        ladder(place / "rows.csv", output=tmp_path / "out", events=RunEvents(training_step=_interrupt), **choices)
    as_other(monkeypatch)
    with pytest.raises(InputError, match="allow_different_cpu=True"):
        ladder(place / "rows.csv", output=tmp_path / "out", **choices)
    made = ladder(place / "rows.csv", output=tmp_path / "out", allow_different_cpu=True, **choices)
    assert made.rung("head").left_out is None


def _interrupt(_: object) -> None:
    raise KeyboardInterrupt


def test_words_are_counted_alike_on_every_cpu(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(place / "rows.csv", output=tmp_path / "words", method="tfidf", report=False)
    assert run.machine is not None
    assert (run.machine.threads, run.machine.libraries) == (None, {})
    as_other(monkeypatch)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    (tmp_path / "words" / "metrics.json").unlink()
    train(resume=tmp_path / "words", report=False)


def test_features_record_what_the_model_computes_in(place: Path, tmp_path: Path) -> None:
    model = str(place / "tiny" / "model")
    run = train(place / "rows.csv", output=tmp_path / "run", method="features", model=model, report=False, threads=1)
    assert run.machine is not None
    assert (run.machine.precision, run.machine.threads) == ("float", 1)
    assert "torch" in run.machine.libraries


@pytest.mark.slow
def test_a_real_other_instruction_set(place: Path, half: Path) -> None:
    """The command line in a process whose torch uses another instruction set."""
    command = [sys.executable, "-m", "clearhead", "train", "--resume", str(half)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
        env=os.environ | {"ATEN_CPU_CAPABILITY": "default" if OTHER == "DEFAULT" else "avx2"},
    )
    assert done.returncode == 2
    assert "--allow-different-cpu" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_not_known_is_not_compared() -> None:
    one = replace(base_machine(), libraries={"torch": "2"}, vendor="", precision="")
    assert differences(one, replace(one, vendor="GenuineIntel", precision="bf16")) == []
    plain, half = replace(one, precision="float"), replace(one, precision="bf16")
    assert differences(plain, half) == ["precision float, here bf16"]
    assert differences(replace(one, threads=1), replace(one, threads=2)) == ["threads 1, here 2"]
    assert json.dumps(one.lines())
