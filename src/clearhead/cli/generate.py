"""clearhead generate: continue prompts with a causal language model."""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.decoding import STANDARD_OUTPUT, DecodingOptions, MaxLength
from clearhead.cli.loading import download_bars
from clearhead.cli.options import DECODING, OUTPUT, InputFormat, Json, Precision, Quiet, StreamArgument, TextColumn
from clearhead.cli.screen import model_notes, print_note, progress
from clearhead.cli.streams import input_stream
from clearhead.errors import InputError


def generate(
    model: str,
    prompt: StreamArgument,
    /,
    *,
    text: Annotated[TextColumn, Parameter(help="Column with the prompts (default: the only one).")] = None,
    input_format: InputFormat = None,
    precision: Precision = None,
    num_beams: Annotated[int, Parameter(group=DECODING)] = 1,
    max_length: MaxLength = 128,
    decoding: DecodingOptions | None = None,
    new_only: Annotated[bool, Parameter(group=OUTPUT)] = False,
    stream: Annotated[bool, Parameter(group=OUTPUT)] = False,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"), allow_leading_hyphen=True, group=OUTPUT)] = None,
    json: Annotated[
        Json, Parameter(help="Print a JSON object per prompt: prompt, text, continuation, score, stopped.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Continue a prompt, or each prompt of a file or of standard input, with a causal language model such as GPT-2.

    Parameters
    ----------
    model
        A model with a language modeling head: a folder or a hub id.
    prompt
        A text; a file (one prompt per line, .csv, .tsv, .json, .jsonl, .parquet); or - for standard input.
    num_beams
        Beams of the search (default: 1, greedy search).
    max_length
        Maximum number of new tokens (default: 128).
    new_only
        Print only the continuation, without the prompt.
    stream
        Print each piece as soon as it is generated; for a single prompt, without beams.
    output
        File for the texts, one per line (default: standard output). The same command resumes an interrupted file.
    """
    from clearhead import api
    from clearhead.api.support import is_text_source

    options = decoding or DecodingOptions()
    settings = options.to_settings(num_beams=num_beams, max_length=max_length)
    output = None if output == STANDARD_OUTPUT else output
    has_many_prompts = prompt == "-" or is_text_source(prompt)
    if stream and (has_many_prompts or json or output is not None):
        raise InputError("--stream prints the continuation of a single prompt; use it without files, -o and --json.")
    if options.num_return_sequences > 1 and not json and (has_many_prompts or output is not None):
        flag = f"--num-return-sequences {options.num_return_sequences}"
        raise InputError(f"{flag} gives several texts per line of a file; add --json.")
    with (
        model_notes(quiet=quiet or json),
        download_bars(quiet=quiet or json) as bars,
        progress("generating", quiet=quiet or stream) as bar,
    ):
        if stream:
            pieces = api.generate_stream(model, prompt, precision=precision, download=bars, **settings)
            for piece in chain(() if new_only else (prompt,), pieces, ("\n",)):
                sys.stdout.write(piece)
                sys.stdout.flush()
            return
        api.generate(
            model,
            input_stream() if prompt == "-" else prompt,
            sys.stdout if output is None else output,
            column=text,
            input_format=input_format,
            as_json=json,
            new_only=new_only,
            precision=precision,
            progress=bar,
            download=bars,
            notify=partial(print_note, quiet=quiet),
            **settings,
        )
    if output is not None:
        print_note(f"texts: {output}", quiet=quiet)
