"""clearhead predict: what a trained model says of each row of a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.evaluate import counted
from clearhead.cli.loading import downloads
from clearhead.cli.screen import model_notes, print_json, progress, say
from clearhead.errors import InputError


def predict(
    reference: str,
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],  # - is standard input
    /,
    *,
    output: Annotated[str, Parameter(name=("--output", "-o"), allow_leading_hyphen=True)],
    text: str | None = None,
    text_b: str | None = None,
    options: str | None = None,
    format: str | None = None,  # noqa: A002
    prefix: str = "",
    probabilities: bool = False,
    abstain_below: float | None = None,
    skip_bad_rows: bool = False,
    precision: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Answer every row of a file; all its columns are kept, in their order.

    Parameters
    ----------
    reference
        A model folder that `clearhead train` made, or a checkpoint with a head for labels, tags, answers or options.
    file
        Rows in any form that `train` reads, or - for standard input.
    output
        .csv, .tsv or .jsonl (.conll of tags, .json of answers); - for standard output. A file that was begun is gone
        on with.
    text
        The column with the text; without it, as in training.
    text_b
        The column with the second text: the passage of a question.
    options
        The columns with the options of a question, commas between them.
    format
        csv, tsv or jsonl, where the output's name does not say it; conll for tags of a file in columns, squad for
        answers by the id of their question.
    prefix
        Put before the names of the new columns.
    probabilities
        Add a column for the probability of each label, or of each column of options.
    abstain_below
        Give no answer where the model is less sure than this.
    skip_bad_rows
        Go on where rows cannot be used, and count them.
    precision
        float or int8; without it, int8 where `clearhead quantize` found it good enough.
    json
        Print one JSON object about what was done.
    quiet
        Say nothing.
    """
    from clearhead import api

    if json and output == "-":
        raise InputError("--json and -o - both want standard output; use one of them.")
    silent = quiet or json
    rows: Any = sys.stdin.buffer if file == "-" else file
    place: Any = sys.stdout.buffer if output == "-" else Path(output)
    with model_notes(quiet=silent), downloads(quiet=silent) as bars, progress("predicting", quiet=silent) as bar:
        predictor = api.load_predictor(reference, abstain_below=abstain_below, precision=precision, progress=bars)
        made = api.predict_file(
            predictor,
            rows,
            place,
            text=text,
            text_b=text_b,
            options=options,
            format=format,
            prefix=prefix,
            probabilities=probabilities,
            skip_bad_rows=skip_bad_rows,
            told=bar,
        )
    if json:
        print_json(made.to_json())
        return
    if made.resumed:
        say(f"went on after row {made.resumed:,}", quiet=quiet)
    for line in counted(made):
        say(line, quiet=quiet)
    say(f"{made.rows:,} rows: {'standard output' if output == '-' else made.output}", quiet=quiet)
