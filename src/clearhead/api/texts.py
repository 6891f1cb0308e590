"""Public functions on texts: embed, translate, generate, fill and tokens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, overload

from clearhead.decode.settings import FORMER_NAMES
from clearhead.deprecation import renamed_parameters
from clearhead.model.loading import load_tokenizers
from clearhead.model.opening import as_model
from clearhead.progress import CountCallback, Progress, from_counts

if TYPE_CHECKING:
    import numpy as np

    from clearhead.embeddings.vector_files import Vectors
    from clearhead.model import Guess, Model
    from clearhead.text import Encoding
    from clearhead.translate.files import OutputSummary
    from clearhead.translate.generate import Continuation
    from clearhead.translate.stream import Translation

    Array = np.ndarray[Any, Any]
    Reference = str | os.PathLike[str] | Model


@overload
def embed(
    model: Reference,
    source: Any,
    output: None = None,
    *,
    column: str | None = ...,
    input_format: str | None = ...,
    layer: str | int | None = ...,
    pooling: str | Sequence[str] | None = ...,
    normalize: bool | None = ...,
    prompt: str | None = ...,
    prompt_name: str | None = ...,
    precision: str | None = ...,
    progress: CountCallback | None = ...,
    download: Progress | None = ...,
) -> Array: ...


@overload
def embed(
    model: Reference,
    source: Any,
    output: str | os.PathLike[str],
    *,
    column: str | None = ...,
    input_format: str | None = ...,
    layer: str | int | None = ...,
    pooling: str | Sequence[str] | None = ...,
    normalize: bool | None = ...,
    prompt: str | None = ...,
    prompt_name: str | None = ...,
    precision: str | None = ...,
    progress: CountCallback | None = ...,
    download: Progress | None = ...,
) -> Vectors: ...


def embed(
    model: Reference,
    source: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    column: str | None = None,
    input_format: str | None = None,
    layer: str | int | None = None,
    pooling: str | Sequence[str] | None = None,
    normalize: bool | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    precision: str | None = None,
    progress: CountCallback | None = None,
    download: Progress | None = None,
) -> Array | Vectors:
    """Turn texts into vectors: an array with a row for each, or a file (.npy, .jsonl, .jsonl.gz, .parquet).

    The source is a text, a list of texts, a file or anything else that `train` reads; a string is a text unless it is,
    or looks like, a file name. The same call resumes an interrupted file.
    """
    from clearhead.embeddings.job import EmbedOptions, embed_file, embed_texts

    options = EmbedOptions(
        column=column,
        input_format=input_format,
        layer=layer,
        pooling=pooling,
        normalize=normalize,
        prompt=prompt,
        prompt_name=prompt_name,
        precision=precision,
    )
    if output is None:
        return embed_texts(model, source, options, progress=from_counts(progress), download=download)
    return embed_file(model, source, Path(output), options, progress=from_counts(progress), download=download)


@overload
def translate(model: Reference, source: Any, output: None = None, **options: Any) -> list[Translation]: ...


@overload
def translate(
    model: Reference, source: Any, output: str | os.PathLike[str] | IO[str], **options: Any
) -> OutputSummary: ...


@renamed_parameters(**FORMER_NAMES)
def translate(
    model: Reference,
    source: Any,
    output: str | os.PathLike[str] | IO[str] | None = None,
    *,
    column: str | None = None,
    input_format: str | None = None,
    num_beams: int | None = None,
    max_length: int = 256,
    as_json: bool = False,
    align: bool | None = False,
    replace_unknown: bool = False,
    precision: str | None = None,
    progress: CountCallback | None = None,
    download: Progress | None = None,
    notify: Callable[[str], None] | None = None,
    **decoding: Any,
) -> list[Translation] | OutputSummary:
    """Translate a text, or the texts of a list, a file or anything else that `train` reads, in order.

    `output` is a file or an open stream that receives a line per text, or a JSON object with `as_json`; an interrupted
    file is resumed. `align` adds the source word that each word attends to most (None: if the model can compute it).
    `decoding` are further fields of `Decoding`: num_return_sequences, sample, top_p, ... A string is a text unless it
    is a file name.
    """
    from clearhead.translate.stream import translate_texts

    return translate_texts(
        model,
        source,
        _stream_or_path(output),
        column=column,
        input_format=input_format,
        as_json=as_json,
        align=align,
        replace_unknown=replace_unknown,
        precision=precision,
        progress=from_counts(progress),
        download=download,
        notify=notify,
        **_resolve_beams(decoding, num_beams, 4, max_length),
    )


@overload
def generate(model: Reference, source: Any, output: None = None, **options: Any) -> list[Continuation]: ...


@overload
def generate(
    model: Reference, source: Any, output: str | os.PathLike[str] | IO[str], **options: Any
) -> OutputSummary: ...


@renamed_parameters(**FORMER_NAMES)
def generate(
    model: Reference,
    source: Any,
    output: str | os.PathLike[str] | IO[str] | None = None,
    *,
    column: str | None = None,
    input_format: str | None = None,
    num_beams: int | None = None,
    max_length: int = 128,
    as_json: bool = False,
    new_only: bool = False,
    precision: str | None = None,
    progress: CountCallback | None = None,
    download: Progress | None = None,
    notify: Callable[[str], None] | None = None,
    **decoding: Any,
) -> list[Continuation] | OutputSummary:
    """Continue a prompt, or the prompts of a list, a file or anything else that `train` reads, with a causal model.

    Arguments are those of `translate`; `new_only` omits the prompt from the output.
    """
    from clearhead.translate.generate import generate_texts

    return generate_texts(
        model,
        source,
        _stream_or_path(output),
        column=column,
        input_format=input_format,
        as_json=as_json,
        new_only=new_only,
        precision=precision,
        progress=from_counts(progress),
        download=download,
        notify=notify,
        **_resolve_beams(decoding, num_beams, 1, max_length),
    )


@renamed_parameters(**FORMER_NAMES)
def generate_stream(
    model: Reference,
    prompt: str,
    *,
    max_length: int = 128,
    precision: str | None = None,
    download: Progress | None = None,
    **decoding: Any,
) -> Iterator[str]:
    """Yield the continuation of a prompt in pieces, each as soon as it is generated."""
    from clearhead.translate.generate import stream_continuation

    options = {"max_length": max_length, **decoding}
    return stream_continuation(model, prompt, precision=precision, download=download, **options)


def fill(model: Reference, text: str, top: int = 5, *, download: Progress | None = None) -> list[list[Guess]]:
    """The most likely words at each [MASK] of a text, a list for each mask."""
    return as_model(model, progress=download).fill(text, top=top)


def tokens(model: Reference, text: str, second: str | None = None) -> Encoding:
    """Tokenize a text or a pair of texts: tokens, ids, offsets, words, segments."""
    tokenizer = load_tokenizers(model)[0] if isinstance(model, str | os.PathLike) else model.tokenizer
    return tokenizer.encode(text, second)


def _resolve_beams(decoding: dict[str, Any], num_beams: int | None, default: int, max_length: int) -> dict[str, Any]:
    """Fields of `Decoding`; the default number of beams is 1 for sampling."""
    if num_beams is None:
        num_beams = 1 if decoding.get("sample") else default
    return {**decoding, "num_beams": num_beams, "max_length": max_length}


def _stream_or_path(output: Any) -> Any:
    return Path(output) if isinstance(output, str | os.PathLike) else output


__all__ = ["embed", "fill", "generate", "generate_stream", "tokens", "translate"]
