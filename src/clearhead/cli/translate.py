"""clearhead translate: texts, files and pipes through a translator."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.decoding import STANDARD_OUTPUT, DecodingOptions
from clearhead.cli.loading import downloads
from clearhead.cli.screen import model_notes, progress, say, truncations
from clearhead.cli.streams import input_stream
from clearhead.errors import InputError


def translate(
    model: str,
    text: Annotated[str, Parameter(allow_leading_hyphen=True)],  # - is standard input
    /,
    *,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"), allow_leading_hyphen=True)] = None,
    column: str | None = None,
    input_format: Annotated[str | None, Parameter(name=("--input-format", "--format"))] = None,
    beam: int = 4,
    max_length: int = 256,
    coverage_penalty: float = 0.0,
    options: DecodingOptions | None = None,
    replace_unknown: bool = False,
    align: bool | None = None,
    precision: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Translate a text, the lines of a file, or what comes through a pipe, in its order.

    Parameters
    ----------
    model
        A translator's folder, or a hub id.
    text
        A text; a file (one text a line, .csv, .tsv, .json, .jsonl, .parquet); or - for standard input.
    output
        A file for the translations, a line each; without it, or with -, standard output. A job that was stopped goes
        on where it stands. With --best, every translation has a line of its own: the number of its source, its rank,
        its score and the text, with tabs.
    column
        The column of a table that holds the text.
    input_format
        csv, tsv, jsonl or text, where neither a file's name nor a header tells it: standard input is a text a line.
    beam
        How many beginnings are kept while searching; 1 takes the likeliest word each time.
    max_length
        Tokens of a translation at most.
    coverage_penalty
        How much source words that were never looked at count against a translation.
    replace_unknown
        Put the source word that was looked at most where the model says that it does not know a word; needs torch.
    align
        Of `--json`: which source word each word looked at; without it, where the model and torch can tell.
    precision
        float or int8; without it, int8 where `clearhead quantize` found it good enough.
    json
        Print a JSON object for each line: source, translation, score, alignment.
    quiet
        Say nothing but the translations.
    """
    from clearhead import api

    choices = (options or DecodingOptions()).choices(beam=beam, max_length=max_length)
    choices["coverage_penalty"] = coverage_penalty
    output = None if output == STANDARD_OUTPUT else output
    if align and not json:
        raise InputError("--align is told by --json: give both, or leave it out.")
    shy = quiet or output is None  # a bar would stand between the translations
    with (
        model_notes(quiet=quiet or json),
        downloads(quiet=quiet or json) as bars,
        progress("translating", quiet=shy) as bar,
        truncations() as cut,
    ):
        api.translate(
            model,
            input_stream() if text == "-" else text,
            sys.stdout if output is None else output,
            column=column,
            input_format=input_format,
            as_json=json,
            align=align if json else False,
            replace_unknown=replace_unknown,
            precision=precision,
            progress=bar,
            download=bars,
            notify=partial(say, quiet=quiet),
            **choices,
        )
    for line in cut:
        say(line, quiet=quiet)
    if output is not None:
        say(f"translations: {output}", quiet=quiet)
