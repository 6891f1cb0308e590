"""clearhead generate: how a causal model goes on from a prompt."""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.decoding import STANDARD_OUTPUT, DecodingOptions
from clearhead.cli.loading import downloads
from clearhead.cli.screen import model_notes, progress, say
from clearhead.cli.streams import input_stream
from clearhead.errors import InputError


def generate(
    model: str,
    prompt: Annotated[str, Parameter(allow_leading_hyphen=True)],  # - is standard input
    /,
    *,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"), allow_leading_hyphen=True)] = None,
    column: str | None = None,
    input_format: Annotated[str | None, Parameter(name=("--input-format", "--format"))] = None,
    beam: int = 1,
    max_length: int = 128,
    options: DecodingOptions | None = None,
    new_only: bool = False,
    stream: bool = False,
    precision: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Let a causal model (GPT-2, OpenAI GPT) go on from a prompt, the lines of a file, or what comes through a pipe.

    Parameters
    ----------
    model
        A model that names the next word: a folder, or a hub id.
    prompt
        A text; a file (one prompt a line, .csv, .tsv, .json, .jsonl, .parquet); or - for standard input.
    output
        A file for the texts, a line each; without it, or with -, standard output. A job that was stopped goes on where
        it stands.
    column
        The column of a table that holds the prompts.
    input_format
        csv, tsv, jsonl or text, where neither a file's name nor a header tells it: standard input is a text a line.
    beam
        How many beginnings are kept while searching; 1 takes the likeliest word each time.
    max_length
        New tokens at most.
    new_only
        Print what was added alone, without the prompt.
    stream
        Print every piece as soon as it is known; for one prompt, without beams.
    precision
        float or int8; without it, int8 where `clearhead quantize` found it good enough.
    json
        Print a JSON object for each prompt: prompt, text, continuation, score, stopped.
    quiet
        Say nothing but the texts.
    """
    from clearhead import api
    from clearhead.api.support import is_text_source

    chosen = options or DecodingOptions()
    choices = chosen.choices(beam=beam, max_length=max_length)
    output = None if output == STANDARD_OUTPUT else output
    lined = prompt == "-" or is_text_source(prompt)
    if stream and (lined or json or output is not None):
        raise InputError("--stream writes the answer to one prompt as it comes: leave files, -o and --json out.")
    if chosen.best > 1 and not json and (lined or output is not None):
        raise InputError(f"--best {chosen.best} gives several texts for every line of a file; add --json.")
    with (
        model_notes(quiet=quiet or json),
        downloads(quiet=quiet or json) as bars,
        progress("generating", quiet=quiet or stream) as bar,
    ):
        if stream:
            pieces = api.generate_stream(model, prompt, precision=precision, download=bars, **choices)
            for piece in chain(() if new_only else (prompt,), pieces, ("\n",)):
                sys.stdout.write(piece)
                sys.stdout.flush()
            return
        api.generate(
            model,
            input_stream() if prompt == "-" else prompt,
            sys.stdout if output is None else output,
            column=column,
            input_format=input_format,
            as_json=json,
            new_only=new_only,
            precision=precision,
            progress=bar,
            download=bars,
            notify=partial(say, quiet=quiet),
            **choices,
        )
    if output is not None:
        say(f"texts: {output}", quiet=quiet)
