"""Tags, answers and options on the command line: the keys of --json and the formats that predict writes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.aspect_rows import make_reviews
from tests.task_rows import format_conll, format_squad, make_option_rows, make_questions, make_tagged_words
from tests.tiny_models import tiny_model, write_csv

Run = Callable[..., tuple[int, str, str]]
NAMES = {
    "tag": {"precision", "recall", "f1", "accuracy"},
    "span": {"exact_match", "f1"},
    "choice": {"accuracy"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verbs")
    tiny_model(folder / "tiny")
    (folder / "tag.conll").write_text(format_conll(make_tagged_words(80)))
    (folder / "span.json").write_text(json.dumps(format_squad(make_questions(80))))
    write_csv(folder / "choice.csv", make_option_rows(80))
    return folder


FILES = {"tag": "tag.conll", "span": "span.json", "choice": "choice.csv"}


def train_once(task: str, folder: Path) -> Path:
    """The folder of a fine-tuned model; the first test that needs it trains it."""
    from clearhead.cli import main

    if not (folder / task).exists():
        main(
            [
                "train",
                str(folder / FILES[task]),
                "--model",
                str(folder / "tiny" / "model"),
                "-o",
                str(folder / task),
                "--set",
                "learning_rate=3e-3",
                "--batch-size",
                "16",
                "--epochs",
                "3",
                "--set",
                "target_accuracy=0.5",
                "--quiet",
            ]
        )
    return folder / task


@pytest.fixture(scope="module", params=["tag", "span", "choice"])
def task_model(request: pytest.FixtureRequest, folder: Path) -> tuple[str, Path]:
    """A task and the folder of its fine-tuned model."""
    return request.param, train_once(request.param, folder)


def test_evaluate_uses_established_names_of_metrics(task_model: tuple[str, Path], folder: Path, run: Run) -> None:
    task, model_folder = task_model
    code, out, _ = run("evaluate", model_folder, folder / FILES[task], "--json")
    evaluation = json.loads(out)
    assert code == 0
    assert evaluation["task"] == task
    assert set(evaluation["metrics"]) >= NAMES[task]
    for name in NAMES[task]:
        assert {"value", "low", "high"} <= set(evaluation["metrics"][name])
    code, out, _ = run("evaluate", model_folder, folder / FILES[task], "--part", "dev", "--against", model_folder)
    assert code == 0
    assert all(name in out for name in NAMES[task])
    code, _, err = run("evaluate", model_folder, folder / FILES[task], "--report", folder / f"{task}.html")
    assert (code, (folder / f"{task}.html").is_file()) == (0, True), err


def test_predict_writes_the_format_of_the_task(task_model: tuple[str, Path], folder: Path, run: Run) -> None:
    task, model_folder = task_model
    output = {"tag": ("out.conll", ()), "span": ("out.json", ("--format", "squad")), "choice": ("out.csv", ())}[task]
    code, _, err = run("predict", model_folder, folder / FILES[task], "-o", folder / output[0], *output[1])
    assert code == 0, err
    text = (folder / output[0]).read_text()
    if task == "tag":
        assert len(text.rstrip("\n").split("\n\n")) == 80
    elif task == "span":
        assert len(json.loads(text)) == 80
    else:
        assert len(text.splitlines()) == 81
    code, out, _ = run("predict", model_folder, folder / FILES[task], "-o", folder / "out.jsonl", "--json")
    assert (code, json.loads(out)["rows"]) == (0, 80)


def test_probabilities_are_written_or_refused(task_model: tuple[str, Path], folder: Path, run: Run) -> None:
    task, model_folder = task_model
    code, _, err = run("predict", model_folder, folder / FILES[task], "-o", folder / "probs.jsonl", "--probabilities")
    message = {
        "tag": "finds spans, each of which includes its probability",
        "span": "finds answers, whose probabilities are listed in nbest",
        "choice": "",
    }[task]
    assert (code, message in err) == (0 if task == "choice" else 2, True)
    if task == "choice":
        assert "probability:option2" in json.loads((folder / "probs.jsonl").read_text().splitlines()[0])


def test_inspect_lists_labels(task_model: tuple[str, Path], folder: Path, run: Run) -> None:
    task, _ = task_model
    code, out, err = run("inspect", folder / FILES[task], "--model", folder / "tiny" / "model")
    assert code == 0, err
    assert {"tag": "NICE", "span": "answer", "choice": "option 1"}[task] in out
    assert "tokens/s" in out


def test_inspect_takes_the_task_and_options_of_train(folder: Path, run: Run) -> None:
    flags = ("--task", "choice", "--options", "option1,option2", "--no-estimate", "--json")
    code, out, err = run("inspect", folder / "choice.csv", *flags, "--model", folder / "tiny" / "model")
    assert code == 0, err
    assert json.loads(out)["bad"] != {}  # where the third or fourth option is right
    assert set(json.loads(out)["labels"]) == {"option 1", "option 2"}
    code, _, err = run("inspect", folder / "choice.csv", "--task", "quiz")
    assert (code, "task must be one of" in err) == (2, True)


def test_a_pipe_in_and_a_pipe_out(task_model: tuple[str, Path], folder: Path) -> None:
    task, model_folder = task_model
    rows: dict[str, list[dict[str, Any]]] = {
        "tag": [{"text": "it was a great film"}],
        "span": [{"question": "was it", "context": "a great film"}],
        "choice": [{"question": "was it", "option1": "good", "option2": "sad"}],
    }
    command = [
        sys.executable,
        "-m",
        "clearhead",
        "predict",
        str(model_folder),
        "-",
        "-o",
        "-",
        "--format",
        "jsonl",
        "--quiet",
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows[task])
    process = subprocess.run(command, input=lines, capture_output=True, text=True, env={**os.environ}, check=False)
    assert process.returncode == 0, process.stderr
    prediction = json.loads(process.stdout)
    assert {"tag": "spans", "span": "answer", "choice": "prediction"}[task] in prediction


@pytest.mark.parametrize(
    ("task", "message"),
    [("tag", "cannot be written as CoNLL"), ("span", "format must be one of"), ("choice", "format must be one of")],
)
def test_the_format_of_another_task_is_refused(task: str, message: str, folder: Path, run: Run) -> None:
    model_folder = train_once(task, folder)
    (folder / "rows.jsonl").write_text(
        json.dumps({"text": "a", "question": "a", "context": "b", "options": ["a", "b"]}) + "\n"
    )
    code, _, err = run("predict", model_folder, folder / "rows.jsonl", "-o", folder / "no.out", "--format", "conll")
    assert code == 2
    assert message in err


@pytest.fixture(scope="module")
def aspect_run(folder: Path) -> Path:
    """A folder with the two models of aspect sentiment."""
    from clearhead.cli import main

    rows = folder / "reviews.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in make_reviews(60)))
    main(
        [
            "train",
            str(rows),
            "--task",
            "aspect",
            "--model",
            str(folder / "tiny" / "model"),
            "-o",
            str(folder / "aspect_run"),
            "--epochs",
            "1",
            "--batch-size",
            "16",
            "--quiet",
        ]
    )
    return folder / "aspect_run"


def test_describe_shows_both_aspect_models(aspect_run: Path, run: Run) -> None:
    code, out, err = run("describe", aspect_run)
    assert code == 0, err
    assert all(
        phrase in out for phrase in ("finds the aspects", "predicts the polarity of each aspect", "negative, positive")
    )
    assert all(phrase in out for phrase in ("tag: 3 outputs", "classify: 2 outputs", "B-ASPECT"))
    code, out, _ = run("describe", aspect_run, "--json")
    description = json.loads(out)
    assert (code, description["task"], description["labels"]) == (0, "aspect", ["negative", "positive"])
    assert {name: model["head"] for name, model in description["models"].items()} == {
        "find": "tag",
        "judge": "classify",
    }
    assert description["parameters"] == sum(model["parameters"] for model in description["models"].values())


def test_describe_refuses_an_incomplete_aspect_folder(aspect_run: Path, tmp_path: Path, run: Run) -> None:
    shutil.copytree(aspect_run, tmp_path / "half")
    shutil.rmtree(tmp_path / "half" / "judge")
    code, _, err = run("describe", tmp_path / "half")
    assert (code, "judge" in err, err.count("\n")) == (2, True, 1)
    (tmp_path / "half" / "aspects.json").write_text("{}")
    code, _, err = run("describe", tmp_path / "half")
    assert (code, "damaged" in err) == (2, True)
