"""clearhead embed: a file of texts to vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.loading import downloads
from clearhead.cli.screen import model_notes, print_json, progress, say, truncations
from clearhead.cli.streams import input_stream


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
        Plain text (one text a line), .csv, .tsv, .json, .jsonl, .parquet, each also gzipped (.gz), or - for standard
        input.
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
    from clearhead import api

    chosen: Any = int(layer) if layer is not None and layer.lstrip("-").isdigit() else layer
    source: Any = input_stream() if file == "-" else Path(file)
    silent = quiet or json
    try:
        with (
            model_notes(quiet=silent),
            downloads(quiet=silent) as bars,
            progress("embedding", quiet=silent) as bar,
            truncations() as cut,
        ):
            made = api.embed(
                reference,
                source,
                output,
                column=column,
                input_format=input_format,
                layer=chosen,
                pooling=pooling,
                normalize=normalize,
                prompt=prompt,
                prompt_name=prompt_name,
                precision=precision,
                progress=bar,
                download=bars,
            )
    except KeyboardInterrupt as error:
        if getattr(error, "resumable", False):
            say("stopped; the same command continues where it stopped.")
            error.reported = True  # type: ignore[attr-defined]
        raise
    if json:
        print_json(
            {"texts": made.texts, "width": made.width, "output": str(output), "truncated": cut, "resumed": made.resumed}
        )
        return
    for line in cut:
        say(line, quiet=quiet)
    again = f" ({made.resumed} of them by an earlier, interrupted command)" if made.resumed else ""
    say(f"{made.texts} texts, {made.width} numbers each{again}: {output}", quiet=quiet)
