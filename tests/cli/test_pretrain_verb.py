"""clearhead pretrain: from a text file to a model that fill and train read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.planted import write_planted_text

Run = Callable[..., tuple[int, str, str]]
SMALL = '{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}'


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_planted_text(tmp_path_factory.mktemp("text") / "text.txt", 60, 4)


def make_command(text: Path, folder: Path, *more: str) -> tuple[str, ...]:
    size = ("--preset", "tiny", "--set", f"config={SMALL}", "--vocab-size", "200", "--max-length", "32")
    return ("pretrain", str(text), "-o", str(folder), *size, "--batch-tokens", "512", "--threads", "1", *more)


def test_pretrained_models_fill_masks(text: Path, tmp_path: Path, run: Run) -> None:
    code, out, err = run(*make_command(text, tmp_path / "model", "--max-steps", "4", "--set", "evaluations=2"))
    assert code == 0
    assert "held-out text (" in out
    assert "unigram" in out
    assert "tokenizer: wordpiece" in err
    assert "step 2: held-out loss" in err
    assert "report:" in err
    code, out, _ = run("fill", tmp_path / "model", "The red drum is [MASK].", "--quiet")
    assert code == 0
    assert len(out.split()) == 1
    code, out, _ = run("describe", tmp_path / "model", "--json")
    assert code == 0
    assert json.loads(out)["family"] == "BERT"


def test_json_and_quiet(text: Path, tmp_path: Path, run: Run) -> None:
    code, out, err = run(*make_command(text, tmp_path / "a", "--max-steps", "2", "--objective", "mlm", "--json"))
    json_output = json.loads(out)
    assert (code, err) == (0, "")
    assert json_output["objective"] == "mlm"
    assert json_output["steps"] == 2
    assert json_output["held_out"]["unigram"]["loss"] > 0
    assert json_output["folder"] == str(tmp_path / "a")
    assert run(*make_command(text, tmp_path / "b", "--max-steps", "1", "--quiet")) == (0, "", "")


def test_a_pretrained_model_is_fine_tuned(text: Path, tmp_path: Path, run: Run) -> None:
    assert run(*make_command(text, tmp_path / "model", "--max-steps", "1", "--quiet"))[0] == 0
    rows = "text,label\n" + "".join(f"the {word} drum {n},{word}\n" for n in range(30) for word in ("red", "blue"))
    (tmp_path / "rows.csv").write_text(rows)
    code, _, err = run(
        "train",
        tmp_path / "rows.csv",
        "--model",
        tmp_path / "model",
        "--epochs",
        "1",
        "-o",
        tmp_path / "trained",
        "--quiet",
    )
    assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("extra_flags", "message"),
    [
        (("--objective", "clm"), "BERT does not support next token (clm); it supports mlm+nsp, mlm"),
        (("--set", "output=x"), "--set does not accept 'output'"),
        (("--max-steps", "0"), "--max-steps must be at least 1"),
        (("--resume", "nowhere"), "nowhere is not a training run (run.json not found)"),
        (("--documents", "pages"), "documents"),
    ],
)
def test_mistakes(text: Path, tmp_path: Path, run: Run, extra_flags: tuple[str, ...], message: str) -> None:
    code, out, err = run(*make_command(text, tmp_path / "model", *extra_flags))
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_nothing_to_read(tmp_path: Path, run: Run) -> None:
    assert "No text given" in run("pretrain", "-o", tmp_path / "x")[2]
    assert "gone.txt does not exist" in run("pretrain", tmp_path / "gone.txt", "-o", tmp_path / "x")[2]
    assert "is not a training run" in run("pretrain", "--resume", tmp_path / "gone")[2]
