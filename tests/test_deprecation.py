"""Former names of settings are accepted with a warning."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, replace
from typing import Any

import pytest

from clearhead.deprecation import (
    rename_settings,
    rename_stored,
    rename_stored_fields,
    renamed_fields,
    renamed_parameters,
)
from clearhead.errors import InputError


@renamed_parameters(rate="learning_rate")
def fit(rows: int, *, learning_rate: float = 0.1) -> tuple[int, float]:
    return rows, learning_rate


@renamed_fields(rate="learning_rate")
@dataclass(frozen=True, kw_only=True)
class Settings:
    learning_rate: float = 0.1


@dataclass(frozen=True, kw_only=True)
class Plan:
    settings: Settings
    rate: str = "kept"


def test_a_former_name_warns_at_the_line_of_the_caller() -> None:
    former: dict[str, Any] = {"rate": 0.5}
    with pytest.warns(DeprecationWarning, match=r"rate is deprecated .* use learning_rate") as caught:
        assert fit(3, **former) == (3, 0.5)
    assert caught[0].filename == __file__


def test_the_current_name_does_not_warn() -> None:
    assert fit(3, learning_rate=0.5) == (3, 0.5)
    assert Settings(learning_rate=0.5).learning_rate == 0.5


def test_both_names_at_once_are_an_error() -> None:
    with pytest.raises(InputError, match="former name of learning_rate"):
        rename_settings({"rate": 1, "learning_rate": 2}, {"rate": "learning_rate"})


def test_stored_values_are_renamed_without_a_warning() -> None:
    assert rename_stored({"rate": 1, "seed": 2}, {"rate": "learning_rate"}) == {"learning_rate": 1, "seed": 2}
    assert rename_stored({"rate": 1, "learning_rate": 2}, {"rate": "learning_rate"}) == {"learning_rate": 2}


def test_stored_fields_are_renamed_in_nested_dataclasses() -> None:
    stored = {"settings": {"rate": 1}, "rate": "x"}
    assert rename_stored_fields(stored, Plan) == {"settings": {"learning_rate": 1}, "rate": "x"}
    assert rename_stored_fields({"settings": None}, Plan) == {"settings": None}


def test_a_dataclass_is_built_and_read_under_former_names() -> None:
    former: dict[str, Any] = {"rate": 0.5}
    with pytest.warns(DeprecationWarning, match="use learning_rate"):
        settings = Settings(**former)
    with pytest.warns(DeprecationWarning, match="use learning_rate") as caught:
        assert getattr(settings, "rate") == 0.5  # noqa: B009
    assert caught[0].filename == __file__
    assert replace(settings, learning_rate=1.0).learning_rate == 1.0
    assert copy.deepcopy(settings) == pickle.loads(pickle.dumps(settings)) == settings
    assert not hasattr(settings, "momentum")
