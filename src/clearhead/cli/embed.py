"""clearhead embed: a file of texts to vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.loading import download_bars
from clearhead.cli.options import MODEL, OUTPUT, InputFormat, Json, Precision, Quiet, StreamArgument, TextColumn
from clearhead.cli.screen import collect_truncations, model_notes, print_json, print_note, progress
from clearhead.cli.streams import input_stream


def embed(
    model: str,
    file: StreamArgument,
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"), group=OUTPUT)],
    text: TextColumn = None,
    input_format: InputFormat = None,
    layer: Annotated[str | None, Parameter(allow_leading_hyphen=True, group=MODEL)] = None,  # -2 is a layer
    pooling: Annotated[str | None, Parameter(group=MODEL)] = None,
    normalize: Annotated[bool | None, Parameter(group=MODEL, negative="--no-normalize")] = None,
    prompt: Annotated[str | None, Parameter(group=MODEL)] = None,
    prompt_name: Annotated[str | None, Parameter(group=MODEL)] = None,
    precision: Precision = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn the texts of a file into vectors.

    Parameters
    ----------
    model
        A model folder, a hub id or an alias such as `default`.
    file
        Plain text (one text per line), .csv, .tsv, .json, .jsonl or .parquet, optionally gzipped; - for standard input.
    output
        File for the vectors: .npy, .jsonl, .jsonl.gz or .parquet. The same command resumes an interrupted file.
    layer
        Layer number, or first, last, second_to_last, sum_all, sum_last_four, concat_last_four (default: last).
    pooling
        mean, first, max or pooler (default: from the model folder).
    normalize
        Scale vectors to unit length (default: from the model folder).
    prompt
        Prefix of each text.
    prompt_name
        Name of a prompt that the model defines.
    """
    from clearhead import api

    layer_choice: Any = int(layer) if layer is not None and layer.lstrip("-").isdigit() else layer
    source: Any = input_stream() if file == "-" else Path(file)
    silent = quiet or json
    try:
        with (
            model_notes(quiet=silent),
            download_bars(quiet=silent) as bars,
            progress("embedding", quiet=silent) as bar,
            collect_truncations() as truncations,
        ):
            vectors = api.embed(
                model,
                source,
                output,
                column=text,
                input_format=input_format,
                layer=layer_choice,
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
            print_note("stopped; the same command resumes.")
            error.reported = True  # type: ignore[attr-defined]
        raise
    if json:
        print_json(
            {
                "texts": vectors.texts,
                "width": vectors.width,
                "output": str(output),
                "truncated": truncations,
                "resumed": vectors.resumed,
            }
        )
        return
    for line in truncations:
        print_note(line, quiet=quiet)
    earlier = f" ({vectors.resumed:,} of them from an interrupted run)" if vectors.resumed else ""
    print_note(f"{vectors.texts:,} texts, width {vectors.width}{earlier}: {output}", quiet=quiet)
