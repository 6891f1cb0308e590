"""Recipes train like the quality benchmark, and they fit the data."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from finetune_tasks import SETTINGS, TASKS

from clearhead.data import open_source
from clearhead.jobs.plan import make_plan
from clearhead.jobs.profile import profile_dataset

FOLDER = Path(__file__).parents[2] / "recipes"
NEW_RECIPES = ("conll2003", "wnut17", "squad", "openbookqa", "mctest500")


def read_recipe(name: str) -> dict[str, Any]:
    """Read a recipe."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text())


@pytest.mark.parametrize("name", NEW_RECIPES)
def test_the_first_line_is_the_command(name: str) -> None:
    first = (FOLDER / f"{name}.toml").read_text().splitlines()[0]
    assert first == f"# CLEARHEAD_DATA=DATA clearhead train --recipe recipes/{name}.toml -o runs/{name}"


@pytest.mark.parametrize("name", sorted({path.stem for path in FOLDER.glob("*.toml")} & set(TASKS)))
def test_a_recipe_trains_as_the_benchmark_does(name: str) -> None:
    recipe, task = read_recipe(name), TASKS[name]
    assert {key: recipe[key] for key in task.settings} == task.settings
    assert (recipe["task"], recipe["text"], recipe.get("text_b"), recipe["label"]) == (
        task.kind,
        task.text,
        task.text_b,
        task.label,
    )
    assert (recipe["train"], recipe.get("dev")) == tuple(
        None if file is None else f"$CLEARHEAD_DATA/{file}" for file in (task.train, task.dev)
    )
    assert (recipe["metric"], recipe.get("options", "")) == (task.metrics[0], ",".join(task.options))


@pytest.mark.parametrize("name", NEW_RECIPES)
def test_a_recipe_fits_its_data(name: str, data_folder: Path) -> None:
    recipe = read_recipe(name)
    recipe |= {part: recipe[part].replace("$CLEARHEAD_DATA", str(data_folder)) for part in ("train", "dev")}
    plan = make_plan(recipe)
    assert plan.settings.epochs == recipe["epochs"] <= SETTINGS["epochs"]
    sources = {part: open_source(recipe[part]) for part in ("train", "dev")}
    profile = profile_dataset(sources, plan)
    assert profile.task.name == recipe["task"]
    column_names = [recipe["text"], recipe.get("text_b"), recipe["label"], *recipe.get("options", "").split(",")]
    assert all(set(filter(None, column_names)) <= set(source.columns) for source in sources.values())
