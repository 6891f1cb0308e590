"""clearhead embed: a file of texts to vectors."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.loading import load_model
from clearhead.cli.screen import print_json, progress, say
from clearhead.errors import InputError, MissingExtraError


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
        Plain text (one text a line), .csv, .tsv, .jsonl, each also gzipped (.gz), or - for standard input.
    output
        Where the vectors go: .npy, .jsonl, .jsonl.gz or .parquet. After an interruption the same command resumes.
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
    from clearhead.embeddings.vector_files import ending_of, job_key, model_folder, write_vectors
    from clearhead.model.embedding import BATCH_TOKENS, Embedder, TruncationWarning

    if ending_of(output) == ".parquet":
        _need_parquet()
    _check_place(output, file)
    model = load_model(reference, quiet=quiet or json, precision=precision)
    texts = read_texts(file, column, format=input_format)
    chosen: Any = int(layer) if layer is not None and layer.lstrip("-").isdigit() else layer
    embedder = Embedder(model, chosen, pooling, normalize, model.prompt_text(prompt, prompt_name))
    folder = model_folder(reference)
    options = {
        "column": column,
        "input_format": input_format,
        "layer": layer,
        "pooling": pooling,
        "normalize": normalize,
        "prompt": embedder.prompt,
        "precision": precision,
        "runner": type(model.runner).__name__,
        "ending": ending_of(output),
    }
    key = None if file == "-" or folder is None else job_key(folder, Path(file), options)
    try:
        with warnings.catch_warnings(record=True) as caught, progress("embedding", quiet=quiet or json) as bar:
            warnings.simplefilter("always", TruncationWarning)
            made = write_vectors(output, texts, embedder, batch_tokens=BATCH_TOKENS, key=key, told=bar)
    except KeyboardInterrupt as error:
        if key is not None:
            say("stopped; the same command continues where it stopped.")
            error.reported = True  # type: ignore[attr-defined]
        raise
    cut = [str(warning.message) for warning in caught if issubclass(warning.category, TruncationWarning)]
    if json:
        print_json(
            {"texts": made.texts, "width": made.width, "output": str(output), "truncated": cut, "resumed": made.resumed}
        )
        return
    for line in cut:
        say(line, quiet=quiet)
    again = f" ({made.resumed} of them by an earlier, interrupted command)" if made.resumed else ""
    say(f"{made.texts} texts, {made.width} numbers each{again}: {output}", quiet=quiet)


def _check_place(output: Path, file: str) -> None:
    """Refuse what would destroy the input."""
    from clearhead.predict.files import partial_files

    if file != "-" and Path(file).resolve() in [place.resolve() for place in (output, *partial_files(output))]:
        raise InputError(f"{output} is the input itself; name another file.")


def _need_parquet() -> None:
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise MissingExtraError("Writing .parquet", "parquet")
