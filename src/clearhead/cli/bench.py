"""clearhead bench: how fast a model runs on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.loading import downloads
from clearhead.cli.screen import print_json, print_table, progress, say
from clearhead.cli.streams import input_stream
from clearhead.errors import InputError


def bench(
    reference: str,
    file: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,  # - is standard input
    /,
    *,
    column: str | None = None,
    input_format: Annotated[str | None, Parameter(name=("--input-format", "--format"))] = None,
    runtimes: str | None = None,
    threads: int | None = None,
    seconds: float = 10.0,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Measure how fast a model turns texts into vectors on this machine: time of one text, texts per second, memory.

    Every runtime works in a process of its own, and all take turns at the same texts.

    Parameters
    ----------
    reference
        A model folder, a hub id, or an alias such as `default`.
    file
        Plain text (one text a line), .csv, .tsv, .json, .jsonl, .parquet, or - for standard input; without it, built-in
        sentences.
    column
        The column that holds the text.
    input_format
        csv, tsv, jsonl or text, where neither a file's name nor a header tells it: standard input is a text a line.
    runtimes
        Some of engine, int8, core, onnx, sentence-transformers, with commas; without it, all that are installed.
    threads
        How many threads each may use; without it, one for each core.
    seconds
        About how long the first runtime works; the others get the same texts.
    output
        Where a picture goes: .svg.
    json
        Print one JSON object.
    quiet
        Say nothing but the answer.
    """
    from clearhead import api

    if file is None and column is not None:
        raise InputError("--column is for a file of texts; name one.")
    texts: Any = input_stream() if file == "-" else None if file is None else Path(file)
    names = None if runtimes is None else [name.strip() for name in runtimes.split(",")]
    silent = quiet or json
    with downloads(quiet=silent) as bars, progress("measuring", quiet=silent) as bar:
        made = api.bench(
            reference,
            texts,
            output=output,
            column=column,
            input_format=input_format,
            runtimes=names,
            threads=threads,
            seconds=seconds,
            progress=bar,
            download=bars,
        )
    if json:
        print_json(made.to_json())
        return
    show_bench(made)
    if output is not None:
        say(f"picture: {output}", quiet=quiet)


def show_bench(made: Any) -> None:
    """A table of the runtimes, and what was left out."""
    columns, rows = made.table()
    print_table(columns, rows, title=made.title)
    for note in made.notes:
        sys.stdout.write(f"{note}\n")
