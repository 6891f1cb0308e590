"""The cheapest method within noise of the best, and the sentence that says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clearhead.data.labels import LabelSpace
from clearhead.runs.recommend import Asked, compared, recommendation
from clearhead.runs.rungs import Difference, Rung
from clearhead.tasks import TASKS
from clearhead.tasks.task import Answers


def rung(method: str, right: Any, targets: Any, seconds: float, latency: float) -> tuple[Rung, Answers]:
    """A rung that has these rows right."""
    answers = Answers(labels=np.where(right, targets, 1 - targets))
    value = float(np.mean(right))
    return Rung(method=method, value=value, training_seconds=seconds, latency_ms=latency, size_mb=1.0), answers


def judged(*made: tuple[Rung, Answers], targets: Any) -> tuple[tuple[Rung, ...], str, str]:
    asked = Asked(
        task=TASKS["classify"], space=LabelSpace(names=("a", "b")), metric="accuracy", part="test", targets=targets
    )
    found = compared([one for one, _ in made], {one.method: answers for one, answers in made}, asked)
    return found, *recommendation(found, asked)


def test_the_cheapest_within_noise_of_the_best_is_taken() -> None:
    draw = np.random.default_rng(0)
    targets = draw.integers(0, 2, 400)
    half = targets == 0
    good = draw.random(400) < 0.9
    better = good.copy()
    better[np.flatnonzero(~good)[:5]] = True
    better[np.flatnonzero(good)[:3]] = False
    floor = rung("majority", half, targets, 0.01, 0.05)
    words, network = rung("tfidf", good, targets, 2.0, 0.25), rung("finetune", better, targets, 120.0, 100.0)
    found, taken, reason = judged(floor, words, network, targets=targets)
    assert taken == "tfidf"
    assert found[2].difference is None
    assert found[1].difference is not None
    assert found[1].difference.within_noise
    assert found[1].difference.difference == pytest.approx(-2 / 400)
    low, high = found[1].difference.low, found[1].difference.high
    assert reason == (
        f"tfidf: accuracy {words[0].value:.3f} is within noise of the best (finetune {network[0].value:.3f}, "
        f"difference -0.005, {low:.3f} to {high:.3f}) on 400 test rows, "
        "at 1/60 of its training time and 1/400 of its latency."
    )
    clearly = good | (draw.random(400) < 0.8)
    _, taken, reason = judged(floor, words, rung("finetune", clearly, targets, 120.0, 100.0), targets=targets)
    assert taken == "finetune"
    assert "is the best, and every cheaper method is worse (the nearest is tfidf" in reason
    _, taken, reason = judged(words, network, targets=targets)
    assert taken == "tfidf"
    _, taken, reason = judged(words, targets=targets)
    assert reason.endswith("it is the only method that was measured.")
    _, taken, reason = judged(network, rung("tfidf", half, targets, 1.0, 1.0), targets=targets)
    assert reason.endswith("is the best, and it is the cheapest method, too.")


def test_a_floor_that_is_not_beaten_is_said_to_be_one() -> None:
    targets = np.array([0, 1, 0, 1, 0, 1, 0, 0])
    some = targets == 0
    more = some.copy()
    more[1] = True
    _, taken, reason = judged(
        rung("majority", some, targets, 0.1, 0.1), rung("tfidf", more, targets, 1.0, 1.0), targets=targets
    )
    assert taken == "majority"
    assert "no method is clearly better than an answer that does not look at the text" in reason
    assert "on 8 test rows" in reason


def test_noise_is_an_interval_that_includes_nothing() -> None:
    assert Difference(difference=-0.01, low=-0.02, high=0.0, p=0.1).within_noise
    assert not Difference(difference=-0.01, low=-0.02, high=-0.001, p=0.01).within_noise
    assert not Difference(difference=None, low=None, high=None, p=None).within_noise
