"""The plain loops beside clearhead: same rows, same weights, same answers."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import finetune
import pytest
from finetune_peers import PEERS, Window, answers, peer
from finetune_table import scores
from finetune_tasks import SETTINGS, TASKS, Row, Rows, Task, label_names, truth_of

import clearhead
from tests.tiny_models import NEGATIVE_WORDS, POSITIVE_WORDS, make_sentence, tiny_model

WORDS = 12
SMALL: dict[str, dict[str, Any]] = {
    "conll2003": {"max_length": 48},
    "squad": {"max_length": 24, "stride": 8, "max_answer": 5},
    "openbookqa": {"max_length": 48},
}


def made_up(task: Task, count: int, seed: int) -> list[Row]:
    """Rows of a task in the words of the tiny model."""
    draw = random.Random(seed)
    rows: list[Row] = []
    for _ in range(count):
        words = make_sentence(draw, [draw.choice(POSITIVE_WORDS)], WORDS, WORDS + 20).split()
        place = next(place for place, word in enumerate(words) if word in POSITIVE_WORDS)
        if task.kind == "tag":
            first, second = draw.choice(POSITIVE_WORDS[:2]), draw.choice(POSITIVE_WORDS[2:])
            words[place : place + 1] = [
                first,
                second,
                f"{draw.choice(NEGATIVE_WORDS[:2])}-sad",
                draw.choice(NEGATIVE_WORDS[2:]),
            ]
            tags = ["O"] * len(words)
            tags[place : place + 4] = ["B-GOOD", "I-GOOD", "B-BAD", "I-BAD"]
            rows.append({"tokens": words, "tags": tags})
        elif task.kind == "span":
            start = len(" ".join([*words[:place], ""]))
            right = {"text": [words[place]], "answer_start": [start]}
            rows.append({"question": "  good film", "context": " ".join(words), "answers": right})
        else:
            label = draw.randrange(4)
            options = [draw.choice(POSITIVE_WORDS if number == label else NEGATIVE_WORDS) for number in range(4)]
            rows.append(
                {"question": " ".join(words), "label": str(label)} | dict(zip(task.options, options, strict=True))
            )
    return rows


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that reads 48 tokens."""
    return tiny_model(tmp_path_factory.mktemp("tiny"), max_position_embeddings=48)


@pytest.fixture(params=SMALL)
def job(request: pytest.FixtureRequest, small: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Task, Rows]:
    """A task of the benchmark in small."""
    monkeypatch.setitem(SETTINGS, "model", str(small))
    for name, value in {"epochs": 4, "learning_rate": 5e-3, "batch_size": 8}.items():
        monkeypatch.setitem(SETTINGS, name, value)
    task = replace(TASKS[request.param], own=SMALL[request.param])
    measure = made_up(task, 30, 2)
    return task, Rows(train=made_up(task, 160, 1), choose=measure, measure=measure)


@pytest.mark.slow
def test_both_sides_answer_every_row_and_learn(job: tuple[Task, Rows], capsys: pytest.CaptureFixture[str]) -> None:
    task, rows = job
    truth, labels = truth_of(task, rows.measure), label_names(task, rows)
    for side in (peer, finetune.ours):
        said = side(task, rows, 0)
        assert len(said) == len(truth)
        assert all(map(_same_form, said, truth))
        assert scores(task, truth, said, labels)[task.metrics[0]] > 0.6, side.__name__
    assert capsys.readouterr().out.count("epoch") == 4


def _same_form(said: Any, right: Any) -> bool:
    if isinstance(said, list):
        return len(said) == len(right)
    return isinstance(said, str)


def test_the_same_weights_give_the_same_answers(job: tuple[Task, Rows], tmp_path: Path) -> None:
    task, rows = job
    more: dict[str, Any] = task.settings | {
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
        **more,
    )
    mine = [finetune.answer_of(task, one) for one in clearhead.predict(run.folder, rows.measure)]
    made = PEERS[task.kind](task, rows, run.folder)
    theirs = answers(made, made.encode(rows.measure))
    if task.kind == "tag":  # the tags have an order of their own there
        names = dict(zip(label_names(task, rows) or [], run.labels, strict=True))
        theirs = [[names[tag] for tag in tags] for tags in theirs]
    same = sum(one == other for one, other in zip(mine, theirs, strict=True))
    # tags: only here they are made to follow each other; answers: there only the best firsts and lasts are paired
    assert same >= (30 if task.kind == "choice" else 27)


def test_an_answer_is_marked_where_it_stands() -> None:
    offsets = [None, None, None, (10, 14), (15, 18), (18, 20), None]
    window = Window(row={}, owner=0, inputs={}, offsets=offsets)
    assert window.marks(15, 20) == (4, 5)
    assert window.marks(10, 14) == (3, 3)
    assert window.marks(11, 13) == (3, 3)  # inside a token
    assert window.marks(8, 14) == window.marks(15, 21) == (0, 0)  # not all of it is here
    assert Window(row={}, owner=0, inputs={}, offsets=[None]).marks(0, 1) == (0, 0)


def test_answers_are_pieces_of_the_passage_and_no_longer_than_asked() -> None:
    import torch

    offsets = [None, (0, 1), (2, 3), (4, 5), None]
    window = Window(row={}, owner=0, inputs={}, offsets=offsets)
    starts, ends = torch.tensor([9.0, 1, 2, 3, 9, 9]), torch.tensor([9.0, 3, 2, 1, 9, 9])  # the last is padding
    found = sorted(window.candidates(starts, ends, 2))
    assert found == [(3.0, 0, 3), (3.0, 2, 5), (4.0, 0, 1), (4.0, 2, 3), (4.0, 4, 5)]
