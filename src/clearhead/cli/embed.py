"""clearhead embed: a file of texts to vectors."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.loading import load_model
from clearhead.cli.screen import print_json, progress, say
from clearhead.errors import InputError, MissingExtraError

ENDINGS = (".npy", ".jsonl", ".parquet")
Write = Callable[[list[str], Any], None]  # some texts and their vectors


def embed(
    reference: str,
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],  # - is standard input
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"))],
    column: str | None = None,
    input_format: Annotated[str | None, Parameter(name=("--input-format", "--format"))] = None,
    layer: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,  # -2 is a layer
    pooling: str | None = None,
    normalize: bool | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    precision: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Turn the texts of a file into vectors.

    Parameters
    ----------
    reference
        A model folder, a hub id, or an alias such as `default`.
    file
        Plain text (one text a line), .csv, .tsv, .jsonl, or - for standard input.
    output
        Where the vectors go: .npy, .jsonl or .parquet.
    column
        The column that holds the text.
    input_format
        csv, tsv, jsonl or text, where neither a file's name nor a header tells it: standard input is a text a line.
    layer
        A layer's number, or first, last, second_to_last, sum_all, sum_last_four, concat_last_four.
    pooling
        mean, first, max or pooler; without it, as the model folder says.
    normalize
        Make every vector one long, or do not; without it, as the model folder says.
    prompt
        A text to put before each text.
    prompt_name
        The name of one of the model's own prompts.
    precision
        float or int8; without it, int8 where `clearhead quantize` found it good enough.
    json
        Print one JSON object about what was done.
    quiet
        Say nothing.
    """
    from clearhead.cli.texts import read_texts
    from clearhead.embedding import TruncationWarning

    if output.suffix not in ENDINGS:
        raise InputError(f"{output} must end in {', '.join(ENDINGS)}.")
    if output.suffix == ".parquet":
        _need_parquet()
    model = load_model(reference, quiet=quiet or json, precision=precision)
    texts = read_texts(file, column, format=input_format)
    chosen: Any = int(layer) if layer is not None and layer.lstrip("-").isdigit() else layer
    with warnings.catch_warnings(record=True) as caught, progress("embedding", quiet=quiet or json) as bar:
        warnings.simplefilter("always", TruncationWarning)
        waiting: deque[str] = deque()
        stream = model.embed_stream(
            kept(texts, waiting), layer=chosen, pooling=pooling, normalize=normalize, prompt=prompt,
            prompt_name=prompt_name,
        )  # fmt: skip
        count, width = write_vectors(output, stream, waiting, bar)
    cut = [str(warning.message) for warning in caught if issubclass(warning.category, TruncationWarning)]
    if json:
        print_json({"texts": count, "width": width, "output": str(output), "truncated": cut})
        return
    for line in cut:
        say(line, quiet=quiet)
    say(f"{count} texts, {width} numbers each: {output}", quiet=quiet)


def kept(texts: Iterable[str], waiting: deque[str]) -> Iterator[str]:
    """The same texts, each of them kept until its vector is written."""
    for text in texts:
        waiting.append(text)
        yield text


def write_vectors(
    output: Path, stream: Iterable[Any], waiting: deque[str], told: Callable[[int, int | None], None] | None = None
) -> tuple[int, int]:
    """Vectors to a file as they come, whole or not at all: how many, and how wide."""
    from clearhead.config import whole_file

    count, width = 0, 0
    with whole_file(output) as file, WRITERS[output.suffix](file) as write:
        for vectors in stream:
            write([waiting.popleft() for _ in range(len(vectors))], vectors)
            count, width = count + len(vectors), vectors.shape[1]
            if told is not None:
                told(count, None)
    return count, width


@contextmanager
def _npy(file: Any) -> Iterator[Write]:
    """One array; its header says how many rows there are, and is written anew at the end."""
    import numpy as np

    count, width = 0, 0

    def header() -> None:
        sides = {"descr": "<f4", "fortran_order": False, "shape": (count, width)}
        np.lib.format.write_array_header_1_0(file, sides)  # leaves room for the first side to grow

    def write(texts: list[str], vectors: Any) -> None:
        nonlocal count, width
        width = vectors.shape[1]
        if count == 0:
            header()
        file.write(np.ascontiguousarray(vectors, "<f4").data)
        count += len(texts)

    yield write
    file.seek(0)
    header()
    file.seek(0, 2)


@contextmanager
def _jsonl(file: Any) -> Iterator[Write]:
    import json as jsonlib

    def write(texts: list[str], vectors: Any) -> None:
        for text, vector in zip(texts, vectors, strict=True):
            row = {"text": text, "vector": [float(f"{number:.8g}") for number in vector]}
            file.write((jsonlib.dumps(row, ensure_ascii=False) + "\n").encode())

    yield write


@contextmanager
def _parquet(file: Any) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None

    def write(texts: list[str], vectors: Any) -> None:
        nonlocal writer
        flat = pa.array(vectors.reshape(-1))
        columns = {"text": pa.array(texts), "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)

    yield write
    if writer is not None:
        writer.close()


WRITERS = {".npy": _npy, ".jsonl": _jsonl, ".parquet": _parquet}


def _need_parquet() -> None:
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise MissingExtraError("Writing .parquet", "parquet")
