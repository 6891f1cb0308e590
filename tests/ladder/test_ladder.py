"""Ladders of methods: the same rows for all methods, reuse of results, and the recommendation."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.api import ladder
from clearhead.errors import CheckpointError, InputError
from clearhead.jobs.events import RunEvents
from clearhead.ladder import job
from clearhead.ladder.methods import METHODS, format_duration, parse_budget, parse_methods, suggest_budget
from clearhead.ladder.result import Ladder
from clearhead.predict.latency import measure_disk_megabytes
from clearhead.train import methods
from tests.rows import QUICK, make_multilabel_rows, make_pair_rows, make_scored_rows
from tests.tiny_models import make_sentiment_rows, write_csv

FAST: dict[str, Any] = {"epochs": 2, "C": 1.0, **QUICK}


@pytest.fixture(scope="module")
def ladder_result(tiny: str, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Ladder:
    """A ladder of all default methods on the reviews."""
    return ladder(reviews, output=tmp_path_factory.mktemp("ladder") / "all", model=tiny, **FAST)


def test_every_method_is_a_run_of_its_own(ladder_result: Ladder, reviews: Path) -> None:
    assert [rung.method for rung in ladder_result.rungs] == ["majority", "tfidf", "features", "finetune"]
    assert tuple(METHODS) == (*(rung.method for rung in ladder_result.rungs), "head")
    assert set(METHODS) <= set(methods.FIT_METHODS)
    for rung in ladder_result.rungs:
        assert rung.left_out is None
        assert rung.folder is not None
        assert rung.value == clearhead.evaluate(rung.folder, reviews, part="test").metrics["accuracy"].value
        assert rung.low is not None
        assert rung.high is not None
        assert rung.low <= rung.value <= rung.high
        assert (rung.training_seconds or 0) > 0
        assert (rung.latency_ms or 0) > 0
        assert rung.size_mb == pytest.approx(measure_disk_megabytes(Path(rung.folder)), abs=1e-3)
        assert not rung.reused
    assert (ladder_result.part, ladder_result.rows, ladder_result.metric) == ("test", 20, "accuracy")
    assert ladder_result.rung("tfidf").latency_ms < ladder_result.rung("finetune").latency_ms  # type: ignore[operator]
    with pytest.raises(InputError, match="The ladder has no result for 'few'"):
        ladder_result.rung("few")


def test_all_rungs_hold_out_the_same_rows(ladder_result: Ladder) -> None:
    folders = [Path(str(rung.folder)) for rung in ladder_result.rungs]
    splits = [json.loads((folder / "split.json").read_text()) for folder in folders]
    fingerprints = [json.loads((folder / "run.json").read_text())["data"]["data"] for folder in folders]
    assert all(split == splits[0] for split in splits)
    assert all(fingerprint == fingerprints[0] for fingerprint in fingerprints)
    assert len(splits[0]["parts"]["test"]) == 20


def test_size_is_what_is_needed_to_predict(ladder_result: Ladder, tmp_path: Path) -> None:
    folder = Path(str(ladder_result.rung("finetune").folder))
    assert not (folder / "state").exists()
    folder_size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    assert 0 < measure_disk_megabytes(folder) < folder_size
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("state", "tensorboard", "log.jsonl", "run.json"))
    for name in ("report.html", "metrics.json", "split.json"):
        (copy / name).unlink()
    assert measure_disk_megabytes(copy) == measure_disk_megabytes(folder)
    assert clearhead.predict(copy, ["it was good"])


def test_the_recommendation_and_its_reason(ladder_result: Ladder) -> None:
    best = max(ladder_result.rungs, key=lambda rung: rung.value or 0.0)
    assert best.difference is None
    assert ladder_result.recommended == best.method  # twenty rows cannot show that a cheaper one is within 0.01 of it
    assert ladder_result.margin == 0.01
    assert ladder_result.reason.startswith(f"{best.method}: accuracy {best.value:.3f}")
    assert ladder_result.reason.count("\n") == 0
    assert "on 20 test rows" in ladder_result.reason
    assert (ladder_result.not_tried, ladder_result.caveat) == ((), None)


def test_what_is_written(ladder_result: Ladder) -> None:
    saved = json.loads((ladder_result.folder / "ladder.json").read_text())
    assert {key: saved[key] for key in ladder_result.to_json()} == json.loads(json.dumps(ladder_result.to_json()))
    assert ladder_result.report == ladder_result.folder / "report.html"
    page = ladder_result.report.read_text()
    for text in ("Method comparison", "recommended", "Quality against latency", "http-equiv"):
        assert text in page
    html = ladder_result._repr_html_()
    assert html.count("<tr") == 5
    assert ladder_result.recommended in html


def test_the_same_call_reads_back_what_is_finished(
    ladder_result: Ladder, tiny: str, reviews: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_training(*_: Any, **__: Any) -> Any:
        raise AssertionError("trained again")

    monkeypatch.setattr(job, "TrainJob", fail_training)
    messages: list[str] = []
    events = RunEvents(message=messages.append)
    repeated = ladder(reviews, output=ladder_result.folder, model=tiny, budget=1, events=events, **FAST)
    assert all(rung.reused for rung in repeated.rungs)
    assert [replace(rung, reused=False) for rung in repeated.rungs] == list(ladder_result.rungs)
    assert (repeated.recommended, repeated.reason) == (ladder_result.recommended, ladder_result.reason)
    assert sum("reused, not trained again" in line for line in messages) == 4
    with_margin = ladder(
        reviews, output=ladder_result.folder, model=tiny, budget=1, margin=1, **FAST
    )  # is no setting of training
    assert (with_margin.margin, with_margin.recommended) == (1.0, "tfidf")
    with pytest.raises(InputError, match=r"other settings \(epochs was 2, got 3\); choose another"):
        ladder(reviews, output=ladder_result.folder, model=tiny, **FAST | {"epochs": 3})
    with pytest.raises(InputError, match=r"other settings \(seed was 0, got 5\)"):
        ladder(reviews, output=ladder_result.folder, model=tiny, seed=5, **FAST)


def test_a_ladder_of_a_version_with_fewer_settings_goes_on(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "rows.csv", make_sentiment_rows(60))
    ladder(data, output=tmp_path / "out", methods="majority")
    state_file = tmp_path / "out" / "ladder.json"
    saved = json.loads(state_file.read_text())
    del saved["asked"]["majority"]["pieces"], saved["asked"]["majority"]["settings"]["average_epochs"]
    state_file.write_text(json.dumps(saved))
    assert [rung.reused for rung in ladder(data, output=tmp_path / "out", methods="majority,tfidf").rungs] == [
        True,
        False,
    ]


def test_other_rows_are_not_compared_with(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "rows.csv", make_sentiment_rows(60))
    ladder(data, output=tmp_path / "out", methods="majority,tfidf")
    write_csv(data, make_sentiment_rows(60, seed=9))
    with pytest.raises(InputError, match="was trained or measured on other rows"):
        ladder(data, output=tmp_path / "out", methods="majority,tfidf")


def test_a_rung_that_was_stopped_goes_on(tiny: str, tmp_path: Path) -> None:
    rows = make_sentiment_rows(80)
    options: dict[str, Any] = {
        "output": tmp_path / "out",
        "model": tiny,
        "methods": ["finetune", "majority"],
        **FAST,
    }

    def stop(step: Any) -> None:
        if step.step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ladder(rows, events=RunEvents(training_step=stop), **options)
    assert (tmp_path / "out" / "finetune" / "run.json").exists()
    result = ladder(rows, **options)
    assert result.rung("majority").reused
    assert result.rung("finetune").left_out is None
    assert not result.rung("finetune").reused


def test_estimates_come_from_real_steps(tiny: str, tmp_path: Path) -> None:
    messages: list[str] = []
    options: dict[str, Any] = {"model": tiny, "methods": "features,head,finetune", **FAST}
    ladder(make_sentiment_rows(100), output=tmp_path / "out", events=RunEvents(message=messages.append), **options)
    assert sum("estimated training time" in line for line in messages) == 3
    with pytest.raises(InputError, match=r'features: the budget of 0\.00 s is used up; rerun with budget="30s"'):
        ladder(make_sentiment_rows(100), output=tmp_path / "none", budget="0.001s", **options)


def test_a_rung_that_fails_does_not_take_the_others_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(job: Any) -> Any:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setitem(methods.FIT_METHODS, "tfidf", broken)
    result = ladder(make_sentiment_rows(60), output=tmp_path / "out", methods="majority,tfidf")
    assert result.rung("tfidf").left_out == "tfidf failed with ZeroDivisionError: by nothing"
    assert result.recommended == "majority"
    assert (result.not_tried, result.caveat) == ((), None)  # tfidf is not often the best

    def reject_labels(job: Any) -> Any:
        raise InputError("These labels cannot be counted.")

    monkeypatch.setitem(methods.FIT_METHODS, "tfidf", reject_labels)
    result = ladder(make_sentiment_rows(60), output=tmp_path / "repeated", methods="majority,tfidf")
    assert result.rung("tfidf").left_out == "tfidf: These labels cannot be counted."
    with pytest.raises(InputError, match=r"No method could be measured\. tfidf: These labels"):
        ladder(make_sentiment_rows(60), output=tmp_path / "none", methods="tfidf")


def test_without_a_model_the_methods_without_one_are_measured(tmp_path: Path) -> None:
    result = ladder(make_sentiment_rows(60), output=tmp_path / "out", model=str(tmp_path / "nothing"))
    assert [rung.method for rung in result.rungs if rung.left_out is None] == ["majority", "tfidf"]
    assert "nothing" in str(result.rung("finetune").left_out)
    assert result.not_tried == ("finetune",)
    assert str(result.caveat).startswith("Not tried: finetune (")
    assert str(result.caveat).endswith("); it is often the best method.")
    assert "Not tried: finetune" in result._repr_html_()
    assert "Not tried: finetune" in (tmp_path / "out" / "report.html").read_text()
    assert json.loads((tmp_path / "out" / "ladder.json").read_text())["not_tried"] == ["finetune"]


@pytest.mark.parametrize("kind", ["pair", "regress", "multilabel"])
def test_every_task(kind: str, tiny: str, tmp_path: Path) -> None:
    rows = {"pair": make_pair_rows, "regress": make_scored_rows, "multilabel": make_multilabel_rows}[kind](90)
    result = ladder(rows, output=tmp_path / "out", model=tiny, methods="majority,tfidf,features,finetune", **FAST)
    assert [rung.left_out for rung in result.rungs] == [None] * 4
    assert result.metric == {"pair": "accuracy", "regress": "r2", "multilabel": "f1_micro"}[kind]
    assert result.task == ("classify" if kind == "multilabel" else kind)


def test_a_metric_that_is_not_defined_for_a_method(tmp_path: Path) -> None:
    result = ladder(make_scored_rows(90), output=tmp_path / "out", methods="majority,tfidf", metric="pearson")
    assert result.rung("majority").value is None  # a constant is correlated with nothing
    assert result.recommended == "tfidf"
    assert "not defined" in result._repr_html_()
    saved = (tmp_path / "out" / "ladder.json").read_text()
    assert "NaN" not in saved


def test_another_metric_and_rows_of_ones_own(tiny: str, tmp_path: Path) -> None:
    result = ladder(
        make_sentiment_rows(60),
        dev=make_sentiment_rows(30, seed=4),
        output=tmp_path / "out",
        methods="majority,tfidf",
        metric="log_loss",
    )
    assert (result.part, result.metric, result.rows) == ("dev", "log_loss", 30)
    assert result.recommended == "tfidf"
    assert result.rung("majority").difference.low > 0  # type: ignore[union-attr, operator]
    with_test_rows = ladder(
        make_sentiment_rows(60),
        test=make_sentiment_rows(25, seed=5),
        output=tmp_path / "with_test_rows",
        methods="majority,tfidf",
    )
    assert (with_test_rows.part, with_test_rows.rows) == ("test", 25)


def test_a_split_column_and_names_that_want_to_run(tmp_path: Path) -> None:
    markup = "<img src=x onerror=alert(1)>"
    parts = ["train"] * 60 + ["dev"] * 15 + ["test"] * 15
    rows = [
        {**row, "label": f"{row['label']} {markup}", "split": part}
        for row, part in zip(make_sentiment_rows(90), parts, strict=True)
    ]
    result = ladder(write_csv(tmp_path / f"{markup}.csv", rows), output=tmp_path / markup, methods="majority,tfidf")
    assert (result.part, result.rows) == ("test", 15)
    page = (tmp_path / markup / "report.html").read_text()
    assert "&lt;img src=x" in page
    assert "<img" not in page + result._repr_html_()


def test_settings_of_features_are_for_features_alone(tiny: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"methods": "tfidf,features", "layer": "last", "pooling": "max", "C": 1.0}
    result = ladder(make_sentiment_rows(60), output=tmp_path / "out", model=tiny, **options)
    assert result.rung("features").left_out is None
    trained = json.loads((tmp_path / "out" / "features" / "clearhead.json").read_text())["trained"]
    assert (trained["layer"], trained["pooling"]) == ("last", ["max"])


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"budget": "soon"}, "budget is 'soon'; expected a time > 0 such as 90s, 10m or 1h"),
        ({"budget": "10"}, "budget is '10'"),
        ({"budget": 0}, "budget is '0'"),
        ({"margin": -0.1}, "margin must be a number from 0 to 1e\\+09, in units of the metric; got '-0.1'"),
        ({"margin": "small"}, "margin must be a number .* got 'small'"),
        ({"methods": "tfidf,magic"}, "Unknown method 'magic'; choose from majority, tfidf"),
        ({"method": "tfidf"}, "set them with methods"),
        ({"epoch": 3}, "Unknown setting 'epoch'"),
        ({"label": "nothing"}, "nothing"),
    ],
)
def test_what_is_refused_at_once(choices: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        ladder(make_sentiment_rows(20), output=tmp_path / "out", **choices)
    assert not (tmp_path / "out").exists()


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    with pytest.raises(InputError, match="already exists and is not empty"):
        ladder(make_sentiment_rows(20), output=tmp_path / "full", methods="majority")
    (tmp_path / "full" / "ladder.json").write_text("{}")
    with pytest.raises(CheckpointError, match="damaged or was written by another version"):
        ladder(make_sentiment_rows(20), output=tmp_path / "full", methods="majority")
    with pytest.raises(InputError, match="too few distinct rows to hold out a part"):
        ladder(make_sentiment_rows(200)[4:6], output=tmp_path / "few", methods="majority")


def test_budgets_in_words() -> None:
    assert [parse_budget(budget) for budget in ("90s", "10m", "1h", "1.5h", 30)] == [90, 600, 3600, 5400, 30]
    assert [suggest_budget(budget) for budget in (10, 80, 840, 3000, 9000)] == ["30s", "2m", "20m", "60m", "180m"]
    assert [format_duration(seconds) for seconds in (0.25, 3.14, 45, 840, 9000)] == [
        "0.25 s",
        "3.1 s",
        "45 s",
        "14 min",
        "2.5 h",
    ]
    assert parse_methods("finetune, majority") == ("majority", "finetune")
    assert parse_methods("head,finetune,features") == ("features", "finetune", "head")  # what is worth most first
    assert "head" not in parse_methods(None)
