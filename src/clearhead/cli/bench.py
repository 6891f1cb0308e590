"""clearhead bench: speed and memory of a model on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.loading import download_bars
from clearhead.cli.options import MEASUREMENT, InputFormat, Json, OutputFile, Quiet, TextColumn, Threads
from clearhead.cli.screen import print_json, print_note, print_table, progress
from clearhead.cli.streams import input_stream
from clearhead.errors import InputError


def bench(
    model: str,
    file: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,  # - is standard input
    /,
    *,
    text: TextColumn = None,
    input_format: InputFormat = None,
    runtimes: Annotated[str | None, Parameter(group=MEASUREMENT)] = None,
    threads: Annotated[
        Threads, Parameter(group=MEASUREMENT, help="Number of CPU threads per runtime (default: one per core).")
    ] = None,
    seconds: Annotated[float, Parameter(group=MEASUREMENT)] = 10.0,
    output: OutputFile = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure how fast a model embeds texts on this machine: latency of one text, texts per second, memory.

    Each runtime has its own process, and the runtimes take turns on the same texts.

    Parameters
    ----------
    model
        A model folder, a hub id or an alias such as `default`.
    file
        Texts in any format that `embed` reads, or - for standard input (default: built-in sentences).
    runtimes
        Runtimes to compare, separated by commas: engine, int8, core, onnx, sentence-transformers (default: all that
        are installed).
    seconds
        Approximate running time of the first runtime (default: 10); the others get the same texts.
    output
        Write a figure to this .svg file.
    """
    from clearhead import api

    if file is None and text is not None:
        raise InputError("--text names the column of a file with texts, but no file is given.")
    texts: Any = input_stream() if file == "-" else None if file is None else Path(file)
    names = None if runtimes is None else [name.strip() for name in runtimes.split(",")]
    silent = quiet or json
    with download_bars(quiet=silent) as bars, progress("measuring", quiet=silent) as bar:
        result = api.bench(
            model,
            texts,
            output=output,
            column=text,
            input_format=input_format,
            runtimes=names,
            threads=threads,
            seconds=seconds,
            progress=bar,
            download=bars,
        )
    if json:
        print_json(result.to_json())
        return
    columns, rows = result.table()
    print_table(columns, rows, title=result.title)
    for note in result.notes:
        sys.stdout.write(f"{note}\n")
    if output is not None:
        print_note(f"figure: {output}", quiet=quiet)
