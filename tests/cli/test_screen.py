"""Progress as bars: one for all stages, one for each file, none where nobody would see them."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from clearhead.cli.loading import download_bars
from clearhead.cli.screen import StageBars, progress, stages
from clearhead.cli.training import TrainingScreen


class Display:
    """A display of rich that notes its bars."""

    def __init__(self) -> None:
        self.bars: list[dict[str, Any]] = []

    def add_task(self, description: str, **fields: Any) -> int:
        self.bars.append({"description": description, **fields})
        return len(self.bars) - 1

    def update(self, bar: int, **fields: Any) -> None:
        self.bars[bar] |= fields


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_stages_share_a_bar() -> None:
    display = Display()
    bars = StageBars(display, total=None)
    bars("reading", 1, None)
    bars("measuring", 2, 5)
    assert display.bars == [{"description": "measuring", "completed": 2, "total": 5, "visible": True}]
    bars.hide()
    assert not display.bars[0]["visible"]
    bars("writing", 0, None)
    assert display.bars[0]["visible"]


def test_every_file_has_a_bar() -> None:
    display = Display()
    bars = StageBars(display, shared=False, total=None)
    for file, done in (("config.json", 5), ("model.safetensors", 1), ("model.safetensors", 9)):
        bars(file, done, 9)
    assert [(bar["description"], bar["completed"]) for bar in display.bars] == [
        ("config.json", 5),
        ("model.safetensors", 9),
    ]


def test_bars_are_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with stages(quiet=False) as stage, progress("embedding", quiet=True) as none:
        assert stage is not None
        assert none is None
        stage("measuring float", 1, 2)
    with progress("embedding", quiet=False) as count:
        assert count is not None
        count(1, None)
    with download_bars(quiet=False) as files:
        assert files is not None
        files("model.safetensors", 5, 10)
    with TrainingScreen(quiet=False) as screen:
        screen.progress("loading the model", 0, None)
        screen.message("epochs: 3")
    assert isinstance(sys.stderr, Terminal)
    assert "epochs: 3" in sys.stderr.getvalue()


def test_without_a_terminal_there_are_no_bars(capsys: pytest.CaptureFixture[str]) -> None:
    with stages(quiet=False) as stage, progress("embedding", quiet=False) as count, download_bars(quiet=False) as files:
        assert (stage, count, files) == (None, None, None)
    with TrainingScreen(quiet=False) as screen:
        screen.progress("loading the model", 0, None)
        screen.message("epochs: 3")
    assert capsys.readouterr().err == "epochs: 3\n"
