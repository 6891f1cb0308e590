"""Pairs of texts: copying and reversing are learned, epochs are averaged, a stopped run ends in the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.tasks.parallel import Parallel, side
from clearhead.training.loop import compute_logits, train_steps
from clearhead.training.objectives import TargetWords
from clearhead.training.optimizer import make_optimizer, schedule_factor
from clearhead.training.settings import TrainSettings
from clearhead.training.state import TrainingProgress, TrainingState, load_state, save_state

SMALL: dict[str, dict[str, Any]] = {
    "transformer": {"width": 64, "heads": 4, "feed_width": 128, "encoder_layers": 1, "decoder_layers": 1},
    "rnn": {"width": 64, "encoder_layers": 1, "decoder_layers": 1, "attention": "dot"},
}
END, START = 1, 0


def pairs(count: int, seed: int = 0) -> Parallel:
    """Words to copy, and the end."""
    draw = np.random.default_rng(seed)
    texts = [draw.integers(3, 12, int(draw.integers(1, 6))).tolist() for _ in range(count)]
    ends = [[*text, END] for text in texts]
    return Parallel(source=side(ends), target=side(ends), start=START, numbers=np.arange(1, count + 1))


def fresh(family: str, settings: TrainSettings) -> TrainingState:
    config = {"vocab_size": 12, "dropout": 0.1, **SMALL[family]}
    model = clearhead.create(family, config=config, head="seq2seq", labels=["x"], device="cpu")
    return TrainingState(model.module, make_optimizer(model.module, settings), TrainingProgress())


def right(state: TrainingState, data: Parallel) -> float:
    """The share of words that come first, given those before them."""
    part = data.take(np.arange(len(data)))
    with torch.no_grad():
        logits = compute_logits(state.network.eval(), part, "cpu")
    return float((logits.argmax(-1).numpy() == part.marks["words"]).mean())


def test_a_batch_is_shifted_by_one() -> None:
    data = Parallel(
        source=side([[5, 6, END], [7, END]]), target=side([[8, END], [9, 10, END]]), start=START, numbers=np.arange(2)
    )
    part = data.take(np.array([1, 0]))
    assert part.target_ids is not None
    assert part.ids.tolist() == [7, END, 5, 6, END]
    assert part.target_ids.tolist() == [START, 9, 10, START, 8]
    assert part.marks["words"].tolist() == [9, 10, END, 8, END]
    assert part.marks["word_rows"].tolist() == [0, 0, 0, 1, 1]
    assert (part.rows, part.tokens, data.row_tokens.tolist()) == (2, 10, [5, 5])


@pytest.mark.learns
@pytest.mark.parametrize("family", SMALL)
def test_copying_is_learned(family: str) -> None:
    settings = TrainSettings(epochs=9, learning_rate=4e-3, batch_tokens=400, batch_size=None, adam_beta2=0.98)
    data, dev = pairs(2000), pairs(100, seed=1)
    state = fresh(family, settings)
    words = data.row_words.astype(np.float64)
    for _ in train_steps(
        state, data, settings, objective=TargetWords(), row_weights=words, score=lambda: right(state, dev)
    ):
        pass
    state.restore_best()
    assert right(state, dev) > 0.95


@pytest.mark.parametrize("stop", [3, 11])
def test_epochs_are_averaged_also_after_a_stop(tmp_path: Path, stop: int) -> None:
    settings = TrainSettings(
        epochs=5, learning_rate=1e-3, batch_size=16, average_epochs=3, schedule="inverse_sqrt", warmup_steps=4
    )
    data = pairs(64)
    state, after = fresh("transformer", settings), []
    for step in train_steps(state, data, settings, objective=TargetWords()):
        if step.step % 4 == 0:
            after.append({name: tensor.clone() for name, tensor in state.named_weights().items()})
    mean = {name: torch.stack([one[name] for one in after[-3:]]).mean(0) for name in after[0]}
    for name, tensor in state.best.items():
        torch.testing.assert_close(tensor, mean[name])
    state.restore_best()

    other = fresh("transformer", settings)
    for step in train_steps(other, data, settings, objective=TargetWords()):
        if step.step == stop:
            save_state(tmp_path, other)
            break
    again = fresh("transformer", settings)
    assert load_state(tmp_path, again)
    for _ in train_steps(again, data, settings, objective=TargetWords()):
        save_state(tmp_path, again)
    kept = sorted(path.name for path in tmp_path.glob("epoch-*"))
    assert kept == [f"epoch-00000{epoch}.safetensors" for epoch in (2, 3, 4)]
    again.restore_best()
    for name, tensor in again.named_weights().items():
        assert torch.equal(tensor, state.named_weights()[name]), name


def test_the_rate_of_the_2017_transformer() -> None:
    settings = TrainSettings(schedule="inverse_sqrt", warmup_steps=100)
    width = 512
    for step in (1, 50, 100, 101, 400, 9999):
        paper = width**-0.5 * min(step**-0.5, step * 100**-1.5)
        largest = width**-0.5 * 100**-0.5
        assert schedule_factor(step - 1, 10_000, settings) == pytest.approx(paper / largest)
