"""Tags, answers and options on the command line: the names that `--json` gives, and the forms that `predict` writes."""

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
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verbs")
    tiny_model(folder / "tiny")
    (folder / "tag.conll").write_text(format_conll(make_tagged_words(80)))
    (folder / "span.json").write_text(json.dumps(format_squad(make_questions(80))))
    write_csv(folder / "choice.csv", make_option_rows(80))
    return folder


FILES = {"tag": "tag.conll", "span": "span.json", "choice": "choice.csv"}


def trained_folder(task: str, place: Path) -> Path:
    """The run of a task, trained as a user would by whichever test needs it first."""
    from clearhead.cli import main

    if not (place / task).exists():
        main(
            [
                "train",
                str(place / FILES[task]),
                "--model",
                str(place / "tiny" / "model"),
                "-o",
                str(place / task),
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
    return place / task


@pytest.fixture(scope="module", params=["tag", "span", "choice"])
def trained(request: pytest.FixtureRequest, place: Path) -> tuple[str, Path]:
    """A task and its run."""
    return request.param, trained_folder(request.param, place)


def test_evaluate_gives_the_names_that_people_know(trained: tuple[str, Path], place: Path, run: Run) -> None:
    task, folder = trained
    code, out, _ = run("evaluate", folder, place / FILES[task], "--json")
    made = json.loads(out)
    assert code == 0
    assert made["task"] == task
    assert set(made["metrics"]) >= NAMES[task]
    for name in NAMES[task]:
        assert {"value", "low", "high"} <= set(made["metrics"][name])
    code, out, _ = run("evaluate", folder, place / FILES[task], "--part", "dev", "--against", folder)
    assert code == 0
    assert all(name in out for name in NAMES[task])
    code, _, err = run("evaluate", folder, place / FILES[task], "--report", place / f"{task}.html")
    assert (code, (place / f"{task}.html").is_file()) == (0, True), err


def test_predict_writes_the_form_that_fits(trained: tuple[str, Path], place: Path, run: Run) -> None:
    task, folder = trained
    form = {"tag": ("out.conll", ()), "span": ("out.json", ("--format", "squad")), "choice": ("out.csv", ())}[task]
    code, _, err = run("predict", folder, place / FILES[task], "-o", place / form[0], *form[1])
    assert code == 0, err
    text = (place / form[0]).read_text()
    if task == "tag":
        assert len(text.rstrip("\n").split("\n\n")) == 80
    elif task == "span":
        assert len(json.loads(text)) == 80
    else:
        assert len(text.splitlines()) == 81
    code, out, _ = run("predict", folder, place / FILES[task], "-o", place / "out.jsonl", "--json")
    assert (code, json.loads(out)["rows"]) == (0, 80)


def test_probabilities_are_given_or_said_to_be_there(trained: tuple[str, Path], place: Path, run: Run) -> None:
    task, folder = trained
    code, _, err = run("predict", folder, place / FILES[task], "-o", place / "probs.jsonl", "--probabilities")
    said = {
        "tag": "finds spans, each of which includes its probability",
        "span": "finds answers, whose probabilities are listed in nbest",
        "choice": "",
    }[task]
    assert (code, said in err) == (0 if task == "choice" else 2, True)
    if task == "choice":
        assert "probability:option2" in json.loads((place / "probs.jsonl").read_text().splitlines()[0])


def test_inspect_says_what_there_is(trained: tuple[str, Path], place: Path, run: Run) -> None:
    task, _ = trained
    code, out, err = run("inspect", place / FILES[task], "--model", place / "tiny" / "model")
    assert code == 0, err
    assert {"tag": "NICE", "span": "answer", "choice": "option 1"}[task] in out
    assert "tokens/s" in out


def test_inspect_takes_the_task_and_options_of_train(place: Path, run: Run) -> None:
    flags = ("--task", "choice", "--options", "option1,option2", "--no-estimate", "--json")
    code, out, err = run("inspect", place / "choice.csv", *flags, "--model", place / "tiny" / "model")
    assert code == 0, err
    assert json.loads(out)["bad"] != {}  # where the third or fourth option is right
    assert set(json.loads(out)["labels"]) == {"option 1", "option 2"}
    code, _, err = run("inspect", place / "choice.csv", "--task", "quiz")
    assert (code, "task must be one of" in err) == (2, True)


def test_a_pipe_in_and_a_pipe_out(trained: tuple[str, Path], place: Path) -> None:
    task, folder = trained
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
        str(folder),
        "-",
        "-o",
        "-",
        "--format",
        "jsonl",
        "--quiet",
    ]
    given = "".join(json.dumps(row) + "\n" for row in rows[task])
    done = subprocess.run(command, input=given, capture_output=True, text=True, env={**os.environ}, check=False)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert {"tag": "spans", "span": "answer", "choice": "prediction"}[task] in made


@pytest.mark.parametrize(
    ("task", "said"),
    [("tag", "cannot be written as CoNLL"), ("span", "format must be one of"), ("choice", "format must be one of")],
)
def test_a_form_of_others_is_refused(task: str, said: str, place: Path, run: Run) -> None:
    folder = trained_folder(task, place)
    (place / "rows.jsonl").write_text(
        json.dumps({"text": "a", "question": "a", "context": "b", "options": ["a", "b"]}) + "\n"
    )
    code, _, err = run("predict", folder, place / "rows.jsonl", "-o", place / "no.out", "--format", "conll")
    assert code == 2
    assert said in err


@pytest.fixture(scope="module")
def judged(place: Path) -> Path:
    """A folder with the two models of aspect sentiment."""
    from clearhead.cli import main

    rows = place / "reviews.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in make_reviews(60)))
    main(
        [
            "train",
            str(rows),
            "--task",
            "aspect",
            "--model",
            str(place / "tiny" / "model"),
            "-o",
            str(place / "judged"),
            "--epochs",
            "1",
            "--batch-size",
            "16",
            "--quiet",
        ]
    )
    return place / "judged"


def test_describe_tells_both_models_of_aspects(judged: Path, run: Run) -> None:
    code, out, err = run("describe", judged)
    assert code == 0, err
    assert all(
        said in out for said in ("finds the aspects", "predicts the polarity of each aspect", "negative, positive")
    )
    assert all(said in out for said in ("tag: 3 outputs", "classify: 2 outputs", "B-ASPECT"))
    code, out, _ = run("describe", judged, "--json")
    told = json.loads(out)
    assert (code, told["task"], told["labels"]) == (0, "aspect", ["negative", "positive"])
    assert {name: model["head"] for name, model in told["models"].items()} == {"find": "tag", "judge": "classify"}
    assert told["parameters"] == sum(model["parameters"] for model in told["models"].values())


def test_describe_refuses_half_of_aspects(judged: Path, tmp_path: Path, run: Run) -> None:
    shutil.copytree(judged, tmp_path / "half")
    shutil.rmtree(tmp_path / "half" / "judge")
    code, _, err = run("describe", tmp_path / "half")
    assert (code, "judge" in err, err.count("\n")) == (2, True, 1)
    (tmp_path / "half" / "aspects.json").write_text("{}")
    code, _, err = run("describe", tmp_path / "half")
    assert (code, "damaged" in err) == (2, True)
