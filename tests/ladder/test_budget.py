"""The time budget of a ladder: often better methods come first, with fewer epochs if needed; omissions are reported."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from clearhead.api import ladder
from clearhead.errors import CheckpointError
from clearhead.jobs.events import RunEvents
from clearhead.jobs.plan import RunPlan
from clearhead.ladder import methods as ladder_methods
from clearhead.ladder.budget import Budget, fit_into_budget
from clearhead.ladder.estimates import Estimate
from clearhead.ladder.methods import METHODS
from clearhead.ladder.state import find_shortened_runs
from clearhead.training.settings import TrainSettings
from tests.rows import QUICK
from tests.tiny_models import make_sentiment_rows

FAST: dict[str, Any] = {"C": 1.0, **QUICK}
SetEstimate = Callable[..., None]


@pytest.fixture
def slow_method(monkeypatch: pytest.MonkeyPatch) -> SetEstimate:
    """Set the estimated time of a method, in total or divided into epochs."""

    def set_estimate(method: str, seconds: float, epochs: int = 0) -> None:
        settings = TrainSettings(epochs=epochs, learning_rate=3e-3, batch_size=16) if epochs else None
        estimate = Estimate(seconds=seconds, epoch_seconds=seconds / epochs if epochs else 0.0, settings=settings)
        monkeypatch.setitem(
            ladder_methods.METHODS, method, replace(METHODS[method], estimate=lambda plan, prepared: estimate)
        )

    return set_estimate


def run_ladder(tiny: str, folder: Path, messages: list[str] | None = None, **choices: Any) -> Any:
    events = RunEvents(message=(messages if messages is not None else []).append)
    return ladder(make_sentiment_rows(60), output=folder, model=tiny, events=events, **FAST | choices)


def trained_epochs(folder: Path) -> int:
    saved = json.loads((folder / "run.json").read_text())
    return int(saved["plan"]["settings"]["epochs"])


def test_an_estimate_by_epochs() -> None:
    estimate = Estimate(seconds=110.0, epoch_seconds=20.0, settings=TrainSettings(epochs=5))
    assert [estimate.seconds_of(epochs) for epochs in (5, 1)] == [110.0, 30.0]
    assert [estimate.epochs_within(seconds) for seconds in (200, 110, 109, 30, 29, -1)] == [5, 5, 4, 1, 0, 0]
    assert Estimate(seconds=10.0).epochs_within(100.0) == 0


def test_fine_tuning_comes_before_a_new_head(tiny: str, tmp_path: Path) -> None:
    messages: list[str] = []
    result = run_ladder(tiny, tmp_path / "out", messages, methods="head,majority,finetune", epochs=1)
    order = [line.split(":")[0] for line in messages if "trained in" in line]
    assert order == ["majority", "finetune", "head"]
    assert [rung.method for rung in result.rungs] == order
    assert all(rung.left_out is None for rung in result.rungs)


def test_fine_tuning_gets_fewer_epochs_where_not_all_fit(tiny: str, tmp_path: Path, slow_method: SetEstimate) -> None:
    slow_method("finetune", 600.0, epochs=6)
    messages: list[str] = []
    result = run_ladder(tiny, tmp_path / "out", messages, methods="majority,finetune", budget="4m")
    rung = result.rung("finetune")
    assert (rung.epochs, rung.planned_epochs, rung.needs_seconds, rung.needs_budget) == (2, 6, 600.0, "15m")
    assert rung.name == "finetune (2 of 6 epochs)"
    assert rung.left_out is None
    assert trained_epochs(tmp_path / "out" / "finetune-2-epochs") == 2
    assert "finetune (2 of 6 epochs): estimated training time 3 min, 4 min left in the budget" in messages
    assert result.not_tried == ()
    assert result.caveat == (
        "finetune was trained for 2 of 6 epochs to fit the budget; all epochs take about 10 min: rerun with "
        'budget="15m".'
    )
    assert result.caveat in unescape((tmp_path / "out" / "report.html").read_text())
    assert result.caveat in unescape(result._repr_html_())
    assert "<td>finetune (2 of 6 epochs)</td>" in result._repr_html_()
    repeated = run_ladder(tiny, tmp_path / "out", methods="majority,finetune", budget="4m")
    assert repeated.rung("finetune") == replace(rung, reused=True)
    assert repeated.caveat == result.caveat
    slow_method("finetune", 600.0, epochs=1)
    extended = run_ladder(tiny, tmp_path / "out", methods="majority,finetune", budget="15m")
    assert (extended.rung("finetune").epochs, extended.rung("finetune").reused, extended.caveat) == (None, False, None)
    assert Path(extended.rung("finetune").folder) == tmp_path / "out" / "finetune"
    assert run_ladder(tiny, tmp_path / "out", methods="majority,finetune", budget="1s").rung("finetune").reused


def test_what_does_not_fit_at_all_is_left_out_and_said(tiny: str, tmp_path: Path, slow_method: SetEstimate) -> None:
    slow_method("finetune", 840.0, epochs=6)  # two epochs are the least that tell anything
    result = run_ladder(tiny, tmp_path / "out", methods="majority,tfidf,finetune", budget="4m")
    omitted = result.rung("finetune")
    assert str(omitted.left_out).startswith(
        'finetune would take about 14 min, with 4 min left; rerun with budget="20m"'
    )
    assert not list((tmp_path / "out").glob("finetune*"))
    assert result.not_tried == ("finetune",)
    assert result.caveat == (
        'Not tried: finetune (needs about 14 min; rerun with budget="20m"); it is often the best method.'
    )
    report = unescape((tmp_path / "out" / "report.html").read_text())
    assert str(omitted.left_out) in report
    assert result.caveat in report
    assert result.to_json()["not_tried"] == ("finetune",)
    slow_method("finetune", 1.0, epochs=1)
    extended = run_ladder(tiny, tmp_path / "out", methods="majority,tfidf,finetune", budget="4m")
    assert extended.rung("finetune").left_out is None
    assert extended.rung("tfidf").reused
    assert extended.caveat is None


def test_what_is_known_of_a_method_is_said_when_no_time_is_left() -> None:
    """It was tried out before the methods that took the time."""
    no_data: Any = None  # never read
    estimates = {"finetune": Estimate(seconds=840.0, epoch_seconds=140.0, settings=TrainSettings(epochs=6))}
    budget = Budget(
        seconds=1.0, started_at=perf_counter() - 60.0, prepared=no_data, events=RunEvents(), estimates=estimates
    )
    _, omitted = fit_into_budget(budget, "finetune", RunPlan())
    assert omitted.left_out == 'finetune would take about 14 min, with 0.00 s left; rerun with budget="20m"'
    assert (omitted.needs_seconds, omitted.needs_budget) == (840.0, "20m")
    _, unestimated = fit_into_budget(budget, "features", RunPlan(method="features"))
    assert unestimated.left_out == 'features: the budget of 1.0 s is used up; rerun with budget="3m"'


def test_epochs_that_were_said_are_not_changed(tiny: str, tmp_path: Path, slow_method: SetEstimate) -> None:
    slow_method("finetune", 600.0, epochs=6)
    result = run_ladder(tiny, tmp_path / "out", methods="majority,finetune", budget="4m", epochs=6)
    assert str(result.rung("finetune").left_out).startswith("finetune would take about 10 min")


def test_time_is_kept_for_what_is_worth_most(tiny: str, tmp_path: Path, slow_method: SetEstimate) -> None:
    slow_method("features", 200.0)
    slow_method("finetune", 270.0, epochs=3)
    result = run_ladder(tiny, tmp_path / "out", budget="4m")
    assert result.rung("features").left_out == (
        'features would take about 3 min, with 4 min left (2 min reserved for finetune); rerun with budget="10m"'
    )
    assert result.rung("finetune").epochs == 2
    slow_method("finetune", 3000.0, epochs=3)  # not one epoch fits: nothing is kept
    result = run_ladder(tiny, tmp_path / "none", budget="4m")
    assert result.rung("features").left_out is None
    assert result.not_tried == ("finetune",)


def test_trying_out_a_later_method_takes_no_time_from_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    no_data: Any = None  # never read
    clock_time = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock_time[0])

    def try_out(plan: Any, prepared: Any) -> Estimate:
        clock_time[0] += 9.0
        return Estimate(seconds=100.0, epoch_seconds=100.0, settings=TrainSettings(epochs=1))

    monkeypatch.setitem(ladder_methods.METHODS, "finetune", replace(METHODS["finetune"], estimate=try_out))
    estimates = {"features": Estimate(seconds=5.0)}
    budget = Budget(seconds=10.0, started_at=0.0, prepared=no_data, events=RunEvents(), estimates=estimates)
    _, rung = fit_into_budget(budget, "features", RunPlan(method="features"), {"finetune": RunPlan()})
    assert clock_time == [9.0]
    assert rung.left_out is None
    _, rung = fit_into_budget(budget, "finetune", RunPlan())
    assert rung.left_out == 'finetune would take about 2 min, with 1.0 s left; rerun with budget="3m"'


def test_a_method_that_cannot_be_tried_out_keeps_nobody_else_out(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(plan: Any, prepared: Any) -> Any:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setitem(ladder_methods.METHODS, "finetune", replace(METHODS["finetune"], estimate=broken))
    result = run_ladder(tiny, tmp_path / "out", methods="features,finetune")
    assert result.rung("features").left_out is None
    assert result.caveat == (
        "Not tried: finetune (failed with ZeroDivisionError: by nothing); it is often the best method."
    )


def test_a_shortened_training_that_was_stopped_goes_on(tiny: str, tmp_path: Path, slow_method: SetEstimate) -> None:
    def stop(step: Any) -> None:
        if step.step == 4:
            raise KeyboardInterrupt

    slow_method("finetune", 600.0, epochs=6)
    options: dict[str, Any] = {"output": tmp_path / "out", "model": tiny, "methods": "majority,finetune", **FAST}
    with pytest.raises(KeyboardInterrupt):
        ladder(make_sentiment_rows(60), events=RunEvents(training_step=stop), budget="4m", **options)
    assert find_shortened_runs(tmp_path / "out", "finetune") == [2]
    steps: list[int] = []
    result = ladder(
        make_sentiment_rows(60),
        events=RunEvents(training_step=lambda step: steps.append(step.step)),
        budget="6m",
        **options,
    )
    assert result.rung("finetune").epochs == 2  # three would fit by now, and those would begin anew
    assert steps[0] > 1
    assert find_shortened_runs(tmp_path / "out", "finetune") == [2]


def test_folders_of_shortened_runs(tmp_path: Path) -> None:
    for name in ("finetune", "finetune-10-epochs", "finetune-2-epochs", "finetune-x-epochs", "finetune-0-epochs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}")
    (tmp_path / "finetune-3-epochs").mkdir()
    assert find_shortened_runs(tmp_path, "finetune") == [2, 10]
    assert find_shortened_runs(tmp_path, "head") == []
    assert find_shortened_runs(tmp_path / "none", "finetune") == []


def test_a_state_of_before_methods_could_be_shortened(tiny: str, tmp_path: Path) -> None:
    """A folder of an earlier version, where head was a default method and a rung had fewer fields."""
    folder = tmp_path / "out"
    run_ladder(tiny, folder, methods="majority,tfidf,head", epochs=1)
    state_file = folder / "ladder.json"
    saved = json.loads(state_file.read_text())
    for name in ("margin", "not_tried", "caveat"):
        del saved[name]
    for rung in (*saved["finished"].values(), *saved["rungs"]):
        for name in ("epochs", "planned_epochs", "needs_seconds", "needs_budget"):
            del rung[name]
    saved["recommended"], saved["reason"] = "majority", "majority: accuracy 0.5 is within noise of the best."
    state_file.write_text(json.dumps(saved))
    result = run_ladder(tiny, folder, epochs=1)
    assert [rung.method for rung in result.rungs] == ["majority", "tfidf", "features", "finetune"]
    assert [rung.reused for rung in result.rungs] == [True, True, False, False]
    assert "head" in json.loads(state_file.read_text())["finished"]
    assert run_ladder(tiny, folder, epochs=1, methods="majority,head").rung("head").reused


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": 0, "planned_epochs": 3},
        {"epochs": -3, "planned_epochs": 3},
        {"epochs": 2},
        {"epochs": 2, "planned_epochs": 10**9},
        {"method": "tfidf"},
    ],
)
def test_a_damaged_state_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    ladder(make_sentiment_rows(40), output=tmp_path / "out", methods="majority")
    state_file = tmp_path / "out" / "ladder.json"
    saved = json.loads(state_file.read_text())
    saved["finished"]["majority"] |= change
    state_file.write_text(json.dumps(saved))
    with pytest.raises(CheckpointError, match=r"ladder\.json is damaged: expected a result of majority"):
        ladder(make_sentiment_rows(40), output=tmp_path / "out", methods="majority")
