"""clearhead embed: a file of texts to vectors."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.loading import load_model
from clearhead.cli.screen import print_json, progress, say
from clearhead.errors import InputError, MissingExtraError

ENDINGS = (".npy", ".jsonl", ".parquet")


def embed(
    reference: str,
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],  # - is standard input
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"))],
    column: str | None = None,
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
    texts = read_texts(file, column)
    chosen: Any = int(layer) if layer is not None and layer.lstrip("-").isdigit() else layer
    with warnings.catch_warnings(record=True) as caught, progress("embedding", quiet=quiet or json) as bar:
        warnings.simplefilter("always", TruncationWarning)
        vectors = model.embed(
            texts,
            layer=chosen,
            pooling=pooling,
            normalize=normalize,
            prompt=prompt,
            prompt_name=prompt_name,
            progress=bar,
        )
    cut = [str(warning.message) for warning in caught if issubclass(warning.category, TruncationWarning)]
    write_vectors(output, texts, vectors)
    if json:
        shown = {"texts": len(texts), "width": int(vectors.shape[1]), "output": str(output), "truncated": cut}
        print_json(shown)
        return
    for line in cut:
        say(line, quiet=quiet)
    say(f"{len(texts)} texts, {vectors.shape[1]} numbers each: {output}", quiet=quiet)


def write_vectors(output: Path, texts: list[str], vectors: Any) -> None:
    """Vectors to a file, whole or not at all."""
    import json as jsonlib

    from clearhead.config import whole_file

    with whole_file(output) as file:
        if output.suffix == ".npy":
            import numpy as np

            np.save(file, vectors)
        elif output.suffix == ".jsonl":
            for text, vector in zip(texts, vectors, strict=True):
                row = {"text": text, "vector": [float(f"{number:.8g}") for number in vector]}
                file.write((jsonlib.dumps(row, ensure_ascii=False) + "\n").encode())
        else:
            _write_parquet(file, texts, vectors)


def _need_parquet() -> None:
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise MissingExtraError("Writing .parquet", "parquet")


def _write_parquet(file: Any, texts: list[str], vectors: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    flat = pa.array(vectors.reshape(-1))
    columns = {"text": pa.array(texts), "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])}
    pq.write_table(pa.table(columns), file)
