"""clearhead train: from a file of texts and labels to a model folder and a report."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.loading import downloads
from clearhead.cli.screen import model_notes, print_json, print_table, say
from clearhead.errors import InputError

TAKEN = ("train", "dev", "test", "output", "recipe", "resume", "finish", "allow_different_cpu", "command", "told")
NUMBER = re.compile("-?[0-9]{1,6}")


def train(
    train: str | None = None,
    /,
    *,
    dev: str | None = None,
    test: str | None = None,
    task: str | None = None,
    source: str | None = None,
    target: str | None = None,
    family: str | None = None,
    preset: str | None = None,
    text: str | None = None,
    text_b: str | None = None,
    label: str | None = None,
    id: str | None = None,  # noqa: A002
    split: str | None = None,
    options: str | None = None,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    model: str | None = None,
    method: str | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    learning_rate: Annotated[float | None, Parameter(name=("--learning-rate", "--rate"))] = None,
    batch_size: Annotated[int | None, Parameter(name=("--batch-size", "--batch-rows"))] = None,
    batch_tokens: int | None = None,
    class_weight: str | None = None,
    layer: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    pooling: str | None = None,
    layers: str | None = None,
    rows: int | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    device: str | None = None,
    threads: int | None = None,
    set: Annotated[list[str] | None, Parameter(name="--set")] = None,  # noqa: A002
    recipe: Path | None = None,
    resume: Path | None = None,
    finish: bool = False,
    allow_different_cpu: bool = False,
    keep_state: bool = False,
    skip_bad_rows: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Train on a file of texts and labels, measure on rows held out, and leave a model folder with a report.

    Parameters
    ----------
    train
        CSV, TSV, JSONL, Parquet (also gzipped), or a folder with a sub-folder of text files for each label; a token a
        line (CoNLL) for tags, SQuAD's JSON for answers.
    dev
        Rows to choose the epoch and fit thresholds on; without it, some of the training rows.
    test
        Rows to measure on; without --dev and --test, some of the training rows.
    task
        classify, pair, regress, tag, span, choice, aspect (find aspects, then judge them) or translate; without it, by
        the columns and labels.
    source
        Of translations: the column that is read.
    target
        Of translations: the column that is written.
    family
        Of a new translator: transformer (2017) or rnn; without it, and without --model, the first.
    preset
        Of a new translator: tiny, small (the default), base or big.
    text
        The column with the text, the words or the question; guessed, and said, where not given. So are the others.
    text_b
        The column with a second text: the passage of a question.
    label
        The column with the label: the class, the tags or spans, the answers, the right option.
    id
        Rows with the same id stay together when the data is split.
    split
        A column that says train, dev or test.
    options
        The columns with the options of a question, commas between them, or the one that holds them all.
    output
        The folder of the run and the model; without it, runs/NAME.
    model
        A model folder, a hub id, or an alias such as `default`; with --method features also word vectors.
    method
        finetune, head, features, tfidf or majority; without it, finetune, or features where dev rows favor them.
    epochs
        How often every row is seen; without it, by the number of rows.
    minutes
        Train for so long at most: as many steps as fit, with a learning rate that ends with them.
    learning_rate
        Peak learning rate.
    batch_size
        Rows per step (32).
    batch_tokens
        Tokens a step, instead of rows.
    class_weight
        auto: rare classes count more.
    layer
        Of features: a number, or first, last, second_to_last, sum_all, sum_last_four, concat_last_four; weighted
        learns how much of each layer the task needs.
    pooling
        Of features: mean, first, max or pooler.
    layers
        Of features: sweep tries every layer and pooling by cross-validation, and takes the best.
    rows
        Train on so many rows, drawn by the seed; without it, on all.
    seed
        Of the split, the new head, the order of rows and dropout.
    seeds
        Train so many times with seeds of their own: mean and spread, and the best on dev is kept.
    device
        auto, cpu or cuda.
    threads
        Cores to compute on; without it, as many as the model keeps busy.
    set
        Any other setting as key=value, as in --set layer_decay=0.9; may be given several times.
    recipe
        A TOML file of settings; what is said on the command line comes before it.
    resume
        A run folder to go on with.
    finish
        With --resume: no further steps; measure and save the best weights so far.
    allow_different_cpu
        Resume also where the CPU, precision, threads or torch differ, so that the last digits of the result change.
    keep_state
        Keep the state of the optimizer in the folder of the finished run; without it, it is removed.
    skip_bad_rows
        Leave out rows that cannot be used, and count them.
    json
        Print one JSON object about the run.
    quiet
        Say nothing.
    """
    from clearhead import api
    from clearhead.api.support import RunEvents, parse_set
    from clearhead.cli.training import TrainingScreen, resumable

    silent = quiet or json
    choices: dict[str, Any] = {
        "task": task,
        "source": source,
        "target": target,
        "family": family,
        "preset": preset,
        "text": text,
        "text_b": text_b,
        "label": label,
        "id": id,
        "split": split,
        "options": options,
        "model": model,
        "method": method,
        "epochs": epochs,
        "minutes": minutes,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "batch_tokens": batch_tokens,
        "class_weight": class_weight,
        "layer": _number(layer),
        "pooling": pooling,
        "layers": layers,
        "rows": rows,
        "seed": seed,
        "seeds": seeds,
        "device": device,
        "threads": threads,
        "skip_bad_rows": skip_bad_rows or None,
        "keep_state": keep_state or None,
    }
    said = {key: value for key, value in choices.items() if value is not None} | free_settings(parse_set(set or []))
    begun: list[Path] = []
    with (
        resumable("train", begun, quiet=silent),
        model_notes(quiet=True),
        downloads(quiet=silent) as bars,
        TrainingScreen(quiet=silent) as screen,
    ):
        events = RunEvents(
            message=screen.message,
            training_step=screen.training_step,
            started=begun.append,
            progress=screen.progress,
            seed_started=screen.seed_started,
            download=bars,
        )
        run = api.train(
            train,
            dev=dev,
            test=test,
            output=output,
            recipe=recipe,
            resume=resume,
            finish=finish,
            allow_different_cpu=allow_different_cpu,
            command="" if resume is not None else shlex.join(["clearhead", *sys.argv[1:]]),
            told=events,
            **said,
        )
    if json:
        print_json(run.to_json())
        return
    if quiet:
        return
    show_run(run)


def free_settings(said: dict[str, Any]) -> dict[str, Any]:
    """What was said with --set, without the rows, folders and files that have flags of their own."""
    for key in said:
        if key in TAKEN:
            raise InputError(f"--set is for settings, and {key!r} is none; clearhead train --help says how to give it.")
    return said


def _number(layer: str | None) -> str | int | None:
    return int(layer) if layer is not None and NUMBER.fullmatch(layer) else layer


def show_run(run: Any) -> None:
    """A table of what was measured, and where everything is."""
    from clearhead.cli.evaluate import metric_rows

    for note in run.notes:
        say(note)
    if run.measured_on is not None:
        rows = run.evaluations[run.measured_on].rows
        chosen = "; the epoch was chosen on them, so that they flatter" if run.measured_on == "dev" else ""
        print_table(
            ("metric", "value", "95 % interval"),
            metric_rows(run.metrics),
            title=f"{run.measured_on} ({rows:,} rows{chosen})",
        )
    else:
        say("Nothing was measured: no rows were held out, or there are too few different ones.")
    if run.baselines:
        heads = ("method", run.main, "95 % interval", "this model minus it")
        print_table(heads, baseline_rows(run), title=f"baselines on the same {run.measured_on} rows")
    if run.sweep:
        names = ("layer", "pooling", "score", "spread", "seconds")
        print_table(names, sweep_rows(run.sweep), title="layers (cross-validation)")
    for part, over in run.over_seeds.items():
        say(f"{part} over {len(run.seeds)} seeds: {over['mean']:.4f} +- {over['spread']:.4f}")
    say(f"model: {run.folder}")
    if run.report is not None:
        say(f"report: {run.report}")


def baseline_rows(run: Any) -> list[tuple[str, ...]]:
    """Cheap methods beside the trained one as lines of a table."""
    from clearhead.api.support import format_interval, format_number

    rows: list[tuple[str, ...]] = []
    for one in run.baselines:
        found = one.difference
        gap = "not defined" if found.difference is None else f"{found.difference:+.4f}"
        gap += "" if found.low is None or found.high is None else f" ({found.low:+.4f} to {found.high:+.4f})"
        some = "" if one.rows >= run.rows["train"] else f" ({one.rows:,} training rows)"
        interval = "" if one.low is None or one.high is None else format_interval(one.low, one.high)
        rows.append((one.method + some, format_number(one.value), interval, gap))
    return rows


def sweep_rows(sweep: Any) -> list[tuple[str, ...]]:
    """Layers and poolings that were tried as lines of a table."""
    shown = (("not defined" if one.score is None else f"{one.score:.4f}", one.spread) for one in sweep)
    return [
        (one.layer, one.pooling, score, "" if spread is None else f"{spread:.4f}", f"{one.seconds:.1f}")
        for one, (score, spread) in zip(sweep, shown, strict=True)
    ]
