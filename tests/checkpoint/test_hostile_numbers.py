"""Integers in place of floats, invalid and duplicate labels, and networks that compute NaN or infinity."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import clearhead
from clearhead.checkpoint.passport import Passport, TrainingRecord, read_passport, write_passport
from clearhead.cli import main
from clearhead.cli.screen import print_table
from clearhead.errors import CheckpointError, ClearheadError, ConfigError, TensorError
from clearhead.families import FAMILIES
from clearhead.files import decode_dataclass
from clearhead.machine.cpu import Machine, list_differences
from clearhead.model.layers import finish_vectors
from clearhead.predict.loading import load_predictor
from clearhead.shape import Pooling
from tests.tiny_models import tiny_gpt, tiny_model


@dataclass(frozen=True)
class Choice:
    """A dataclass with a literal field."""

    task: str
    kind: Literal["a", "b"]


INVALID_LABELS = ("\ud800", "x\udfff", "a\0b")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("numbers"))


@pytest.fixture
def change_config(folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies the folder with other values in config.json."""

    def write_config(**values: Any) -> Path:
        for path in folder.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        config = json.loads((tmp_path / "config.json").read_text("utf-8"))
        (tmp_path / "config.json").write_text(json.dumps(config | values), encoding="utf-8")
        return tmp_path

    return write_config


@pytest.mark.parametrize("value", [0, 1, 0.0, 1e-300])
def test_an_integer_epsilon(change_config: Callable[..., Path], value: float) -> None:
    changed = change_config(layer_norm_eps=value)
    engine, core = (clearhead.load(changed, device="cpu", runtime=runtime) for runtime in ("engine", "core"))
    vectors = [model.embed(["good film"]) for model in (engine, core)]
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-5)


@pytest.mark.parametrize("value", [-1, "0", True, None, float("nan"), float("inf"), [0], 10**400])
def test_an_invalid_epsilon_is_refused(change_config: Callable[..., Path], value: Any) -> None:
    with pytest.raises(ConfigError, match="layer_norm_eps"):
        clearhead.load(change_config(layer_norm_eps=value))


def copy_with_changes(folder: Path, copy: Path, change: Callable[[str, Any], Any], **settings: Any) -> Path:
    """Copy a folder with changed weights and config."""
    shutil.copytree(folder, copy)
    weights = load_file(copy / "model.safetensors")
    save_file({name: change(name, array) for name, array in weights.items()}, copy / "model.safetensors")
    saved = json.loads((copy / "config.json").read_text("utf-8"))
    (copy / "config.json").write_text(json.dumps(saved | settings), encoding="utf-8")
    return copy


@pytest.mark.parametrize("size", [1e30, np.inf, np.nan])
def test_weights_that_are_too_large_are_refused(folder: Path, tmp_path: Path, size: float) -> None:
    def fill(_: str, array: Any) -> Any:
        return np.full_like(array, size) if array.ndim == 2 else array

    with pytest.raises(TensorError, match="values above 1e\\+15"):
        clearhead.load(copy_with_changes(folder, tmp_path / "broken", fill)).embed(["good film"])


@pytest.mark.parametrize("runtime", ["engine", "core"])
def test_a_network_that_computes_nan_is_refused(folder: Path, tmp_path: Path, runtime: str) -> None:
    def zero_embeddings(name: str, array: Any) -> Any:  # equal values have zero variance, so the norm is NaN
        return np.zeros_like(array) if "embeddings" in name or name.endswith(("wte.weight", "wpe.weight")) else array

    message, device = "computes NaN or infinity", "cpu"
    classifier = clearhead.load(folder, head="classify", labels=("a", "b")).save(tmp_path / "judge")
    broken_folder = copy_with_changes(classifier, tmp_path / "broken", zero_embeddings, layer_norm_eps=0)
    with pytest.raises(TensorError, match=message):
        clearhead.load(broken_folder, runtime=runtime, device=device).embed(["good film"])
    with pytest.raises(TensorError, match=message):
        clearhead.predict(load_predictor(str(broken_folder)), ["good film"])
    gpt = copy_with_changes(tiny_gpt(tmp_path / "gpt"), tmp_path / "broken-gpt", zero_embeddings, layer_norm_epsilon=0)
    for num_beams in (1, 3):
        with pytest.raises(TensorError, match=message):
            clearhead.load(gpt, runtime=runtime, device=device).generate(["good"], max_length=3, num_beams=num_beams)


def test_vectors_with_an_infinite_norm_are_refused() -> None:
    with np.errstate(over="ignore"), pytest.raises(TensorError, match="NaN or infinity"):
        finish_vectors(np.full((1, 4), 1e30, np.float32), Pooling(modes=("mean",)), (), normalize=True)


@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_float_settings_accept_integers(model_type: str) -> None:
    family = FAMILIES[model_type]
    keys = family.config_keys.items()  # a family converts the keys that it checks itself
    float_keys = [name for name, key in keys if isinstance(key.default, float) and key.check("?") is not None]
    values = family.read_config({name: 1 for name in float_keys if family.config_keys[name].check(1) is None})
    assert all(isinstance(values[name], float) for name in float_keys)


def test_a_graph_that_the_runtime_refuses_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clearhead.engine.graph import Graph

    monkeypatch.setattr(Graph, "to_bytes", lambda *_, **__: b"no graph")
    with pytest.raises(CheckpointError, match="ONNX Runtime") as caught:
        clearhead.load(folder, runtime="engine").embed(["good"])
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", INVALID_LABELS)
def test_labels_that_cannot_be_written_are_refused(change_config: Callable[..., Path], name: str) -> None:
    with pytest.raises(ConfigError, match="label"):
        clearhead.load(change_config(id2label={"0": "a", "1": name}, label2id={"a": 0, name: 1}))


@pytest.mark.parametrize("labels", [["a", "a"], ["a", "\ud800"], ["x", "y", "x\0"]])
def test_invalid_labels_of_a_passport_are_refused(tmp_path: Path, labels: list[str]) -> None:
    write_passport(tmp_path, Passport(trained=TrainingRecord(task="classify", labels=labels)))
    with pytest.raises(CheckpointError, match=r"clearhead\.json has the label"):
        read_passport(tmp_path)


def test_duplicate_labels_are_refused_by_a_predictor_only(tmp_path: Path, folder: Path) -> None:
    model = clearhead.load(folder, head="classify", labels=("a", "b"))
    copy = model.save(tmp_path / "model")
    (copy / "clearhead.json").unlink()
    config = json.loads((copy / "config.json").read_text("utf-8"))
    (copy / "config.json").write_text(json.dumps(config | {"id2label": {"0": "same", "1": "same"}}))
    assert clearhead.load(copy).labels == ("same", "same")
    with pytest.raises(ClearheadError, match="'same' twice"):
        load_predictor(str(copy))


def test_control_characters_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [("\x1b[2J", "\u202egnp.exe"), ("\ud800", "fine\nhere é")], title="\x07")
    out = capsys.readouterr().out
    out.encode()
    assert not set(out) & set("\x1b\x07\u202e")
    assert "here é" in out


def test_describe_with_odd_labels(change_config: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    changed = change_config(architectures=["BertForSequenceClassification"], id2label={"0": "\x1b[31m", "1": "\u202eb"})
    for options in ((), ("--json",)):
        main(["describe", str(changed), "--quiet", *options])
        assert "\x1b" not in capsys.readouterr().out


def test_json_with_an_unpaired_surrogate(capsys: pytest.CaptureFixture[str]) -> None:
    from clearhead.cli.screen import print_json

    print_json({"é": "\ud800"})
    out = capsys.readouterr().out
    assert json.loads(out.encode()) == {"é": "\ud800"}


def test_messages_stay_short(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        decode_dataclass({"task": "classify", "kind": "x" * 9_000}, Choice, "clearhead.json")
    assert len(str(caught.value)) < 500
    machine = Machine(libraries={"torch": "2" * 9_000}, cpu="x")
    assert len(" ".join(list_differences(machine, Machine(libraries={"torch": "1"})))) < 600
    write_passport(tmp_path, Passport(trained=TrainingRecord(task="y" * 9_000, labels=["a", "b"])))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ClearheadError) as refused:
        load_predictor(str(tmp_path))
    assert len(str(refused.value)) < 500 + len(str(tmp_path))
    assert len(str(ClearheadError("x" * 99_000 + "end."))) < 5_000
    assert str(ClearheadError("x" * 99_000 + "end.")).endswith("end.")
