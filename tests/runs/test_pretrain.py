"""Runs of pre-training: repeatable, in the same bytes after a kill, measured honestly, refused in a sentence."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.config import read_json
from clearhead.errors import CheckpointError, ClearheadError, InputError
from clearhead.runs.train import Told
from clearhead.training.loop import Step
from tests.planted import planted_text
from tests.small import tiny_model

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
CHOICES: dict[str, Any] = {
    "preset": "tiny", "config": json.dumps(SMALL), "vocabulary": 200, "length": 32, "batch_tokens": 512, "threads": 1,
    "report": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted_text(tmp_path_factory.mktemp("text") / "text.txt", 80, 5)


def contents(folder: Path) -> dict[str, bytes]:
    """What a run leaves, without the times in it."""
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    for line in log:
        line.pop("seconds")
    kept = {name: (folder / name).read_bytes() for name in ("model.safetensors", "config.json", "tokenizer.json")}
    states = {path.name: path.read_bytes() for path in (folder / "state").rglob("*.safetensors")}
    return kept | states | {"log": json.dumps(log).encode(), "judged": (folder / "evaluations.json").read_bytes()}


@pytest.mark.parametrize("family", ["bert", "electra"])
def test_a_killed_run_ends_in_the_same_bytes(text: Path, tmp_path: Path, family: str) -> None:
    choices = CHOICES | {"family": family, "steps": 12, "evaluations": 3, "save_every": 0.0}
    whole = clearhead.pretrain(text, output=tmp_path / "whole", **choices)
    script = tmp_path / "run.py"
    script.write_text(
        "import os, signal, sys\n"
        "import clearhead\nfrom clearhead.runs.train import Told\n"
        "def step(one):\n"
        "    if one.step == 7:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        f"clearhead.pretrain({str(text)!r}, output={str(tmp_path / 'part')!r}, told=Told(step=step), **{choices!r})\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -9, done.stderr
    assert not (tmp_path / "part" / "model.safetensors").exists()
    part = clearhead.pretrain(resume=tmp_path / "part", report=False)
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")
    assert part.judged == whole.judged
    assert not (tmp_path / "part" / "corpus").exists()
    with pytest.raises(InputError, match="finished"):
        clearhead.pretrain(resume=tmp_path / "part")


def test_minutes_become_steps_once(text: Path, tmp_path: Path) -> None:
    seen: list[Step] = []

    def stop(step: Step) -> None:
        seen.append(step)
        if step.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clearhead.pretrain(text, output=tmp_path / "run", told=Told(step=stop), minutes=0.02, **CHOICES)
    saved = read_json(tmp_path / "run" / "run.json")["plan"]
    assert saved["minutes"] is None
    assert saved["steps"] == seen[0].steps > 2
    run = clearhead.pretrain(resume=tmp_path / "run", report=False)
    assert run.steps == saved["steps"]


def test_another_seed_is_another_run_and_the_same_is_the_same(text: Path, tmp_path: Path) -> None:
    runs = [
        clearhead.pretrain(text, output=tmp_path / str(number), steps=3, seed=seed, **CHOICES)
        for number, seed in enumerate((1, 1, 2))
    ]
    assert contents(runs[0].folder)["model.safetensors"] == contents(runs[1].folder)["model.safetensors"]
    assert contents(runs[0].folder)["model.safetensors"] != contents(runs[2].folder)["model.safetensors"]


def test_a_text_that_changed_is_refused(text: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    shutil.copy(text, copy)

    def stop(step: Step) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clearhead.pretrain(copy, output=tmp_path / "run", steps=3, told=Told(step=stop), **CHOICES)
    copy.write_text(copy.read_text() + "\n\nMore.\n")
    with pytest.raises(CheckpointError, match="another text"):
        clearhead.pretrain(resume=tmp_path / "run")
    with pytest.raises(InputError, match="keeps its settings"):
        clearhead.pretrain(resume=tmp_path / "run", steps=9)


def test_a_checkpoint_is_taught_further(text: Path, tmp_path: Path) -> None:
    base = tiny_model(tmp_path)
    said: list[str] = []
    run = clearhead.pretrain(
        text, model=str(base), output=tmp_path / "run", steps=4, length=32, batch_tokens=512, threads=1, report=False,
        told=Told(say=said.append),
    )  # fmt: skip
    assert run.objective == "mlm"  # the folder has no head for next sentence
    model = clearhead.load(run.folder)
    assert model.head == "masked"
    assert model.tokenizer.vocab == clearhead.load(base).tokenizer.vocab
    with pytest.raises(InputError, match="a checkpoint has its own"):
        clearhead.pretrain(text, model=str(base), preset="tiny", steps=1, output=tmp_path / "other")


def test_a_file_of_its_own_is_measured(text: Path, tmp_path: Path) -> None:
    other = planted_text(tmp_path / "dev.txt", 10, 3, seed=9)
    run = clearhead.pretrain(text, dev=other, output=tmp_path / "run", steps=2, **CHOICES)
    assert run.documents == 80  # nothing else is held out
    assert any("measured on" in line for line in run.said)
    facts = read_json(run.folder / "pretraining.json")
    assert facts["plan"]["dev"] == [str(other)]
    card = (run.folder / "README.md").read_text()
    assert "bigram" in card
    assert "text.txt" in card


def test_the_report_tells_all(text: Path, tmp_path: Path) -> None:
    run = clearhead.pretrain(text, output=tmp_path / "<b>run", steps=4, evaluations=2, **(CHOICES | {"report": True}))
    assert run.report is not None
    page = run.report.read_text()
    assert "On held-out text" in page
    assert "are guessed; the word before it alone tells" in page
    assert "frequency (unigram)" in page
    assert "Blank 2" in page
    assert "<b>run" not in page


def test_a_loss_that_stands_still_is_named(tmp_path: Path) -> None:
    import random

    draw = random.Random(0)
    words = [f"word{number}" for number in range(30)]
    shuffled = "\n\n".join(" ".join(draw.choices(words, k=40)) + "." for _ in range(100))
    (tmp_path / "noise.txt").write_text(shuffled)
    run = clearhead.pretrain(tmp_path / "noise.txt", output=tmp_path / "run", objective="mlm", steps=5, **CHOICES)
    assert len(run.notes) == 1
    assert "guessing by frequency alone" in run.notes[0]
    assert "too few steps (5)" in run.notes[0]


def test_tiny_texts(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("One sentence that is alone in the world.")
    with pytest.raises(InputError, match="no documents of two sentences"):
        clearhead.pretrain(tmp_path / "one.txt", output=tmp_path / "run", steps=1, **CHOICES)
    assert not (tmp_path / "run").exists()
    run = clearhead.pretrain(tmp_path / "one.txt", output=tmp_path / "run", steps=1, objective="mlm", **CHOICES)
    assert run.judged is None
    assert "Nothing was measured" in run.notes[0]


def test_text_is_not_measured_on_itself(text: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="would be learned from and measured on"):
        clearhead.pretrain(text, dev=[text.parent / "*.txt"], output=tmp_path / "run", steps=1, **CHOICES)
    assert not (tmp_path / "run").exists()


def test_a_folder_of_its_own(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = clearhead.pretrain(str(text.parent / "t*.txt"), steps=1, **CHOICES)
    assert run.folder == Path("runs/text")
    with pytest.raises(InputError, match="clearhead pretrain --resume"):
        clearhead.train(resume=run.folder)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"family": "gpt2", "objective": "mlm"}, "GPT-2 cannot learn masked words"),
        ({"family": "bert", "objective": "clm"}, "it can learn mlm\\+nsp, mlm"),
        ({"objective": "guess"}, "objective must be one of mlm\\+nsp"),
        ({"family": "elder"}, "family must be one of bert"),
        ({"preset": "huge"}, "has no preset 'huge'"),
        ({"steps": 1, "minutes": 2.0}, "either steps or minutes"),
        ({"length": 600}, "reads at most 512"),
        ({"vocabulary": 20}, "no room for the letters"),
        ({"config": "{"}, "config must be JSON"),
        ({"config": '{"widht": 3}'}, "has no key 'widht'"),
        ({"stepz": 3}, "did you mean steps"),
        ({"mask": 1.5}, "mask must be above 0"),
        ({"masking": "letters"}, "masking"),
        ({"documents": "pages"}, "documents"),
    ],
)
def test_mistakes_leave_nothing_behind(text: Path, tmp_path: Path, choices: dict[str, Any], said: str) -> None:
    with pytest.raises(ClearheadError, match=said):
        clearhead.pretrain(text, output=tmp_path / "run", **({"steps": 1} | CHOICES | choices))
    assert not (tmp_path / "run").exists()
