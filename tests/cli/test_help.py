"""`clearhead` without arguments, and --help: the same groups and flags in every command, and lines that fit."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from clearhead.cli import FIRST_STEPS, VERBS
from clearhead.cli.flags import flags_of, format_optional_arguments
from clearhead.cli.help_layout import MAX_WIDTH, HelpLayout

Run = Callable[..., tuple[int, str, str]]
GROUPS = ["Arguments", "Data", "Model", "Training", "Decoding", "Figure", "Measurement", "Output"]
FLAG = re.compile(r"^ {2}(?:(-[a-z]), )?(--[a-z][a-z0-9-]*)(.*)$")
# flags that mean something else in another command: flag -> group -> commands
SEVERAL_MEANINGS = {
    "--layer": {"Model": {"train", "embed"}, "Figure": {"explain"}},
    "--max-length": {"Training": {"pretrain"}, "Decoding": {"explain", "generate", "translate"}},
    "--min-count": {"Model": {"learn-tokenizer"}, "Training": {"word2vec"}},
    "--part": {"Data": {"evaluate"}, "Figure": {"explain"}},
    "--prefix": {"Decoding": {"generate", "translate"}, "Output": {"predict"}},
    "--sample": {"Training": {"word2vec"}, "Decoding": {"generate", "translate"}},
    "--seed": {"Training": {"train", "pretrain", "ladder", "word2vec"}, "Decoding": {"generate", "translate"}},
    "--special": {"Model": {"learn-tokenizer"}, "Figure": {"explain"}},
    "--split": {"Data": {"train", "ladder"}, "Model": {"learn-tokenizer"}},
    "--target": {"Data": {"train", "quantize"}, "Decoding": {"explain"}},
    "--threads": {"Training": {"train", "pretrain", "ladder", "word2vec"}, "Measurement": {"bench", "complexity"}},
    "--top": {"Output": {"ask", "fill", "words"}, "Decoding": {"explain"}},
}


@pytest.fixture
def help_of(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The --help of a command on a screen with a number of columns."""

    def print_help(verb: str | None, columns: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        code, out, err = run(*([] if verb is None else [verb]), "--help")
        assert (code, err) == (0, "")
        return out

    return print_help


def sections(text: str) -> dict[str, list[str]]:
    """The lines of each group of a help page."""
    lines: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z][A-Za-z -]*:", line):
            title = line[:-1]
            lines[title] = []
        elif title and line.startswith("  "):
            lines[title].append(line)
    return lines


def test_without_arguments_there_are_five_commands_to_start_with(run: Run) -> None:
    code, out, err = run()
    assert (code, out, err) == (0, FIRST_STEPS, "")
    steps = re.findall(r"^  clearhead ([a-z0-9-]+) ", out, re.MULTILINE)
    assert steps == ["inspect", "train", "evaluate", "predict", "embed"]
    assert set(steps) <= VERBS.keys()
    assert out.endswith("clearhead --help\nOptions of a command:  clearhead COMMAND --help\n")
    assert max(map(len, out.splitlines())) <= 80


def test_help_lists_every_command_in_its_group(help_of: Callable[..., str]) -> None:
    listed = sections(help_of(None))
    assert list(listed) == [*dict.fromkeys(group for _, group, _ in VERBS.values()), "Other"]
    for verb, (_, group, summary) in VERBS.items():
        first_line = next(line for line in listed[group] if line.split()[0] == verb)
        assert summary.startswith(first_line.split(maxsplit=1)[1])
    other = " ".join(listed["Other"])
    assert all(flag in other for flag in ("--help", "--version", "--install-completion"))


@pytest.mark.parametrize("verb", VERBS)
def test_options_have_groups_in_a_fixed_order(verb: str, help_of: Callable[..., str]) -> None:
    groups = sections(help_of(verb))
    assert list(groups) == [group for group in GROUPS if group in groups]
    documented = {
        flag for lines in groups.values() for line in lines for flag in re.findall(r"--[a-z][a-z0-9-]*", line)
    }
    assert {flags[0] for flags in flags_of(verb).values()} <= documented
    assert "--json" in " ".join(groups["Output"])
    assert "--quiet" in " ".join(groups["Output"])


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_and_argument_is_described(verb: str, help_of: Callable[..., str]) -> None:
    for lines in sections(help_of(verb, 200)).values():
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            if not line.startswith("   "):  # a name; its description is behind it or, if the name is long, below it
                described = len(re.split(r" {2,}", line.strip())) == 2 or following.startswith(" " * 20)
                assert described, line


def test_the_same_option_has_the_same_group_in_every_command(help_of: Callable[..., str]) -> None:
    verbs_by_flag: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for verb in VERBS:
        for group, lines in sections(help_of(verb)).items():
            for match in filter(None, map(FLAG.match, lines)):
                verbs_by_flag[match[2]][group].add(verb)
    differing = {flag: dict(groups) for flag, groups in verbs_by_flag.items() if len(groups) > 1}
    assert differing == SEVERAL_MEANINGS


def test_the_same_setting_has_the_same_flags_in_every_command() -> None:
    flags_by_setting = defaultdict(set)
    for verb in VERBS:
        for setting, flags in flags_of(verb).items():
            flags_by_setting[setting].add(flags)
    assert {setting: flags for setting, flags in flags_by_setting.items() if len(flags) > 1} == {}
    assert flags_by_setting["output"] == {("--output", "-o")}


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_help_fits_the_screen(columns: int, help_of: Callable[..., str]) -> None:
    for verb in (None, *VERBS):
        text = help_of(verb, columns)
        assert max(map(len, text.splitlines())) <= min(columns, MAX_WIDTH)
        assert "\n\n\n" not in text
        assert "\x1b" not in text


def test_help_names_verbose_and_optional_arguments(help_of: Callable[..., str]) -> None:
    assert "--verbose" in help_of(None)
    usage = {verb: help_of(verb).splitlines()[0] for verb in ("ask", "predict", "train", "fill", "pretrain")}
    assert usage == {
        "ask": "Usage: clearhead ask [OPTIONS] MODEL QUESTION [PASSAGE]",
        "predict": "Usage: clearhead predict [OPTIONS] MODEL FILE [MORE...]",
        "train": "Usage: clearhead train [OPTIONS] [FILE]",
        "fill": "Usage: clearhead fill [OPTIONS] MODEL TEXT",
        "pretrain": "Usage: clearhead pretrain [OPTIONS] [FILES...]",
    }
    assert format_optional_arguments("explain") == "[TEXT] [SECOND]"
    assert format_optional_arguments("models") == ""


def entry(name: str, description: str, **fields: Any) -> Any:
    """An entry of a help panel, as cyclopts passes it to its formatter."""
    names: dict[str, Any] = {"positive_shorts": (), "positive_names": (name,), "negative_names": ()}
    names |= {"positional_label": None, "metavar": None}
    return SimpleNamespace(description=description, **names | fields)


def test_the_layout_wraps_descriptions_beside_names() -> None:
    file = io.StringIO()
    console = Console(file=file, width=40)
    panel: Any = SimpleNamespace(
        title="Data",
        entries=[
            entry("--text", "Column with the [bold]text[/bold] of a state-of-the-art corpus.", metavar="COLUMN"),
            entry("--no-repeat-ngram-size-of-outputs", "Never repeat."),
            entry("--normalize", "Scale.", negative_names=("--no-normalize",), positive_shorts=("-n",)),
        ],
    )
    layout = HelpLayout(None)
    layout(console, console.options, panel)
    lines = file.getvalue().splitlines()
    assert lines[:2] == ["", "Data:"]
    assert lines[2] == "  --text COLUMN             Column with the"
    indent = " " * 28
    assert lines[3:6] == [f"{indent}[bold]text[/bold] of", f"{indent}a state-of-the-art", f"{indent}corpus."]
    assert "  --no-repeat-ngram-size-of-outputs" in lines
    assert "  -n, --normalize, --no-normalize" in lines
    layout(console, console.options, SimpleNamespace(title="Empty", entries=[]))  # type: ignore[arg-type]
    assert "Empty" not in file.getvalue()
