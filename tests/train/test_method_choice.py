"""Fine-tuning or frozen features, where no method was named."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.api import evaluate, train
from clearhead.evaluate.difference import Difference
from clearhead.jobs.events import RunEvents
from clearhead.jobs.plan import make_plan
from clearhead.train import job as train_module
from clearhead.train.method_choice import prefers_features
from clearhead.train.network import MIN_DEV_ROWS
from clearhead.training.state import TrainingProgress, TrainingState
from tests.rows import Rows, paired
from tests.tiny_models import labelled

WORDS = ("good", "bad", "film", "plot", "fine", "poor", "actor", "scene", "dull", "nice")
QUIET: dict[str, Any] = {"report": False, "precision": "float", "threads": 1}


def copied(count: int) -> Rows:
    """Two texts that are the same or not: plain to see for two vectors, hard for a small network that reads both."""
    draw = random.Random(0)
    rows = []
    for number in range(count):
        first = " ".join(draw.choices(WORDS, k=6))
        second = first if number % 2 else " ".join(draw.choices(WORDS, k=6))
        rows.append({"sentence1": first, "sentence2": second, "label": "same" if number % 2 else "other"})
    return rows


def gap(low: float, high: float) -> Difference:
    return Difference(difference=(low + high) / 2, low=low, high=high, p=0.5)


def test_one_text_leaves_the_network_a_standard_error() -> None:
    behind = gap(-0.06, 0.02)  # 0.02 behind, with a standard error of 0.0204
    assert not prefers_features(behind, "accuracy", two_texts=False)
    assert prefers_features(gap(-0.065, 0.015), "accuracy", two_texts=False)
    assert prefers_features(behind, "accuracy", two_texts=True)
    assert prefers_features(gap(-0.04, 0.04), "accuracy", two_texts=True)  # of equal ones, the cheaper
    assert not prefers_features(gap(-0.02, 0.06), "accuracy", two_texts=True)
    assert prefers_features(gap(0.02, 0.06), "log_loss", two_texts=False)  # lower is better
    assert not prefers_features(gap(-0.06, -0.02), "log_loss", two_texts=False)
    undefined = Difference(difference=None, low=None, high=None, p=None)
    assert not prefers_features(undefined, "spearman", two_texts=True)


@pytest.mark.parametrize(
    "said",
    [{"method": "finetune"}, {"epochs": 2}, {"learning_rate": 1e-4}, {"seeds": 2}, {"batch_size": 8}, {"minutes": 5}],
)
def test_who_names_a_method_or_a_setting_of_networks_gets_one(said: dict[str, Any]) -> None:
    assert not make_plan(said).auto_method
    assert make_plan(said).method == "finetune"
    assert make_plan({"text": "body", "seed": 3, "max_length": 64}).auto_method


def test_few_pairs_are_learned_by_features(tiny: str, tmp_path: Path) -> None:
    said: list[str] = []
    told = RunEvents(message=said.append)
    run = train(paired(10 * MIN_DEV_ROWS - 60), output=tmp_path / "run", model=tiny, events=told, **QUIET)
    assert run.method == "features"
    assert [one.method for one in run.baselines] == ["majority", "cosine"]
    assert any(line.startswith("method: features (two texts and too few dev rows") for line in said)
    assert not (run.folder / "log.jsonl").exists()
    tuned = train(paired(100), output=tmp_path / "tuned", model=tiny, method="finetune", epochs=1, **QUIET)
    assert tuned.method == "finetune"


@pytest.fixture(scope="module")
def kept(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run in which features are much better than the network."""
    return train(copied(700), output=tmp_path_factory.mktemp("runs") / "kept", model=tiny, **QUIET)


def test_features_that_are_better_are_kept(kept: Any) -> None:
    assert kept.method == "features"
    assert [one.method for one in kept.baselines] == ["majority", "cosine", "finetune"]
    network = kept.baselines[-1]
    assert network.value is not None
    assert kept.metrics["accuracy"].value > network.value
    assert any(note.startswith("Kept frozen features and a linear model instead") for note in kept.notes)
    again = evaluate(kept.folder, copied(700), part="test").metrics["accuracy"].value
    assert again == pytest.approx(kept.metrics["accuracy"].value)
    passport = json.loads((kept.folder / "clearhead.json").read_text())
    assert passport["trained"]["method"] == "features"
    assert not (kept.folder / "state").exists()


def test_a_run_that_was_killed_at_its_end_keeps_the_same(
    kept: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(train_module, "write_metrics", killed)
        with pytest.raises(KeyboardInterrupt):
            train(copied(700), output=folder, model=tiny, **QUIET)
    run = train(copied(700), resume=folder, **QUIET)
    assert (run.method, run.notes) == ("features", kept.notes)
    assert [one.value for one in run.baselines] == [one.value for one in kept.baselines]
    names = ("model.safetensors", "classic.safetensors", "metrics.json")
    assert [(folder / name).read_bytes() for name in names] == [(kept.folder / name).read_bytes() for name in names]
    assert not (folder / "state").exists()


def test_of_equal_epochs_the_last_is_kept() -> None:
    network = torch.nn.Linear(1, 1)
    state = TrainingState(network, torch.optim.AdamW(network.parameters()), TrainingProgress())  # type: ignore[arg-type]
    judged = [state.record_score(score, epoch) for epoch, score in enumerate((0.5, 0.7, 0.7, 0.6))]
    assert (judged, state.progress.best_epoch, state.progress.best_score) == ([True, True, True, False], 2, 0.7)
    probed = TrainingState(network, torch.optim.AdamW(network.parameters()), TrainingProgress())  # type: ignore[arg-type]
    probed.record_start_score(0.7)
    assert not probed.record_score(0.7, 0)  # the start is kept until an epoch is better
    assert probed.progress.best_epoch == -1


def test_one_text_is_fine_tuned_as_before(tiny: str, tmp_path: Path) -> None:
    run = train(labelled(400), output=tmp_path / "run", model=tiny, **QUIET)
    assert run.method == "finetune"
    assert [one.method for one in run.baselines] == ["majority", "features"]
