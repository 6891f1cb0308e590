"""clearhead train: from labeled texts to a model folder and a report."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.loading import download_bars
from clearhead.cli.options import (
    DATA,
    MODEL,
    TRAINING,
    AllowDifferentCpu,
    Device,
    ExtraSettings,
    IdColumn,
    Json,
    KeepState,
    LabelColumn,
    LearningRate,
    OptionColumns,
    OutputFile,
    Quiet,
    Resume,
    SecondTextColumn,
    Seed,
    SkipBadRows,
    SourceColumn,
    SplitColumn,
    TargetColumn,
    TextColumn,
    Threads,
)
from clearhead.cli.screen import model_notes, print_blank_line, print_json, print_note, print_table
from clearhead.cli.verbose import print_plan
from clearhead.errors import InputError

NOT_SETTINGS = (
    "train",
    "dev",
    "test",
    "output",
    "recipe",
    "resume",
    "finish",
    "allow_different_cpu",
    "command",
    "events",
    "told",
)
INTEGER = re.compile("-?[0-9]{1,6}")
OF_DATA, OF_MODEL, OF_TRAINING = (Parameter(group=group) for group in (DATA, MODEL, TRAINING))


def train(
    file: str | None = None,
    /,
    *,
    dev: Annotated[str | None, Parameter(group=DATA, metavar="FILE")] = None,
    test: Annotated[str | None, Parameter(group=DATA, metavar="FILE")] = None,
    task: Annotated[str | None, OF_DATA] = None,
    text: TextColumn = None,
    text_b: SecondTextColumn = None,
    label: LabelColumn = None,
    options: OptionColumns = None,
    source: SourceColumn = None,
    target: TargetColumn = None,
    id: IdColumn = None,  # noqa: A002
    split: SplitColumn = None,
    rows: Annotated[int | None, OF_DATA] = None,
    skip_bad_rows: SkipBadRows = False,
    model: Annotated[str | None, OF_MODEL] = None,
    method: Annotated[str | None, OF_MODEL] = None,
    layer: Annotated[str | None, Parameter(allow_leading_hyphen=True, group=MODEL)] = None,
    pooling: Annotated[str | None, OF_MODEL] = None,
    layers: Annotated[str | None, OF_MODEL] = None,
    family: Annotated[str | None, OF_MODEL] = None,
    preset: Annotated[str | None, OF_MODEL] = None,
    epochs: Annotated[int | None, OF_TRAINING] = None,
    minutes: Annotated[float | None, OF_TRAINING] = None,
    learning_rate: LearningRate = None,
    batch_size: Annotated[int | None, OF_TRAINING] = None,
    batch_tokens: Annotated[int | None, OF_TRAINING] = None,
    class_weight: Annotated[str | None, OF_TRAINING] = None,
    seed: Annotated[
        Seed, Parameter(help="Random seed of the split, the new head, the order of rows and dropout.")
    ] = None,
    seeds: Annotated[int | None, OF_TRAINING] = None,
    device: Device = None,
    threads: Threads = None,
    set: ExtraSettings = None,  # noqa: A002
    recipe: Annotated[Path | None, OF_TRAINING] = None,
    resume: Resume = None,
    finish: Annotated[bool, OF_TRAINING] = False,
    allow_different_cpu: AllowDifferentCpu = False,
    output: OutputFile = None,
    keep_state: KeepState = False,
    json: Json = False,
    quiet: Annotated[Quiet, Parameter(help="Print nothing but errors.")] = False,
) -> None:
    """Train on labeled texts, measure on held-out rows, and write a model folder with a report.

    Parameters
    ----------
    file
        CSV, TSV, JSON, JSONL or Parquet (optionally gzipped), or a folder with a subfolder of text files per label;
        CoNLL (one token per line) for tags, SQuAD JSON for answers.
    dev
        Rows for selecting the epoch and fitting thresholds (default: 10 % of the training rows).
    test
        Rows for the final measurement (default: 10 % of the training rows, unless --dev is given).
    task
        classify, pair, regress, tag, span, choice, aspect or translate (default: detected from columns and labels).
    rows
        Train on a random sample of this many rows.
    model
        A model folder, a hub id or an alias (default: default); with --method features also word vectors.
    method
        finetune, head, features, tfidf or majority (default: finetune, or features if they score higher on the
        dev rows).
    layer
        --method features: a layer number, or first, last, second_to_last, sum_all, sum_last_four, concat_last_four;
        weighted learns the weight of each layer.
    pooling
        --method features: mean, first, max or pooler.
    layers
        --method features: sweep selects layer and pooling by cross-validation.
    family
        Architecture of a new translation model: transformer (default) or rnn.
    preset
        Size of a new translation model: tiny, small (default), base or big.
    epochs
        Number of epochs (default: chosen from the dataset size).
    minutes
        Maximum training time in minutes; the learning rate schedule ends with it.
    batch_size
        Rows per step (default: 32).
    batch_tokens
        Tokens per step, instead of --batch-size.
    class_weight
        none (default), or auto: weight classes by their inverse frequency.
    seeds
        Number of runs with different seeds; reports mean and standard deviation, and keeps the run with the best dev
        score.
    recipe
        TOML file with settings; command-line options take precedence.
    finish
        With --resume: stop training, then measure and save the best weights so far.
    output
        Folder of the run and the model (default: runs/NAME).
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
        "layer": _parse_layer(layer),
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
    settings = {key: value for key, value in choices.items() if value is not None} | check_settings(
        parse_set(set or [])
    )
    started: list[Path] = []

    def start(folder: Path) -> None:
        started.append(folder)
        print_plan(folder)

    with (
        resumable("train", started, quiet=silent),
        model_notes(quiet=True),
        download_bars(quiet=silent) as bars,
        TrainingScreen(quiet=silent) as screen,
    ):
        events = RunEvents(
            message=screen.message,
            training_step=screen.training_step,
            started=start,
            progress=screen.progress,
            seed_started=screen.seed_started,
            download=bars,
        )
        run = api.train(
            file,
            dev=dev,
            test=test,
            output=output,
            recipe=recipe,
            resume=resume,
            finish=finish,
            allow_different_cpu=allow_different_cpu,
            command="" if resume is not None else shlex.join(["clearhead", *sys.argv[1:]]),
            events=events,
            **settings,
        )
    if json:
        print_json(run.to_json())
    elif not quiet:
        print_run(run)


def check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of --set; those that have options of their own are rejected."""
    for key in settings:
        if key in NOT_SETTINGS:
            raise InputError(f"--set does not accept {key!r}; use its own option (clearhead train --help).")
    return settings


def _parse_layer(layer: str | None) -> str | int | None:
    return int(layer) if layer is not None and INTEGER.fullmatch(layer) else layer


def print_run(run: Any) -> None:
    """Print tables of metrics, baselines and layers, and the paths of model and report."""
    from clearhead.cli.evaluate import INTERVAL, metric_rows

    for note in run.notes:
        print_note(note)
    if run.measured_on is not None:
        rows = run.evaluations[run.measured_on].rows
        caveat = "; optimistic, because the epoch was selected on these rows" if run.measured_on == "dev" else ""
        title = f"{run.measured_on} ({rows:,} rows{caveat})"
        print_table(("metric", "value", INTERVAL), metric_rows(run.metrics), title=title)
    else:
        print_note("The model was not evaluated: there are no held-out rows, or too few distinct ones.")
    if run.baselines:
        print_blank_line()
        columns = ("method", run.main, INTERVAL, "difference to this model")
        print_table(columns, baseline_rows(run), title=f"baselines on the same {run.measured_on} rows")
    if run.sweep:
        print_blank_line()
        print_table(
            ("layer", "pooling", "score", "spread", "seconds"), sweep_rows(run.sweep), title="layers (cross-validation)"
        )
    for part, statistics in run.over_seeds.items():
        spread = f"{statistics['mean']:.4f} ± {statistics['spread']:.4f}"
        print_note(f"{part} over {len(run.seeds)} seeds: {spread}")
    print_note(f"model: {run.folder}")
    if run.report is not None:
        print_note(f"report: {run.report}")


def baseline_rows(run: Any) -> list[tuple[str, str, str, str]]:
    """Baselines beside the trained model as rows of a table."""
    from clearhead.api.support import format_interval, format_number

    rows: list[tuple[str, str, str, str]] = []
    for baseline in run.baselines:
        paired = baseline.difference
        difference = "undefined" if paired.difference is None else f"{paired.difference:+.4f}"
        if paired.low is not None and paired.high is not None:
            difference += f" ({paired.low:+.4f} to {paired.high:+.4f})"
        is_sampled = baseline.rows < run.rows["train"]
        name = baseline.method + (f" ({baseline.rows:,} training rows)" if is_sampled else "")
        has_interval = baseline.low is not None and baseline.high is not None
        interval = format_interval(baseline.low, baseline.high) if has_interval else ""
        rows.append((name, format_number(baseline.value), interval, difference))
    return rows


def sweep_rows(sweep: Any) -> list[tuple[str, ...]]:
    """Layers and poolings with their scores as rows of a table."""
    return [
        (
            choice.layer,
            choice.pooling,
            "undefined" if choice.score is None else f"{choice.score:.4f}",
            "" if choice.score is None or choice.spread is None else f"{choice.spread:.4f}",
            f"{choice.seconds:.1f}",
        )
        for choice in sweep
    ]
