"""Pairs of texts: copying is learned, epochs are averaged, and a resumed run ends in the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.tasks.parallel import ParallelDataset, pack_token_ids
from clearhead.training.loop import compute_logits, train_steps
from clearhead.training.objectives import Seq2SeqCrossEntropy
from clearhead.training.optimizer import compute_schedule_factor, make_optimizer
from clearhead.training.settings import TrainSettings
from clearhead.training.state import TrainingProgress, TrainingState, load_state, save_state

TINY_CONFIGS: dict[str, dict[str, Any]] = {
    "transformer": {"width": 64, "heads": 4, "feed_width": 128, "encoder_layers": 1, "decoder_layers": 1},
    "rnn": {"width": 64, "encoder_layers": 1, "decoder_layers": 1, "attention": "dot"},
}
END, START = 1, 0


def make_pairs(count: int, seed: int = 0) -> ParallelDataset:
    """Random tokens to copy, each text with an end token."""
    generator = np.random.default_rng(seed)
    texts = [generator.integers(3, 12, int(generator.integers(1, 6))).tolist() for _ in range(count)]
    sequences = [[*text, END] for text in texts]
    return ParallelDataset(
        source=pack_token_ids(sequences),
        target=pack_token_ids(sequences),
        start_id=START,
        row_numbers=np.arange(1, count + 1),
    )


def make_state(family: str, settings: TrainSettings) -> TrainingState:
    config = {"vocab_size": 12, "dropout": 0.1, **TINY_CONFIGS[family]}
    model = clearhead.create(family, config=config, head="seq2seq", labels=["x"], device="cpu")
    return TrainingState(model.module, make_optimizer(model.module, settings), TrainingProgress())


def measure_token_accuracy(state: TrainingState, data: ParallelDataset) -> float:
    """The fraction of target tokens that are predicted correctly, given the tokens before them."""
    batch = data.take(np.arange(len(data)))
    with torch.no_grad():
        logits = compute_logits(state.network.eval(), batch, "cpu")
    return float((logits.argmax(-1).numpy() == batch.annotations["words"]).mean())


def test_a_batch_is_shifted_by_one() -> None:
    data = ParallelDataset(
        source=pack_token_ids([[5, 6, END], [7, END]]),
        target=pack_token_ids([[8, END], [9, 10, END]]),
        start_id=START,
        row_numbers=np.arange(2),
    )
    batch = data.take(np.array([1, 0]))
    assert batch.target_ids is not None
    assert batch.ids.tolist() == [7, END, 5, 6, END]
    assert batch.target_ids.tolist() == [START, 9, 10, START, 8]
    assert batch.annotations["words"].tolist() == [9, 10, END, 8, END]
    assert batch.annotations["word_rows"].tolist() == [0, 0, 0, 1, 1]
    assert (batch.rows, batch.tokens, data.row_tokens.tolist()) == (2, 10, [5, 5])


@pytest.mark.learns
@pytest.mark.parametrize("family", TINY_CONFIGS)
def test_copying_is_learned(family: str) -> None:
    settings = TrainSettings(epochs=9, learning_rate=4e-3, batch_tokens=400, batch_size=None, adam_beta2=0.98)
    data, dev = make_pairs(2000), make_pairs(100, seed=1)
    state = make_state(family, settings)
    target_lengths = data.row_words.astype(np.float64)
    for _ in train_steps(
        state,
        data,
        settings,
        objective=Seq2SeqCrossEntropy(),
        row_weights=target_lengths,
        score=lambda: measure_token_accuracy(state, dev),
    ):
        pass
    state.restore_best()
    assert measure_token_accuracy(state, dev) > 0.95


@pytest.mark.parametrize("stop", [3, 11])
def test_epochs_are_averaged_also_after_a_stop(tmp_path: Path, stop: int) -> None:
    settings = TrainSettings(
        epochs=5, learning_rate=1e-3, batch_size=16, average_epochs=3, schedule="inverse_sqrt", warmup_steps=4
    )
    data = make_pairs(64)
    state, epoch_weights = make_state("transformer", settings), []
    for step in train_steps(state, data, settings, objective=Seq2SeqCrossEntropy()):
        if step.step % 4 == 0:
            epoch_weights.append({name: tensor.clone() for name, tensor in state.named_weights().items()})
    mean = {name: torch.stack([weights[name] for weights in epoch_weights[-3:]]).mean(0) for name in epoch_weights[0]}
    for name, tensor in state.best.items():
        torch.testing.assert_close(tensor, mean[name])
    state.restore_best()

    stopped = make_state("transformer", settings)
    for step in train_steps(stopped, data, settings, objective=Seq2SeqCrossEntropy()):
        if step.step == stop:
            save_state(tmp_path, stopped)
            break
    resumed = make_state("transformer", settings)
    assert load_state(tmp_path, resumed)
    for _ in train_steps(resumed, data, settings, objective=Seq2SeqCrossEntropy()):
        save_state(tmp_path, resumed)
    epoch_files = sorted(path.name for path in tmp_path.glob("epoch-*"))
    assert epoch_files == [f"epoch-00000{epoch}.safetensors" for epoch in (2, 3, 4)]
    resumed.restore_best()
    for name, tensor in resumed.named_weights().items():
        assert torch.equal(tensor, state.named_weights()[name]), name


def test_the_rate_of_the_2017_transformer() -> None:
    settings = TrainSettings(schedule="inverse_sqrt", warmup_steps=100)
    width = 512
    for step in (1, 50, 100, 101, 400, 9999):
        paper_rate = width**-0.5 * min(step**-0.5, step * 100**-1.5)
        peak_rate = width**-0.5 * 100**-0.5
        assert compute_schedule_factor(step - 1, 10_000, settings) == pytest.approx(paper_rate / peak_rate)
