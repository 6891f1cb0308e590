"""Recipes of the published results: each states its command, is a valid plan, and finds its data."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from clearhead.api import train
from clearhead.data import ColumnRoles, open_source
from clearhead.errors import InputError
from clearhead.jobs.plan import make_plan, read_recipe
from clearhead.jobs.profile import profile_dataset
from clearhead.translate.dataset import resolve_parallel_columns
from tests.tiny_models import make_sentiment_rows, write_csv

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
DATA = Path(os.environ.get("CLEARHEAD_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


def test_there_is_one_for_each_result() -> None:
    assert {path.stem for path in RECIPES} >= {"sst2", "cola", "mrpc", "rte", "stsb", "semeval14"}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_first_line_is_the_command(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = path.read_text().splitlines()[0]
    assert first.startswith("# CLEARHEAD_DATA=DATA clearhead train ")
    command = shlex.split(first.removeprefix("# "))
    assert command[command.index("--recipe") + 1] == f"recipes/{path.name}"
    assert command[command.index("-o") + 1] == f"runs/{path.stem}"
    monkeypatch.setenv("CLEARHEAD_DATA", "/somewhere")
    settings = read_recipe(path)
    assert settings["train"].startswith("/somewhere/")
    plan = make_plan(settings)
    assert (plan.method, plan.settings.seed, plan.auto_epochs) == ("finetune", 0, False)


@pytest.mark.thin(5)
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_data_is_as_the_recipe_says(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARHEAD_DATA", str(DATA))
    plan = make_plan(read_recipe(path))
    assert plan.train is not None
    if not Path(plan.train).is_file():
        pytest.skip("the data is not here")
    sources = {
        part: open_source(data_path) for part in ("train", "dev") if (data_path := getattr(plan, part)) is not None
    }
    if plan.task == "translate":
        columns = resolve_parallel_columns(sources["train"], ColumnRoles(text=plan.source, text_b=plan.target))
        assert (columns.text, columns.text_b) == (plan.source, plan.target)
        return
    profile = profile_dataset(sources, plan)
    assert profile.task.name == plan.task
    assert all(
        set(filter(None, (plan.text, plan.text_b, plan.label))) <= set(source.columns) for source in sources.values()
    )


def test_what_is_not_set_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLEARHEAD_DATA", raising=False)
    with pytest.raises(InputError, match=r"sst2.toml: train needs the environment variable CLEARHEAD_DATA; set it to"):
        read_recipe(next(path for path in RECIPES if path.stem == "sst2"))
    (tmp_path / "recipe.toml").write_text('train = "${HERE}/rows.csv"\nmethod = "majority"\nmodel = "$HERE"\n')
    monkeypatch.setenv("HERE", str(tmp_path))
    write_csv(tmp_path / "rows.csv", make_sentiment_rows(40))
    settings = read_recipe(tmp_path / "recipe.toml")
    assert settings == {"train": str(tmp_path / "rows.csv"), "method": "majority", "model": "$HERE"}
    assert train(recipe=tmp_path / "recipe.toml", output=tmp_path / "run").method == "majority"
    (tmp_path / "beside.toml").write_text('train = "rows.csv"\n')
    assert read_recipe(tmp_path / "beside.toml") == {"train": str(tmp_path / "rows.csv")}
