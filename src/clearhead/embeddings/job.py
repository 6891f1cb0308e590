"""Embed texts: as an array, or as a file that an interrupted job resumes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.data.sources.paths import is_text
from clearhead.data.sources.texts import read_texts
from clearhead.embeddings.vector_files import Vectors, find_model_folder, get_file_ending, hash_job, write_vectors
from clearhead.errors import InputError, MissingExtraError
from clearhead.model.embedding import BATCH_TOKENS, Embedder
from clearhead.model.model import Model
from clearhead.model.opening import as_model
from clearhead.predict.resume_point import partial_paths
from clearhead.progress import Progress, no_progress

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class EmbedOptions:
    """How texts are read, and how a text becomes a vector."""

    column: str | None = None
    input_format: str | None = None
    layer: str | int | None = None
    pooling: str | Sequence[str] | None = None
    normalize: bool | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    precision: str | None = None


def embed_texts(
    model: str | os.PathLike[str] | Model,
    source: Any,
    options: EmbedOptions,
    *,
    progress: Progress = no_progress,
    download: Progress | None = None,
) -> Array:
    """Embed texts in memory as float32; a string is one text unless it is the name of a file."""
    loaded = as_model(model, precision=options.precision, progress=download)
    if isinstance(source, str) and is_text(source):
        source = [source]
    texts = source if _is_text_list(source) else list(_read_texts(source, options))
    return _create_embedder(loaded, options).embed(texts, BATCH_TOKENS, progress)


def embed_file(
    model: str | os.PathLike[str] | Model,
    source: Any,
    output: Path,
    options: EmbedOptions,
    *,
    progress: Progress = no_progress,
    download: Progress | None = None,
) -> Vectors:
    """Embed texts into a file, in bounded memory.

    If the input is a file and the model is given by name, the same call resumes an interrupted job.
    """
    if get_file_ending(output) == ".parquet" and find_spec("pyarrow") is None:
        raise MissingExtraError("Writing .parquet", "parquet")
    path = Path(source) if isinstance(source, str | os.PathLike) and not _is_one_text(source) else None
    if path is not None:
        _check_output(output, path)
    loaded = as_model(model, precision=options.precision, progress=download)
    texts = [source] if _is_one_text(source) else _read_texts(source, options)
    embedder = _create_embedder(loaded, options)
    key = None
    if (
        path is not None and path.is_file() and not isinstance(model, Model)
    ):  # a Model in memory may differ from its folder
        key = _compute_resume_key(str(model), path, options, embedder, get_file_ending(output))
    try:
        return write_vectors(output, texts, embedder, batch_tokens=BATCH_TOKENS, key=key, progress=progress)
    except KeyboardInterrupt as error:
        error.resumable = key is not None  # type: ignore[attr-defined]
        raise


def _is_text_list(source: Any) -> bool:
    return isinstance(source, list | tuple) and all(isinstance(text, str) for text in source)


def _is_one_text(source: Any) -> bool:
    return isinstance(source, str) and is_text(source)


def _read_texts(source: Any, options: EmbedOptions) -> Any:
    return read_texts(source, options.column, format=options.input_format)


def _create_embedder(model: Model, options: EmbedOptions) -> Embedder:
    prompt = model.prompt_text(options.prompt, options.prompt_name)
    return Embedder(model, options.layer, options.pooling, options.normalize, prompt)


def _compute_resume_key(
    reference: str, source: Path, options: EmbedOptions, embedder: Embedder, ending: str
) -> str | None:
    """Hash what must be unchanged to resume a job; None if the folder of the model is unknown."""
    folder = find_model_folder(reference)
    if folder is None:
        return None
    layer = None if options.layer is None else str(options.layer)
    key_options = {
        "column": options.column,
        "input_format": options.input_format,
        "layer": layer,
        "pooling": options.pooling,
        "normalize": options.normalize,
        "prompt": embedder.prompt,
        "precision": options.precision,
        "runner": type(embedder.model.runner).__name__,
        "ending": ending,
    }
    return hash_job(folder, source, key_options)


def _check_output(output: Path, source: Path) -> None:
    """Raise InputError if the output would overwrite the input."""
    if source.resolve() in [path.resolve() for path in (output, *partial_paths(output))]:
        raise InputError(f"{output} is also the input; choose another output file.")


__all__ = ["EmbedOptions", "embed_file", "embed_texts"]
