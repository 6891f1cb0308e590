"""The choice between fine-tuning and frozen features without an explicit method."""

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
from tests.rows import Rows, make_pair_rows
from tests.tiny_models import make_sentiment_rows

WORDS = ("good", "bad", "film", "plot", "fine", "poor", "actor", "scene", "dull", "nice")
QUIET: dict[str, Any] = {"report": False, "precision": "float", "threads": 1}


def make_copied_pairs(count: int) -> Rows:
    """Pairs of equal or different texts: easy for two vectors, hard for a small network that reads both."""
    generator = random.Random(0)
    rows = []
    for number in range(count):
        first = " ".join(generator.choices(WORDS, k=6))
        second = first if number % 2 else " ".join(generator.choices(WORDS, k=6))
        rows.append({"sentence1": first, "sentence2": second, "label": "same" if number % 2 else "other"})
    return rows


def make_difference(low: float, high: float) -> Difference:
    return Difference(difference=(low + high) / 2, low=low, high=high, p=0.5)


def test_on_single_texts_features_must_lead_by_a_standard_error() -> None:
    behind = make_difference(-0.06, 0.02)  # 0.02 behind, with a standard error of 0.0204
    assert not prefers_features(behind, "accuracy", has_two_texts=False)
    assert prefers_features(make_difference(-0.065, 0.015), "accuracy", has_two_texts=False)
    assert prefers_features(behind, "accuracy", has_two_texts=True)
    assert prefers_features(make_difference(-0.04, 0.04), "accuracy", has_two_texts=True)  # the cheaper of equal ones
    assert not prefers_features(make_difference(-0.02, 0.06), "accuracy", has_two_texts=True)
    assert prefers_features(make_difference(0.02, 0.06), "log_loss", has_two_texts=False)  # lower is better
    assert not prefers_features(make_difference(-0.06, -0.02), "log_loss", has_two_texts=False)
    undefined = Difference(difference=None, low=None, high=None, p=None)
    assert not prefers_features(undefined, "spearman", has_two_texts=True)


@pytest.mark.parametrize(
    "options",
    [{"method": "finetune"}, {"epochs": 2}, {"learning_rate": 1e-4}, {"seeds": 2}, {"batch_size": 8}, {"minutes": 5}],
)
def test_settings_of_networks_disable_the_choice(options: dict[str, Any]) -> None:
    assert not make_plan(options).auto_method
    assert make_plan(options).method == "finetune"
    assert make_plan({"text": "body", "seed": 3, "max_length": 64}).auto_method


def test_few_pairs_are_learned_by_features(tiny: str, tmp_path: Path) -> None:
    messages: list[str] = []
    events = RunEvents(message=messages.append)
    run = train(make_pair_rows(10 * MIN_DEV_ROWS - 60), output=tmp_path / "run", model=tiny, events=events, **QUIET)
    assert run.method == "features"
    assert [baseline.method for baseline in run.baselines] == ["majority", "cosine"]
    assert any(message.startswith("method: features (two texts and too few dev rows") for message in messages)
    assert not (run.folder / "log.jsonl").exists()
    finetuned = train(make_pair_rows(100), output=tmp_path / "tuned", model=tiny, method="finetune", epochs=1, **QUIET)
    assert finetuned.method == "finetune"


@pytest.fixture(scope="module")
def features_run(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run whose features are much better than its network."""
    return train(make_copied_pairs(700), output=tmp_path_factory.mktemp("runs") / "kept", model=tiny, **QUIET)


def test_better_features_are_kept(features_run: Any) -> None:
    assert features_run.method == "features"
    assert [baseline.method for baseline in features_run.baselines] == ["majority", "cosine", "finetune"]
    network = features_run.baselines[-1]
    assert network.value is not None
    assert features_run.metrics["accuracy"].value > network.value
    assert any(note.startswith("Kept a linear model on frozen features") for note in features_run.notes)
    accuracy = evaluate(features_run.folder, make_copied_pairs(700), part="test").metrics["accuracy"].value
    assert accuracy == pytest.approx(features_run.metrics["accuracy"].value)
    passport = json.loads((features_run.folder / "clearhead.json").read_text())
    assert passport["trained"]["method"] == "features"
    assert not (features_run.folder / "state").exists()


def test_a_run_killed_at_its_end_keeps_the_same_model(
    features_run: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(train_module, "write_metrics", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(make_copied_pairs(700), output=folder, model=tiny, **QUIET)
    run = train(make_copied_pairs(700), resume=folder, **QUIET)
    assert (run.method, run.notes) == ("features", features_run.notes)
    assert [baseline.value for baseline in run.baselines] == [baseline.value for baseline in features_run.baselines]
    names = ("model.safetensors", "classic.safetensors", "metrics.json")
    assert [(folder / name).read_bytes() for name in names] == [
        (features_run.folder / name).read_bytes() for name in names
    ]
    assert not (folder / "state").exists()


def test_the_last_of_equal_epochs_is_kept() -> None:
    network = torch.nn.Linear(1, 1)
    state = TrainingState(network, torch.optim.AdamW(network.parameters()), TrainingProgress())  # type: ignore[arg-type]
    is_best = [state.record_score(score, epoch) for epoch, score in enumerate((0.5, 0.7, 0.7, 0.6))]
    assert (is_best, state.progress.best_epoch, state.progress.best_score) == ([True, True, True, False], 2, 0.7)
    probed = TrainingState(network, torch.optim.AdamW(network.parameters()), TrainingProgress())  # type: ignore[arg-type]
    probed.record_start_score(0.7)
    assert not probed.record_score(0.7, 0)  # the initial weights are kept until an epoch is better
    assert probed.progress.best_epoch == -1


def test_single_texts_are_fine_tuned(tiny: str, tmp_path: Path) -> None:
    run = train(make_sentiment_rows(400), output=tmp_path / "run", model=tiny, **QUIET)
    assert run.method == "finetune"
    assert [baseline.method for baseline in run.baselines] == ["majority", "features"]
