"""clearhead ladder, and the layer sweep of clearhead train."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with reviews to work in."""
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "reviews.csv", make_sentiment_rows(120))
    return tmp_path


def test_ladder_recommends_a_method(run: Run, work_folder: Path, tiny: str) -> None:
    command = ("ladder", "reviews.csv", "--model", tiny, "--methods", "majority,tfidf,features", "--set", "C=1.0")
    code, out, err = run(*command)
    assert code == 0
    for phrase in ("test (12 rows)", "accuracy", "95 % interval", "training", "one text", "size", "tfidf"):
        assert phrase in out
    assert "Recommended: " in out
    assert "report: runs/reviews-ladder/report.html" in err
    assert (work_folder / "runs/reviews-ladder/report.html").exists()
    code, out, err = run(*command, "--json")  # the same folder: nothing is trained again
    assert (code, err) == (0, "")
    json_output = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    assert [rung["method"] for rung in json_output["rungs"]] == ["majority", "tfidf", "features"]
    assert all(rung["reused"] for rung in json_output["rungs"])
    assert set(json_output["rungs"][1]) == {
        "method",
        "left_out",
        "folder",
        "value",
        "low",
        "high",
        "training_seconds",
        "latency_ms",
        "size_mb",
        "reused",
        "difference",
        "epochs",
        "planned_epochs",
        "needs_seconds",
        "needs_budget",
    }
    assert (json_output["part"], json_output["rows"], json_output["metric"]) == ("test", 12, "accuracy")
    code, out, err = run(*command, "--quiet")
    assert (code, err) == (0, "")
    assert json_output["reason"] in " ".join(out.split())
    assert (json_output["margin"], json_output["not_tried"], json_output["caveat"]) == (0.01, [], None)
    code, out, _ = run(*command, "--json", "--margin", "1")
    assert code == 0
    assert (json.loads(out)["margin"], json.loads(out)["recommended"]) == (1.0, "tfidf")


def test_ladder_reports_omitted_methods(run: Run, work_folder: Path) -> None:
    code, out, _ = run("ladder", "reviews.csv", "--model", "nowhere", "-o", "out", "--seed", 3, "--budget", "90s")
    assert code == 0
    lines = [line for line in out.splitlines() if line.startswith("omitted: ")]
    assert [line.split(": ")[1] for line in lines] == ["features", "finetune"]
    assert all("nowhere" in line for line in lines)
    last = out.splitlines()[-1]
    assert last.startswith("Not tried: finetune (")
    assert last.endswith("it is often the best method.")
    code, out, _ = run("ladder", "reviews.csv", "--model", "nowhere", "-o", "out", "--seed", 3, "--json")
    assert (json.loads(out)["not_tried"], json.loads(out)["caveat"]) == (["finetune"], last)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--budget", "long"), "budget is 'long'; expected a time > 0 such as 90s, 10m or 1h."),
        (("--methods", "best"), "Unknown method 'best'; choose from majority, tfidf, features, finetune, head."),
        (("--margin", "-1"), "margin must be a number from 0 to 1e+09, in units of the metric; got '-1.0'."),
        (("--margin", "nan"), "margin must be a number from 0 to 1e+09, in units of the metric; got 'nan'."),
        (("--margin", "some"), "--margin"),
        (("--set", "method=tfidf"), "A ladder compares several methods; set them with --methods a,b."),
        (("--set", "dev=other.csv"), "--set does not accept 'dev'"),
        (("--label", "mood"), "mood"),
    ],
)
def test_ladder_mistakes(run: Run, work_folder: Path, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run("ladder", "reviews.csv", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_train_sweeps_layers(run: Run, work_folder: Path, tiny: str) -> None:
    command = ("train", "reviews.csv", "--method", "features", "--model", tiny, "--layers", "sweep", "--seed", 1)
    code, out, err = run(*command, "-o", "run")
    assert code == 0
    assert "layers (cross-validation)" in out
    assert "second_to_last" in out
    assert "has the best accuracy" in err
    code, out, err = run(*command, "-o", "again", "--json")
    assert (code, err) == (0, "")
    sweep = json.loads(out)["sweep"]
    assert len(sweep) == 13
    code, _, err = run("train", "reviews.csv", "--layers", "sweep")
    assert code == 2
    assert "--layers sweep applies only to method features" in err
