"""Whole numbers where real ones are meant, labels that cannot be printed or told apart, a network that is refused."""

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
from clearhead.machine.cpu import Machine, differences
from clearhead.model.layers import finish_vectors
from clearhead.predict.loading import load_predictor
from clearhead.shape import Pooling
from tests.tiny_models import tiny_gpt, tiny_model


@dataclass(frozen=True)
class Chosen:
    """Something with a value out of few."""

    task: str
    kind: Literal["a", "b"]


BADLY_NAMED = ("\ud800", "x\udfff", "a\0b")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("numbers"))


@pytest.fixture
def spoil(folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the folder whose config.json says something else."""

    def change(**values: Any) -> Path:
        for path in folder.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        config = json.loads((tmp_path / "config.json").read_text("utf-8"))
        (tmp_path / "config.json").write_text(json.dumps(config | values), encoding="utf-8")
        return tmp_path

    return change


@pytest.mark.parametrize("value", [0, 1, 0.0, 1e-300])
def test_a_whole_number_as_epsilon(spoil: Callable[..., Path], value: float) -> None:
    place = spoil(layer_norm_eps=value)
    engine, core = (clearhead.load(place, device="cpu", runtime=runtime) for runtime in ("engine", "core"))
    found = [model.embed(["good film"]) for model in (engine, core)]
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


@pytest.mark.parametrize("value", [-1, "0", True, None, float("nan"), float("inf"), [0], 10**400])
def test_what_is_no_epsilon(spoil: Callable[..., Path], value: Any) -> None:
    with pytest.raises(ConfigError, match="layer_norm_eps"):
        clearhead.load(spoil(layer_norm_eps=value))


def changed(folder: Path, place: Path, change: Callable[[str, Any], Any], **config: Any) -> Path:
    """A copy with other weights and another config."""
    shutil.copytree(folder, place)
    weights = load_file(place / "model.safetensors")
    save_file({name: change(name, array) for name, array in weights.items()}, place / "model.safetensors")
    kept = json.loads((place / "config.json").read_text("utf-8"))
    (place / "config.json").write_text(json.dumps(kept | config), encoding="utf-8")
    return place


@pytest.mark.parametrize("size", [1e30, np.inf, np.nan])
def test_weights_beyond_reason(folder: Path, tmp_path: Path, size: float) -> None:
    def change(_: str, array: Any) -> Any:
        return np.full_like(array, size) if array.ndim == 2 else array

    with pytest.raises(TensorError, match="values above 1e\\+15"):
        clearhead.load(changed(folder, tmp_path / "broken", change)).embed(["good film"])


@pytest.mark.parametrize("runtime", ["engine", "core"])
def test_a_network_that_computes_no_numbers_answers_nothing(folder: Path, tmp_path: Path, runtime: str) -> None:
    def flat(name: str, array: Any) -> Any:  # a row of equal numbers has no spread, and divided by it is NaN
        return np.zeros_like(array) if "embeddings" in name or name.endswith(("wte.weight", "wpe.weight")) else array

    broken, device = "computes NaN or infinity", "cpu"
    judged = clearhead.load(folder, head="classify", labels=("a", "b")).save(tmp_path / "judge")
    place = changed(judged, tmp_path / "broken", flat, layer_norm_eps=0)
    with pytest.raises(TensorError, match=broken):
        clearhead.load(place, runtime=runtime, device=device).embed(["good film"])
    with pytest.raises(TensorError, match=broken):
        clearhead.predict(load_predictor(str(place)), ["good film"])
    gpt = changed(tiny_gpt(tmp_path / "gpt"), tmp_path / "broken-gpt", flat, layer_norm_epsilon=0)
    for num_beams in (1, 3):
        with pytest.raises(TensorError, match=broken):
            clearhead.load(gpt, runtime=runtime, device=device).generate(["good"], max_length=3, num_beams=num_beams)


def test_vectors_too_long_to_be_measured_are_not_zero() -> None:
    with np.errstate(over="ignore"), pytest.raises(TensorError, match="NaN or infinity"):
        finish_vectors(np.full((1, 4), 1e30, np.float32), Pooling(modes=("mean",)), (), normalize=True)


@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_every_real_number_is_one(model_type: str) -> None:
    family = FAMILIES[model_type]
    checked = family.config_keys.items()  # what a family looks into itself, it turns into a number itself
    real = [name for name, key in checked if isinstance(key.default, float) and key.check("?") is not None]
    values = family.read_config({name: 1 for name in real if family.config_keys[name].check(1) is None})
    assert all(isinstance(values[name], float) for name in real)


def test_what_the_runtime_refuses_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clearhead.engine.graph import Graph

    monkeypatch.setattr(Graph, "model", lambda *_, **__: b"no graph")
    with pytest.raises(CheckpointError, match="ONNX Runtime") as caught:
        clearhead.load(folder, runtime="engine").embed(["good"])
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", BADLY_NAMED)
def test_labels_that_cannot_be_written(spoil: Callable[..., Path], name: str) -> None:
    with pytest.raises(ConfigError, match="label"):
        clearhead.load(spoil(id2label={"0": "a", "1": name}, label2id={"a": 0, name: 1}))


@pytest.mark.parametrize("labels", [["a", "a"], ["a", "\ud800"], ["x", "y", "x\0"]])
def test_labels_of_a_passport(tmp_path: Path, labels: list[str]) -> None:
    write_passport(tmp_path, Passport(trained=TrainingRecord(task="classify", labels=labels)))
    with pytest.raises(CheckpointError, match=r"clearhead\.json has the label"):
        read_passport(tmp_path)


def test_others_may_name_two_labels_alike_until_they_are_asked_for(tmp_path: Path, folder: Path) -> None:
    model = clearhead.load(folder, head="classify", labels=("a", "b"))
    place = model.save(tmp_path / "model")
    (place / "clearhead.json").unlink()
    config = json.loads((place / "config.json").read_text("utf-8"))
    (place / "config.json").write_text(json.dumps(config | {"id2label": {"0": "same", "1": "same"}}))
    assert clearhead.load(place).labels == ("same", "same")
    with pytest.raises(ClearheadError, match="'same' twice"):
        load_predictor(str(place))


def test_what_a_terminal_must_not_get(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [("\x1b[2J", "\u202egnp.exe"), ("\ud800", "fine\nhere é")], title="\x07")
    out = capsys.readouterr().out
    out.encode()
    assert not set(out) & set("\x1b\x07\u202e")
    assert "here é" in out


def test_describe_with_odd_labels(spoil: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    place = spoil(architectures=["BertForSequenceClassification"], id2label={"0": "\x1b[31m", "1": "\u202eb"})
    for more in ((), ("--json",)):
        main(["describe", str(place), "--quiet", *more])
        assert "\x1b" not in capsys.readouterr().out


def test_json_with_half_a_character(capsys: pytest.CaptureFixture[str]) -> None:
    from clearhead.cli.screen import print_json

    print_json({"é": "\ud800"})
    out = capsys.readouterr().out
    assert json.loads(out.encode()) == {"é": "\ud800"}


def test_messages_stay_short(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        decode_dataclass({"task": "classify", "kind": "x" * 9_000}, Chosen, "clearhead.json")
    assert len(str(caught.value)) < 500
    long = Machine(libraries={"torch": "2" * 9_000}, cpu="x")
    assert len(" ".join(differences(long, Machine(libraries={"torch": "1"})))) < 600
    write_passport(tmp_path, Passport(trained=TrainingRecord(task="y" * 9_000, labels=["a", "b"])))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ClearheadError) as refused:
        load_predictor(str(tmp_path))
    assert len(str(refused.value)) < 500 + len(str(tmp_path))
    assert len(str(ClearheadError("x" * 99_000 + "end."))) < 5_000
    assert str(ClearheadError("x" * 99_000 + "end.")).endswith("end.")
