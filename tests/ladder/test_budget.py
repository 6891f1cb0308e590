"""The time of a ladder: what is worth most gets its share, with fewer epochs if need be; what is missing is said."""

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
from clearhead.ladder import methods as rungs
from clearhead.ladder.budget import Budget, fit_into_budget
from clearhead.ladder.estimates import Estimate
from clearhead.ladder.methods import METHODS
from clearhead.ladder.state import find_shortened_runs
from clearhead.training.settings import TrainSettings
from tests.rows import QUICK
from tests.tiny_models import make_sentiment_rows

FAST: dict[str, Any] = {"C": 1.0, **QUICK}
Slow = Callable[..., None]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Methods that seem to take as long as a test wants them to: a whole time, or some epochs of a time each."""

    def seem(method: str, seconds: float, epochs: int = 0) -> None:
        settings = TrainSettings(epochs=epochs, learning_rate=3e-3, batch_size=16) if epochs else None
        made = Estimate(seconds=seconds, epoch_seconds=seconds / epochs if epochs else 0.0, settings=settings)
        monkeypatch.setitem(rungs.METHODS, method, replace(METHODS[method], estimate=lambda plan, prepared: made))

    return seem


def call(tiny: str, folder: Path, said: list[str] | None = None, **choices: Any) -> Any:
    told = RunEvents(message=(said if said is not None else []).append)
    return ladder(make_sentiment_rows(60), output=folder, model=tiny, events=told, **FAST | choices)


def trained_epochs(folder: Path) -> int:
    saved = json.loads((folder / "run.json").read_text())
    return int(saved["plan"]["settings"]["epochs"])


def test_an_estimate_by_epochs() -> None:
    estimate = Estimate(seconds=110.0, epoch_seconds=20.0, settings=TrainSettings(epochs=5))
    assert [estimate.seconds_of(epochs) for epochs in (5, 1)] == [110.0, 30.0]
    assert [estimate.epochs_within(seconds) for seconds in (200, 110, 109, 30, 29, -1)] == [5, 5, 4, 1, 0, 0]
    assert Estimate(seconds=10.0).epochs_within(100.0) == 0


def test_fine_tuning_comes_before_a_new_head(tiny: str, tmp_path: Path) -> None:
    said: list[str] = []
    made = call(tiny, tmp_path / "out", said, methods="head,majority,finetune", epochs=1)
    order = [line.split(":")[0] for line in said if "trained in" in line]
    assert order == ["majority", "finetune", "head"]
    assert [rung.method for rung in made.rungs] == order
    assert all(rung.left_out is None for rung in made.rungs)


def test_fine_tuning_gets_fewer_epochs_where_not_all_fit(tiny: str, tmp_path: Path, slow: Slow) -> None:
    slow("finetune", 600.0, epochs=6)
    said: list[str] = []
    made = call(tiny, tmp_path / "out", said, methods="majority,finetune", budget="4m")
    rung = made.rung("finetune")
    assert (rung.epochs, rung.planned_epochs, rung.needs_seconds, rung.needs_budget) == (2, 6, 600.0, "15m")
    assert rung.name == "finetune (2 of 6 epochs)"
    assert rung.left_out is None
    assert trained_epochs(tmp_path / "out" / "finetune-2-epochs") == 2
    assert "finetune (2 of 6 epochs): estimated training time 3 min, 4 min left in the budget" in said
    assert made.not_tried == ()
    assert made.caveat == (
        "finetune was trained for 2 of 6 epochs to fit the budget; all epochs take about 10 min: rerun with "
        'budget="15m".'
    )
    assert made.caveat in unescape((tmp_path / "out" / "report.html").read_text())
    assert made.caveat in unescape(made._repr_html_())
    assert "<td>finetune (2 of 6 epochs)</td>" in made._repr_html_()
    again = call(tiny, tmp_path / "out", methods="majority,finetune", budget="4m")
    assert again.rung("finetune") == replace(rung, reused=True)
    assert again.caveat == made.caveat
    slow("finetune", 600.0, epochs=1)
    more = call(tiny, tmp_path / "out", methods="majority,finetune", budget="15m")
    assert (more.rung("finetune").epochs, more.rung("finetune").reused, more.caveat) == (None, False, None)
    assert Path(more.rung("finetune").folder) == tmp_path / "out" / "finetune"
    assert call(tiny, tmp_path / "out", methods="majority,finetune", budget="1s").rung("finetune").reused


def test_what_does_not_fit_at_all_is_left_out_and_said(tiny: str, tmp_path: Path, slow: Slow) -> None:
    slow("finetune", 840.0, epochs=6)  # two epochs are the least that tell anything
    made = call(tiny, tmp_path / "out", methods="majority,tfidf,finetune", budget="4m")
    left = made.rung("finetune")
    assert str(left.left_out).startswith('finetune would take about 14 min, with 4 min left; rerun with budget="20m"')
    assert not list((tmp_path / "out").glob("finetune*"))
    assert made.not_tried == ("finetune",)
    assert made.caveat == (
        'Not tried: finetune (needs about 14 min; rerun with budget="20m"); it is often the best method.'
    )
    page = unescape((tmp_path / "out" / "report.html").read_text())
    assert str(left.left_out) in page
    assert made.caveat in page
    assert made.to_json()["not_tried"] == ("finetune",)
    slow("finetune", 1.0, epochs=1)
    more = call(tiny, tmp_path / "out", methods="majority,tfidf,finetune", budget="4m")
    assert more.rung("finetune").left_out is None
    assert more.rung("tfidf").reused
    assert more.caveat is None


def test_what_is_known_of_a_method_is_said_when_no_time_is_left() -> None:
    """It was tried out before the methods that took the time."""
    nothing: Any = None  # is read
    known = {"finetune": Estimate(seconds=840.0, epoch_seconds=140.0, settings=TrainSettings(epochs=6))}
    budget = Budget(
        seconds=1.0, started_at=perf_counter() - 60.0, prepared=nothing, events=RunEvents(), estimates=known
    )
    _, left = fit_into_budget(budget, "finetune", RunPlan())
    assert left.left_out == 'finetune would take about 14 min, with 0.00 s left; rerun with budget="20m"'
    assert (left.needs_seconds, left.needs_budget) == (840.0, "20m")
    _, unknown = fit_into_budget(budget, "features", RunPlan(method="features"))
    assert unknown.left_out == 'features: the budget of 1.0 s is used up; rerun with budget="3m"'


def test_epochs_that_were_said_are_not_changed(tiny: str, tmp_path: Path, slow: Slow) -> None:
    slow("finetune", 600.0, epochs=6)
    made = call(tiny, tmp_path / "out", methods="majority,finetune", budget="4m", epochs=6)
    assert str(made.rung("finetune").left_out).startswith("finetune would take about 10 min")


def test_time_is_kept_for_what_is_worth_most(tiny: str, tmp_path: Path, slow: Slow) -> None:
    slow("features", 200.0)
    slow("finetune", 270.0, epochs=3)
    made = call(tiny, tmp_path / "out", budget="4m")
    assert made.rung("features").left_out == (
        'features would take about 3 min, with 4 min left (2 min reserved for finetune); rerun with budget="10m"'
    )
    assert made.rung("finetune").epochs == 2
    slow("finetune", 3000.0, epochs=3)  # not one epoch fits: nothing is kept
    made = call(tiny, tmp_path / "none", budget="4m")
    assert made.rung("features").left_out is None
    assert made.not_tried == ("finetune",)


def test_trying_out_a_later_method_takes_no_time_from_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Any = None  # is read
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def try_out(plan: Any, prepared: Any) -> Estimate:
        clock[0] += 9.0
        return Estimate(seconds=100.0, epoch_seconds=100.0, settings=TrainSettings(epochs=1))

    monkeypatch.setitem(rungs.METHODS, "finetune", replace(METHODS["finetune"], estimate=try_out))
    known = {"features": Estimate(seconds=5.0)}
    budget = Budget(seconds=10.0, started_at=0.0, prepared=nothing, events=RunEvents(), estimates=known)
    _, rung = fit_into_budget(budget, "features", RunPlan(method="features"), {"finetune": RunPlan()})
    assert clock == [9.0]
    assert rung.left_out is None
    _, rung = fit_into_budget(budget, "finetune", RunPlan())
    assert rung.left_out == 'finetune would take about 2 min, with 1.0 s left; rerun with budget="3m"'


def test_a_method_that_cannot_be_tried_out_keeps_nobody_else_out(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(plan: Any, prepared: Any) -> Any:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setitem(rungs.METHODS, "finetune", replace(METHODS["finetune"], estimate=broken))
    made = call(tiny, tmp_path / "out", methods="features,finetune")
    assert made.rung("features").left_out is None
    assert made.caveat == (
        "Not tried: finetune (failed with ZeroDivisionError: by nothing); it is often the best method."
    )


def test_a_shortened_training_that_was_stopped_goes_on(tiny: str, tmp_path: Path, slow: Slow) -> None:
    def stop(step: Any) -> None:
        if step.step == 4:
            raise KeyboardInterrupt

    slow("finetune", 600.0, epochs=6)
    chosen: dict[str, Any] = {"output": tmp_path / "out", "model": tiny, "methods": "majority,finetune", **FAST}
    with pytest.raises(KeyboardInterrupt):
        ladder(make_sentiment_rows(60), events=RunEvents(training_step=stop), budget="4m", **chosen)
    assert find_shortened_runs(tmp_path / "out", "finetune") == [2]
    steps: list[int] = []
    made = ladder(
        make_sentiment_rows(60),
        events=RunEvents(training_step=lambda step: steps.append(step.step)),
        budget="6m",
        **chosen,
    )
    assert made.rung("finetune").epochs == 2  # three would fit by now, and those would begin anew
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
    call(tiny, folder, methods="majority,tfidf,head", epochs=1)
    kept = folder / "ladder.json"
    saved = json.loads(kept.read_text())
    for name in ("margin", "not_tried", "caveat"):
        del saved[name]
    for rung in (*saved["finished"].values(), *saved["rungs"]):
        for name in ("epochs", "planned_epochs", "needs_seconds", "needs_budget"):
            del rung[name]
    saved["recommended"], saved["reason"] = "majority", "majority: accuracy 0.5 is within noise of the best."
    kept.write_text(json.dumps(saved))
    made = call(tiny, folder, epochs=1)
    assert [rung.method for rung in made.rungs] == ["majority", "tfidf", "features", "finetune"]
    assert [rung.reused for rung in made.rungs] == [True, True, False, False]
    assert "head" in json.loads(kept.read_text())["finished"]
    assert call(tiny, folder, epochs=1, methods="majority,head").rung("head").reused


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
    kept = tmp_path / "out" / "ladder.json"
    saved = json.loads(kept.read_text())
    saved["finished"]["majority"] |= change
    kept.write_text(json.dumps(saved))
    with pytest.raises(CheckpointError, match=r"ladder\.json is damaged: expected a result of majority"):
        ladder(make_sentiment_rows(40), output=tmp_path / "out", methods="majority")
