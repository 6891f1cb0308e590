"""clearhead ladder: several methods on the same rows, from the cheapest on, and which one to take."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.loading import downloads
from clearhead.cli.screen import model_notes, print_json, print_table, say
from clearhead.cli.train import free_settings


def ladder(
    file: str,
    /,
    *,
    budget: str = "10m",
    dev: str | None = None,
    test: str | None = None,
    task: str | None = None,
    text: str | None = None,
    text_b: str | None = None,
    label: str | None = None,
    id: str | None = None,  # noqa: A002
    split: str | None = None,
    options: str | None = None,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    model: str | None = None,
    methods: str | None = None,
    margin: float | None = None,
    rows: int | None = None,
    set: Annotated[list[str] | None, Parameter(name="--set")] = None,  # noqa: A002
    seed: int | None = None,
    threads: int | None = None,
    skip_bad_rows: bool = False,
    allow_different_cpu: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Train several methods on the same rows within a time budget, and recommend the cheapest that is as good.

    The same command with the same folder goes on: what is finished there is not trained again.

    Parameters
    ----------
    file
        Rows with labels: CSV, TSV, JSONL, Parquet, or a folder with a sub-folder of text files for each label.
    budget
        How much time there is: 90s, 10m, 1h. Fine-tuning gets fewer epochs if it has to; a method that does not fit is
        left out, with the budget that it needs.
    dev
        Rows to choose epochs and fit thresholds on; without it, some of the training rows.
    test
        Rows to measure on; without --dev and --test, some of the training rows.
    task
        As in clearhead train; without it, by the columns and labels.
    text
        The column with the text; guessed, and said, where it is not given. So are the others.
    text_b
        The column with a second text.
    label
        The column with the label.
    id
        Rows with the same id stay together when the data is split.
    split
        A column that says train, dev or test.
    options
        The columns with the options of a question, commas between them, or the one that holds them all.
    output
        The folder with a run for each method and the report; without it, runs/NAME-ladder.
    model
        The model that features, finetune and head start from.
    methods
        Some of majority, tfidf, features, finetune, head, with commas; without it, all but head.
    margin
        How much worse than the best a cheaper method may be, with its 95 % interval, in units of the metric; without
        it, 0.01 (0.02 for correlations, 1 % of a constant's error for mse and mae).
    rows
        Train on so many rows, drawn by the seed; without it, on all.
    set
        Any setting of clearhead train as key=value; may be given several times.
    seed
        Of the split and of every training.
    threads
        How many threads every method may use; without it, as many as its model keeps busy.
    skip_bad_rows
        Leave out rows that cannot be used, and count them.
    allow_different_cpu
        Resume a method also where the CPU, precision or torch differ, so that the last digits of its result change.
    json
        Print one JSON object.
    quiet
        Say nothing but the answer.
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
    said = {key: value for key, value in choices.items() if value is not None} | free_settings(parse_set(set or []))
    begun: list[Path] = []
    try:
        with model_notes(quiet=True), downloads(quiet=silent) as bars, TrainingScreen(quiet=silent) as screen:
            events = RunEvents(
                message=screen.message,
                training_step=screen.training_step,
                started=begun.append,
                progress=screen.progress,
                seed_started=screen.seed_started,
                download=bars,
            )
            made = api.ladder(
                file,
                dev=dev,
                test=test,
                output=output,
                budget=budget,
                methods=methods,
                margin=margin,
                told=events,
                allow_different_cpu=allow_different_cpu,
                command=shlex.join(["clearhead", *sys.argv[1:]]),
                **said,
            )
    except KeyboardInterrupt as error:
        if begun:
            say("stopped; the same command continues with what is finished.", quiet=quiet)
            error.reported = True  # type: ignore[attr-defined]
        raise
    if json:
        print_json(made.to_json())
        return
    show_ladder(made)
    say(f"report: {made.report}", quiet=quiet)


def show_ladder(made: Any) -> None:
    """A table of the methods, and the one to take."""
    from clearhead.api.support import rung_cells

    names = ("method", made.metric, "95 % interval", "training", "one text", "size")
    measured = [rung_cells(rung) for rung in made.rungs if rung.left_out is None]
    print_table(names, measured, title=f"{made.part} ({made.rows:,} rows)")
    for rung in made.rungs:
        if rung.left_out is not None:
            sys.stdout.write(f"left out: {rung.left_out}\n")
    sys.stdout.write(f"Recommended: {made.reason}\n")
    if made.caveat is not None:
        sys.stdout.write(f"{made.caveat}\n")
