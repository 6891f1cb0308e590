"""Every command on a small model: tables, JSON, --quiet, files and mistakes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.cli import VERBS
from clearhead.model.runtime import UncheckedInt8Warning

Run = Callable[..., tuple[int, str, str]]


def test_describe(run: Run, masked_model: Path) -> None:
    code, out, err = run("describe", masked_model)
    assert code == 0
    assert "BERT: 2 layers, width 12, 3 heads" in out
    assert "masked" in out
    code, out, err = run("describe", masked_model, "--json")
    description = json.loads(out)
    assert err == ""
    assert (description["layers"], description["width"], description["heads"], description["head"]) == (
        2,
        12,
        3,
        "masked",
    )
    assert description["parameters"] == sum(description["parts"].values()) == clearhead.load(masked_model).parameters
    assert description["passport"]["clearhead"] == clearhead.__version__
    assert description["disk_bytes"] == sum(path.stat().st_size for path in masked_model.iterdir())


def test_tokens(run: Run, masked_model: Path) -> None:
    code, out, _ = run("tokens", masked_model, "Paris is big", "a cat", "--json")
    encoding = json.loads(out)
    assert code == 0
    assert encoding["tokens"] == ["[CLS]", "paris", "is", "big", "[SEP]", "a", "cat", "[SEP]"]
    assert encoding["segments"] == [0, 0, 0, 0, 0, 1, 1, 1]
    assert encoding["offsets"][1] == [0, 5]
    assert run("tokens", masked_model, "Paris", "--quiet")[1].split() == ["2", "5", "3"]
    assert "paris" in run("tokens", masked_model, "Paris")[1]


def test_fill(run: Run, masked_model: Path) -> None:
    text = "Paris is the [MASK] of France."
    code, out, _ = run("fill", masked_model, text, "--top", 3, "--json")
    json_output = json.loads(out)
    assert code == 0
    guesses = clearhead.load(masked_model).fill(text, top=3)
    assert json_output == [[{"token": g.token, "probability": g.probability, "id": g.id} for g in guesses[0]]]
    assert run("fill", masked_model, text, "--quiet")[1].strip() == guesses[0][0].token
    assert guesses[0][0].token in run("fill", masked_model, text)[1]
    code, out, err = run("fill", masked_model, "no mask here")
    assert (code, out) == (2, "")
    assert "has no [MASK] to fill" in err


@pytest.mark.parametrize("ending", [".npy", ".jsonl", ".parquet"])
def test_embed_writes_the_vectors_of_the_library(run: Run, masked_model: Path, tmp_path: Path, ending: str) -> None:
    texts = ["a cat sat", "paris", 'a "quoted", text']
    (tmp_path / "texts.csv").write_text('id,text\n1,a cat sat\n2,paris\n3,"a ""quoted"", text"\n')
    out = tmp_path / f"vectors{ending}"
    code, printed, _ = run("embed", masked_model, tmp_path / "texts.csv", "-o", out, "--json")
    assert code == 0
    assert json.loads(printed) == {"texts": 3, "width": 12, "output": str(out), "truncated": [], "resumed": 0}
    expected = clearhead.load(masked_model).embed(texts)
    if ending == ".npy":
        vectors = np.load(out)
        assert vectors.dtype == np.float32
    elif ending == ".jsonl":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert [row["text"] for row in rows] == texts
        vectors = np.array([row["vector"] for row in rows], np.float32)
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        table = parquet.read_table(out).to_pydict()
        assert table["text"] == texts
        vectors = np.array(table["vector"], np.float32)
    np.testing.assert_allclose(vectors, expected, atol=1e-7)


def test_embed_reads_every_kind_of_file(
    run: Run, masked_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = clearhead.load(masked_model).embed(["a cat", "paris is big"])
    files = {
        "plain.txt": "a cat\nparis is big\n",
        "table.tsv": "label\tsentence\nx\ta cat\ny\tparis is big\n",
        "bom.csv": "\ufefftext\r\na cat\r\nparis is big\r\n",
        "rows.jsonl": '{"text": "a cat", "n": 1}\n\n{"text": "paris is big"}\n',
        "strings.jsonl": '"a cat"\n"paris is big"\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content, newline="")
        code, _, err = run("embed", masked_model, tmp_path / name, "-o", tmp_path / "v.npy", "--quiet")
        assert (code, err) == (0, ""), name
        np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), expected, err_msg=name)
    monkeypatch.setattr(sys, "stdin", io.StringIO("a cat\nparis is big\n"))
    assert run("embed", masked_model, "-", "-o", tmp_path / "v.npy", "--quiet")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), expected)


def test_embed_reports_truncation(run: Run, masked_model: Path, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("a cat " * 30 + "\nparis\n")
    code, _, err = run("embed", masked_model, tmp_path / "long.txt", "-o", tmp_path / "v.npy")
    assert code == 0
    assert "1 of 2 texts are longer than 24 tokens: 38 tokens were truncated." in err
    json_output = json.loads(run("embed", masked_model, tmp_path / "long.txt", "-o", tmp_path / "v.npy", "--json")[1])
    assert len(json_output["truncated"]) == 1


def test_embed_layer_and_pooling(run: Run, masked_model: Path, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a cat\n")
    arguments = ("embed", masked_model, tmp_path / "t.txt", "-o", tmp_path / "v.npy", "--quiet")
    assert run(*arguments, "--layer", "sum_all", "--pooling", "first")[0] == 0
    expected = clearhead.load(masked_model).embed(["a cat"], layer="sum_all", pooling="first")
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), expected)
    assert run(*arguments, "--layer", "-2", "--normalize")[0] == 0
    assert np.linalg.norm(np.load(tmp_path / "v.npy")) == pytest.approx(1, abs=1e-6)


def test_explain(run: Run, masked_model: Path, tmp_path: Path) -> None:
    for name in ("a.html", "a.svg", "a.json"):
        code, out, _ = run("explain", masked_model, "a cat sat on a mat", "-o", tmp_path / name, "--json")
        assert code == 0
        assert json.loads(out)["layers"] == 2
        assert (tmp_path / name).stat().st_size > 100
    assert run("explain", masked_model, "a cat", "-o", tmp_path / "a.svg", "--word", "cat", "--layer", 1)[0] == 0
    assert run("explain", masked_model, "a cat", "-o", tmp_path / "a.svg", "--layer", 9)[0] == 2


def test_convert(run: Run, masked_model: Path, tmp_path: Path) -> None:
    code, out, _ = run("convert", masked_model, tmp_path / "copy", "--json")
    assert code == 0
    assert {"config.json", "model.safetensors", "tokenizer.json", "clearhead.json"} <= set(json.loads(out)["files"])
    text = "Paris is the [MASK]."
    assert clearhead.load(tmp_path / "copy").fill(text) == clearhead.load(masked_model).fill(text)
    code, _, err = run("convert", masked_model, tmp_path / "copy")
    assert code == 2
    assert "not empty" in err


def test_export(run: Run, masked_model: Path, tmp_path: Path) -> None:
    code, out, err = run("export", masked_model, tmp_path / "fused", "--json")
    json_output = json.loads(out)
    assert (code, err) == (0, "")
    assert {"model.onnx", "export.json", "config.json", "tokenizer.json", "clearhead.json"} <= json_output[
        "files"
    ].keys()
    assert (json_output["graph"], list(json_output["outputs"])) == ("fused", ["logits"])
    assert json_output["files"]["model.onnx"] == (tmp_path / "fused" / "model.onnx").stat().st_size
    assert run("export", masked_model, tmp_path / "quiet", "--quiet") == (0, "", "")
    code, out, err = run("export", masked_model, tmp_path / "portable", "--portable")
    assert (code, out) == (0, "")
    assert "portable graph, float; inputs: input_ids, attention_mask, token_type_ids; outputs: logits" in err
    with pytest.warns(UncheckedInt8Warning):
        code, out, _ = run("export", masked_model, tmp_path / "small", "--precision", "int8", "--json")
    assert (code, json.loads(out)["precision"]) == (0, "int8")
    code, _, err = run("export", masked_model, tmp_path / "none", "--precision", "int4")
    assert (code, err.count("\n")) == (2, 1)
    code, out, err = run("export", masked_model, tmp_path / "portable")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "not empty" in err


def make_mistakes(model: Path, folder: Path) -> dict[str, tuple[object, ...]]:
    (folder / "two.csv").write_text("one,two\n1,2\n")
    (folder / "bad.csv").write_text("text,label\na\n")
    (folder / "empty.txt").write_text("")
    (folder / "quote.csv").write_text('text\nfirst\n"unclosed\nrow 3\n')
    (folder / "twice.csv").write_text("text,text\na,b\n")
    (folder / "latin.txt").write_bytes("caf\xe9".encode("latin-1"))
    (folder / "broken.jsonl").write_text('{"text": "a"}\n{"text": \n')
    out = ("-o", folder / "v.npy")
    return {
        "an unknown command": ("nonsense",),
        "no reference": ("describe",),
        "no such folder": ("describe", folder / "missing"),
        "not a model folder": ("describe", folder),
        "unknown option": ("describe", model, "--nonsense"),
        "no output": ("embed", model, folder / "two.csv"),
        "no such file": ("embed", model, folder / "missing.txt", *out),
        "a folder as file": ("embed", model, folder, *out),
        "which column": ("embed", model, folder / "two.csv", *out),
        "no such column": ("embed", model, folder / "two.csv", "--text", "three", *out),
        "a short row": ("embed", model, folder / "bad.csv", *out),
        "no text": ("embed", model, folder / "empty.txt", *out),
        "not UTF-8": ("embed", model, folder / "latin.txt", *out),
        "broken JSON": ("embed", model, folder / "broken.jsonl", *out),
        "unknown ending": ("embed", model, folder / "two.csv", "-o", folder / "v.xyz"),
        "unknown pooling": ("embed", model, folder / "two.csv", "--text", "one", "--pooling", "median", *out),
        "unknown layer": ("embed", model, folder / "two.csv", "--text", "one", "--layer", "99", *out),
        "too few layers": ("embed", model, folder / "two.csv", "--text", "one", "--layer", "sum_last_four", *out),
        "an open quote": ("embed", model, folder / "quote.csv", *out),
        "two columns of one name": ("embed", model, folder / "twice.csv", "--text", "text", *out),
        "a file as folder": ("embed", model, folder / "two.csv", "--text", "one", "-o", folder / "two.csv/v.npy"),
        "convert into a file": ("convert", model, folder / "two.csv/new"),
        "export into a file": ("export", model, folder / "two.csv/new"),
        "export of nothing": ("export", folder / "missing", folder / "new"),
        "explain into a file": ("explain", model, "a", "-o", folder / "two.csv/a.svg"),
        "unknown prompt": ("embed", model, folder / "two.csv", "--text", "one", "--prompt-name", "x", *out),
        "top is zero": ("fill", model, "a [MASK]", "--top", "0"),
        "top is not a number": ("fill", model, "a [MASK]", "--top", "many"),
        "explain ending": ("explain", model, "a", "-o", folder / "a.pdf"),
        "explain word": ("explain", model, "a", "-o", folder / "a.svg", "--word", "zebra"),
        "convert pickle": ("convert", folder, folder / "new"),
    }


def test_every_mistake_is_one_sentence(run: Run, masked_model: Path, tmp_path: Path) -> None:
    for name, arguments in make_mistakes(masked_model, tmp_path).items():
        code, out, err = run(*arguments)
        assert code == 2, (name, err)
        assert out == "", name
        assert err.startswith("clearhead: "), name
        assert err.count("\n") == 1, (name, err)
        assert "Traceback" not in err


def test_help_of_every_verb(run: Run) -> None:
    overview = run("--help")[1]
    for verb in VERBS:
        code, out, err = run(verb, "--help")
        assert (code, err) == (0, ""), verb
        assert "--json" in out, verb
        assert "--quiet" in out, verb
        assert f"clearhead {verb}" in out, verb
        assert verb in overview
    assert clearhead.__version__ in run("--version")[1]


def test_python_m_clearhead_and_a_closed_pipe(masked_model: Path) -> None:
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    command = f"{sys.executable} -m clearhead tokens {masked_model} paris --quiet"
    process = subprocess.run(command.split(), capture_output=True, text=True, check=False, env=environment)
    assert (process.returncode, process.stdout.split(), process.stderr) == (0, ["2", "5", "3"], "")
    shell = f"{sys.executable} -m clearhead describe {masked_model} | head -n 1"
    process = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False, env=environment)
    assert "Traceback" not in process.stderr


def test_completion_is_offered(run: Run) -> None:
    assert "--install-completion" in run("--help")[1]
