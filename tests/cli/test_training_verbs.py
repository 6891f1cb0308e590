"""inspect, train, evaluate and predict as users meet them: flags, JSON, pipes, silence, one sentence a mistake."""

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
    """An encoder."""
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is trained: counted words."""
    return train(make_sentiment_rows(200), output=tmp_path_factory.mktemp("runs") / "words", method="tfidf").folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with some reviews."""
    write_csv(tmp_path / "reviews.csv", make_sentiment_rows(120))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("verb", FLAGS)
def test_help_tells_every_flag(verb: str, run: Run) -> None:
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert [flag for flag in FLAGS[verb] if flag not in out] == []


def test_train_alone_does_the_sensible_thing(run: Run, here: Path, tiny: str) -> None:
    code, out, err = run("train", "reviews.csv", "--model", tiny)
    assert code == 0
    for said in (
        "comma-separated, UTF-8, header: id, text, label",
        "text column: text (by name)",
        "label column: label (by name)",
        "task: classify (one text, one label or several; 2 labels: bad, good)",
        "rows: 96 train, 12 dev, 12 test",
        "epochs: 20 (chosen from the dataset size; ",
        "learning rate: 0.002 (chosen from the model size; ",
        "epoch 1: loss ",
        "model: runs/reviews",
        "report: runs/reviews/report",
    ):
        assert said in err
    assert "test (12 rows)" in out
    assert "accuracy" in out
    assert (here / "runs" / "reviews" / "model.safetensors").is_file()
    assert (here / "runs" / "reviews" / "report.html").is_file()
    code, out, err = run("train", "reviews.csv", "--method", "majority", "--quiet")
    assert (code, out, err) == (0, "", "")
    assert (here / "runs" / "reviews-2" / "clearhead.json").is_file()


def test_the_contract_of_train(run: Run, here: Path, tiny: str) -> None:
    rows = [{"a": row["text"], "b": "it was", "mood": row["label"]} for row in make_sentiment_rows(60)]
    write_csv(here / "pairs.csv", rows)
    write_csv(here / "more.csv", rows[:20])
    (here / "recipe.toml").write_text("learning_rate = 1.0\nwarmup_ratio = 0.2\n")
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
    told = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    assert (told["run"], told["task"], told["labels"]) == ("out/model", "pair", ["bad", "good"])
    assert told["columns"] == {"text": "a", "text_b": "b", "label": "mood"}
    assert (told["rows"], told["measured_on"]) == ({"train": 60, "dev": 20}, "dev")
    assert set(told["metrics"]["accuracy"]) == {"value", "low", "high"}
    assert [score["seed"] for score in told["seeds"]] == [7, 8]
    settings = json.loads((here / "out" / "model" / "run.json").read_text())["plan"]["settings"]
    assert (settings["learning_rate"], settings["warmup_ratio"], settings["layer_decay"]) == (1e-4, 0.2, 0.9)
    assert (settings["schedule"], settings["batch_tokens"], settings["batch_size"]) == ("cosine", 300, None)


@pytest.mark.parametrize("layer", ["-1", "second_to_last", "0"])
def test_features_of_a_layer(layer: str, run: Run, here: Path, tiny: str) -> None:
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
    trained = json.loads((here / "run" / "clearhead.json").read_text())["trained"]
    assert trained["layer"] == (layer if layer == "second_to_last" else int(layer))


def test_a_score_below_zero_is_shown_as_it_is(run: Run, here: Path, tiny: str) -> None:
    _, _, err = run("train", "reviews.csv", "--model", tiny, "--epochs", 1, "--set", "metric=log_loss", "-o", "run")
    assert "dev -0." in next(line for line in err.splitlines() if line.startswith("epoch 1"))


def test_too_few_rows_to_measure_are_said(run: Run, here: Path) -> None:
    write_csv(here / "two.csv", make_sentiment_rows(200)[4:6])
    code, _, err = run("train", "two.csv", "--method", "majority")
    assert code == 0
    assert "Nothing was measured: there are no held-out rows, or too few distinct ones." in err


@pytest.mark.slow
def test_a_terminal_gets_a_bar(here: Path, tiny: str) -> None:
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
    done = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    shown = b""
    try:
        while chunk := os.read(screen, 65536):
            shown += chunk
    except OSError:  # the other end is closed
        pass
    assert done.wait() == 0, shown.decode()
    assert "seed 1 (2 of 2)" in shown.decode()
    assert "tokens/s" in shown.decode()


def test_evaluate_tells_metrics_with_intervals(run: Run, here: Path, words: Path) -> None:
    code, out, err = run("evaluate", words, "reviews.csv", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    assert set(told["metrics"]["accuracy"]) == {"value", "low", "high"}
    assert told["metrics"]["accuracy"]["low"] <= told["metrics"]["accuracy"]["value"]
    assert {"accuracy", "f1_macro", "matthews", "roc_auc"} <= told["metrics"].keys()
    assert (told["rows"], sum(map(sum, told["confusion"]))) == (120, 120)
    code, out, err = run("evaluate", words, "reviews.csv")
    assert (code, err) == (0, "")
    assert "120 rows" in out
    assert "95 % interval" in out


def test_evaluate_slices_compares_and_reports(run: Run, here: Path, words: Path) -> None:
    run("train", "reviews.csv", "--method", "majority", "-o", "floor", "--quiet")
    code, out, err = run(
        "evaluate", words, "reviews.csv", "--slice", "label", "--against", "floor", "--report", "page.html"
    )
    assert code == 0
    assert "slice" in out
    assert "to floor (95 % interval +" in err
    assert "report: page.html" in err
    assert (here / "page.html").read_text().startswith("<!doctype html>")
    code, _, err = run("evaluate", words, "reviews.csv", "--slice", "label", "--against", "floor", "--quiet")
    assert (code, err) == (0, "")
    code, out, _ = run("evaluate", "floor", "reviews.csv", "--part", "test", "--json")
    assert json.loads(out)["rows"] == 12


def test_predict_keeps_every_column(run: Run, here: Path, words: Path) -> None:
    code, out, err = run("predict", words, "reviews.csv", "-o", "out.csv")
    assert (code, out, err) == (0, "", "120 rows: out.csv\n")
    with (here / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "text", "label", "prediction", "probability", "truncated", "windows"]
    assert [row["prediction"] for row in rows] == [answer.label for answer in predict(words, "reviews.csv")]
    code, out, err = run(
        "predict", words, "reviews.csv", "-o", "out.jsonl", "--probabilities", "--prefix", "p_", "--json"
    )
    told = json.loads(out)
    assert (code, err, told["rows"], told["output"]) == (0, "", 120, "out.jsonl")
    first = json.loads((here / "out.jsonl").read_text().splitlines()[0])
    assert first["p_probability:bad"] + first["p_probability:good"] == pytest.approx(1, abs=2e-6)
    assert run("predict", words, "reviews.csv", "-o", "out.tsv", "--quiet") == (0, "", "")


def test_predict_counts_what_it_left_out(run: Run, here: Path, words: Path) -> None:
    (here / "bad.csv").write_text("n,text\n1,it was good\n2,\n3,a film\n")
    code, _, err = run("predict", words, "bad.csv", "-o", "out.csv")
    assert code == 2
    assert "row 2 (line 3): text is empty" in err
    assert not (here / "out.csv").exists()
    code, _, err = run("predict", words, "bad.csv", "-o", "out.csv", "--skip-bad-rows", "--abstain-below", "0.8")
    assert code == 0
    assert "skipped: 1 rows (empty text)" in err
    assert "1 rows have no answer because the model was not confident enough." in err
    assert "3 rows: out.csv" in err


@pytest.mark.parametrize(("form", "flags"), [("csv", ["-o", "-"]), ("jsonl", []), ("tsv", [])])
def test_predict_is_a_filter(form: str, flags: list[str], here: Path, words: Path) -> None:
    texts = ["it was good", "it was awful"]
    given = {
        "csv": "n,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts)),
        "tsv": "n\ttext\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(texts)),
        "jsonl": "".join(json.dumps({"n": n, "text": text}) + "\n" for n, text in enumerate(texts)),
    }[form]
    command = [sys.executable, "-m", "clearhead", "predict", str(words), "-", *flags]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "2 rows: standard output\n")
    if form == "jsonl":
        said = [json.loads(line)["prediction"] for line in done.stdout.splitlines()]
    else:
        said = [row["prediction"] for row in csv.DictReader(io.StringIO(done.stdout), delimiter=",\t"[form == "tsv"])]
    assert said == ["good", "bad"]


def test_a_reader_that_goes_away_is_no_error(here: Path, words: Path) -> None:
    write_csv(here / "many.csv", make_sentiment_rows(3000))
    line = f"{sys.executable} -m clearhead predict {words} many.csv -o - --quiet | head -n 1"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("id,text,label,prediction")
    assert done.stderr == ""


def test_evaluate_reads_standard_input(here: Path, words: Path) -> None:
    command = [sys.executable, "-m", "clearhead", "evaluate", str(words), "-", "--json"]
    with (here / "reviews.csv").open() as file:
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["rows"] == 120


def test_inspect(run: Run, here: Path, tiny: str) -> None:
    code, out, err = run("inspect", "reviews.csv", "--model", tiny)
    assert (code, err) == (0, "")
    for said in (
        "reviews.csv",
        "120 all",
        "label column: label (by name)",
        "tokens",
        "training",
        "share",
        "No problems found",
    ):
        assert said in out
    code, out, _ = run("inspect", "reviews.csv", "--model", tiny, "--json", "--no-estimate")
    told = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    assert (told["rows"], told["kind"], told["columns"]["text"], told["estimate"]) == (120, "classes", "text", None)
    code, out, _ = run("inspect", "reviews.csv", "--model", tiny, "--quiet", "--no-estimate")
    assert out == "No problems found.\n"


def test_describe_tells_what_a_model_of_counted_words_knows(words: Path, tmp_path: Path, run: Run) -> None:
    code, out, err = run("describe", words)
    assert code == 0, err
    assert all(said in out for said in ("terms", "classify by tfidf", "train rows", "accuracy"))
    code, out, _ = run("describe", words, "--json")
    told = json.loads(out)
    assert (code, told["method"], told["task"]) == (0, "tfidf", "classify")
    assert told["terms"] > 0
    assert told["passport"]["trained"]["data"]["train"]["rows"] > 0
    other = train(make_sentiment_rows(60), output=tmp_path / "most", method="majority").folder
    assert run("describe", other)[0] == 0
    (other / "classic.json").write_text("{}")
    code, _, err = run("describe", other)
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize("flags", [(), ("-o", "-")], ids=["default", "-o -"])
def test_predict_writes_to_standard_output(flags: tuple[str, ...], here: Path, words: Path) -> None:
    (here / "new.csv").write_text("n,text\n0,it was good\n1,it was awful\n")
    command = [sys.executable, "-m", "clearhead", "predict", str(words), "new.csv", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "2 rows: standard output\n")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["n"], row["prediction"]) for row in rows] == [("0", "good"), ("1", "bad")]
    quiet = subprocess.run([*command, "--json", "--quiet"], capture_output=True, text=True, check=False)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert [json.loads(line)["prediction"] for line in quiet.stdout.splitlines()] == ["good", "bad"]
