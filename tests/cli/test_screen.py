"""Tables that fit a terminal and are plain lines in a pipe, and progress bars that appear only on a terminal."""

from __future__ import annotations

import io
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clearhead.cli.loading import download_bars
from clearhead.cli.screen import (
    StageBars,
    collect_truncations,
    print_facts,
    print_json,
    print_note,
    print_table,
    progress,
    stages,
)
from clearhead.cli.training import TrainingScreen
from clearhead.model.embedding import TruncationWarning

Run = Callable[..., tuple[int, str, str]]
COLUMNS = ("metric", "value", "rows", "95 % interval")
ROWS = [("accuracy", "0.9125", "1,024", "0.88 to 0.94"), ("f1_macro", "0.5", "12", "")]
COLOR = re.compile(r"\x1b\[[0-9;]*\b(?:3[0-9]|4[0-9]|9[0-7])[0-9;]*m")
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Display:
    """A display of rich that records its bars."""

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


@pytest.fixture
def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Replace standard output by a terminal of 80 columns with colors."""

    def replace_output() -> Terminal:
        for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("TERM", "xterm-256color")
        screen = Terminal()
        monkeypatch.setattr(sys, "stdout", screen)
        return screen

    return replace_output


def test_a_table_in_a_pipe_is_plain_aligned_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, ROWS, title="test (1,036 rows)")
    assert capsys.readouterr().out.splitlines() == [
        "test (1,036 rows)",
        "metric     value   rows  95 % interval",
        "accuracy  0.9125  1,024  0.88 to 0.94",
        "f1_macro     0.5     12",
    ]


def test_long_cells_stay_on_one_line_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    path = "/".join(["folder"] * 50)
    print_table(("name", "path"), [("a", path), ("b", "short")])
    assert capsys.readouterr().out.splitlines() == ["name  path", f"a     {path}", "b     short"]
    print_facts([("model", path), ("size on disk", "3 MB")])
    assert capsys.readouterr().out.splitlines() == [f"model         {path}", "size on disk  3 MB"]


def test_a_table_fits_80_columns_on_a_terminal(open_terminal: Callable[[], Terminal]) -> None:
    terminal = open_terminal()
    sentence = "The label of row 12 differs from the label of the same text in row 84, which confuses training."
    path = "/".join(["folder"] * 30)
    print_table(("severity", "rows", "finding"), [("warning", "2", sentence), ("error", "1,024", path)], title="rows")
    lines = STYLE.sub("", terminal.getvalue()).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "rows"
    assert lines[1].split() == ["severity", "rows", "finding"]
    assert " ".join(" ".join(lines[3:]).split()).startswith("warning 2 The label of row 12")
    folded = "".join(line[lines[1].index("finding") :].strip() for line in lines[3:])
    assert folded.endswith(path)  # nothing is cut off


@pytest.mark.parametrize("verb", ["describe", "tokens", "fill"])
def test_commands_fit_80_columns_on_a_terminal(
    verb: str, masked_model: Path, open_terminal: Callable[[], Terminal]
) -> None:
    from clearhead.cli import main

    terminal = open_terminal()
    text = {"describe": [], "tokens": ["paris is the capital of france " * 2], "fill": ["a [MASK] sat on [MASK]"]}
    main([verb, str(masked_model), *text[verb]])
    lines = STYLE.sub("", terminal.getvalue()).splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) <= 80


def test_cells_of_files_cannot_control_the_terminal(open_terminal: Callable[[], Terminal]) -> None:
    terminal = open_terminal()
    print_table(("label", "rows"), [("a\x1b[2Jb\nc\u202e", "1"), ("[bold]x[/bold]", "2")], title="t\x1b[31m")
    printed = STYLE.sub("", terminal.getvalue())
    assert "a?[2Jb c?" in printed
    assert "[bold]x[/bold]" in printed
    assert "t?[31m" in printed


def test_no_color_is_honored(open_terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch) -> None:
    def draw() -> None:
        monkeypatch.setattr(sys, "stderr", sys.stdout)
        print_table(COLUMNS, ROWS)
        with stages(quiet=False) as stage:
            assert stage is not None
            stage("measuring", 1, 2)
        with TrainingScreen(quiet=False) as training:
            training.progress("loading the model", 1, 2)

    terminal = open_terminal()
    draw()
    assert COLOR.search(terminal.getvalue())
    terminal = open_terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    draw()
    assert "measuring" in terminal.getvalue()
    assert "accuracy" in terminal.getvalue()
    assert not COLOR.search(terminal.getvalue())


def test_json_and_notes_are_never_wrapped(
    open_terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = open_terminal()
    monkeypatch.setattr(sys, "stderr", Terminal())
    print_json({"text": "word " * 50})
    print_note("word " * 50)
    print_note("hidden", quiet=True)
    assert terminal.getvalue().count("\n") == 1
    assert isinstance(sys.stderr, Terminal)
    assert sys.stderr.getvalue() == "word " * 50 + "\n"


def test_truncations_are_collected_and_other_warnings_shown() -> None:
    def truncate_and_warn() -> list[str]:
        with collect_truncations() as messages:
            for count in (1, 2):
                warnings.warn(f"{count} texts were truncated.", TruncationWarning, stacklevel=1)
            warnings.warn("something else", UserWarning, stacklevel=1)
        return messages

    with pytest.warns(UserWarning, match="something else") as caught:
        messages = truncate_and_warn()
    assert messages == ["1 texts were truncated.", "2 texts were truncated."]
    assert [str(warning.message) for warning in caught] == ["something else"]


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
