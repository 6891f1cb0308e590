"""Texts longer than the model are read in windows, in training as in prediction; what is cut is counted."""

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
from tests.rows import QUICK, paired
from tests.tiny_models import NEUTRAL_WORDS, labelled, make_sentence

ROOM = 30  # tokens of a text beside [CLS] and [SEP]


def late(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Texts whose only telling word comes after what the model can read at once."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        label = draw.choice(("good", "bad"))
        plain = " ".join(draw.choice(NEUTRAL_WORDS) for _ in range(32))
        rows.append({"text": f"{plain} {' '.join([label] * 20)}", "label": label})
    return rows


@pytest.fixture(scope="module")
def windowed(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on texts of which every one takes two windows."""
    return train(late(100), output=tmp_path_factory.mktemp("runs") / "windowed", model=tiny, epochs=8, **QUICK)


@pytest.mark.learns
def test_what_comes_late_is_read(windowed: Run) -> None:
    assert windowed.metrics["accuracy"].value > 0.8
    assert windowed.evaluations["test"].windowed == windowed.evaluations["test"].rows == 10
    assert windowed.evaluations["test"].truncated == 0
    answers = predict(windowed.folder, late(30, seed=4))
    assert {(answer.windows, answer.truncated) for answer in answers} == {(2, 0)}
    made = evaluate(windowed.folder, late(30, seed=4))
    assert made.metrics["accuracy"].value > 0.8
    assert (made.windowed, made.truncated) == (30, 0)


def test_a_row_is_the_mean_of_its_windows(windowed: Run) -> None:
    model = clearhead.load(windowed.folder)
    text = late(1, seed=8)[0]["text"]
    pieces = model.tokenizer.windows(text, max_length=32)
    assert len(pieces) == 2
    logits = [model.run([piece.ids], None, [piece.segments], hidden=False).logits for piece in pieces]
    predictor = load_predictor(windowed.folder)
    ours = predict(predictor, [text])[0]
    mean = np.mean(np.concatenate([np.asarray(one) for one in logits]), 0) / predictor.calibration.temperature
    expected = np.exp(mean) / np.exp(mean).sum()
    np.testing.assert_allclose(list(ours.probabilities.values()), expected, atol=1e-5)


def test_cutting_counts_what_is_lost(tiny: str, tmp_path: Path) -> None:
    run = train(late(40), output=tmp_path / "run", model=tiny, long="cut", epochs=1, **QUICK)
    dev = run.evaluations["dev"]
    assert (dev.windowed, dev.truncated) == (0, dev.rows)
    assert json.loads((run.folder / "clearhead.json").read_text())["trained"]["long"] == "cut"
    answers = predict(run.folder, [*late(3), {"text": "it was good"}])
    assert [(answer.windows, answer.truncated) for answer in answers] == [(1, 52 - ROOM)] * 3 + [(1, 0)]
    told = predict_file(run.folder, late(3), tmp_path / "out.jsonl")
    assert (told.truncated, told.windowed) == (3, 0)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["truncated"], row["windows"]) for row in rows] == [(22, 1)] * 3


def test_windows_overlap_by_the_stride(tiny: str, tmp_path: Path) -> None:
    run = train(late(40), output=tmp_path / "run", model=tiny, stride=20, max_length=24, epochs=1, **QUICK)
    counts = {answer.windows for answer in predict(run.folder, late(10))}
    assert counts == {1 + -(-(52 - 22) // 2)}  # windows of 22 tokens that move on by two
    assert {answer.truncated for answer in predict(run.folder, late(10))} == {0}


def test_the_second_text_slides_and_the_first_stays(pair: Run) -> None:
    draw = random.Random(1)
    rows = [
        {"sentence1": row["sentence1"], "sentence2": make_sentence(draw, [], least=60, most=60)} for row in paired(6)
    ]
    answers = predict(pair.folder, rows)
    assert all(answer.windows > 2 and answer.truncated == 0 for answer in answers)
    both = [{"sentence1": row["sentence2"], "sentence2": row["sentence2"]} for row in rows]
    assert all(answer.windows == 1 and answer.truncated > 0 for answer in predict(pair.folder, both))  # counted


@pytest.mark.parametrize("words", [29, 30, 31, 60, 61, 5000])
def test_every_length_gets_one_answer(words: int, fitted: Run) -> None:
    answer = predict(fitted.folder, [" ".join(["film"] * words)])[0]
    assert (answer.windows, answer.truncated) == (-(-words // ROOM), 0)


def test_neighbours_do_not_change_an_answer(fitted: Run) -> None:
    texts = [row["text"] for row in (*labelled(30, seed=2), *late(10))]
    together = predict(fitted.folder, texts)
    for place in (0, 7, 35):
        alone = predict(fitted.folder, [texts[place]])[0]
        assert alone.label == together[place].label
        assert alone.probability == pytest.approx(together[place].probability, abs=1e-6)


def test_a_text_of_unknown_signs_has_an_answer(fitted: Run) -> None:
    odd = ["日本語", "☃", "\u200b", "a\u0301\u0301", "<script>", "x" * 300, ".", "\ufeff good"]
    assert len(predict(fitted.folder, odd)) == len(odd)
