"""Former names of training settings: accepted with a warning, and read from stored files without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.deprecation import PLAN_SETTINGS, TRAINING_SETTINGS
from clearhead.errors import InputError
from clearhead.jobs.plan import make_plan, parse_set, read_recipe
from clearhead.jobs.run_file import read_run_file
from clearhead.training.settings import TrainSettings
from tests.tiny_models import make_sentiment_rows, write_csv

FORMER: dict[str, Any] = {
    "rate": 1e-4,
    "head_rate": 1e-3,
    "batch_rows": 8,
    "warmup": 0.2,
    "beta2": 0.98,
    "decay": 0.1,
    "clip": 2.0,
    "smoothing": 0.1,
    "frozen": True,
    "unfreeze": True,
    "average": 2,
}
RUN: dict[str, Any] = {"method": "tfidf", "label": "label", "report": False}


@pytest.mark.parametrize("name", FORMER)
def test_train_settings_accept_a_former_name(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{name} is deprecated .* use {TRAINING_SETTINGS[name]}"):
        settings = TrainSettings(**{name: FORMER[name]})
    assert getattr(settings, TRAINING_SETTINGS[name]) == FORMER[name]
    with pytest.warns(DeprecationWarning, match=f"TrainSettings.{name} is deprecated"):
        assert getattr(settings, name) == FORMER[name]


@pytest.mark.parametrize("name", FORMER)
def test_a_plan_accepts_a_former_name(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"use {TRAINING_SETTINGS[name]}"):
        plan = make_plan({name.replace("_", "-"): FORMER[name]})
    assert plan == make_plan({TRAINING_SETTINGS[name]: FORMER[name]})


@pytest.mark.parametrize(("name", "value"), [("strength", 2.0), ("beam", 2), ("vocabulary", 100)])
def test_run_plans_accept_a_former_name(name: str, value: float) -> None:
    with pytest.warns(DeprecationWarning, match=f"use {PLAN_SETTINGS[name]}"):
        assert make_plan(parse_set([f"{name}={value}"])) == make_plan({PLAN_SETTINGS[name]: value})


def test_the_warning_names_the_line_of_the_caller(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="strength is deprecated") as caught:
        clearhead.train(make_sentiment_rows(40), output=tmp_path / "run", strength=1.0, **RUN)
    assert [warning.filename for warning in caught] == [__file__]


def test_both_names_of_a_setting_are_refused() -> None:
    with pytest.raises(InputError, match="rate is the former name of learning_rate"):
        make_plan({"rate": 1e-4, "learning_rate": 1e-4})


def test_a_recipe_may_have_former_names(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("rate = 1e-4\nseed = 3\n")
    with pytest.warns(DeprecationWarning, match="use learning_rate"):
        assert read_recipe(recipe) == {"learning_rate": 1e-4, "seed": 3}


def test_stored_runs_with_former_names_are_resumed(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "rows.csv", make_sentiment_rows(60))
    folder = clearhead.train(data, output=tmp_path / "run", C=2.0, **RUN).folder
    (folder / "metrics.json").unlink()
    stored = json.loads((folder / "run.json").read_text())
    plan = stored["plan"]
    for former, current in PLAN_SETTINGS.items():
        plan[former] = plan.pop(current)
    for former, current in TRAINING_SETTINGS.items():
        plan["settings"][former] = plan["settings"].pop(current)
    (folder / "run.json").write_text(json.dumps(stored))
    assert read_run_file(folder).plan.C == 2.0
    with pytest.raises(InputError, match=r"C was 2\.0, got 3\.0"):
        clearhead.train(resume=folder, C=3.0, report=False)
    with pytest.warns(DeprecationWarning, match="use C"):
        assert clearhead.train(resume=folder, strength=2.0, report=False).folder == folder


def test_a_former_name_of_a_class_is_exported() -> None:
    with pytest.warns(DeprecationWarning, match="use clearhead.LearnedTokenizer"):
        assert getattr(clearhead, "Learned") is clearhead.LearnedTokenizer  # noqa: B009
