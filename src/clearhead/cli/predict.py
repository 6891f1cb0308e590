"""clearhead predict: what a trained model says of a text, or of each row of a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.answer import print_answer, refuse_file_options
from clearhead.cli.evaluate import counted
from clearhead.cli.loading import downloads
from clearhead.cli.screen import model_notes, print_json, progress, say
from clearhead.cli.streams import input_bytes
from clearhead.errors import InputError

FORMATS = ("csv", "tsv", "jsonl", "text")  # of standard input


def predict(
    reference: str,
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],  # - is standard input
    /,
    *more: str,
    output: Annotated[str | None, Parameter(name=("--output", "-o"), allow_leading_hyphen=True)] = None,
    text: str | None = None,
    text_b: str | None = None,
    options: str | None = None,
    format: str | None = None,  # noqa: A002
    input_format: str | None = None,
    prefix: str = "",
    probabilities: bool = False,
    abstain_below: float | None = None,
    skip_bad_rows: bool = False,
    precision: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Answer one text on the screen, or every row of a file; all its columns are kept, in their order.

    Parameters
    ----------
    reference
        A model folder that `clearhead train` made, or a checkpoint with a head for labels, tags, answers or options.
    file
        A text, or rows in any form that `train` reads: the name of a file, or - for standard input.
    more
        The second text of a pair, the passage of a question, or the options of a question.
    output
        Of rows: a file in .csv, .tsv or .jsonl (.conll of tags, .json of answers); without it, or with -, standard
        output. An incomplete output file is resumed.
    text
        The column with the text; without it, as in training.
    text_b
        The column with the second text: the passage of a question.
    options
        The columns with the options of a question, commas between them.
    format
        csv, tsv or jsonl, where the output's name does not say it; conll for tags of a file in columns, squad for
        answers by the id of their question. Where the output's name does, that of standard input.
    input_format
        csv, tsv, jsonl or text, where neither a file's name nor a header tells it: standard input is a text a line.
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
        Print one JSON object: the answer to a text, or what was done with an output file; of rows on standard output,
        an object a line.
    quiet
        Say nothing; of a text, print the answer alone.
    """
    from clearhead import api
    from clearhead.api.support import is_text

    if is_text(file):
        refuse_file_options(
            {
                "output": output,
                "text": text,
                "text_b": text_b,
                "options": options,
                "format": format,
                "prefix": prefix,
                "probabilities": probabilities,
                "skip_bad_rows": skip_bad_rows,
            }
        )
        with model_notes(quiet=quiet), downloads(quiet=quiet or json) as bars:
            predictor = api.load_predictor(reference, abstain_below=abstain_below, precision=precision, progress=bars)
            answer = api.predict_text(predictor, file, *more)
        print_answer(predictor, answer, (file, *more), json=json, quiet=quiet)
        return
    if more:
        raise InputError(f"{file} is a file; texts after it cannot be answered with it.")
    output = "-" if output is None else output
    if file == "-" and input_format is None and format in FORMATS and (format == "text" or _names_format(output)):
        format, input_format = None, format  # noqa: A001
    if json and output == "-":
        if format not in (None, "jsonl"):
            raise InputError(f"--json prints rows as JSON lines, and --format says {format}; use one of them.")
        format, json = "jsonl", False  # noqa: A001
    seen = output == "-" and sys.stdout.isatty()  # a bar would stand between the rows
    silent = quiet or json or seen
    rows: Any = input_bytes() if file == "-" else file
    place: Any = sys.stdout.buffer if output == "-" else Path(output)
    with model_notes(quiet=quiet), downloads(quiet=silent) as bars, progress("predicting", quiet=silent) as bar:
        predictor = api.load_predictor(reference, abstain_below=abstain_below, precision=precision, progress=bars)
        made = api.predict_file(
            predictor,
            rows,
            place,
            text=text,
            text_b=text_b,
            options=options,
            format=format,
            input_format=input_format,
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
    if made.blank_lines:
        say(f"{made.blank_lines:,} blank lines were passed over.", quiet=quiet)
    say(f"{made.rows:,} rows: {'standard output' if output == '-' else made.output}", quiet=quiet or seen)


def _names_format(output: str) -> bool:
    """Whether an output's name says how it is written."""
    return Path(output).suffix.lower() in (".csv", ".tsv", ".jsonl", ".ndjson")
