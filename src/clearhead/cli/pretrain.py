"""clearhead pretrain: from plain text to a language model."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.loading import downloads
from clearhead.cli.screen import model_notes, print_json, print_table, say
from clearhead.errors import InputError

TAKEN = ("files", "dev", "output", "resume", "allow_different_cpu", "command", "told")


def pretrain(
    *files: str,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    dev: list[str] | None = None,
    family: str | None = None,
    objective: str | None = None,
    preset: str | None = None,
    config: str | None = None,
    model: str | None = None,
    tokenizer: str | None = None,
    vocabulary: int | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    text: str | None = None,
    documents: str | None = None,
    encoding: str | None = None,
    language: str | None = None,
    length: int | None = None,
    masking: str | None = None,
    learning_rate: Annotated[float | None, Parameter(name=("--learning-rate", "--rate"))] = None,
    batch_tokens: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    threads: int | None = None,
    set: Annotated[list[str] | None, Parameter(name="--set")] = None,  # noqa: A002
    resume: Path | None = None,
    allow_different_cpu: bool = False,
    keep_state: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Make a language model from plain text: no labels, only words that are hidden and asked for.

    Parameters
    ----------
    files
        Plain text with a blank line between documents, JSONL, Parquet, CSV (also gzipped), folders, or patterns.
    output
        The folder of the run and the model; without it, runs/NAME.
    dev
        Text to measure on; without it, some documents are held out. May be given several times.
    family
        Of a new model: bert (the default), roberta, distilbert, electra, albert, gpt2, t5 and the others.
    objective
        mlm+nsp, mlm, mlm+sop, rtd, clm, bilm or span-corruption; without it, the one that the family was made for.
    preset
        Of a new model: tiny, mini (the default), small or base.
    config
        Of a new model: a config.json, or keys of it as JSON, as in '{"num_hidden_layers": 6}'.
    model
        A checkpoint to teach further, instead of a new model: a folder, a hub id, or an alias.
    tokenizer
        Of a new model: a folder or a model whose tokenizer it uses; without it, one is learned from the text.
    vocabulary
        Tokens of the tokenizer that is learned; without it, by the preset.
    minutes
        How long to learn (30); becomes a number of steps once, which a resumed run keeps.
    steps
        How many steps, instead of minutes.
    text
        Columns of tables that hold text, commas between them.
    documents
        What is a document in plain text: blank (blank lines part them), lines (each line), file, or auto.
    encoding
        Of plain text and tables; without it, found out.
    language
        Of the rules that end sentences, as a code (en).
    length
        Tokens of an example (128).
    masking
        tokens (the default), words (whole words) or spans.
    learning_rate
        Peak learning rate.
    batch_tokens
        Tokens a step (4096).
    seed
        Of the weights, what is held out, the order of texts and the masks.
    device
        auto, cpu or cuda.
    threads
        Cores to compute on; without it, as many as the model keeps busy.
    set
        Any other setting as key=value, as in --set mlm_probability=0.2; may be given several times.
    resume
        A run folder to go on with.
    allow_different_cpu
        Resume also where the CPU, precision, threads or torch differ, so that the last digits of the result change.
    keep_state
        Keep the state of the optimizer in the folder of the finished run; without it, it is removed.
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
        "family": family,
        "objective": objective,
        "preset": preset,
        "config": config,
        "model": model,
        "tokenizer": tokenizer,
        "vocab_size": vocabulary,
        "minutes": minutes,
        "max_steps": steps,
        "text": text,
        "documents": documents,
        "encoding": encoding,
        "language": language,
        "max_length": length,
        "masking": masking,
        "learning_rate": learning_rate,
        "batch_tokens": batch_tokens,
        "seed": seed,
        "device": device,
        "threads": threads,
        "keep_state": keep_state or None,
    }
    said = {key: value for key, value in choices.items() if value is not None}
    for key, value in parse_set(set or []).items():
        if key in TAKEN:
            said_how = "clearhead pretrain --help says how to give it"
            raise InputError(f"--set is for settings, and {key!r} is none; {said_how}.")
        said[key] = value
    begun: list[Path] = []
    with (
        resumable("pretrain", begun, quiet=silent),
        model_notes(quiet=True),
        downloads(quiet=silent) as bars,
        TrainingScreen(quiet=silent) as screen,
    ):
        events = RunEvents(
            message=screen.message,
            training_step=screen.pretraining_step,
            started=begun.append,
            progress=screen.progress,
            download=bars,
        )
        run = api.pretrain(
            files,
            output=output,
            dev=dev or (),
            resume=resume,
            allow_different_cpu=allow_different_cpu,
            told=events,
            command="" if resume is not None else shlex.join(["clearhead", *sys.argv[1:]]),
            **said,
        )
    if json:
        print_json(run.to_json())
    elif not quiet:
        show(run)


def show(run: Any) -> None:
    """A table of what was measured, and where everything is."""
    for note in run.notes:
        say(note)
    if run.held_out is not None:
        one = run.held_out
        rows = [
            ("the model", f"{one.loss:.3f}", f"{one.loss_low:.3f} to {one.loss_high:.3f}", f"{one.accuracy:.1%}"),
            ("bigram", f"{one.bigram.loss:.3f}", "", f"{one.bigram.accuracy:.1%}"),
            ("unigram", f"{one.unigram.loss:.3f}", "", f"{one.unigram.accuracy:.1%}"),
        ]
        title = f"held-out text ({one.questions:,} words were asked about)"
        print_table(("who guesses", "loss", "95 % interval", "words right"), rows, title=title)
        for name, value, usual in (
            ("pairs of texts", one.pair_accuracy, one.pair_majority),
            ("replaced words", one.replaced_accuracy, one.replaced_majority),
        ):
            if value is not None and usual is not None:
                say(f"{name}: {value:.1%} right (always the more frequent answer: {usual:.1%})")
    say(f"model: {run.folder}")
    if run.report is not None:
        say(f"report: {run.report}")
