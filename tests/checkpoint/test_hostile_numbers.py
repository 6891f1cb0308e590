"""Whole numbers where real ones are meant, labels that cannot be printed or told apart, a network that is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clearhead
from clearhead.checkpoint.passport import Passport, Trained, read_passport, write_passport
from clearhead.cli import main
from clearhead.cli.screen import print_table
from clearhead.errors import CheckpointError, ClearheadError, ConfigError
from clearhead.families import FAMILIES
from clearhead.runs.predictor import load_predictor
from tests.small import tiny_model

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


@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_every_real_number_is_one(model_type: str) -> None:
    family = FAMILIES[model_type]
    checked = family.keys.items()  # what a family looks into itself, it turns into a number itself
    real = [name for name, key in checked if isinstance(key.default, float) and key.check("?") is not None]
    values = family.read({name: 1 for name in real if family.keys[name].check(1) is None})
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
    write_passport(tmp_path, Passport(trained=Trained(task="classify", labels=labels)))
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
