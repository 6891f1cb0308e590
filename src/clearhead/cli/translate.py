"""clearhead translate: translate texts, files and standard input."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.decoding import OF_DECODING, STANDARD_OUTPUT, DecodingOptions, MaxLength
from clearhead.cli.loading import download_bars
from clearhead.cli.options import OUTPUT, InputFormat, Json, Precision, Quiet, StreamArgument, TextColumn
from clearhead.cli.screen import collect_truncations, model_notes, print_note, progress
from clearhead.cli.streams import input_stream
from clearhead.errors import InputError


def translate(
    model: str,
    source: StreamArgument,
    /,
    *,
    text: TextColumn = None,
    input_format: InputFormat = None,
    precision: Precision = None,
    num_beams: Annotated[int, OF_DECODING] = 4,
    max_length: MaxLength = 256,
    coverage_penalty: Annotated[float, OF_DECODING] = 0.0,
    decoding: DecodingOptions | None = None,
    replace_unknown: Annotated[bool, OF_DECODING] = False,
    align: Annotated[bool | None, Parameter(group=OUTPUT, negative="--no-align")] = None,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"), allow_leading_hyphen=True, group=OUTPUT)] = None,
    json: Annotated[
        Json, Parameter(help="Print a JSON object per text: source, translation, score, alignment.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Translate a text, the texts of a file or standard input, in order.

    Parameters
    ----------
    model
        A translation model: a folder or a hub id.
    source
        A text; a file (one text per line, .csv, .tsv, .json, .jsonl, .parquet); or - for standard input.
    num_beams
        Beams of the search (default: 4); 1 is greedy search.
    max_length
        Maximum number of tokens of a translation (default: 256).
    coverage_penalty
        Penalty for source words that received little attention (default: 0).
    replace_unknown
        Replace unknown tokens by the source word with the most attention; needs torch.
    align
        With --json: add the source word that each word attends to most (default: if model and torch allow).
    output
        File for the translations, one per line (default: standard output). The same command resumes an interrupted
        file. With --num-return-sequences, each line has source number, rank, score and text, separated by tabs.
    """
    from clearhead import api

    settings = (decoding or DecodingOptions()).to_settings(num_beams=num_beams, max_length=max_length)
    settings["coverage_penalty"] = coverage_penalty
    output = None if output == STANDARD_OUTPUT else output
    if align and not json:
        raise InputError("--align needs --json, which prints the alignment.")
    hides_bar = quiet or output is None  # a bar would appear between the translations
    with (
        model_notes(quiet=quiet or json),
        download_bars(quiet=quiet or json) as bars,
        progress("translating", quiet=hides_bar) as bar,
        collect_truncations() as truncations,
    ):
        api.translate(
            model,
            input_stream() if source == "-" else source,
            sys.stdout if output is None else output,
            column=text,
            input_format=input_format,
            as_json=json,
            align=align if json else False,
            replace_unknown=replace_unknown,
            precision=precision,
            progress=bar,
            download=bars,
            notify=partial(print_note, quiet=quiet),
            **settings,
        )
    for line in truncations:
        print_note(line, quiet=quiet)
    if output is not None:
        print_note(f"translations: {output}", quiet=quiet)
