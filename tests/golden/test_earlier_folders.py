"""Folders written by version 0.1.0 before its packages were restructured load, predict and resume as they did then."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import clearhead
from clearhead.errors import CheckpointError, InputError
from clearhead.jobs import plan
from tests.golden.cases import (
    CASES,
    EARLIER,
    KILL_STEPS,
    QUANTIZED,
    ROOT,
    describe,
    digest,
    read_answers,
    read_metrics,
    read_split,
    read_weights,
    resolve_recipes,
    run_ladder,
)
from tests.golden.compare import find_differences, find_weight_differences
from tests.golden.record import read_ladder, read_neighbors

CLOSE = 1e-5  # of an answer from the same weights, on any CPU
INT8_TOLERANCE = 0.02  # of a probability in int8, whose products other CPUs round differently
Values = dict[str, Any]


@pytest.mark.parametrize("name", CASES)
def test_a_run_predicts_and_scores_as_recorded(name: str, earlier: Path, expected: Values) -> None:
    folder, recorded = earlier / "runs" / name, expected["cases"][name]
    assert digest(read_weights(folder)) == recorded["weights"]  # the stored files are those that were recorded
    assert not find_differences(recorded["answers"], read_answers(folder, earlier, name), CLOSE)
    assert not find_differences(recorded["metrics"], read_metrics(folder, earlier, name), CLOSE)
    assert read_split(folder) == recorded["split"]


@pytest.mark.parametrize("name", CASES)
def test_a_run_is_described_with_its_passport(name: str, earlier: Path, expected: Values) -> None:
    recorded = expected["cases"][name]["describe"]
    assert "trained" in json.dumps(recorded)
    assert not find_differences(recorded, describe(earlier / "runs" / name), CLOSE)


def test_other_weights_give_other_answers(earlier: Path, expected: Values, tmp_path: Path) -> None:
    folder = shutil.copytree(earlier / "runs/classify-finetune", tmp_path / "run")
    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"] = weights["classifier.bias"] + np.array([0.001, 0], np.float32)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    recorded = expected["cases"]["classify-finetune"]
    assert digest(read_weights(folder)) != recorded["weights"]
    assert find_differences(recorded["answers"], read_answers(folder, earlier, "classify-finetune"), CLOSE)


def test_a_passport_still_detects_changed_labels(earlier: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(earlier / "runs/classify-finetune", tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"0": "good", "1": "bad"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="label"):
        clearhead.load(folder)


@pytest.mark.parametrize("name", QUANTIZED)
def test_an_int8_folder_predicts_in_int8(name: str, earlier: Path, expected: Values, same_machine: bool) -> None:
    folder, recorded = earlier / "int8" / name, expected["int8"][name]
    assert not find_differences(recorded["describe"], describe(folder), CLOSE)
    verdict = recorded["describe"]["passport"]["int8"]
    assert verdict["passed"]
    answers = read_answers(folder, earlier, name)
    assert not find_differences(recorded["answers"], answers, CLOSE if same_machine else INT8_TOLERANCE)
    assert find_differences(read_answers(folder, earlier, name, precision="float"), answers, CLOSE)
    metrics, float_metrics = (read_metrics(at, earlier, name, None) for at in (folder, earlier / "runs" / name))
    assert not find_differences(recorded["metrics"], metrics, CLOSE if same_machine else INT8_TOLERANCE)
    assert metrics != float_metrics
    points = 1 if name.startswith("translate") else 100
    lost = points * (float_metrics[verdict["metric"]]["value"] - metrics[verdict["metric"]]["value"])
    assert lost <= verdict["allowed"]


@pytest.mark.parametrize("name", QUANTIZED)
def test_a_run_is_quantized_with_the_same_verdict(
    name: str, earlier: Path, expected: Values, same_machine: bool, tmp_path: Path
) -> None:
    folder = clearhead.quantize(earlier / "runs" / name, output=tmp_path / "int8", max_drop=5.0).folder
    verdict = describe(folder)["passport"]["int8"]
    recorded = expected["int8"][name]
    assert not find_differences(
        recorded["describe"]["passport"]["int8"], verdict, CLOSE if same_machine else INT8_TOLERANCE
    )
    if same_machine:
        assert digest(read_weights(folder)) == recorded["weights"]


def test_a_ladder_is_reused(copy_earlier: Callable[..., Path], expected: Values, tmp_path: Path) -> None:
    root = copy_earlier(tmp_path / "root", "data", "models", "ladder")
    runs = [path for path in (root / "ladder").rglob("*") if path.is_file() and path.parent != root / "ladder"]
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in runs}
    ladder = run_ladder(root, root / "ladder")
    assert all(rung.reused for rung in ladder.rungs)
    assert before == {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in runs}
    assert not find_differences(expected["ladder"], read_ladder(ladder), CLOSE)
    with pytest.raises(InputError, match=r"C was 1\.0, got 2\.0"):
        run_ladder(root, root / "ladder", C=2.0)


@pytest.mark.parametrize("name", KILL_STEPS)
def test_an_unfinished_run_is_resumed_to_the_same_end(
    name: str, copy_earlier: Callable[..., Path], same_machine: bool, tmp_path: Path
) -> None:
    finished = EARLIER / ("pretrained" if name == "pretrain" else f"runs/{name}")
    root = copy_earlier(tmp_path / "root", "data", "models", f"unfinished/{name}")
    folder = root / "unfinished" / name
    assert not (folder / "metrics.json").exists()
    assert json.loads((folder / "state/latest.json").read_text())
    broken = shutil.copytree(folder, tmp_path / "broken")
    _resume(name, folder)
    tolerance = 0.0 if same_machine else 1e-3
    assert not find_weight_differences(read_weights(finished), _without_state(folder), tolerance)
    if name != "pretrain":
        assert read_split(folder) == read_split(finished)
    weights = next((broken / "state").glob("*/weights.safetensors"))  # unnoticed by a run that does not read its state
    save_file({key: tensor + np.float32(0.01) for key, tensor in load_file(weights).items()}, weights)
    _resume(name, broken)
    assert find_weight_differences(read_weights(finished), _without_state(broken), tolerance)


def _resume(name: str, folder: Path) -> None:
    resume = clearhead.pretrain if name == "pretrain" else clearhead.train
    resume(resume=folder, allow_different_cpu=True, report=False)


def _without_state(folder: Path) -> dict[str, Any]:
    assert not (folder / "state").exists()
    return read_weights(folder)


def test_a_pretrained_model_and_word_vectors_load(earlier: Path, expected: Values) -> None:
    assert {name: digest(read_weights(earlier / name)) for name in expected["models"]} == expected["models"]
    assert not find_differences(expected["pretrained"], describe(earlier / "pretrained"), CLOSE)
    assert not find_differences(expected["neighbors"], read_neighbors(earlier / "words"), CLOSE)


def test_recipes_resolve_to_the_same_settings(expected: Values) -> None:
    recipes = resolve_recipes(plan)
    assert len(expected["recipes"]) == 15
    assert not find_differences(expected["recipes"], recipes, 0.0)
    recipes["sst2.toml"]["settings"]["learning_rate"] *= 2
    assert find_differences(expected["recipes"], recipes, 0.0)


def test_stored_folders_contain_no_path_of_the_recording_machine() -> None:
    files = [path for path in EARLIER.rglob("*") if path.is_file() and path.parent.name != "data"]
    assert len(files) > 300
    with_root = [path for path in files if ROOT.encode() in path.read_bytes()]
    assert len(with_root) > 10
    assert not [path for path in files if b"/tmp" in path.read_bytes()]
