"""Recipes and the quality benchmark train the same way, and the recipes fit the data."""

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
NEW = ("conll2003", "wnut17", "squad", "openbookqa", "mctest500")


def said_in(name: str) -> dict[str, Any]:
    """A recipe as it stands."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text())


@pytest.mark.parametrize("name", NEW)
def test_the_first_line_is_the_command(name: str) -> None:
    first = (FOLDER / f"{name}.toml").read_text().splitlines()[0]
    assert first == f"# CLEARHEAD_DATA=DATA clearhead train --recipe recipes/{name}.toml -o runs/{name}"


@pytest.mark.parametrize("name", sorted({path.stem for path in FOLDER.glob("*.toml")} & set(TASKS)))
def test_a_recipe_trains_as_the_benchmark_does(name: str) -> None:
    said, task = said_in(name), TASKS[name]
    assert {key: said[key] for key in task.settings} == task.settings
    assert (said["task"], said["text"], said.get("text_b"), said["label"]) == (
        task.kind,
        task.text,
        task.text_b,
        task.label,
    )
    assert (said["train"], said.get("dev")) == tuple(
        None if place is None else f"$CLEARHEAD_DATA/{place}" for place in (task.train, task.dev)
    )
    assert (said["metric"], said.get("options", "")) == (task.metrics[0], ",".join(task.options))


@pytest.mark.parametrize("name", NEW)
def test_a_recipe_fits_its_data(name: str, data_folder: Path) -> None:
    said = said_in(name)
    said |= {part: said[part].replace("$CLEARHEAD_DATA", str(data_folder)) for part in ("train", "dev")}
    plan = make_plan(said)
    assert plan.settings.epochs == said["epochs"] <= SETTINGS["epochs"]
    sources = {part: open_source(said[part]) for part in ("train", "dev")}
    seen = profile_dataset(sources, plan)
    assert seen.task.name == said["task"]
    named = [said["text"], said.get("text_b"), said["label"], *said.get("options", "").split(",")]
    assert all(set(filter(None, named)) <= set(source.columns) for source in sources.values())
