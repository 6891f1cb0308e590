"""The public verbs about a model that is finished: copy it, export it, make it smaller, see how fast it runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError
from clearhead.files import atomic_file, atomic_folder, check_output_folder
from clearhead.model.loading import load, require_torch
from clearhead.progress import KnownCountCallback, Progress, from_counts, no_progress

if TYPE_CHECKING:
    from clearhead.checkpoint.inventory import LocalModel
    from clearhead.deploy.bench import Bench
    from clearhead.deploy.quantize import Quantised


def convert(source: str | os.PathLike[str], destination: str | Path, *, allow_pickle: bool = False) -> Path:
    """Copy a model to a folder of safetensors; pickled weights only if you trust them, in a child process."""
    from clearhead.checkpoint.hub import locate

    located = locate(source, pickle=allow_pickle)
    target = Path(destination)
    check_output_folder(target)
    from clearhead.checkpoint.unpickle import convert_pickles, has_pickle

    if allow_pickle and has_pickle(located.folder):
        require_torch("Reading a pickle")
        with atomic_folder(target) as made, convert_pickles(located.folder) as folder:
            replace(load(folder), reference=str(source)).save(made)
        return target
    model = load(located.folder)
    with atomic_folder(target) as made:
        model.save(made)
    return target


def export(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    portable: bool = False,
    precision: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write a model as ONNX with its tokenizer and passport, for other runtimes; returns the folder.

    Without `portable` the graph has fused operators of ONNX Runtime and is fast there; with it, operators of the ONNX
    standard alone. `precision` is as in `load`. `progress` receives (file, bytes done, bytes in all).
    """
    from clearhead.deploy.export import run_export

    return run_export(source, Path(destination), portable=portable, precision=precision, progress=progress)


def bench(
    model: str | os.PathLike[str] = "default",
    texts: Any = None,
    *,
    output: str | os.PathLike[str] | None = None,
    column: str | None = None,
    input_format: str | None = None,
    runtimes: Sequence[str] | None = None,
    threads: int | None = None,
    seconds: float = 10.0,
    progress: KnownCountCallback | None = None,
    download: Progress | None = None,
    **limits: Any,
) -> Bench:
    """Measure how fast a model turns texts into vectors on this machine: engine, int8, core and what others would take.

    `runtimes` are some of "engine", "int8", "core", "onnx" and "sentence-transformers"; without it, those installed.
    `texts` are a list, a file or whatever else `embed` reads; without them, sentences written for this project are
    taken. `seconds` is about how long the first one works; `output` is an .svg file for a picture.
    `progress` receives (turns done, turns in all), and `download` (file, bytes done, bytes in all).
    """
    from clearhead.data.sources.paths import is_text
    from clearhead.data.sources.texts import read_texts
    from clearhead.deploy.bench import run_bench

    path = None if output is None else Path(output)
    if path is not None and path.suffix != ".svg":
        raise InputError(f"{path} must end in .svg.")
    is_read = texts is not None and not (isinstance(texts, str) and is_text(texts))  # one text is refused below
    read = read_texts(texts, column, format=input_format) if is_read else texts
    timed = run_bench(
        os.fspath(model),
        read,
        runtimes=runtimes,
        threads=threads,
        seconds=seconds,
        progress=from_counts(progress),
        download=download,
        **limits,
    )
    if path is not None:
        with atomic_file(path) as file:
            file.write(timed.svg().encode())
    return timed


def quantize(
    model: str | os.PathLike[str],
    source: Any = None,
    *,
    output: str | os.PathLike[str],
    text: str | None = None,
    text_b: str | None = None,
    label: str | None = None,
    options: str | None = None,
    from_column: str | None = None,
    to_column: str | None = None,
    allowed: float = 0.5,
    least_cosine: float = 0.995,
    told: Progress | None = None,
) -> Quantised:
    """Make a model run in eight bits if it stays good enough, measured on your own rows or texts; else refuse.

    A model that answers with labels takes rows whose labels are known (without any, the development rows of its run)
    and may lose `allowed` points of its metric. A translator takes rows with their translations, and neither BLEU nor
    chrF may lose more; `from_column` and `to_column` say what is read and what is written. An encoder takes a list of
    texts, or a file with a column of them, and its vectors must keep a mean cosine of `least_cosine` with float.
    """
    from clearhead.checkpoint.hub import locate
    from clearhead.data import open_source
    from clearhead.deploy.quantize import held_out_rows, run_quantize, texts_of
    from clearhead.jobs.kinds import PREDICTOR_KINDS, TRANSLATION_KINDS, kind_of

    reference, part, rows = os.fspath(model), None, source
    if kind_of(locate(reference).folder) in (*PREDICTOR_KINDS, *TRANSLATION_KINDS):
        if rows is None:
            rows, part = held_out_rows(Path(reference))
        rows = open_source(rows)
    elif rows is not None:
        rows = texts_of(rows, text)
    return run_quantize(
        reference,
        rows,
        Path(output),
        part=part,
        allowed=allowed,
        least_cosine=least_cosine,
        columns={
            "text": text,
            "text_b": text_b,
            "label": label,
            "options": options,
            "source": from_column,
            "target": to_column,
        },
        progress=told or no_progress,
    )


def models() -> list[LocalModel]:
    """The models on this machine: aliases, shipped ones and the Hugging Face cache; nothing is loaded or fetched."""
    from clearhead.checkpoint.hub import list_local_models

    return list_local_models()
