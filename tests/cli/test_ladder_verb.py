"""clearhead ladder, and the sweep of clearhead train, as people call them."""

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
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with reviews to work in."""
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "reviews.csv", make_sentiment_rows(120))
    return tmp_path


def test_ladder_says_which_method_to_take(run: Run, here: Path, tiny: str) -> None:
    call = ("ladder", "reviews.csv", "--model", tiny, "--methods", "majority,tfidf,features", "--set", "C=1.0")
    code, out, err = run(*call)
    assert code == 0
    for said in ("test (12 rows)", "accuracy", "95 % interval", "training", "one text", "size", "tfidf"):
        assert said in out
    assert "Recommended: " in out
    assert "report: runs/reviews-ladder/report.html" in err
    assert (here / "runs/reviews-ladder/report.html").exists()
    code, out, err = run(*call, "--json")  # the same folder: nothing is trained again
    assert (code, err) == (0, "")
    told = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    assert [rung["method"] for rung in told["rungs"]] == ["majority", "tfidf", "features"]
    assert all(rung["reused"] for rung in told["rungs"])
    assert set(told["rungs"][1]) == {
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
    assert (told["part"], told["rows"], told["metric"]) == ("test", 12, "accuracy")
    code, out, err = run(*call, "--quiet")
    assert (code, err) == (0, "")
    assert told["reason"] in " ".join(out.split())
    assert (told["margin"], told["not_tried"], told["caveat"]) == (0.01, [], None)
    code, out, _ = run(*call, "--json", "--margin", "1")
    assert code == 0
    assert (json.loads(out)["margin"], json.loads(out)["recommended"]) == (1.0, "tfidf")


def test_ladder_says_what_it_leaves_out(run: Run, here: Path) -> None:
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
    ("arguments", "said"),
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
def test_ladder_mistakes(run: Run, here: Path, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = run("ladder", "reviews.csv", *arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_train_sweeps_layers(run: Run, here: Path, tiny: str) -> None:
    call = ("train", "reviews.csv", "--method", "features", "--model", tiny, "--layers", "sweep", "--seed", 1)
    code, out, err = run(*call, "-o", "run")
    assert code == 0
    assert "layers (cross-validation)" in out
    assert "second_to_last" in out
    assert "has the best accuracy" in err
    code, out, err = run(*call, "-o", "again", "--json")
    assert (code, err) == (0, "")
    swept = json.loads(out)["sweep"]
    assert len(swept) == 13
    code, _, err = run("train", "reviews.csv", "--layers", "sweep")
    assert code == 2
    assert "--layers sweep is for method features" in err
