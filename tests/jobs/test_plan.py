"""Plans from defaults, recipes and explicit settings, and the messages for invalid settings."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import train
from clearhead.errors import ClearheadError, InputError
from clearhead.files import decode_dataclass
from clearhead.jobs.plan import METHODS, RunPlan, make_plan, parse_set, read_recipe
from tests.tiny_models import make_sentiment_rows, write_csv


def test_later_layers_win_and_none_says_nothing() -> None:
    plan = make_plan(
        {"epochs": 5, "learning_rate": 1e-4, "text": "body"}, {"epochs": None, "learning_rate": 1e-3}, {"text": "title"}
    )
    assert (plan.settings.epochs, plan.settings.learning_rate, plan.text) == (5, 1e-3, "title")
    assert plan.auto_epochs is False


def test_defaults() -> None:
    plan = make_plan()
    assert plan == RunPlan()
    assert (plan.method, plan.model, plan.long, plan.seeds) == ("finetune", "default", "window", 1)
    assert plan.auto_epochs  # chosen from the dataset


def test_a_plan_survives_its_file() -> None:
    plan = make_plan({"train": "a.csv", "layer": -2, "method": "features", "seeds": 3, "batch_tokens": 500})
    assert decode_dataclass(json.loads(json.dumps(asdict(plan))), RunPlan, "run.json") == plan


def test_names_with_hyphens_are_the_same() -> None:
    assert make_plan({"batch-size": 8}).settings.batch_size == 8


def test_tokens_instead_of_rows() -> None:
    plan = make_plan({"batch_tokens": 900})
    assert (plan.settings.batch_size, plan.settings.batch_tokens) == (None, 900)
    assert make_plan({"batch_size": 8}).settings.batch_tokens is None
    with pytest.raises(InputError, match="set either batch_size or batch_tokens"):
        make_plan({"batch_size": 8, "batch_tokens": 900})


def test_a_recipes_rows_give_way_to_tokens_that_are_said() -> None:
    """An explicit setting replaces the alternative setting of a recipe."""
    plan = make_plan({"batch_size": 8}, {"batch_tokens": 900})
    assert (plan.settings.batch_size, plan.settings.batch_tokens) == (None, 900)
    plan = make_plan({"batch_tokens": 900}, {"batch_size": 8})
    assert (plan.settings.batch_size, plan.settings.batch_tokens) == (8, None)


def test_a_head_alone_learns_faster_unless_something_is_said() -> None:
    head = make_plan({"method": "head"})
    assert (head.settings.freeze_encoder, head.settings.learning_rate, head.settings.epochs) == (True, 1e-3, 10)
    assert head.auto_epochs is False
    explicit = make_plan({"method": "head", "learning_rate": 0.01, "epochs": 2})
    assert (explicit.settings.freeze_encoder, explicit.settings.learning_rate, explicit.settings.epochs) == (
        True,
        0.01,
        2,
    )
    assert make_plan({"method": "finetune"}).settings == RunPlan().settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": 3}, r"Unknown setting 'epoch'; did you mean epochs\?"),
        ({"leraning_rate": 3}, "Unknown setting 'leraning_rate'"),
        (
            {"zzz": 1},
            "Unknown setting 'zzz'; settings are C, adam_beta2, average_epochs, baselines",
        ),
        ({"settings": {}}, "Unknown setting 'settings'"),
        ({"auto_epochs": True}, "Unknown setting 'auto_epochs'"),
        ({"x" * 500: 1}, r"Unknown setting 'x{40}\.\.\.'"),
        ({"epochs": "three"}, r"Setting epochs: expected int, got str\."),
        ({"epochs": 1.5}, r"Setting epochs: expected int, got float\."),
        ({"learning_rate": [1]}, r"Setting learning_rate: expected float, got array\."),
        ({"text": 3}, r"Setting text: expected str \| null, got int\."),
        (
            {"method": "lstm"},
            "Setting method: invalid enum value 'lstm'. Choices: finetune, head, features, tfidf, majority",
        ),
        ({"labels": "words"}, "Setting labels: invalid enum value 'words'. Choices: classes, multilabel, number"),
        ({"long": "keep"}, "Setting long: invalid enum value 'keep'. Choices: window, cut"),
        ({"schedule": "step"}, "Setting schedule: invalid enum value 'step'. Choices: linear, cosine, constant"),
        ({"class_weight": "yes"}, "Choices: none, auto"),
        ({"task": "cluster"}, "task must be one of classify, pair, regress"),
        ({"metric": "bleu"}, "metric must be one of accuracy"),
        ({"seeds": 0}, "seeds must be from 1 to 100"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"learning_rate": 0}, "learning_rate must be above 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0"),
        ({"warmup_ratio": 1}, "warmup_ratio must be at least 0 and below 1, got 1"),
        ({"dev_share": -0.1}, "dev_share must be from 0 up to 1"),
        ({"test_share": 1.5}, "test_share must be from 0 up to 1"),
        ({"dev_share": 0.5, "test_share": 0.45}, "leave too little to train on"),
        ({"max_length": 4}, "max_length must be at least 8"),
        ({"stride": -1}, "stride must be at least 0"),
        ({"target_accuracy": 95}, "target_accuracy must be from 0 to 1"),
        ({"C": 0}, "C must be above 0"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"layer": 2}, "layer and pooling apply only to method features"),
        ({"pooling": "mean", "method": "tfidf"}, "layer and pooling apply only to method features"),
    ],
    ids=str,
)
def test_what_cannot_be_is_one_sentence(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        make_plan(settings)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith((".", "?"))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_a_choice_of_the_plan(method: str) -> None:
    assert make_plan({"method": method}).method == method


def test_every_setting_can_be_said_flat() -> None:
    names = {field.name for field in fields(RunPlan)} & {field.name for field in fields(type(RunPlan().settings))}
    assert names == set()  # names are unique


def test_set_reads_values_as_toml_does() -> None:
    pairs = [
        "epochs=3",
        "learning_rate=1e-4",
        "gradual_unfreezing=true",
        "freeze_encoder=False",
        "text=my column",
        'label="x=y"',
        " seed = 7 ",
        "id=a=b",
    ]
    assert parse_set(pairs) == {
        "epochs": 3,
        "learning_rate": 1e-4,
        "gradual_unfreezing": True,
        "freeze_encoder": False,
        "text": "my column",
        "label": "x=y",
        "seed": 7,
        "id": "a=b",
    }
    assert parse_set(["text="]) == {"text": ""}


@pytest.mark.parametrize("pair", ["epochs", "=3", "", " =1"])
def test_set_wants_a_key_and_a_value(pair: str) -> None:
    with pytest.raises(InputError, match=f"--set expects key=value, got '{re.escape(pair)}'"):
        parse_set([pair])


@pytest.mark.parametrize(
    "pair",
    ["learning_rate=[1, 2]", "learning_rate={a = 1}", "text=2024-01-01", "epochs=", "learning_rate=fast", "text=[[1]]"],
)
def test_a_value_of_a_wrong_type_is_one_sentence(pair: str) -> None:
    with pytest.raises(InputError, match=f"Setting {pair.split('=')[0]}: expected"):
        make_plan(parse_set([pair]))


def test_a_recipe_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    write_csv(tmp_path / "data" / "train.csv", make_sentiment_rows(60))
    write_csv(tmp_path / "data" / "dev.csv", make_sentiment_rows(20, seed=1))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('train = "data/train.csv"\ndev = "data/dev.csv"\nmethod = "majority"\nseed = 3\n')
    monkeypatch.chdir("/")
    run = train(recipe=recipe, output=tmp_path / "run")
    assert run.rows == {"train": 60, "dev": 20}  # found beside the recipe
    plan = json.loads((run.folder / "run.json").read_text())["plan"]
    assert (plan["method"], plan["settings"]["seed"]) == ("majority", 3)
    overridden = train(recipe=recipe, output=tmp_path / "over", seed=4, method="tfidf")
    plan = json.loads((overridden.folder / "run.json").read_text())["plan"]
    assert (plan["method"], plan["settings"]["seed"]) == ("tfidf", 4)
    rows = train(make_sentiment_rows(40), recipe=recipe, output=tmp_path / "rows")
    assert rows.rows == {"train": 40, "dev": 20}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"epochs = ", "recipe.toml is not valid TOML"),
        (b"epochs: 3\n", "recipe.toml is not valid TOML"),
        (b"\xff\xfe", "recipe.toml is not valid TOML"),
        (
            b"[settings]\nepochs = 3\n",
            "recipe.toml: 'settings' is a table or a list; a recipe must contain only names and plain values",
        ),
        (b"learning_rate = [1, 2]\n", "recipe.toml: 'learning_rate' is a table or a list"),
    ],
)
def test_a_recipe_that_is_none(text: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_bytes(text)
    with pytest.raises(InputError, match=message):
        read_recipe(tmp_path / "recipe.toml")


def test_a_recipe_that_is_not_there_or_no_file(tmp_path: Path) -> None:
    with pytest.raises(ClearheadError, match=r"none.toml cannot be read: No such file"):
        read_recipe(tmp_path / "none.toml")
    with pytest.raises(ClearheadError, match="is not a regular file"):
        read_recipe(tmp_path)


def test_an_unknown_setting_in_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text("learning_rates = 1\n")
    with pytest.raises(InputError, match="Unknown setting 'learning_rates'"):
        train(make_sentiment_rows(20), recipe=tmp_path / "recipe.toml", output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_pooling_that_does_not_exist_is_refused_before_anything_is_read() -> None:
    with pytest.raises(InputError, match="pooling must be one of first"):
        make_plan({"method": "features", "pooling": "mean,max"})
    assert make_plan({"method": "features", "pooling": "mean+max"}).pooling == "mean+max"


@pytest.mark.parametrize(
    "text",
    ["x = " + "[" * 3000, "x = " + "{a=" * 3000, "epochs = " + "9" * 5000, ".".join("a" * 20_000) + " = 1"],
    ids=["lists", "tables", "digits", "dots"],
)
def test_recipes_and_settings_that_nest_without_end(text: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(text)
    with pytest.raises(InputError, match="not valid TOML"):
        read_recipe(tmp_path / "recipe.toml")
    name, _, value = text.partition(" = ")
    with pytest.raises(InputError):
        make_plan(parse_set([f"{name}={value}"]))


def test_a_batch_has_a_bound() -> None:
    for name in ("batch_size", "batch_tokens"):
        with pytest.raises(InputError, match=f"{name} must be at most 1,000,000,000"):
            make_plan({"batch_size": None, name: 10**30})
