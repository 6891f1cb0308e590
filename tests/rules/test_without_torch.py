"""Without torch, commands that need it name the extra to install, and the others work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import clearhead
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

BLOCK_TORCH = """
import sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Blocked())
from clearhead.cli import main
main(sys.argv[1:])
"""


def run_without_torch(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCK_TORCH, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_verbs_that_need_torch_name_the_extra(tmp_path: Path) -> None:
    config = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    clearhead.create("bert", config={**config, "vocab_size": 9}).save(tmp_path / "model")
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(40)))
    process = run_without_torch(
        "train", tmp_path / "rows.csv", "--model", tmp_path / "model", "-o", tmp_path / "run", "--quiet"
    )
    assert process.returncode == 2
    assert "pip install 'clearhead[train]'" in process.stderr
    assert process.stderr.count("\n") == 1


def test_an_export_needs_no_torch(tmp_path: Path) -> None:
    config = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    clearhead.create("bert", config={**config, "vocab_size": 9}).save(tmp_path / "model")
    process = run_without_torch("export", tmp_path / "model", tmp_path / "out", "--quiet")
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
    assert (tmp_path / "out" / "model.onnx").is_file()


def test_tokens_need_no_torch(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    process = run_without_torch("tokens", tmp_path, "a", "--quiet")
    assert (process.returncode, process.stdout.split()) == (0, ["2", "5", "3"])


def test_a_trained_model_is_used_without_torch(tmp_path: Path) -> None:
    tiny = tiny_model(tmp_path / "tiny")
    rows = write_csv(tmp_path / "rows.csv", make_sentiment_rows(120))
    run_result = clearhead.train(
        rows, output=tmp_path / "run", model=str(tiny), epochs=4, learning_rate=3e-3, batch_size=16
    )
    expected = clearhead.evaluate(run_result.folder, rows).metrics["accuracy"].value
    process = run_without_torch("evaluate", run_result.folder, rows, "--json")
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["metrics"]["accuracy"]["value"] == pytest.approx(expected, abs=0.01)
    process = run_without_torch("predict", run_result.folder, rows, "-o", tmp_path / "out.csv", "--quiet")
    assert (process.returncode, process.stderr) == (0, "")
    assert (tmp_path / "out.csv").read_text().count("\n") == 121
    process = run_without_torch("embed", tiny, rows, "--text", "text", "-o", tmp_path / "out.npy", "--quiet")
    assert (process.returncode, process.stderr) == (0, "")
    texts = [row["text"] for row in make_sentiment_rows(120)]
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), clearhead.load(tiny, "core").embed(texts), atol=1e-5)
    process = run_without_torch(
        "quantize", run_result.folder, rows, "-o", tmp_path / "small", "--max-drop", "5", "--json"
    )
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["metric"] == "accuracy"
    process = run_without_torch("predict", tmp_path / "small", rows, "-o", tmp_path / "small.csv", "--quiet")
    assert (process.returncode, process.stderr) == (0, "")
    process = run_without_torch("describe", tmp_path / "small")
    assert (process.returncode, process.stderr) == (0, "")
    process = run_without_torch("explain", run_result.folder, "the film was good", "-o", tmp_path / "out.html")
    assert process.returncode == 2
    assert "pip install 'clearhead[train]'" in process.stderr
