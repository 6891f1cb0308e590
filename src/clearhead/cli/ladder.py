"""clearhead ladder: several methods on the same rows, cheapest first, and a recommendation."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.evaluate import INTERVAL
from clearhead.cli.loading import download_bars
from clearhead.cli.options import (
    DATA,
    MODEL,
    TRAINING,
    AllowDifferentCpu,
    ExtraSettings,
    IdColumn,
    Json,
    LabelColumn,
    OptionColumns,
    OutputFile,
    Quiet,
    SecondTextColumn,
    Seed,
    SkipBadRows,
    SplitColumn,
    TextColumn,
    Threads,
)
from clearhead.cli.screen import model_notes, print_json, print_note, print_table
from clearhead.cli.train import check_settings

OF_DATA, OF_MODEL, OF_TRAINING = (Parameter(group=group) for group in (DATA, MODEL, TRAINING))


def ladder(
    file: str,
    /,
    *,
    dev: Annotated[str | None, Parameter(group=DATA, metavar="FILE")] = None,
    test: Annotated[str | None, Parameter(group=DATA, metavar="FILE")] = None,
    task: Annotated[str | None, OF_DATA] = None,
    text: TextColumn = None,
    text_b: SecondTextColumn = None,
    label: LabelColumn = None,
    options: OptionColumns = None,
    id: IdColumn = None,  # noqa: A002
    split: SplitColumn = None,
    rows: Annotated[int | None, OF_DATA] = None,
    skip_bad_rows: SkipBadRows = False,
    model: Annotated[str | None, OF_MODEL] = None,
    methods: Annotated[str | None, OF_MODEL] = None,
    margin: Annotated[float | None, OF_MODEL] = None,
    budget: Annotated[str, OF_TRAINING] = "10m",
    seed: Seed = None,
    threads: Threads = None,
    set: ExtraSettings = None,  # noqa: A002
    allow_different_cpu: AllowDifferentCpu = False,
    output: OutputFile = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train several methods on the same rows within a time budget, and recommend the cheapest one that is good enough.

    The same command with the same folder resumes; finished methods are not trained again.

    Parameters
    ----------
    file
        Labeled rows in any format that `train` reads.
    dev
        Rows for selecting epochs and fitting thresholds (default: 10 % of the training rows).
    test
        Rows for the final measurement (default: 10 % of the training rows, unless --dev is given).
    task
        A task of `clearhead train` (default: detected from columns and labels).
    rows
        Train on a random sample of this many rows.
    model
        Model that features, finetune and head start from (default: default).
    methods
        Methods separated by commas: majority, tfidf, features, finetune, head (default: all but head).
    margin
        How much worse than the best a cheaper method may be, including its 95 % interval, in units of the metric
        (default: 0.01; 0.02 for correlations; 1 % of a constant prediction's error for mse and mae).
    budget
        Time budget: 90s, 10m, 1h (default: 10m). Fine-tuning gets fewer epochs if needed; methods that do not fit are
        omitted, and the budget they need is printed.
    output
        Folder with a run per method and the report (default: runs/NAME-ladder).
    """
    from clearhead import api
    from clearhead.api.support import RunEvents, parse_set
    from clearhead.cli.training import TrainingScreen

    silent = quiet or json
    choices: dict[str, Any] = {
        "task": task,
        "text": text,
        "text_b": text_b,
        "label": label,
        "id": id,
        "split": split,
        "options": options,
        "model": model,
        "rows": rows,
        "seed": seed,
        "threads": threads,
        "skip_bad_rows": skip_bad_rows or None,
    }
    settings = {key: value for key, value in choices.items() if value is not None} | check_settings(
        parse_set(set or [])
    )
    started: list[Path] = []
    try:
        with model_notes(quiet=True), download_bars(quiet=silent) as bars, TrainingScreen(quiet=silent) as screen:
            events = RunEvents(
                message=screen.message,
                training_step=screen.training_step,
                started=started.append,
                progress=screen.progress,
                seed_started=screen.seed_started,
                download=bars,
            )
            result = api.ladder(
                file,
                dev=dev,
                test=test,
                output=output,
                budget=budget,
                methods=methods,
                margin=margin,
                events=events,
                allow_different_cpu=allow_different_cpu,
                command=shlex.join(["clearhead", *sys.argv[1:]]),
                **settings,
            )
    except KeyboardInterrupt as error:
        if started:
            print_note("stopped; the same command resumes with the remaining methods.", quiet=quiet)
            error.reported = True  # type: ignore[attr-defined]
        raise
    if json:
        print_json(result.to_json())
        return
    print_ladder(result)
    print_note(f"report: {result.report}", quiet=quiet)


def print_ladder(result: Any) -> None:
    """Print a table of the methods and the recommendation."""
    from clearhead.api.support import format_result_cells

    columns = ("method", result.metric, INTERVAL, "training", "one text", "size")
    measured = [format_result_cells(rung) for rung in result.rungs if rung.left_out is None]
    print_table(columns, measured, title=f"{result.part} ({result.rows:,} rows)")
    for rung in result.rungs:
        if rung.left_out is not None:
            sys.stdout.write(f"omitted: {rung.left_out}\n")
    sys.stdout.write(f"Recommended: {result.reason}\n")
    if result.caveat is not None:
        sys.stdout.write(f"{result.caveat}\n")
