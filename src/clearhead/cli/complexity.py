"""clearhead complexity: how self-attention, recurrence and convolution scale."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.options import MEASUREMENT, Json, OutputFile, Quiet, Threads
from clearhead.cli.screen import print_blank_line, print_json, print_note, print_table, progress
from clearhead.errors import InputError


def complexity(
    *,
    lengths: Annotated[str | None, Parameter(group=MEASUREMENT)] = None,
    widths: Annotated[str | None, Parameter(group=MEASUREMENT)] = None,
    kernel: Annotated[int, Parameter(group=MEASUREMENT)] = 3,
    repeats: Annotated[int, Parameter(group=MEASUREMENT)] = 5,
    threads: Annotated[
        Threads, Parameter(group=MEASUREMENT, help="Number of CPU threads (default: as many as torch uses).")
    ] = None,
    output: OutputFile = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Time one layer of self-attention, recurrence and convolution over sequence lengths n and widths d.

    Prints cost, sequential steps and longest path of each layer type with the measured growth, the milliseconds, and
    the length at which self-attention becomes slower than recurrence.

    Parameters
    ----------
    lengths
        Sequence lengths in tokens, separated by commas (default: 32 to 2048).
    widths
        Hidden sizes, separated by commas (default: 128, 256, 512).
    kernel
        Kernel size of the convolution (default: 3).
    repeats
        Measurements of each size (default: 5); the median is reported.
    output
        Write a figure: .svg, .png, or .html with the tables.
    """
    from clearhead import api
    from clearhead.api.support import LENGTHS, TIMES_TITLE, WIDTHS, check_picture

    if output is not None:
        check_picture(output)
    sizes = _parse_integers("lengths", lengths, LENGTHS), _parse_integers("widths", widths, WIDTHS)
    with progress("measuring", quiet=quiet or json) as bar:
        growth = api.complexity(*sizes, kernel=kernel, repeats=repeats, threads=threads, progress=bar)
    if output is not None:
        growth.save(output)
    if json:
        print_json(growth.to_json())
        return
    print_table(*growth.cost_table(), title=growth.title)
    print_blank_line()
    print_table(*growth.table(), title=TIMES_TITLE)
    for note in growth.notes:
        sys.stdout.write(f"{note}\n")
    if output is not None:
        print_note(f"figure: {output}", quiet=quiet)


def _parse_integers(name: str, text: str | None, default: Sequence[int]) -> Sequence[int]:
    """Parse integers separated by commas."""
    try:
        return default if text is None else [int(part) for part in text.split(",")]
    except ValueError:
        message = f"--{name} must be integers separated by commas, such as 64,128, got {text!r:.60}."
        raise InputError(message) from None
