"""Pre-training runs: reproducible, same bytes after a kill, evaluation on held-out text, clear errors."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.errors import CheckpointError, ClearheadError, InputError
from clearhead.files import read_json
from clearhead.jobs.events import RunEvents
from clearhead.training.loop import TrainingStep
from tests.planted import write_planted_text
from tests.tiny_models import tiny_model

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
CHOICES: dict[str, Any] = {
    "preset": "tiny",
    "config": json.dumps(SMALL),
    "vocab_size": 200,
    "max_length": 32,
    "batch_tokens": 512,
    "threads": 1,
    "report": False,
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_planted_text(tmp_path_factory.mktemp("text") / "text.txt", 80, 5)


def read_contents(folder: Path) -> dict[str, bytes]:
    """What a run leaves, without the times in it."""
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    for line in log:
        line.pop("seconds")
    files = {name: (folder / name).read_bytes() for name in ("model.safetensors", "config.json", "tokenizer.json")}
    states = {path.name: path.read_bytes() for path in (folder / "state").rglob("*.safetensors")}
    return files | states | {"log": json.dumps(log).encode(), "judged": (folder / "evaluations.json").read_bytes()}


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "electra"])
def test_a_killed_run_ends_in_the_same_bytes(text: Path, tmp_path: Path, family: str) -> None:
    choices = CHOICES | {"family": family, "max_steps": 12, "evaluations": 3, "save_every": 0.0, "precision": "float"}
    choices |= {"keep_state": True}
    uninterrupted = clearhead.pretrain(text, output=tmp_path / "whole", **choices)
    script = tmp_path / "run.py"
    script.write_text(
        "import os, signal, sys\n"
        "import clearhead\nfrom clearhead.jobs.events import RunEvents\n"
        "def step(one):\n"
        "    if one.step == 7:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "events = RunEvents(training_step=step)\n"
        f"clearhead.pretrain({str(text)!r}, output={str(tmp_path / 'part')!r}, told=events, **{choices!r})\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -9, done.stderr
    assert not (tmp_path / "part" / "model.safetensors").exists()
    resumed = clearhead.pretrain(resume=tmp_path / "part", report=False)
    assert read_contents(tmp_path / "part") == read_contents(tmp_path / "whole")
    assert resumed.held_out == uninterrupted.held_out
    assert not (tmp_path / "part" / "corpus").exists()
    with pytest.raises(InputError, match="finished"):
        clearhead.pretrain(resume=tmp_path / "part")


def test_minutes_become_steps_once(text: Path, tmp_path: Path) -> None:
    messages: list[TrainingStep] = []

    def stop(step: TrainingStep) -> None:
        messages.append(step)
        if step.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clearhead.pretrain(text, output=tmp_path / "run", events=RunEvents(training_step=stop), minutes=0.02, **CHOICES)
    saved = read_json(tmp_path / "run" / "run.json")["plan"]
    assert saved["minutes"] is None
    assert saved["max_steps"] == messages[0].steps > 2
    run = clearhead.pretrain(resume=tmp_path / "run", report=False)
    assert run.steps == saved["max_steps"]


def test_another_seed_is_another_run_and_the_same_is_the_same(text: Path, tmp_path: Path) -> None:
    runs = [
        clearhead.pretrain(text, output=tmp_path / str(number), max_steps=3, seed=seed, **CHOICES)
        for number, seed in enumerate((1, 1, 2))
    ]
    assert read_contents(runs[0].folder)["model.safetensors"] == read_contents(runs[1].folder)["model.safetensors"]
    assert read_contents(runs[0].folder)["model.safetensors"] != read_contents(runs[2].folder)["model.safetensors"]


def test_a_text_that_changed_is_refused(text: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    shutil.copy(text, copy)

    def stop(step: TrainingStep) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clearhead.pretrain(copy, output=tmp_path / "run", max_steps=3, events=RunEvents(training_step=stop), **CHOICES)
    copy.write_text(copy.read_text() + "\n\nMore.\n")
    with pytest.raises(CheckpointError, match="another text"):
        clearhead.pretrain(resume=tmp_path / "run")
    with pytest.raises(InputError, match="keeps its settings"):
        clearhead.pretrain(resume=tmp_path / "run", max_steps=9)


def test_a_checkpoint_is_taught_further(text: Path, tmp_path: Path) -> None:
    base = tiny_model(tmp_path)
    messages: list[str] = []
    run = clearhead.pretrain(
        text,
        model=str(base),
        output=tmp_path / "run",
        max_steps=4,
        max_length=32,
        batch_tokens=512,
        threads=1,
        report=False,
        events=RunEvents(message=messages.append),
    )
    assert run.objective == "mlm"  # the folder has no head for next sentence
    model = clearhead.load(run.folder)
    assert model.head == "masked"
    assert model.tokenizer.vocab == clearhead.load(base).tokenizer.vocab
    with pytest.raises(InputError, match="a checkpoint has its own"):
        clearhead.pretrain(text, model=str(base), preset="tiny", max_steps=1, output=tmp_path / "other")


def test_a_file_of_its_own_is_measured(text: Path, tmp_path: Path) -> None:
    dev_file = write_planted_text(tmp_path / "dev.txt", 10, 3, seed=9)
    run = clearhead.pretrain(text, dev=dev_file, output=tmp_path / "run", max_steps=2, **CHOICES)
    assert run.documents == 80  # nothing else is held out
    assert any("held-out text: " in line for line in run.messages)
    facts = read_json(run.folder / "pretraining.json")
    assert facts["plan"]["dev"] == [dev_file.name]  # what is given away does not tell where files lay
    card = (run.folder / "README.md").read_text()
    assert "bigram" in card
    assert "text.txt" in card


def test_the_report_tells_all(text: Path, tmp_path: Path) -> None:
    run = clearhead.pretrain(
        text, output=tmp_path / "<b>run", max_steps=4, evaluations=2, **(CHOICES | {"report": True})
    )
    assert run.report is not None
    page = run.report.read_text()
    assert "The model predicts " in page
    assert " held-out tokens; the bigram baseline reaches " in page
    assert "unigram (token frequency)" in page
    assert "Blank 2" in page
    assert "<b>run" not in page


def test_a_loss_that_stands_still_is_named(tmp_path: Path) -> None:
    import random

    draw = random.Random(0)
    words = [f"word{number}" for number in range(30)]
    shuffled = "\n\n".join(" ".join(draw.choices(words, k=40)) + "." for _ in range(100))
    (tmp_path / "noise.txt").write_text(shuffled)
    run = clearhead.pretrain(tmp_path / "noise.txt", output=tmp_path / "run", objective="mlm", max_steps=5, **CHOICES)
    assert len(run.notes) == 1
    assert "no better than the unigram baseline" in run.notes[0]
    assert "too few steps (5)" in run.notes[0]


def test_tiny_texts(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("One sentence that is alone in the world.")
    with pytest.raises(InputError, match="The text has no documents with two or more sentences"):
        clearhead.pretrain(tmp_path / "one.txt", output=tmp_path / "run", max_steps=1, **CHOICES)
    assert not (tmp_path / "run").exists()
    run = clearhead.pretrain(tmp_path / "one.txt", output=tmp_path / "run", max_steps=1, objective="mlm", **CHOICES)
    assert run.held_out is None
    assert "The model was not evaluated" in run.notes[0]


def test_text_is_not_measured_on_itself(text: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is used for both training and evaluation"):
        clearhead.pretrain(text, dev=[text.parent / "*.txt"], output=tmp_path / "run", max_steps=1, **CHOICES)
    assert not (tmp_path / "run").exists()


def test_a_folder_of_its_own(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = clearhead.pretrain(str(text.parent / "t*.txt"), max_steps=1, **CHOICES)
    assert run.folder == Path("runs/text")
    with pytest.raises(InputError, match=r"clearhead\.pretrain\(resume="):
        clearhead.train(resume=run.folder)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"family": "gpt2", "objective": "mlm"}, "GPT-2 does not support masked tokens"),
        ({"family": "bert", "objective": "clm"}, "it supports mlm\\+nsp, mlm"),
        ({"objective": "guess"}, "objective must be one of mlm\\+nsp"),
        ({"family": "elder"}, "family must be one of bert"),
        ({"preset": "huge"}, "has no preset 'huge'"),
        ({"max_steps": 1, "minutes": 2.0}, "set either max_steps or minutes"),
        ({"max_length": 600}, "accepts at most 512"),
        ({"vocab_size": 20}, "too small for the characters"),
        ({"config": "{"}, "config must be JSON"),
        ({"config": '{"widht": 3}'}, "has no key 'widht'"),
        ({"max_stepz": 3}, "did you mean max_steps"),
        ({"mlm_probability": 1.5}, "mlm_probability must be above 0"),
        ({"masking": "letters"}, "masking"),
        ({"documents": "pages"}, "documents"),
        ({"language": "klingon"}, "language must be a code"),
        ({"seed": -1}, "seed must be from 0"),
        ({"seed": 1 << 31}, "seed must be from 0"),
        ({"config": '{"vocab_size": 50}'}, "config has vocab_size 50, but the tokenizer has"),
        ({"family": "gpt2", "config": None, "masking": "words"}, "mask tokens; clm does not"),
    ],
)
def test_mistakes_leave_nothing_behind(text: Path, tmp_path: Path, choices: dict[str, Any], message: str) -> None:
    with pytest.raises(ClearheadError, match=message):
        clearhead.pretrain(text, output=tmp_path / "run", **({"max_steps": 1} | CHOICES | choices))
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_that_lacks_what_is_needed_is_refused(text: Path, tmp_path: Path) -> None:
    clearhead.learn_tokenizer(text, tmp_path / "words", use="gpt", vocab_size=300)
    choices: dict[str, Any] = CHOICES | {"vocab_size": None, "config": None, "tokenizer": str(tmp_path / "words")}
    for family, message in (("bert", "no mask token"), ("electra", "no mask token"), ("t5", "no sentinels")):
        with pytest.raises(InputError, match=message):
            clearhead.pretrain(text, family=family, output=tmp_path / "run", max_steps=1, **choices)
        assert not (tmp_path / "run").exists()


def test_held_out_text_without_pairs(tmp_path: Path) -> None:
    mixed = "\n\n".join(["One sentence stands alone here."] * 300 + ["There are two. Both of them are here."] * 24)
    (tmp_path / "mixed.txt").write_text(mixed)
    run = clearhead.pretrain(tmp_path / "mixed.txt", output=tmp_path / "run", max_steps=2, **CHOICES)
    assert run.held_out is not None
    assert any("documents have only one sentence" in line for line in run.messages)
    (tmp_path / "lines.txt").write_text("Nothing follows.\n\nNothing follows here either.")
    with pytest.raises(InputError, match="The held-out text has no documents with two or more sentences"):
        clearhead.pretrain(
            tmp_path / "mixed.txt", dev=tmp_path / "lines.txt", output=tmp_path / "other", max_steps=2, **CHOICES
        )
    assert not (tmp_path / "other").exists()


def test_a_run_inside_its_texts_goes_on_from_elsewhere(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    shutil.copy(text, folder / "text.txt")
    monkeypatch.chdir(folder)

    def stop(step: TrainingStep) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clearhead.pretrain(".", output="model", max_steps=2, events=RunEvents(training_step=stop), **CHOICES)
    monkeypatch.chdir(tmp_path)
    assert clearhead.pretrain(resume=folder / "model", report=False).documents > 50
    monkeypatch.chdir(folder)
    again = clearhead.pretrain(".", max_steps=1, **CHOICES)  # the folder of the first run is no text
    assert again.documents == clearhead.pretrain("text.txt", max_steps=1, **CHOICES).documents


def test_text_that_the_tokenizer_does_not_know(text: Path, tmp_path: Path) -> None:
    first = clearhead.pretrain(text, output=tmp_path / "first", objective="mlm", max_steps=1, **CHOICES)
    (tmp_path / "greek.txt").write_text("\n\n".join(["\u03b1\u03b2\u03b3 \u03b4\u03b5"] * 50))
    choices: dict[str, Any] = {
        "model": str(first.folder),
        "max_length": 32,
        "batch_tokens": 512,
        "threads": 1,
        "max_steps": 1,
    }
    with pytest.raises(InputError, match="knows none of the tokens in the text"):
        clearhead.pretrain(tmp_path / "greek.txt", output=tmp_path / "run", **choices)
    with pytest.raises(InputError, match="knows none of the tokens in the held-out text"):
        clearhead.pretrain(text, dev=tmp_path / "greek.txt", output=tmp_path / "run", **choices)
    (tmp_path / "mixed.txt").write_text(text.read_text() + "\n\n" + (tmp_path / "greek.txt").read_text())
    for objective in ("mlm", "mlm+nsp"):
        run = clearhead.pretrain(
            tmp_path / "mixed.txt", output=tmp_path / objective, objective=objective, **choices | {"batch_tokens": 8}
        )
        assert run.steps == 1


@pytest.mark.parametrize("family", ["bert", "gpt2", "t5", "elmo", "electra"])
def test_bfloat16(text: Path, tmp_path: Path, family: str) -> None:
    choices = CHOICES | {"config": None, "family": family, "precision": "bf16", "batch_tokens": 128, "vocab_size": 400}
    run = clearhead.pretrain(text, output=tmp_path / "run", max_steps=2, **choices)
    assert run.held_out is not None
    assert 0 < run.held_out.loss < 20


def test_a_disk_that_cannot_be_written(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    for name in ("clearhead.pretraining.shards._write_shard", "clearhead.pretraining.example_spans._truncate_pair"):
        with monkeypatch.context() as patch:
            patch.setattr(name, full)
            with pytest.raises(ClearheadError, match="cannot be written: No space left on device"):
                clearhead.pretrain(text, output=tmp_path / "run", max_steps=1, **CHOICES)
        assert not (tmp_path / "run").exists()


def test_evaluations_are_even_and_as_many_as_said(text: Path, tmp_path: Path) -> None:
    run = clearhead.pretrain(text, output=tmp_path / "run", max_steps=7, evaluations=3, **CHOICES)
    assert [scores.step for scores in run.history] == [3, 5, 7]
