"""clearhead pretrain: from plain text to a language model."""

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
    Device,
    Encoding,
    ExtraSettings,
    Json,
    KeepState,
    LearningRate,
    OutputFile,
    Quiet,
    Resume,
    Seed,
    TextColumns,
    Threads,
)
from clearhead.cli.screen import model_notes, print_json, print_note, print_table
from clearhead.cli.verbose import print_plan
from clearhead.errors import InputError

NOT_SETTINGS = ("files", "dev", "output", "resume", "allow_different_cpu", "command", "events", "told")
OF_DATA, OF_MODEL, OF_TRAINING = (Parameter(group=group) for group in (DATA, MODEL, TRAINING))


def pretrain(
    *files: str,
    dev: Annotated[list[str] | None, Parameter(group=DATA, metavar="FILE")] = None,
    text: TextColumns = None,
    documents: Annotated[str | None, OF_DATA] = None,
    encoding: Encoding = None,
    language: Annotated[str | None, OF_DATA] = None,
    family: Annotated[str | None, OF_MODEL] = None,
    preset: Annotated[str | None, OF_MODEL] = None,
    config: Annotated[str | None, OF_MODEL] = None,
    model: Annotated[str | None, OF_MODEL] = None,
    tokenizer: Annotated[str | None, OF_MODEL] = None,
    vocab_size: Annotated[int | None, OF_MODEL] = None,
    objective: Annotated[str | None, OF_TRAINING] = None,
    masking: Annotated[str | None, OF_TRAINING] = None,
    max_length: Annotated[int | None, OF_TRAINING] = None,
    minutes: Annotated[float | None, OF_TRAINING] = None,
    max_steps: Annotated[int | None, OF_TRAINING] = None,
    learning_rate: LearningRate = None,
    batch_tokens: Annotated[int | None, OF_TRAINING] = None,
    seed: Annotated[
        Seed, Parameter(help="Random seed of weights, held-out documents, order of texts and masks.")
    ] = None,
    device: Device = None,
    threads: Threads = None,
    set: Annotated[  # noqa: A002
        ExtraSettings,
        Parameter(help="Any other setting as KEY=VALUE, e.g. --set mlm_probability=0.2; repeatable."),
    ] = None,
    resume: Resume = None,
    allow_different_cpu: AllowDifferentCpu = False,
    output: OutputFile = None,
    keep_state: KeepState = False,
    json: Json = False,
    quiet: Annotated[Quiet, Parameter(help="Print nothing but errors.")] = False,
) -> None:
    """Pre-train a language model on plain text, without labels.

    Parameters
    ----------
    files
        Plain text with blank lines between documents, JSONL, Parquet or CSV (optionally gzipped), folders or patterns.
    dev
        Held-out text (default: some of the documents); repeatable.
    documents
        What a document is in plain text: blank (separated by blank lines), lines (each line), file, or auto (default).
    language
        Language code of the sentence splitter (default: en).
    family
        Architecture of a new model: bert (default), roberta, distilbert, electra, albert, gpt2, t5 and others.
    preset
        Size of a new model: tiny, mini (default), small or base.
    config
        config.json of a new model: a file, or keys as JSON, e.g. '{"num_hidden_layers": 6}'.
    model
        Continue pre-training from this checkpoint to adapt it to your domain: a folder, a hub id or an alias.
    tokenizer
        Tokenizer of a new model: a folder or another model (default: trained on the text).
    vocab_size
        Vocabulary size of the trained tokenizer (default: from the preset).
    objective
        mlm+nsp, mlm, mlm+sop, rtd, clm, bilm or span-corruption (default: the objective of the family).
    masking
        tokens (default), words (whole words) or spans.
    max_length
        Tokens per example (default: 128).
    minutes
        Training time (default: 30), converted to a fixed number of steps, which a resumed run keeps.
    max_steps
        Number of steps, instead of --minutes.
    batch_tokens
        Tokens per step (default: 4096).
    output
        Folder of the run and the model (default: runs/NAME).
    """
    from clearhead import api
    from clearhead.api.support import RunEvents, parse_set
    from clearhead.cli.training import TrainingScreen, resumable

    silent = quiet or json
    choices: dict[str, Any] = {
        "family": family,
        "objective": objective,
        "preset": preset,
        "config": config,
        "model": model,
        "tokenizer": tokenizer,
        "vocab_size": vocab_size,
        "minutes": minutes,
        "max_steps": max_steps,
        "text": text,
        "documents": documents,
        "encoding": encoding,
        "language": language,
        "max_length": max_length,
        "masking": masking,
        "learning_rate": learning_rate,
        "batch_tokens": batch_tokens,
        "seed": seed,
        "device": device,
        "threads": threads,
        "keep_state": keep_state or None,
    }
    settings = {key: value for key, value in choices.items() if value is not None}
    for key, value in parse_set(set or []).items():
        if key in NOT_SETTINGS:
            raise InputError(f"--set does not accept {key!r}; use its own option (clearhead pretrain --help).")
        settings[key] = value
    started: list[Path] = []

    def start(folder: Path) -> None:
        started.append(folder)
        print_plan(folder)

    with (
        resumable("pretrain", started, quiet=silent),
        model_notes(quiet=True),
        download_bars(quiet=silent) as bars,
        TrainingScreen(quiet=silent) as screen,
    ):
        events = RunEvents(
            message=screen.message,
            training_step=screen.pretraining_step,
            started=start,
            progress=screen.progress,
            download=bars,
        )
        run = api.pretrain(
            files,
            output=output,
            dev=dev or (),
            resume=resume,
            allow_different_cpu=allow_different_cpu,
            events=events,
            command="" if resume is not None else shlex.join(["clearhead", *sys.argv[1:]]),
            **settings,
        )
    if json:
        print_json(run.to_json())
    elif not quiet:
        print_pretrained(run)


def print_pretrained(run: Any) -> None:
    """Print a table of the loss on held-out text, and the paths of model and report."""
    for note in run.notes:
        print_note(note)
    if run.held_out is not None:
        scores = run.held_out
        interval = f"{scores.loss_low:.3f} to {scores.loss_high:.3f}"
        rows = [
            ("this model", f"{scores.loss:.3f}", interval, f"{scores.accuracy:.1%}"),
            ("bigram", f"{scores.bigram.loss:.3f}", "", f"{scores.bigram.accuracy:.1%}"),
            ("unigram", f"{scores.unigram.loss:.3f}", "", f"{scores.unigram.accuracy:.1%}"),
        ]
        title = f"held-out text ({scores.questions:,} predicted tokens)"
        print_table(("model", "loss", INTERVAL, "accuracy"), rows, title=title)
        for name, accuracy, majority in (
            ("sentence pairs", scores.pair_accuracy, scores.pair_majority),
            ("replaced tokens", scores.replaced_accuracy, scores.replaced_majority),
        ):
            if accuracy is not None and majority is not None:
                print_note(f"{name}: accuracy {accuracy:.1%} (majority class: {majority:.1%})")
    print_note(f"model: {run.folder}")
    if run.report is not None:
        print_note(f"report: {run.report}")
