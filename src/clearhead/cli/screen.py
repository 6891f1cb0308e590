"""What commands print: tables for people, JSON for scripts, notes and progress on stderr."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from clearhead.cli.streams import to_json_text
from clearhead.cli.verbose import StageTimer, is_verbose

if TYPE_CHECKING:
    from clearhead.api.support import CountCallback, Progress

# characters of files that must not reach a terminal: control characters, lone surrogates, changes of direction
UNSAFE_CHARACTERS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
DEPRECATED = ".* is deprecated and will be removed in "  # settings under former names
NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+(e[-+]?\d+)?( ?(%|s|ms|MB|x))?")


def print_json(value: Any) -> None:
    """One JSON value on stdout."""
    sys.stdout.write(to_json_text(value) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """A table on stdout: wrapped at the width of a terminal, plain aligned lines in a pipe."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    safe_rows = [[make_printable(cell) for cell in row] for row in rows]
    is_terminal = sys.stdout.isatty()
    table = Table(
        box=box.SIMPLE_HEAD if is_terminal else None,
        show_header=any(columns),
        show_edge=False,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for index, column in enumerate(columns):
        cells = [row[index] for row in safe_rows]
        is_numeric = any(cells) and all(NUMBER.fullmatch(cell) for cell in cells if cell)
        table.add_column(column, overflow="fold", no_wrap=not is_terminal, justify="right" if is_numeric else "left")
    for row in safe_rows:
        table.add_row(*map(Text, row))
    if title is not None:
        sys.stdout.write(f"{make_printable(title)}\n")
    if is_terminal:
        Console().print(table)
        return
    plain = Console(width=1 << 16, color_system=None, force_terminal=False)
    with plain.capture() as capture:
        plain.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def print_facts(facts: Sequence[tuple[str, str]], title: str | None = None) -> None:
    """Names and values on stdout, without a header."""
    print_table(("", ""), facts, title)


def print_blank_line() -> None:
    """Separate two tables on stdout."""
    sys.stdout.write("\n")


def make_printable(text: str) -> str:
    """Text on one line without characters that change what a terminal shows."""
    return UNSAFE_CHARACTERS.sub("?", text.replace("\n", " ").replace("\t", " "))


def print_note(text: str, *, quiet: bool = False) -> None:
    """A line for people, on stderr."""
    if not quiet:
        with suppress(OSError):  # a note that cannot be written does not end the command
            sys.stderr.write(text + "\n")


class StageBars:
    """Progress as bars of a display: one that all stages share, or one for each stage."""

    def __init__(self, display: Any, *, shared: bool = True, **fields: Any) -> None:
        self._display, self._shared, self._fields = display, shared, fields
        self._bars: dict[str, Any] = {}

    def __call__(self, stage: str, done: int, total: int | None, /) -> None:
        key = "" if self._shared else stage
        if key not in self._bars:
            self._bars[key] = self._display.add_task(stage, **self._fields)
        self._display.update(self._bars[key], description=stage, completed=done, total=total, visible=True)

    def hide(self) -> None:
        """Hide the bars until the next report."""
        for bar in self._bars.values():
            self._display.update(bar, visible=False)


@contextmanager
def stage_bars(*columns: str, quiet: bool, shared: bool = True) -> Iterator[Progress | None]:
    """Bars on stderr with columns of rich behind each description; None if stderr is not a terminal."""
    with _terminal_bars(*columns, quiet=quiet, shared=shared) as bars:
        timer = StageTimer(bars) if is_verbose() else None
        yield bars if timer is None else timer
        if timer is not None:
            timer.stop()


@contextmanager
def _terminal_bars(*columns: str, quiet: bool, shared: bool) -> Iterator[StageBars | None]:
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich_progress
    from rich.console import Console

    shown_columns = (
        rich_progress.TextColumn("{task.description}"),
        *(getattr(rich_progress, name)() for name in columns),
    )
    with rich_progress.Progress(*shown_columns, console=Console(stderr=True), transient=True) as display:
        yield StageBars(display, shared=shared, total=None)


@contextmanager
def stages(*, quiet: bool) -> Iterator[Progress | None]:
    """A bar for work in several stages; None if stderr is not a terminal."""
    with stage_bars("BarColumn", "MofNCompleteColumn", quiet=quiet) as bars:
        if bars is not None:
            bars("", 0, None)
        yield bars


@contextmanager
def progress(stage: str, *, quiet: bool) -> Iterator[CountCallback | None]:
    """A bar for a function with one stage, which reports (done, total); None if stderr is not a terminal."""
    with stage_bars("BarColumn", "MofNCompleteColumn", "TimeRemainingColumn", quiet=quiet) as bars:
        if bars is None:
            yield None
        else:
            bars(stage, 0, None)
            yield partial(bars, stage)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show Clearhead's own warnings as a sentence on stderr, without the line of code that they come from."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("always", DEPRECATED, DeprecationWarning)
        original = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *location: Any, **options: Any) -> None:
            if category.__module__.split(".")[0] == "clearhead" or re.match(DEPRECATED, str(message)):
                print_note(f"clearhead: {message}")
            else:
                original(message, category, *location, **options)

        warnings.showwarning = show
        yield


@contextmanager
def model_notes(*, quiet: bool) -> Iterator[None]:
    """Log messages of loading a model as plain lines on stderr; with `quiet` only errors."""
    log = logging.getLogger("clearhead")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.propagate = False
    log.setLevel(logging.DEBUG if is_verbose() else logging.ERROR if quiet else logging.WARNING)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate


@contextmanager
def collect_truncations() -> Iterator[list[str]]:
    """Collect warnings about truncated texts; other warnings are shown as usual."""
    import warnings

    from clearhead.api.support import TruncationWarning

    messages: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", TruncationWarning)
        show = warnings.showwarning

        def collect(message: Warning | str, category: type[Warning], *location: Any, **options: Any) -> None:
            if issubclass(category, TruncationWarning):
                messages.append(str(message))
            else:
                show(message, category, *location, **options)

        warnings.showwarning = collect
        yield messages
