"""clearhead complexity: self-attention, recurrence and convolution over length and width."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.screen import print_json, print_table, progress, say
from clearhead.errors import InputError


def complexity(
    *,
    lengths: str | None = None,
    widths: str | None = None,
    kernel: int = 3,
    repeats: int = 5,
    threads: int | None = None,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Time one layer of self-attention, recurrence and convolution over lengths n and widths d of a text.

    Prints the lecture's table (cost, sequential steps, longest path) with the growth that was measured, the
    milliseconds, and the length at which self-attention and recurrence cross.

    Parameters
    ----------
    lengths
        Lengths in words, with commas; without it, 32 to 2048.
    widths
        Widths of a word's vector, with commas; without it, 128, 256 and 512.
    kernel
        How many neighbours the convolution sums over.
    repeats
        How often each is measured, in turns; the median counts.
    threads
        How many threads may work; without it, as many as torch takes.
    output
        Where a picture goes: .svg, .png, or .html with the tables.
    json
        Print one JSON object.
    quiet
        Say nothing but the answer.
    """
    from clearhead import api
    from clearhead.api.support import LENGTHS, MS, WIDTHS, check_picture

    if output is not None:
        check_picture(output)
    chosen = _numbers("lengths", lengths, LENGTHS), _numbers("widths", widths, WIDTHS)
    with progress("measuring", quiet=quiet or json) as bar:
        made = api.complexity(*chosen, kernel=kernel, repeats=repeats, threads=threads, progress=bar)
    if output is not None:
        made.save(output)
    if json:
        print_json(made.to_json())
        return
    print_table(*made.lecture(), title=made.title)
    print_table(*made.table(), title=MS)
    for note in made.notes:
        sys.stdout.write(f"{note}\n")
    if output is not None:
        say(f"picture: {output}", quiet=quiet)


def _numbers(name: str, text: str | None, otherwise: Sequence[int]) -> Sequence[int]:
    """Numbers with commas between them."""
    try:
        return otherwise if text is None else [int(part) for part in text.split(",")]
    except ValueError:
        said = f"--{name} must be whole numbers with commas, such as 64,128, and it is {text!r:.60}."
        raise InputError(said) from None
