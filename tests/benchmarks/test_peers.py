"""The plain loops compared with clearhead: same rows, same weights, same answers."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import finetune
import pytest
from finetune_peers import PEERS, Window, predict_peer, predict_rows
from finetune_table import compute_scores
from finetune_tasks import SETTINGS, TASKS, Row, Task, TaskRows, label_names, labels_of

import clearhead
from tests.tiny_models import NEGATIVE_WORDS, POSITIVE_WORDS, make_sentence, tiny_model

MIN_WORDS = 12
SMALL_SETTINGS: dict[str, dict[str, Any]] = {
    "conll2003": {"max_length": 48},
    "squad": {"max_length": 24, "stride": 8, "max_answer": 5},
    "openbookqa": {"max_length": 48},
}


def make_rows(task: Task, count: int, seed: int) -> list[Row]:
    """Make rows of a task from the words of the tiny model."""
    rng = random.Random(seed)
    rows: list[Row] = []
    for _ in range(count):
        words = make_sentence(rng, [rng.choice(POSITIVE_WORDS)], MIN_WORDS, MIN_WORDS + 20).split()
        index = next(index for index, word in enumerate(words) if word in POSITIVE_WORDS)
        if task.kind == "tag":
            first, second = rng.choice(POSITIVE_WORDS[:2]), rng.choice(POSITIVE_WORDS[2:])
            words[index : index + 1] = [
                first,
                second,
                f"{rng.choice(NEGATIVE_WORDS[:2])}-sad",
                rng.choice(NEGATIVE_WORDS[2:]),
            ]
            tags = ["O"] * len(words)
            tags[index : index + 4] = ["B-GOOD", "I-GOOD", "B-BAD", "I-BAD"]
            rows.append({"tokens": words, "tags": tags})
        elif task.kind == "span":
            start = len(" ".join([*words[:index], ""]))
            answer = {"text": [words[index]], "answer_start": [start]}
            rows.append({"question": "  good film", "context": " ".join(words), "answers": answer})
        else:
            label = rng.randrange(4)
            options = [rng.choice(POSITIVE_WORDS if number == label else NEGATIVE_WORDS) for number in range(4)]
            rows.append(
                {"question": " ".join(words), "label": str(label)} | dict(zip(task.options, options, strict=True))
            )
    return rows


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with 48 positions."""
    return tiny_model(tmp_path_factory.mktemp("tiny"), max_position_embeddings=48)


@pytest.fixture(params=SMALL_SETTINGS)
def job(request: pytest.FixtureRequest, small: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Task, TaskRows]:
    """A task of the benchmark with a tiny model and few rows."""
    monkeypatch.setitem(SETTINGS, "model", str(small))
    for name, value in {"epochs": 4, "learning_rate": 5e-3, "batch_size": 8}.items():
        monkeypatch.setitem(SETTINGS, name, value)
    task = replace(TASKS[request.param], overrides=SMALL_SETTINGS[request.param])
    measure = make_rows(task, 30, 2)
    return task, TaskRows(train=make_rows(task, 160, 1), choose=measure, measure=measure)


@pytest.mark.slow
def test_both_sides_answer_every_row_and_learn(job: tuple[Task, TaskRows], capsys: pytest.CaptureFixture[str]) -> None:
    task, rows = job
    truth, labels = labels_of(task, rows.measure), label_names(task, rows)
    for predict in (predict_peer, finetune.predict_clearhead):
        predictions = predict(task, rows, 0)
        assert len(predictions) == len(truth)
        assert all(map(_has_same_type, predictions, truth))
        assert compute_scores(task, truth, predictions, labels)[task.metrics[0]] > 0.6, predict.__name__
    assert capsys.readouterr().out.count("epoch") == 4


def _has_same_type(prediction: Any, expected: Any) -> bool:
    if isinstance(prediction, list):
        return len(prediction) == len(expected)
    return isinstance(prediction, str)


def test_the_same_weights_give_the_same_answers(job: tuple[Task, TaskRows], tmp_path: Path) -> None:
    task, rows = job
    settings: dict[str, Any] = task.settings | {
        "epochs": 1,
        "learning_rate": 1e-3,
        "options": ",".join(task.options) or None,
    }
    run = clearhead.train(
        rows.train,
        dev=rows.choose,
        task=task.kind,
        text=task.text,
        text_b=task.text_b,
        label=task.label,
        output=tmp_path / "run",
        **settings,
    )
    ours = [finetune.to_metric_answer(task, our_answer) for our_answer in clearhead.predict(run.folder, rows.measure)]
    peer_model = PEERS[task.kind](task, rows, run.folder)
    theirs = predict_rows(peer_model, peer_model.encode(rows.measure))
    if task.kind == "tag":  # the peer orders tags differently
        names = dict(zip(label_names(task, rows) or [], run.labels, strict=True))
        theirs = [[names[tag] for tag in tags] for tags in theirs]
    agreement = sum(our_answer == their_answer for our_answer, their_answer in zip(ours, theirs, strict=True))
    # tags: only clearhead enforces valid sequences; answers: the peer combines only the best start and end tokens
    assert agreement >= (30 if task.kind == "choice" else 27)


def test_an_answer_is_found_by_its_characters() -> None:
    offsets = [None, None, None, (10, 14), (15, 18), (18, 20), None]
    window = Window(row={}, row_index=0, inputs={}, offsets=offsets)
    assert window.find_tokens(15, 20) == (4, 5)
    assert window.find_tokens(10, 14) == (3, 3)
    assert window.find_tokens(11, 13) == (3, 3)  # inside a token
    assert window.find_tokens(8, 14) == window.find_tokens(15, 21) == (0, 0)  # outside the window
    assert Window(row={}, row_index=0, inputs={}, offsets=[None]).find_tokens(0, 1) == (0, 0)


def test_answers_are_spans_of_the_passage_within_the_length_limit() -> None:
    import torch

    offsets = [None, (0, 1), (2, 3), (4, 5), None]
    window = Window(row={}, row_index=0, inputs={}, offsets=offsets)
    starts, ends = torch.tensor([9.0, 1, 2, 3, 9, 9]), torch.tensor([9.0, 3, 2, 1, 9, 9])  # the last is padding
    answers = sorted(window.rank_answers(starts, ends, 2))
    assert answers == [(3.0, 0, 3), (3.0, 2, 5), (4.0, 0, 1), (4.0, 2, 3), (4.0, 4, 5)]
