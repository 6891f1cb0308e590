"""clearhead predict: the answers of a trained model to a text, or to each row of a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.answer import print_answer, refuse_file_options
from clearhead.cli.evaluate import describe_row_counts
from clearhead.cli.loading import download_bars
from clearhead.cli.options import (
    OUTPUT,
    AbstainBelow,
    InputFormat,
    Json,
    OptionColumns,
    Precision,
    Quiet,
    SecondTextColumn,
    SkipBadRows,
    StreamArgument,
    TrainedTextColumn,
)
from clearhead.cli.screen import model_notes, print_json, print_note, progress
from clearhead.cli.streams import input_bytes
from clearhead.errors import InputError

FORMATS = ("csv", "tsv", "jsonl", "text")  # of standard input
OUTPUT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")


def predict(
    model: str,
    file: StreamArgument,
    /,
    *more: str,
    text: TrainedTextColumn = None,
    text_b: SecondTextColumn = None,
    options: OptionColumns = None,
    input_format: InputFormat = None,
    skip_bad_rows: SkipBadRows = False,
    abstain_below: AbstainBelow = None,
    precision: Precision = None,
    output: Annotated[str | None, Parameter(name=("--output", "-o"), allow_leading_hyphen=True, group=OUTPUT)] = None,
    format: Annotated[str | None, Parameter(group=OUTPUT)] = None,  # noqa: A002
    prefix: Annotated[str, Parameter(group=OUTPUT)] = "",
    probabilities: Annotated[bool, Parameter(group=OUTPUT)] = False,
    json: Annotated[
        Json,
        Parameter(help="Print one JSON object about the text or the output file; for rows on stdout, one per row."),
    ] = False,
    quiet: Annotated[Quiet, Parameter(help="Print only the answer to a text, and no notes about a file.")] = False,
) -> None:
    """Predict one text, or every row of a file; all input columns are kept.

    Parameters
    ----------
    model
        A folder of `clearhead train`, or a checkpoint with a head for labels, tags, answers or options.
    file
        A text, or rows in any format that `train` reads: a file name, or - for standard input.
    more
        The second text of a pair, the passage of a question, or the options of a question.
    output
        File for rows: .csv, .tsv or .jsonl (.conll for tags, .json for answers); default: standard output. The same
        command resumes an incomplete file.
    format
        csv, tsv or jsonl if the output name does not show it; conll for tags, squad for answers by question id.
    prefix
        Prefix of the new column names.
    probabilities
        Add a column with the probability of each label or option.
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
        with model_notes(quiet=quiet), download_bars(quiet=quiet or json) as bars:
            predictor = api.load_predictor(model, abstain_below=abstain_below, precision=precision, progress=bars)
            answer = api.predict_text(predictor, file, *more)
        print_answer(predictor, answer, (file, *more), json=json, quiet=quiet)
        return
    if more:
        raise InputError(f"{file} is a file; it cannot be combined with further texts.")
    output = "-" if output is None else output
    if file == "-" and input_format is None and format in FORMATS and (format == "text" or _shows_format(output)):
        format, input_format = None, format  # noqa: A001
    if json and output == "-":
        if format not in (None, "jsonl"):
            raise InputError(f"--json prints rows as JSON lines, but --format is {format}; use one of them.")
        format, json = "jsonl", False  # noqa: A001
    rows_are_visible = output == "-" and sys.stdout.isatty()  # a bar would appear between the rows
    silent = quiet or json or rows_are_visible
    rows: Any = input_bytes() if file == "-" else file
    target: Any = sys.stdout.buffer if output == "-" else Path(output)
    with model_notes(quiet=quiet), download_bars(quiet=silent) as bars, progress("predicting", quiet=silent) as bar:
        predictor = api.load_predictor(model, abstain_below=abstain_below, precision=precision, progress=bars)
        predicted = api.predict_file(
            predictor,
            rows,
            target,
            text=text,
            text_b=text_b,
            options=options,
            format=format,
            input_format=input_format,
            prefix=prefix,
            probabilities=probabilities,
            skip_bad_rows=skip_bad_rows,
            progress=bar,
        )
    if json:
        print_json(predicted.to_json())
        return
    if predicted.resumed:
        print_note(f"resumed after row {predicted.resumed:,}", quiet=quiet)
    for line in describe_row_counts(predicted):
        print_note(line, quiet=quiet)
    if predicted.blank_lines:
        print_note(f"{predicted.blank_lines:,} blank lines were skipped.", quiet=quiet)
    destination = "standard output" if output == "-" else predicted.output
    print_note(f"{predicted.rows:,} rows: {destination}", quiet=quiet or rows_are_visible)


def _shows_format(output: str) -> bool:
    """Whether the name of an output file shows its format."""
    return Path(output).suffix.lower() in OUTPUT_SUFFIXES
