"""clearhead evaluate: metrics of a trained model on labeled rows."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.loading import download_bars
from clearhead.cli.options import (
    DATA,
    MEASUREMENT,
    OUTPUT,
    InputFormat,
    Json,
    LabelColumn,
    OptionColumns,
    Precision,
    Quiet,
    SecondTextColumn,
    SkipBadRows,
    StreamArgument,
    TrainedTextColumn,
)
from clearhead.cli.screen import model_notes, print_blank_line, print_json, print_note, print_table, progress
from clearhead.cli.streams import input_bytes
from clearhead.errors import InputError

INTERVAL = "95 % interval"


def evaluate(
    model: str,
    file: StreamArgument,
    /,
    *,
    text: TrainedTextColumn = None,
    text_b: SecondTextColumn = None,
    label: LabelColumn = None,
    options: OptionColumns = None,
    part: Annotated[str | None, Parameter(group=DATA)] = None,
    input_format: InputFormat = None,
    skip_bad_rows: SkipBadRows = False,
    precision: Precision = None,
    slice: Annotated[list[str] | None, Parameter(name="--slice", metavar="COLUMN", group=MEASUREMENT)] = None,  # noqa: A002
    against: Annotated[str | None, Parameter(group=MEASUREMENT, metavar="MODEL")] = None,
    report: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure a trained model on labeled rows, with confidence intervals.

    Parameters
    ----------
    model
        A folder of `clearhead train`, or a checkpoint with a head for labels, tags, answers or options.
    file
        Labeled rows, or - for standard input.
    part
        dev or test: only the rows of the training file that the run held out.
    slice
        Also measure each value of this column separately; repeatable.
    against
        Another model, for a paired comparison on the same rows: difference, interval, p-value.
    report
        Write an HTML report to this file.
    """
    from clearhead import api

    silent = quiet or json
    rows: Any = input_bytes() if file == "-" else file
    with model_notes(quiet=quiet), download_bars(quiet=silent) as bars, progress("evaluating", quiet=silent) as bar:
        is_translator = _is_translator(model, precision)
        evaluation = api.evaluate(
            model if is_translator else api.load_predictor(model, precision=precision, progress=bars),
            rows,
            text=text,
            text_b=text_b,
            label=label,
            options=options,
            slices=slice or (),
            part=part,
            against=against,
            report=report,
            skip_bad_rows=skip_bad_rows,
            input_format=input_format,
            progress=None if bar is None else lambda done: bar(done, None),
            command=shlex.join(["clearhead", *sys.argv[1:]]),
        )
    if json:
        print_json(evaluation.to_json())
        return
    print_table(("metric", "value", INTERVAL), metric_rows(evaluation.metrics), title=f"{evaluation.rows:,} rows")
    if evaluation.against:
        differences = [
            (name, f"{paired.difference:+.4f}", f"{paired.low:+.4f} to {paired.high:+.4f}", f"{paired.p:.3f}")
            for name, paired in evaluation.against.items()
        ]
        print_blank_line()
        print_table(("metric", "difference", INTERVAL, "p"), differences, title=f"compared with {against}")
    if slice:
        cells = [
            (part.column, part.name, f"{part.rows:,}", f"{part.value:.4f}", _format_interval(part.interval))
            for part in evaluation.slices
            if part.column in slice
        ]
        print_blank_line()
        print_table(("column", "slice", "rows", "value", INTERVAL), cells)
    if evaluation.task == "translate" and evaluation.slices:
        by_length = [
            (part.name, f"{part.rows:,}", f"{part.value:.2f}", _format_interval(part.interval))
            for part in evaluation.slices
        ]
        print_blank_line()
        print_table(("source length in words", "rows", "BLEU", INTERVAL), by_length)
    for line in describe_row_counts(evaluation):
        print_note(line, quiet=quiet)
    if report is not None:
        print_note(f"report: {report}", quiet=quiet)


def _is_translator(model: str, precision: str | None) -> bool:
    """Whether the model is a translator, which is measured by its texts and not by logits."""
    from clearhead.api.support import local_kind

    if local_kind(model) != "translator":
        return False
    if precision is not None:
        raise InputError("Translators are measured in the precision of their folder; omit --precision.")
    return True


def metric_rows(metrics: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Metrics with their intervals as rows of a table."""
    return [(name, _format_value(interval.value), _format_interval(interval)) for name, interval in metrics.items()]


def _format_value(value: float) -> str:
    return "undefined" if value != value else f"{value:.4f}"


def _format_interval(interval: Any) -> str:
    return "" if interval.low != interval.low else f"{interval.low:.4f} to {interval.high:.4f}"


def describe_row_counts(counts: Any) -> list[str]:
    """Sentences about rows that were skipped, read in windows, truncated or not answered."""
    from clearhead.api.support import pluralize

    lines = []
    if counts.skipped:
        reasons = ", ".join(f"{pluralize(count, 'row')} ({reason})" for reason, count in counts.skipped.items())
        lines.append(f"skipped: {reasons}")
    if counts.windowed:
        rows, was = pluralize(counts.windowed, "row", ("is", "are")), "was" if counts.windowed == 1 else "were"
        lines.append(f"{rows} too long for the model and {was} read in windows.")
    if counts.truncated:
        lines.append(f"{pluralize(counts.truncated, 'row', ('was', 'were'))} truncated.")
    if counts.abstained:
        rows = pluralize(counts.abstained, "row", ("has", "have"))
        lines.append(f"{rows} no answer because the model was not confident enough.")
    return lines
