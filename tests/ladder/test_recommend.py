"""The cheapest method that is shown to be almost as good as the best, the sentence that says why, and caveats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clearhead.data.labels import LabelSpace
from clearhead.errors import InputError
from clearhead.evaluate.difference import Comparison, Difference, default_margin
from clearhead.ladder.methods import MethodResult
from clearhead.ladder.recommend import check_margin, compare_results, describe_missing_methods, recommend_method
from clearhead.tasks import TASKS
from clearhead.tasks.task import Answers

COSTS = {"majority": (0.01, 0.05), "tfidf": (2.0, 0.25), "features": (20.0, 50.0), "finetune": (120.0, 100.0)}


def make_result(method: str, is_correct: Any, targets: Any) -> tuple[MethodResult, Answers]:
    """A rung that has these rows right, and its answers."""
    seconds, latency = COSTS[method]
    answers = Answers(labels=np.where(is_correct, targets, 1 - targets))
    value = float(np.mean(is_correct))
    return MethodResult(method=method, value=value, training_seconds=seconds, latency_ms=latency, size_mb=1.0), answers


def compare_methods(
    is_correct: dict[str, Any], *, rows: int, margin: float | None = None
) -> tuple[dict[str, MethodResult], str, str]:
    """Methods by the rows that they have right: compared by their answers, and one of them recommended."""
    targets = np.arange(rows) % 2
    pairs = [make_result(method, rows_right, targets) for method, rows_right in is_correct.items()]
    comparison = make_comparison("accuracy", targets, margin)
    rungs = compare_results([rung for rung, _ in pairs], {rung.method: answers for rung, answers in pairs}, comparison)
    return {rung.method: rung for rung in rungs}, *recommend_method(rungs, comparison)


def make_comparison(metric: str, targets: Any, margin: float | None = None) -> Comparison:
    task = "regress" if metric in ("mse", "mae", "r2", "pearson") else "classify"
    return Comparison(
        task=TASKS[task], space=LabelSpace(names=("a", "b")), metric=metric, part="test", targets=targets, margin=margin
    )


def recommend(metric: str, *rungs: MethodResult, rows: int = 1000, margin: float | None = None) -> tuple[str, str]:
    """What is recommended of rungs whose differences to the best are given."""
    return recommend_method(rungs, make_comparison(metric, np.arange(rows) % 2, margin))


def result(method: str, value: float, *interval: float) -> MethodResult:
    """A rung with its difference to the best and the ends of its interval; without them, the best."""
    seconds, latency = COSTS[method]
    difference = Difference(difference=interval[0], low=interval[1], high=interval[2], p=0.5) if interval else None
    return MethodResult(method=method, value=value, difference=difference, training_seconds=seconds, latency_ms=latency)


def correct_except(rows: int, *wrong_rows: int) -> Any:
    """All rows right but these."""
    is_correct = np.ones(rows, bool)
    is_correct[list(wrong_rows)] = False
    return is_correct


def test_with_many_rows_the_cheapest_within_the_margin_is_taken() -> None:
    rows = 4000
    is_correct = {
        "majority": np.arange(rows) % 2 == 0,
        "tfidf": correct_except(rows, *range(400), *range(500, 510)),
        "finetune": correct_except(rows, *range(400)),
    }
    rungs, recommended, reason = compare_methods(is_correct, rows=rows)
    difference = rungs["tfidf"].difference
    assert recommended == "tfidf"
    assert rungs["finetune"].difference is None
    assert difference is not None
    assert difference.high is not None
    assert difference.high < 0  # clearly worse, and by so little that it does not matter
    assert reason == (
        "tfidf: accuracy 0.897 on 4,000 test rows is at most 0.01 worse than the best (finetune 0.900, difference "
        f"-0.003, {difference.low:.3f} to {difference.high:.3f}), at 1/60 of its training time and 1/400 of its "
        "latency."
    )
    assert compare_methods(is_correct, rows=rows, margin=0.001)[1] == "finetune"
    assert compare_methods(is_correct, rows=rows, margin=0)[1] == "finetune"


def test_with_few_rows_the_best_is_taken_and_the_doubt_is_said() -> None:
    """An interval that includes 0 is what few rows always have: it is no reason to take the cheaper method."""
    is_correct = {
        "majority": np.arange(80) % 2 == 0,
        "tfidf": correct_except(80, *range(8)),
        "finetune": correct_except(80, *range(6, 11)),
    }
    rungs, recommended, reason = compare_methods(is_correct, rows=80)
    difference = rungs["tfidf"].difference
    assert difference is not None
    assert difference.low is not None
    assert difference.high is not None
    assert difference.low < 0 < difference.high
    assert recommended == "finetune"
    assert reason == (
        "finetune: accuracy 0.938 is the best on 80 test rows. These rows are too few to resolve differences below "
        f"{(difference.high - difference.low) / 2:.2g}, so the cheaper tfidf (0.900) may be as good."
    )
    assert compare_methods(is_correct, rows=80, margin=0.2)[1] == "tfidf"


def test_equal_answers_on_few_rows_do_not_show_that_methods_are_equal() -> None:
    """The bootstrap of two methods that never differ has no width; twelve rows have a resolution all the same."""
    worse = correct_except(12, 0)
    _, recommended, reason = compare_methods(
        {"majority": np.arange(12) % 2 == 0, "tfidf": worse, "finetune": worse}, rows=12
    )
    assert recommended == "tfidf"  # of equal figures the cheapest, with the doubt
    assert reason.endswith(
        "These rows are too few to resolve differences below 0.25, so finetune (0.917) may be better."
    )
    same = (result("tfidf", 0.9, 0.0, 0.0, 0.0), result("finetune", 0.9000001))
    assert recommend("accuracy", *same, rows=299)[0] == "finetune"
    assert recommend("accuracy", *same, rows=301)[0] == "tfidf"


def test_what_is_clearly_worse_is_not_taken() -> None:
    worse = (result("majority", 0.5, -0.4, -0.43, -0.37), result("tfidf", 0.8, -0.1, -0.12, -0.08))
    assert recommend("accuracy", *worse, result("finetune", 0.9)) == (
        "finetune",
        "finetune: accuracy 0.900 is the best, and every cheaper method is worse (the nearest is tfidf 0.800, "
        "difference -0.100, -0.120 to -0.080) on 1,000 test rows.",
    )
    edge = result("tfidf", 0.895, -0.005, -0.01, 0.0)  # the end of the interval is the margin: not within it
    assert recommend("accuracy", edge, result("finetune", 0.9))[0] == "finetune"
    assert recommend("accuracy", edge, result("finetune", 0.9), margin=0.0101)[0] == "tfidf"


def test_the_cheapest_that_is_good_enough_not_the_nearest() -> None:
    rungs = (
        result("tfidf", 0.893, -0.007, -0.012, -0.002),
        result("features", 0.896, -0.004, -0.009, 0.001),
        result("finetune", 0.9),
    )
    assert recommend("accuracy", *rungs)[0] == "features"
    assert recommend("accuracy", *rungs, margin=0.02)[0] == "tfidf"


@pytest.mark.parametrize("metric", ["log_loss", "mse", "mae"])
def test_less_is_better_for_some_metrics(metric: str) -> None:
    margin = {"log_loss": 0.01, "mse": 0.0025, "mae": 0.005}[metric]  # labels are 0 and 1: variance 1/4, deviation 1/2
    floor = result("majority", 0.9, 0.6, 0.5, 0.7)
    close_result = result("tfidf", 0.3 + margin / 4, margin / 4, -margin / 4, 0.9 * margin)
    recommended, reason = recommend(metric, floor, close_result, result("finetune", 0.3), rows=4000)
    assert recommended == "tfidf"
    assert f"is at most {margin:.3g} worse than the best (finetune 0.300" in reason
    far = result("tfidf", 0.3 + margin / 4, margin / 4, -margin / 4, 1.1 * margin)
    recommended, reason = recommend(metric, floor, far, result("finetune", 0.3), rows=4000)
    assert recommended == "finetune"
    assert "so the cheaper tfidf" in reason
    recommended, reason = recommend(metric, floor, result("tfidf", 0.5, 0.2, 0.1, 0.3), result("finetune", 0.3))
    assert recommended == "finetune"
    assert "every cheaper method is worse (the nearest is tfidf 0.500" in reason


def test_the_floor_is_recommended_only_where_nothing_beats_it() -> None:
    close_results = (result("majority", 0.899, -0.001, -0.003, 0.001), result("tfidf", 0.9))
    recommended, reason = recommend("accuracy", *close_results, rows=50_000)
    assert recommended == "tfidf"
    assert reason.startswith("tfidf: accuracy 0.900 is the best on 50,000 test rows. The best is not clearly better")
    assert "majority (0.899, difference -0.001, -0.003 to 0.001), which ignores the text" in reason
    few = (result("majority", 0.5, -0.1, -0.4, 0.1), result("tfidf", 0.55, -0.05, -0.3, 0.2), result("finetune", 0.6))
    recommended, reason = recommend("accuracy", *few, rows=20)
    assert recommended == "finetune"
    assert reason.count(". ") == 1  # two sentences, not three
    assert "not clearly better than majority" in reason
    equal = (result("majority", 0.9), result("tfidf", 0.9, 0.0, -0.01, 0.01))
    assert recommend("accuracy", *equal) == (
        "majority",
        "majority: accuracy 0.900 on 1,000 test rows; no method that reads the text is better.",
    )


def test_one_method_and_the_cheapest() -> None:
    assert recommend("accuracy", result("tfidf", 0.9)) == (
        "tfidf",
        "tfidf: accuracy 0.900 on 1,000 test rows; it is the only measured method.",
    )
    best = (
        result("tfidf", 0.9),
        result("features", 0.8, -0.1, -0.2, -0.05),
        MethodResult(method="finetune", left_out="no"),
    )
    assert recommend("accuracy", *best)[1].endswith("is the best, and it is also the cheapest method.")
    assert recommend("accuracy", MethodResult(method="majority", value=None), result("tfidf", 0.9))[0] == "tfidf"
    undefined = MethodResult(
        method="tfidf", value=0.8, difference=Difference(difference=None, low=None, high=None, p=None)
    )
    recommended, reason = recommend("accuracy", undefined, result("finetune", 0.9), rows=1)
    assert recommended == "finetune"
    assert "too few to tell methods apart, so the cheaper tfidf (0.800) may be as good." in reason
    with pytest.raises(InputError, match=r"No method could be measured\. gone"):
        recommend("accuracy", MethodResult(method="tfidf", left_out="gone"))


def test_margins_of_metrics() -> None:
    labels = np.array([0.0, 10.0, 20.0, 30.0])
    assert [default_margin(name, labels) for name in ("accuracy", "f1", "roc_auc", "r2", "log_loss")] == [0.01] * 5
    assert [default_margin(name, labels) for name in ("matthews", "pearson", "spearman")] == [0.02] * 3
    assert default_margin("mse", labels) == pytest.approx(0.01 * np.var(labels))
    assert default_margin("mse", labels * 10) == pytest.approx(100 * default_margin("mse", labels))
    assert default_margin("mae", labels) == pytest.approx(0.1)


def test_margins_that_can_be() -> None:
    assert check_margin(None) is None
    assert [check_margin(value) for value in (0, 0.5, np.float32(0.25))] == [0.0, 0.5, 0.25]
    for value in (-0.01, float("nan"), float("inf"), "0.1", True, [0.1], 10**400):
        with pytest.raises(InputError, match="margin must be a number from 0 to 1e\\+09, in units of the metric; got "):
            check_margin(value)


def test_an_often_best_method_that_is_missing_is_named() -> None:
    done = result("tfidf", 0.9)
    late = MethodResult(method="finetune", left_out="finetune would take ...", needs_seconds=360.0, needs_budget="11m")
    assert describe_missing_methods((done, late)) == (
        ("finetune",),
        'Not tried: finetune (needs about 6 min; rerun with budget="11m"); it is often the best method.',
    )
    none = MethodResult(method="finetune", left_out="finetune: the budget of 1.0 s is used up", needs_budget="30s")
    assert '(the budget was used up; rerun with budget="30s")' in str(describe_missing_methods((done, none))[1])
    failed = MethodResult(method="finetune", left_out="finetune failed with ValueError: bad")
    assert describe_missing_methods((failed,))[1] == (
        "Not tried: finetune (failed with ValueError: bad); it is often the best method."
    )
    torchless = MethodResult(method="finetune", left_out="finetune: Training a network needs torch.")
    assert "Not tried: finetune (Training a network needs torch);" in str(describe_missing_methods((torchless,))[1])
    assert describe_missing_methods((done, MethodResult(method="head", left_out="head would take long"))) == ((), None)
    assert describe_missing_methods((done, result("finetune", 0.8))) == ((), None)


def test_a_shortened_method_is_said_to_be() -> None:
    short = MethodResult(
        method="finetune", value=0.9, epochs=2, planned_epochs=5, needs_seconds=360.0, needs_budget="11m"
    )
    assert describe_missing_methods((short,)) == (
        (),
        "finetune was trained for 2 of 5 epochs to fit the budget; all epochs take about 6 min: rerun with "
        'budget="11m".',
    )
