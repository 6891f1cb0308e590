"""How --help is laid out: one block per group, names on the left, wrapped descriptions on the right."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

from clearhead.cli.flags import format_optional_arguments

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

INDENT = 2
MAX_NAME_WIDTH = 24  # longer names have their description on the next line
MAX_WIDTH = 100
OPTIONAL_ARGUMENTS = re.compile(r"\[ARGS(\.\.\.)?\]")  # what cyclopts calls them


class HelpLayout:
    """Help formatter of cyclopts that prints plain lines without boxes."""

    def __init__(self, verb: str | None) -> None:
        self._verb = verb

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:  # noqa: ARG002
        """Print a group of commands, arguments or options."""
        if not panel.entries:
            return
        width = min(console.width, MAX_WIDTH)
        names = [_format_names(entry) for entry in panel.entries]
        left = INDENT + min(max(map(len, names)), MAX_NAME_WIDTH) + 2
        _print(console, "")
        _print(console, f"{panel.title}:", bold=True)
        for name, entry in zip(names, panel.entries, strict=True):
            lines = textwrap.wrap(_to_text(entry.description), max(width - left, 20), break_on_hyphens=False) or [""]
            if len(name) > MAX_NAME_WIDTH:
                _print(console, f"{' ' * INDENT}{name}")
            else:
                _print(console, f"{' ' * INDENT}{name}".ljust(left) + lines.pop(0))
            for line in lines:
                _print(console, " " * left + line)

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:  # noqa: ARG002
        """Print the usage line."""
        text = _to_text(usage)
        if self._verb is not None and (optional := format_optional_arguments(self._verb)):
            text = OPTIONAL_ARGUMENTS.sub(optional, text)
        if text:
            _print(console, text if text.startswith("Usage:") else f"Usage: {text}")

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:  # noqa: ARG002
        """Print the paragraphs of a description."""
        width = min(console.width, MAX_WIDTH)
        for paragraph in _to_plain(description).split("\n\n"):
            if paragraph.strip():
                _print(console, f"\n{textwrap.fill(' '.join(paragraph.split()), width, break_on_hyphens=False)}")


def _format_names(entry: HelpEntry) -> str:
    """Format short names first, then long names and the placeholder of the value."""
    negative = tuple(name for name in entry.negative_names if not entry.positive_names or name.startswith("--no-"))
    names = (*entry.positive_shorts, *entry.positive_names, *negative)
    label = ", ".join(names) if names else entry.positional_label or ""
    return f"{label} {entry.metavar}" if entry.metavar and names else label


def _to_plain(value: Any) -> str:
    if value is None:
        return ""
    return str(getattr(value, "plain", None) or getattr(value, "primary_renderable", None) or value)


def _to_text(value: Any) -> str:
    return " ".join(_to_plain(value).split())


def _print(console: Console, text: str, *, bold: bool = False) -> None:
    console.print(text, style="bold" if bold else None, highlight=False, markup=False, soft_wrap=True)
