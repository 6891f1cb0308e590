"""clearhead evaluate: how good a trained model is on rows whose labels are known."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.loading import downloads
from clearhead.cli.screen import model_notes, print_json, print_table, progress, say
from clearhead.cli.streams import input_bytes
from clearhead.errors import InputError


def evaluate(
    reference: str,
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],  # - is standard input
    /,
    *,
    text: str | None = None,
    text_b: str | None = None,
    label: str | None = None,
    options: str | None = None,
    slice: Annotated[list[str] | None, Parameter(name="--slice")] = None,  # noqa: A002
    part: str | None = None,
    against: str | None = None,
    report: Path | None = None,
    skip_bad_rows: bool = False,
    input_format: Annotated[str | None, Parameter(name=("--input-format", "--format"))] = None,
    precision: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Measure a trained model on rows whose labels are known.

    Parameters
    ----------
    reference
        A model folder that `clearhead train` made, or a checkpoint with a head for labels, tags, answers or options.
    file
        Rows with labels, or - for standard input.
    text
        The column with the text; without it, as in training.
    text_b
        The column with the second text.
    label
        The column with the label: the class, the tags or spans, the answers, the right option.
    options
        The columns with the options of a question, commas between them.
    slice
        A column by whose values the metric is shown apart; may be given several times.
    part
        dev or test: of the training file, the rows alone that the run held out.
    against
        Another model: the difference on the same rows, with its interval and the chance of so much by luck.
    report
        Write an HTML page about it.
    skip_bad_rows
        Leave out rows that cannot be used, and count them.
    input_format
        csv, tsv, jsonl or text, where neither a file's name nor a header tells it: standard input is a text a line.
    precision
        float or int8; without it, int8 where `clearhead quantize` found it good enough.
    json
        Print one JSON object.
    quiet
        Say nothing but the answer.
    """
    from clearhead import api

    silent = quiet or json
    rows: Any = input_bytes() if file == "-" else file
    with model_notes(quiet=quiet), downloads(quiet=silent) as bars, progress("evaluating", quiet=silent) as bar:
        own = _own(reference, precision)
        made = api.evaluate(
            api.load_predictor(reference, precision=precision, progress=bars) if own is None else own,
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
            told=None if bar is None else lambda done: bar(done, None),
            command=shlex.join(["clearhead", *sys.argv[1:]]),
        )
    if json:
        print_json(made.to_json())
        return
    print_table(("metric", "value", "95 % interval"), metric_rows(made.metrics), title=f"{made.rows:,} rows")
    for name, paired in made.against.items():
        chance = f"95 % {paired.low:+.4f} to {paired.high:+.4f}, p = {paired.p:.3f}"
        say(f"{name}: {paired.difference:+.4f} against {against} ({chance})", quiet=quiet)
    if slice:
        shown = [part for part in made.slices if part.column in slice]
        table = [(one.column, one.name, f"{one.rows:,}", f"{one.value:.4f}", _range(one.interval)) for one in shown]
        print_table(("column", "slice", "rows", "value", "95 % interval"), table)
    if made.task == "translate" and made.slices:
        by_length = [(one.name, f"{one.rows:,}", f"{one.value:.2f}", _range(one.interval)) for one in made.slices]
        print_table(("words of the source", "rows", "BLEU", "95 % interval"), by_length)
    for line in counted(made):
        say(line, quiet=quiet)
    if report is not None:
        say(f"report: {report}", quiet=quiet)


def _own(reference: str, precision: str | None) -> str | None:
    """A translator's folder, which is measured by its texts and not by logits."""
    from clearhead.api.support import local_kind

    if local_kind(reference) != "translator":
        return None
    if precision is not None:
        raise InputError("Translators are measured in the precision that their folder has; leave --precision out.")
    return reference


def metric_rows(metrics: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Metrics as lines of a table."""
    return [(name, _shown(interval.value), _range(interval)) for name, interval in metrics.items()]


def _shown(value: float) -> str:
    return "not defined" if value != value else f"{value:.4f}"


def _range(interval: Any) -> str:
    return "" if interval.low != interval.low else f"{interval.low:.4f} to {interval.high:.4f}"


def counted(made: Any) -> list[str]:
    """What happened to rows on the way."""
    said = []
    if made.skipped:
        said.append(f"left out: {', '.join(f'{count:,} rows ({what})' for what, count in made.skipped.items())}")
    if made.windowed:
        said.append(f"{made.windowed:,} rows are longer than the model reads and were answered from windows.")
    if made.truncated:
        said.append(f"{made.truncated:,} rows were cut.")
    if made.abstained:
        said.append(f"{made.abstained:,} rows without an answer, for it was not sure enough.")
    return said
