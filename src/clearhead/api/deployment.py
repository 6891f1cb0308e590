"""Public functions for finished models: convert, export, quantize, bench and list."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.deprecation import renamed_parameters
from clearhead.errors import InputError
from clearhead.files import atomic_file, atomic_folder, check_output_folder
from clearhead.model.loading import load, require_torch
from clearhead.progress import KnownCountCallback, Progress, from_counts, no_progress

if TYPE_CHECKING:
    from clearhead.checkpoint.inventory import LocalModel
    from clearhead.deploy.bench import Bench
    from clearhead.deploy.quantize import Quantized


def convert(source: str | os.PathLike[str], destination: str | Path, *, allow_pickle: bool = False) -> Path:
    """Copy a model to a folder of safetensors; `allow_pickle` also reads pickles you trust, in a child process."""
    from clearhead.checkpoint.hub import locate

    located = locate(source, pickle=allow_pickle)
    target = Path(destination)
    check_output_folder(target)
    from clearhead.checkpoint.unpickle import convert_pickles, has_pickle

    if allow_pickle and has_pickle(located.folder):
        require_torch("Reading a pickle")
        with atomic_folder(target) as new_folder, convert_pickles(located.folder) as folder:
            replace(load(folder), reference=str(source)).save(new_folder)
        return target
    model = load(located.folder)
    with atomic_folder(target) as new_folder:
        model.save(new_folder)
    return target


def export(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    portable: bool = False,
    precision: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write a model as ONNX with its tokenizer and passport; returns the folder.

    The default graph has fused operators of ONNX Runtime, which runs it fast; a `portable` graph has only operators of
    the ONNX standard. `precision` is as in `load`. `progress` receives (file, bytes done, total bytes).
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
    """Measure how fast a model embeds texts on this machine, in each installed runtime.

    `runtimes` are some of "engine", "int8", "core", "onnx" and "sentence-transformers" (default: all that are
    installed). `texts` are a list, a file or anything else that `embed` reads (default: built-in sentences). `seconds`
    is the approximate running time of the first runtime; `output` is an .svg file for a figure. `progress` receives
    (rounds done, total rounds), and `download` (file, bytes done, total bytes).
    """
    from clearhead.data.sources.paths import is_text
    from clearhead.data.sources.texts import read_texts
    from clearhead.deploy.bench import run_bench

    path = None if output is None else Path(output)
    if path is not None and path.suffix != ".svg":
        raise InputError(f"{path} must end in .svg.")
    is_source = texts is not None and not (isinstance(texts, str) and is_text(texts))  # run_bench rejects one text
    text_list = read_texts(texts, column, format=input_format) if is_source else texts
    result = run_bench(
        os.fspath(model),
        text_list,
        runtimes=runtimes,
        threads=threads,
        seconds=seconds,
        progress=from_counts(progress),
        download=download,
        **limits,
    )
    if path is not None:
        with atomic_file(path) as file:
            file.write(result.svg().encode())
    return result


@renamed_parameters(told="progress", allowed="max_drop", least_cosine="min_cosine")
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
    max_drop: float = 0.5,
    min_cosine: float = 0.995,
    progress: Progress | None = None,
) -> Quantized:
    """Convert a model to int8 if it stays accurate on your own rows or texts; otherwise write nothing.

    Models with a task head take labeled rows (default: the dev rows of their run) and may lose `max_drop` percentage
    points of their metric. Translators take rows with reference translations in `from_column` and `to_column`; neither
    BLEU nor chrF may lose more. Encoders take a list or file of texts; their int8 vectors need a mean cosine of
    `min_cosine` to the float32 vectors.
    """
    from clearhead.checkpoint.hub import locate
    from clearhead.data import open_source
    from clearhead.deploy.quantize import find_held_out_rows, load_texts, run_quantize
    from clearhead.jobs.kinds import PREDICTOR_KINDS, TRANSLATION_KINDS, kind_of

    reference, part, rows = os.fspath(model), None, source
    if kind_of(locate(reference).folder) in (*PREDICTOR_KINDS, *TRANSLATION_KINDS):
        if rows is None:
            rows, part = find_held_out_rows(Path(reference))
        rows = open_source(rows)
    elif rows is not None:
        rows = load_texts(rows, text)
    return run_quantize(
        reference,
        rows,
        Path(output),
        part=part,
        max_drop=max_drop,
        min_cosine=min_cosine,
        columns={
            "text": text,
            "text_b": text_b,
            "label": label,
            "options": options,
            "source": from_column,
            "target": to_column,
        },
        progress=progress or no_progress,
    )


def models() -> list[LocalModel]:
    """List the models on this machine (aliases, included, Hugging Face cache) without loading or downloading any."""
    from clearhead.checkpoint.hub import list_local_models

    return list_local_models()
