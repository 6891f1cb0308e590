"""A small run per task and method ends with the weights, answers and metrics that version 0.1.0 recorded.

On the machine that recorded them (the same CPU and versions of the libraries) networks have the same weights bit for
bit. What BLAS computes, such as linear models on features and word vectors, can differ in its last digits from one
process to the next. Elsewhere sums are rounded in another order: the rows held out and their labels are the same, and
numbers are close.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.golden.cases import (
    CASES,
    describe,
    digest,
    learn_words,
    pretrain_case,
    read_answers,
    read_files,
    read_metrics,
    read_split,
    read_weights,
    train_case,
)
from tests.golden.compare import find_differences, find_weight_differences

ELSEWHERE = 1e-3  # of weights, answers and metrics on another machine; with only AVX2 they differ by less than 3e-5
CLOSE = 1e-6  # of answers and metrics on the same machine, since inference does not fix the number of threads
FITTED = 1e-4  # of BLAS results on the same machine; differences of 1e-15 occur in layer weights under load
Values = dict[str, Any]


def trains_network(name: str) -> bool:
    return CASES[name][1].get("method", "finetune") in ("finetune", "head")


@pytest.mark.parametrize("name", CASES)
def test_a_run_ends_as_recorded(name: str, earlier: Path, expected: Values, same_machine: bool, tmp_path: Path) -> None:
    recorded, exact = expected["cases"][name], same_machine and trains_network(name)
    close = ELSEWHERE if not same_machine else CLOSE if exact else FITTED
    folder = train_case(name, earlier, tmp_path / "run").folder
    assert read_split(folder) == recorded["split"]
    before, now = read_weights(earlier / "runs" / name), read_weights(folder)
    assert not find_weight_differences(before, now, 0.0 if exact else close, name)
    assert not find_differences(recorded["answers"], read_answers(folder, earlier, name), close)
    assert not find_differences(recorded["metrics"], read_metrics(folder, earlier, name), close)
    assert not find_differences(recorded["describe"], describe(folder), close)
    stored, files = read_files(earlier / "runs" / name), read_files(folder)
    assert stored.keys() == files.keys()
    if same_machine:
        assert not find_differences(stored, files, close)
    if exact:
        assert digest(now) == recorded["weights"]


def test_some_runs_are_compared_bit_for_bit() -> None:
    assert sum(map(trains_network, CASES)) > 10


def test_pretraining_ends_as_recorded(earlier: Path, expected: Values, same_machine: bool, tmp_path: Path) -> None:
    folder = pretrain_case(earlier, tmp_path / "run").folder
    assert (folder / "tokenizer.json").read_bytes() == (earlier / "pretrained/tokenizer.json").read_bytes()
    tolerance = 0.0 if same_machine else ELSEWHERE
    assert not find_weight_differences(read_weights(earlier / "pretrained"), read_weights(folder), tolerance)
    assert not find_differences(expected["pretrained"], describe(folder), tolerance)
    if same_machine:
        assert digest(read_weights(folder)) == expected["models"]["pretrained"]


def test_word_vectors_end_as_recorded(earlier: Path, same_machine: bool, tmp_path: Path) -> None:
    learn_words(earlier, tmp_path / "words")
    tolerance = FITTED if same_machine else ELSEWHERE
    assert not find_weight_differences(read_weights(earlier / "words"), read_weights(tmp_path / "words"), tolerance)


def test_another_seed_is_detected(earlier: Path, expected: Values, tmp_path: Path) -> None:
    """The comparison detects a different run, also with the tolerance of other machines."""
    name = "classify-finetune"
    folder, recorded = train_case(name, earlier, tmp_path / "run", seed=1).folder, expected["cases"][name]
    weights, now = read_weights(earlier / "runs" / name), read_weights(folder)
    assert digest(now) != recorded["weights"]
    assert len(find_weight_differences(weights, now, ELSEWHERE)) > len(weights) / 2
    assert read_split(folder) != recorded["split"]
    assert find_differences(recorded["answers"], read_answers(folder, earlier, name), ELSEWHERE)
    assert find_differences(recorded["metrics"], read_metrics(folder, earlier, name), ELSEWHERE)
    assert find_differences(recorded["describe"], describe(folder), ELSEWHERE)


def test_the_smallest_change_of_a_weight_is_detected(earlier: Path) -> None:
    weights = read_weights(earlier / "models/bert")
    name = next(iter(weights))
    changed = weights[name].copy()
    changed.flat[0] = np.nextafter(changed.flat[0], np.float32(9))
    assert find_weight_differences(weights, {**weights, name: changed}, 0.0) == [f"{name}: other bits"]
    assert digest({**weights, name: changed}) != digest(weights)
    changed.flat[0] += 0.01
    assert "differs by up to 1.0e-02" in find_weight_differences(weights, {**weights, name: changed}, ELSEWHERE)[0]
    short = {key: tensor for key, tensor in weights.items() if key != name}
    assert find_weight_differences(weights, short, ELSEWHERE) == [f"{name} is only on one side"]
    assert "float64" in find_weight_differences(weights, {**weights, name: changed.astype(np.float64)}, ELSEWHERE)[0]


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ({"a": 1.0}, {"a": 1.1}),
        ({"rate": 1}, {"learning_rate": 2}),
        ({"rate": 1}, {"decay": 1}),
        ({"a": 1}, {}),
        (["x"], ["y"]),
        ([1], [1, 1]),
        (True, 1),
        (None, 0.0),
        ("1", 1),
    ],
)
def test_different_values_are_detected(recorded: Any, now: Any) -> None:
    assert find_differences(recorded, now, 1e-3)
    assert not find_differences(recorded, recorded, 0.0)


def test_renamed_settings_are_compared_under_their_current_names() -> None:
    assert not find_differences({"rate": 1, "decay": 0.1}, {"learning_rate": 1, "weight_decay": 0.1}, 0.0)
    assert not find_differences({"rate": 1}, {"rate": 1, "learning_rate": 2}, 0.0)


def test_notes_may_be_reworded_but_not_their_numbers() -> None:
    recorded = {"notes": ["16 rows are few."], "name": "16 rows are few."}
    assert not find_differences(recorded, recorded | {"notes": ["There are only 16 rows."]}, 0.0)
    assert find_differences(recorded, recorded | {"notes": ["There are only 17 rows."]}, 0.0)
    assert find_differences(recorded, recorded | {"notes": []}, 0.0)
    assert find_differences(recorded, recorded | {"name": "There are only 16 rows."}, 0.0)
