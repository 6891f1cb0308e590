"""New models from a config: a config.json, a dict, or JSON on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.errors import ClearheadError, ConfigError, InputError
from clearhead.pretrain.plan import make_pretrain_plan, read_pretrain_run
from tests.planted import write_planted_text

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}


def write_config(folder: Path, **keys: Any) -> Path:
    """A config.json with keys of others in it, as files from elsewhere have them."""
    folder.mkdir(exist_ok=True)
    config = {
        "model_type": "roberta",
        **SMALL,
        "vocab_size": 290,
        "max_position_embeddings": 66,
        "pad_token_id": 7,
        "torch_dtype": "float32",
        "architectures": ["RobertaForMaskedLM"],
    }
    (folder / "config.json").write_text(json.dumps(config | keys))
    return folder / "config.json"


@pytest.mark.parametrize("names_file", [True, False])
def test_a_config_json_says_the_whole_model(tmp_path: Path, names_file: bool) -> None:
    path = write_config(tmp_path / "theirs")
    text = write_planted_text(tmp_path / "text.txt", 40, 4)
    run = clearhead.pretrain(
        text,
        output=tmp_path / "model",
        config=str(path if names_file else path.parent),
        max_steps=1,
        max_length=32,
        threads=1,
        report=False,
    )
    model = clearhead.load(tmp_path / "model")
    assert run.family == "roberta"
    assert run.objective == "mlm"
    assert {key: model.config[key] for key in SMALL} == SMALL
    assert model.config["max_position_embeddings"] == 66
    assert model.config["vocab_size"] == len(model.tokenizer.vocab) <= 290  # the text has no more words
    assert model.config["pad_token_id"] == model.tokenizer.pad_id  # what the tokenizer says, not the file


def test_a_dict_and_json_are_the_same() -> None:
    plans = [make_pretrain_plan({"config": config}) for config in (SMALL, json.dumps(SMALL))]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(("width", "rate"), [(128, 1e-3), (512, 7e-4), (1024, 2e-4)])
def test_wide_models_learn_slower(tmp_path: Path, width: int, rate: float) -> None:
    config = {"hidden_size": width, "num_attention_heads": 4}
    assert make_pretrain_plan({"config": config}).settings.learning_rate == rate
    path = write_config(tmp_path, **config)
    assert make_pretrain_plan({"config": path}).settings.learning_rate == rate
    assert make_pretrain_plan({"config": path, "learning_rate": 5e-3}).settings.learning_rate == 5e-3


def test_words_of_the_file_are_the_vocabulary_unless_said(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    assert make_pretrain_plan({"config": path}).vocab_size == 290
    assert make_pretrain_plan({"config": path, "vocab_size": 300}).vocab_size == 300
    assert make_pretrain_plan({"config": path, "tokenizer": "default"}).vocab_size is None


@pytest.mark.parametrize(
    ("keys", "more", "message"),
    [
        ({}, {"family": "bert"}, "describes RoBERTa, but family is bert"),
        ({}, {"preset": "tiny"}, "both define the size of a model"),
        ({}, {"model": "default"}, "a checkpoint has its own"),
        ({"model_type": "llama"}, {}, "has model_type llama; supported families: bert"),
        ({"model_type": None, "architectures": None}, {}, "has no model_type"),
        ({"hidden_size": "wide"}, {}, "hidden_size is 'wide'"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, keys: dict[str, Any], more: dict[str, Any], message: str) -> None:
    with pytest.raises(ClearheadError, match=message):
        make_pretrain_plan({"config": str(write_config(tmp_path, **keys)), **more})


def test_what_is_no_config(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.json is neither an existing config\.json"):
        make_pretrain_plan({"config": "gone.json"})
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ClearheadError, match=r"config\.json"):
        make_pretrain_plan({"config": str(tmp_path)})
    with pytest.raises(InputError, match="config"):
        make_pretrain_plan({"config": 3})
    with pytest.raises(InputError, match="must contain JSON keys and values"):
        make_pretrain_plan({"config": {"hidden_size": object()}})
    with pytest.raises((InputError, ConfigError), match="config must be JSON"):
        make_pretrain_plan({"config": "{oops}"})


def test_former_names_of_settings_warn() -> None:
    with pytest.warns(DeprecationWarning, match="is deprecated") as caught:
        plan = make_pretrain_plan({"vocabulary": 300, "length": 64, "mask": 0.2, "steps": 9, "start": "plain"})
    assert len(caught) == 6
    assert all("is deprecated" in str(warning.message) for warning in caught)
    assert plan == make_pretrain_plan(
        {"vocab_size": 300, "max_length": 64, "mlm_probability": 0.2, "max_steps": 9, "attention_init": "random"}
    )


def test_the_warning_about_a_former_name_points_at_the_call(tmp_path: Path) -> None:
    former: dict[str, Any] = {"steps": 1}
    with (
        pytest.raises(InputError, match="No text given"),
        pytest.warns(DeprecationWarning, match="use max_steps") as caught,
    ):
        clearhead.pretrain(output=tmp_path / "run", **former)
    assert caught[0].filename == __file__


def test_a_run_of_an_earlier_version_is_read_without_a_warning() -> None:
    plan = read_pretrain_run(Path(__file__).parents[1] / "golden" / "earlier" / "unfinished" / "pretrain").plan
    assert (plan.vocab_size, plan.max_length, plan.mlm_probability, plan.max_steps) == (120, 32, 0.15, 12)
    assert plan.attention_init == "local"
