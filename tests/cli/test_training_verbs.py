"""inspect, train, evaluate and predict on the command line: flags, JSON, pipes, --quiet and mistakes."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clearhead.api import predict, train
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

Run = Callable[..., tuple[int, str, str]]
FLAGS = {
    "inspect": ("--json", "--quiet", "--model", "--text", "--label", "--dev", "--test", "--no-estimate"),
    "train": (
        "--dev",
        "--test",
        "--task",
        "--text",
        "--text-b",
        "--label",
        "--id",
        "--split",
        "--output",
        "-o",
        "--model",
        "--method",
        "--epochs",
        "--learning-rate",
        "--batch-tokens",
        "--batch-size",
        "--class-weight",
        "--seed",
        "--seeds",
        "--set",
        "--recipe",
        "--resume",
        "--skip-bad-rows",
        "--device",
        "--layers",
        "--json",
        "--quiet",
    ),
    "ladder": (
        "--budget",
        "--dev",
        "--test",
        "--task",
        "--text",
        "--text-b",
        "--label",
        "--id",
        "--split",
        "--model",
        "--methods",
        "--margin",
        "--set",
        "--seed",
        "--rows",
        "--skip-bad-rows",
        "--output",
        "-o",
        "--json",
        "--quiet",
    ),
    "evaluate": ("--report", "--slice", "--against", "--part", "--label", "--skip-bad-rows", "--json", "--quiet"),
    "predict": ("--output", "-o", "--format", "--prefix", "--probabilities", "--abstain-below", "--json", "--quiet"),
}


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny encoder."""
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def tfidf_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a TF-IDF model."""
    return train(make_sentiment_rows(200), output=tmp_path_factory.mktemp("runs") / "words", method="tfidf").folder


@pytest.fixture
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with 120 reviews."""
    write_csv(tmp_path / "reviews.csv", make_sentiment_rows(120))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("verb", FLAGS)
def test_help_lists_every_flag(verb: str, run: Run) -> None:
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert [flag for flag in FLAGS[verb] if flag not in out] == []


def test_train_needs_no_options(run: Run, work_folder: Path, tiny: str) -> None:
    code, out, err = run("train", "reviews.csv", "--model", tiny)
    assert code == 0
    for phrase in (
        "comma-separated, UTF-8, header: id, text, label",
        "text column: text (by name)",
        "label column: label (by name)",
        "task: classify (one text, one or more labels; 2 labels: bad, good)",
        "rows: 96 train, 12 dev, 12 test",
        "epochs: 20 (chosen from the dataset size; ",
        "learning rate: 0.002 (chosen from the model size; ",
        "epoch 1: loss ",
        "model: runs/reviews",
        "report: runs/reviews/report",
    ):
        assert phrase in err
    assert "test (12 rows)" in out
    assert "accuracy" in out
    assert (work_folder / "runs" / "reviews" / "model.safetensors").is_file()
    assert (work_folder / "runs" / "reviews" / "report.html").is_file()
    code, out, err = run("train", "reviews.csv", "--method", "majority", "--quiet")
    assert (code, out, err) == (0, "", "")
    assert (work_folder / "runs" / "reviews-2" / "clearhead.json").is_file()


def test_train_with_many_options(run: Run, work_folder: Path, tiny: str) -> None:
    rows = [{"a": row["text"], "b": "it was", "mood": row["label"]} for row in make_sentiment_rows(60)]
    write_csv(work_folder / "pairs.csv", rows)
    write_csv(work_folder / "more.csv", rows[:20])
    (work_folder / "recipe.toml").write_text("learning_rate = 1.0\nwarmup_ratio = 0.2\n")
    code, out, err = run(
        "train",
        "pairs.csv",
        "--dev",
        "more.csv",
        "--task",
        "pair",
        "--text",
        "a",
        "--text-b",
        "b",
        "--label",
        "mood",
        "-o",
        "out/model",
        "--model",
        tiny,
        "--method",
        "finetune",
        "--epochs",
        1,
        "--learning-rate",
        "1e-4",
        "--seed",
        7,
        "--batch-tokens",
        300,
        "--seeds",
        2,
        "--set",
        "layer_decay=0.9",
        "--set",
        "schedule=cosine",
        "--recipe",
        "recipe.toml",
        "--json",
    )
    assert (code, err) == (0, "")
    result = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    assert (result["run"], result["task"], result["labels"]) == ("out/model", "pair", ["bad", "good"])
    assert result["columns"] == {"text": "a", "text_b": "b", "label": "mood"}
    assert (result["rows"], result["measured_on"]) == ({"train": 60, "dev": 20}, "dev")
    assert set(result["metrics"]["accuracy"]) == {"value", "low", "high"}
    assert [score["seed"] for score in result["seeds"]] == [7, 8]
    settings = json.loads((work_folder / "out" / "model" / "run.json").read_text())["plan"]["settings"]
    assert (settings["learning_rate"], settings["warmup_ratio"], settings["layer_decay"]) == (1e-4, 0.2, 0.9)
    assert (settings["schedule"], settings["batch_tokens"], settings["batch_size"]) == ("cosine", 300, None)


@pytest.mark.parametrize("layer", ["-1", "second_to_last", "0"])
def test_features_of_a_layer(layer: str, run: Run, work_folder: Path, tiny: str) -> None:
    code, _, err = run(
        "train",
        "reviews.csv",
        "--method",
        "features",
        "--layer",
        layer,
        "--pooling",
        "mean",
        "--model",
        tiny,
        "--set",
        "C=1.0",
        "-o",
        "run",
        "--json",
    )
    assert (code, err) == (0, "")
    passport = json.loads((work_folder / "run" / "clearhead.json").read_text())["trained"]
    assert passport["layer"] == (layer if layer == "second_to_last" else int(layer))


def test_a_negative_score_is_printed(run: Run, work_folder: Path, tiny: str) -> None:
    _, _, err = run("train", "reviews.csv", "--model", tiny, "--epochs", 1, "--set", "metric=log_loss", "-o", "run")
    assert "dev -0." in next(line for line in err.splitlines() if line.startswith("epoch 1"))


def test_too_few_rows_to_measure_are_reported(run: Run, work_folder: Path) -> None:
    write_csv(work_folder / "two.csv", make_sentiment_rows(200)[4:6])
    code, _, err = run("train", "two.csv", "--method", "majority")
    assert code == 0
    assert "The model was not evaluated: there are no held-out rows, or too few distinct ones." in err


@pytest.mark.slow
def test_a_terminal_has_a_progress_bar(work_folder: Path, tiny: str) -> None:
    screen, writer = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "clearhead",
        "train",
        "reviews.csv",
        "--model",
        tiny,
        "--epochs",
        "1",
        "--seeds",
        "2",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    printed = b""
    try:
        while chunk := os.read(screen, 65536):
            printed += chunk
    except OSError:  # the other end is closed
        pass
    assert process.wait() == 0, printed.decode()
    assert "seed 1 (2 of 2)" in printed.decode()
    assert "tokens/s" in printed.decode()


def test_evaluate_prints_metrics_with_intervals(run: Run, work_folder: Path, tfidf_folder: Path) -> None:
    code, out, err = run("evaluate", tfidf_folder, "reviews.csv", "--json")
    assert (code, err) == (0, "")
    evaluation = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    assert set(evaluation["metrics"]["accuracy"]) == {"value", "low", "high"}
    assert evaluation["metrics"]["accuracy"]["low"] <= evaluation["metrics"]["accuracy"]["value"]
    assert {"accuracy", "f1_macro", "matthews", "roc_auc"} <= evaluation["metrics"].keys()
    assert (evaluation["rows"], sum(map(sum, evaluation["confusion"]))) == (120, 120)
    code, out, err = run("evaluate", tfidf_folder, "reviews.csv")
    assert (code, err) == (0, "")
    assert "120 rows" in out
    assert "95 % interval" in out


def test_evaluate_slices_compares_and_reports(run: Run, work_folder: Path, tfidf_folder: Path) -> None:
    run("train", "reviews.csv", "--method", "majority", "-o", "floor", "--quiet")
    code, out, err = run(
        "evaluate", tfidf_folder, "reviews.csv", "--slice", "label", "--against", "floor", "--report", "page.html"
    )
    assert code == 0
    assert "slice" in out
    assert "compared with floor\nmetric" in out
    assert "+0.4833  +0.3917 to +0.5750  0.000" in out
    assert "report: page.html" in err
    assert (work_folder / "page.html").read_text().startswith("<!doctype html>")
    code, out, err = run("evaluate", tfidf_folder, "reviews.csv", "--slice", "label", "--against", "floor", "--quiet")
    assert (code, err) == (0, "")
    assert "compared with floor" in out
    code, out, _ = run("evaluate", "floor", "reviews.csv", "--part", "test", "--json")
    assert json.loads(out)["rows"] == 12


def test_predict_keeps_every_column(run: Run, work_folder: Path, tfidf_folder: Path) -> None:
    code, out, err = run("predict", tfidf_folder, "reviews.csv", "-o", "out.csv")
    assert (code, out, err) == (0, "", "120 rows: out.csv\n")
    with (work_folder / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "text", "label", "prediction", "probability", "truncated", "windows"]
    assert [row["prediction"] for row in rows] == [answer.label for answer in predict(tfidf_folder, "reviews.csv")]
    code, out, err = run(
        "predict", tfidf_folder, "reviews.csv", "-o", "out.jsonl", "--probabilities", "--prefix", "p_", "--json"
    )
    summary = json.loads(out)
    assert (code, err, summary["rows"], summary["output"]) == (0, "", 120, "out.jsonl")
    first_row = json.loads((work_folder / "out.jsonl").read_text().splitlines()[0])
    assert first_row["p_probability:bad"] + first_row["p_probability:good"] == pytest.approx(1, abs=2e-6)
    assert run("predict", tfidf_folder, "reviews.csv", "-o", "out.tsv", "--quiet") == (0, "", "")


def test_predict_counts_skipped_rows(run: Run, work_folder: Path, tfidf_folder: Path) -> None:
    (work_folder / "bad.csv").write_text("n,text\n1,it was good\n2,\n3,a film\n")
    code, _, err = run("predict", tfidf_folder, "bad.csv", "-o", "out.csv")
    assert code == 2
    assert "row 2 (line 3): text is empty" in err
    assert not (work_folder / "out.csv").exists()
    code, _, err = run("predict", tfidf_folder, "bad.csv", "-o", "out.csv", "--skip-bad-rows", "--abstain-below", "0.8")
    assert code == 0
    assert "skipped: 1 row (empty text)" in err
    assert "1 row has no answer because the model was not confident enough." in err
    assert "3 rows: out.csv" in err


@pytest.mark.parametrize(("input_format", "flags"), [("csv", ["-o", "-"]), ("jsonl", []), ("tsv", [])])
def test_predict_is_a_filter(input_format: str, flags: list[str], work_folder: Path, tfidf_folder: Path) -> None:
    texts = ["it was good", "it was awful"]
    text_input = {
        "csv": "n,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts)),
        "tsv": "n\ttext\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(texts)),
        "jsonl": "".join(json.dumps({"n": n, "text": text}) + "\n" for n, text in enumerate(texts)),
    }[input_format]
    command = [sys.executable, "-m", "clearhead", "predict", str(tfidf_folder), "-", *flags]
    process = subprocess.run(command, input=text_input, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "2 rows: standard output\n")
    if input_format == "jsonl":
        predictions = [json.loads(line)["prediction"] for line in process.stdout.splitlines()]
    else:
        predictions = [
            row["prediction"]
            for row in csv.DictReader(io.StringIO(process.stdout), delimiter=",\t"[input_format == "tsv"])
        ]
    assert predictions == ["good", "bad"]


def test_a_closed_pipe_is_not_an_error(work_folder: Path, tfidf_folder: Path) -> None:
    write_csv(work_folder / "many.csv", make_sentiment_rows(3000))
    command = f"{sys.executable} -m clearhead predict {tfidf_folder} many.csv -o - --quiet | head -n 1"
    process = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert process.stdout.startswith("id,text,label,prediction")
    assert process.stderr == ""


def test_evaluate_reads_standard_input(work_folder: Path, tfidf_folder: Path) -> None:
    command = [sys.executable, "-m", "clearhead", "evaluate", str(tfidf_folder), "-", "--json"]
    with (work_folder / "reviews.csv").open() as file:
        process = subprocess.run(command, stdin=file, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")
    assert json.loads(process.stdout)["rows"] == 120


def test_inspect(run: Run, work_folder: Path, tiny: str) -> None:
    code, out, err = run("inspect", "reviews.csv", "--model", tiny)
    assert (code, err) == (0, "")
    for phrase in (
        "reviews.csv",
        " 120\n",
        "label column: label (by name)",
        "tokens",
        "training",
        "share",
        "No problems found",
    ):
        assert phrase in out
    code, out, _ = run("inspect", "reviews.csv", "--model", tiny, "--json", "--no-estimate")
    inspection = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    assert (inspection["rows"], inspection["kind"], inspection["columns"]["text"], inspection["estimate"]) == (
        120,
        "classes",
        "text",
        None,
    )
    code, out, _ = run("inspect", "reviews.csv", "--model", tiny, "--quiet", "--no-estimate")
    assert out == "No problems found.\n"


def test_describe_a_tfidf_model(tfidf_folder: Path, tmp_path: Path, run: Run) -> None:
    code, out, err = run("describe", tfidf_folder)
    assert code == 0, err
    assert all(phrase in out for phrase in ("terms", "classify by tfidf", "train rows", "accuracy"))
    code, out, _ = run("describe", tfidf_folder, "--json")
    description = json.loads(out)
    assert (code, description["method"], description["task"]) == (0, "tfidf", "classify")
    assert description["terms"] > 0
    assert description["passport"]["trained"]["data"]["train"]["rows"] > 0
    majority = train(make_sentiment_rows(60), output=tmp_path / "most", method="majority").folder
    assert run("describe", majority)[0] == 0
    (majority / "classic.json").write_text("{}")
    code, _, err = run("describe", majority)
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize("flags", [(), ("-o", "-")], ids=["default", "-o -"])
def test_predict_writes_to_standard_output(flags: tuple[str, ...], work_folder: Path, tfidf_folder: Path) -> None:
    (work_folder / "new.csv").write_text("n,text\n0,it was good\n1,it was awful\n")
    command = [sys.executable, "-m", "clearhead", "predict", str(tfidf_folder), "new.csv", *flags]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "2 rows: standard output\n")
    rows = list(csv.DictReader(io.StringIO(process.stdout)))
    assert [(row["n"], row["prediction"]) for row in rows] == [("0", "good"), ("1", "bad")]
    quiet = subprocess.run([*command, "--json", "--quiet"], capture_output=True, text=True, check=False)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert [json.loads(line)["prediction"] for line in quiet.stdout.splitlines()] == ["good", "bad"]
