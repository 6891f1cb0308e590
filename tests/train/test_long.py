"""Texts longer than the model are split into windows in training and prediction; truncation is counted."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.api import evaluate, load_predictor, predict, predict_file, train
from clearhead.train.finish import Run
from tests.rows import QUICK, make_pair_rows
from tests.tiny_models import NEUTRAL_WORDS, make_sentence, make_sentiment_rows

TEXT_TOKENS = 30  # maximum number of tokens of a text, without [CLS] and [SEP]


def make_late_rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Texts whose only informative words come after the first window."""
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        label = generator.choice(("good", "bad"))
        filler = " ".join(generator.choice(NEUTRAL_WORDS) for _ in range(32))
        rows.append({"text": f"{filler} {' '.join([label] * 20)}", "label": label})
    return rows


@pytest.fixture(scope="module")
def windowed_run(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on texts of two windows each."""
    return train(
        make_late_rows(100), output=tmp_path_factory.mktemp("runs") / "windowed", model=tiny, epochs=8, **QUICK
    )


@pytest.mark.learns
def test_later_windows_are_read(windowed_run: Run) -> None:
    assert windowed_run.metrics["accuracy"].value > 0.8
    assert windowed_run.evaluations["test"].windowed == windowed_run.evaluations["test"].rows == 10
    assert windowed_run.evaluations["test"].truncated == 0
    answers = predict(windowed_run.folder, make_late_rows(30, seed=4))
    assert {(answer.windows, answer.truncated) for answer in answers} == {(2, 0)}
    evaluation = evaluate(windowed_run.folder, make_late_rows(30, seed=4))
    assert evaluation.metrics["accuracy"].value > 0.8
    assert (evaluation.windowed, evaluation.truncated) == (30, 0)


def test_the_logits_of_a_row_are_the_mean_of_its_windows(windowed_run: Run) -> None:
    model = clearhead.load(windowed_run.folder)
    text = make_late_rows(1, seed=8)[0]["text"]
    windows = model.tokenizer.windows(text, max_length=32)
    assert len(windows) == 2
    logits = [model.run([window.ids], None, [window.segments], hidden=False).logits for window in windows]
    predictor = load_predictor(windowed_run.folder)
    prediction = predict(predictor, [text])[0]
    mean_logits = (
        np.mean(np.concatenate([np.asarray(window_logits) for window_logits in logits]), 0)
        / predictor.calibration.temperature
    )
    expected = np.exp(mean_logits) / np.exp(mean_logits).sum()
    np.testing.assert_allclose(list(prediction.probabilities.values()), expected, atol=1e-5)


def test_truncated_tokens_are_counted(tiny: str, tmp_path: Path) -> None:
    run = train(make_late_rows(40), output=tmp_path / "run", model=tiny, long="cut", epochs=1, **QUICK)
    dev = run.evaluations["dev"]
    assert (dev.windowed, dev.truncated) == (0, dev.rows)
    assert json.loads((run.folder / "clearhead.json").read_text())["trained"]["long"] == "cut"
    answers = predict(run.folder, [*make_late_rows(3), {"text": "it was good"}])
    assert [(answer.windows, answer.truncated) for answer in answers] == [(1, 52 - TEXT_TOKENS)] * 3 + [(1, 0)]
    summary = predict_file(run.folder, make_late_rows(3), tmp_path / "out.jsonl")
    assert (summary.truncated, summary.windowed) == (3, 0)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["truncated"], row["windows"]) for row in rows] == [(22, 1)] * 3


def test_windows_overlap_by_the_stride(tiny: str, tmp_path: Path) -> None:
    run = train(make_late_rows(40), output=tmp_path / "run", model=tiny, stride=20, max_length=24, epochs=1, **QUICK)
    counts = {answer.windows for answer in predict(run.folder, make_late_rows(10))}
    assert counts == {1 + -(-(52 - 22) // 2)}  # windows of 22 tokens with a step of two
    assert {answer.truncated for answer in predict(run.folder, make_late_rows(10))} == {0}


def test_the_second_text_is_split_and_the_first_is_repeated(pair_run: Run) -> None:
    generator = random.Random(1)
    rows = [
        {"sentence1": row["sentence1"], "sentence2": make_sentence(generator, [], min_words=60, max_words=60)}
        for row in make_pair_rows(6)
    ]
    answers = predict(pair_run.folder, rows)
    assert all(answer.windows > 2 and answer.truncated == 0 for answer in answers)
    long_pairs = [{"sentence1": row["sentence2"], "sentence2": row["sentence2"]} for row in rows]
    # the first text is truncated
    assert all(answer.windows == 1 and answer.truncated > 0 for answer in predict(pair_run.folder, long_pairs))


@pytest.mark.parametrize("words", [29, 30, 31, 60, 61, 5000])
def test_every_length_has_one_prediction(words: int, fine_tuned_run: Run) -> None:
    answer = predict(fine_tuned_run.folder, [" ".join(["film"] * words)])[0]
    assert (answer.windows, answer.truncated) == (-(-words // TEXT_TOKENS), 0)


def test_other_texts_of_a_batch_do_not_change_a_prediction(fine_tuned_run: Run) -> None:
    texts = [row["text"] for row in (*make_sentiment_rows(30, seed=2), *make_late_rows(10))]
    batch = predict(fine_tuned_run.folder, texts)
    for index in (0, 7, 35):
        single = predict(fine_tuned_run.folder, [texts[index]])[0]
        assert single.label == batch[index].label
        assert single.probability == pytest.approx(batch[index].probability, abs=1e-6)


def test_texts_of_unknown_characters_have_predictions(fine_tuned_run: Run) -> None:
    texts = ["日本語", "☃", "\u200b", "a\u0301\u0301", "<script>", "x" * 300, ".", "\ufeff good"]
    assert len(predict(fine_tuned_run.folder, texts)) == len(texts)
