"""clearhead quantize: an int8 model, if it stays accurate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.options import (
    MEASUREMENT,
    OUTPUT,
    Json,
    LabelColumn,
    OptionColumns,
    Quiet,
    SecondTextColumn,
    SourceColumn,
    TargetColumn,
    TrainedTextColumn,
)
from clearhead.cli.screen import model_notes, print_json, print_note, print_table, stages


def quantize(
    model: str,
    file: str | None = None,
    /,
    *,
    text: TrainedTextColumn = None,
    text_b: SecondTextColumn = None,
    label: LabelColumn = None,
    options: OptionColumns = None,
    source: SourceColumn = None,
    target: TargetColumn = None,
    max_drop: Annotated[float, Parameter(group=MEASUREMENT)] = 0.5,
    min_cosine: Annotated[float, Parameter(group=MEASUREMENT)] = 0.995,
    output: Annotated[Path, Parameter(name=("--output", "-o"), group=OUTPUT)],
    json: Json = False,
    quiet: Annotated[Quiet, Parameter(help="Print nothing but errors.")] = False,
) -> None:
    """Convert a model to int8 if it stays accurate on your own rows, compared with float32; otherwise write nothing.

    Parameters
    ----------
    model
        A model folder, a hub id or an alias such as `default`.
    file
        Labeled rows; for translators, rows with reference translations; for encoders, texts. Default: the dev rows of
        the model's own run, or built-in sentences.
    max_drop
        Maximum loss of the model's metric, in percentage points (default: 0.5).
    min_cosine
        Encoders: minimum mean cosine between int8 and float32 vectors (default: 0.995).
    output
        The new model folder; every command runs it in int8.
    """
    from clearhead import api
    from clearhead.api.support import disk_bytes

    silent = quiet or json
    with model_notes(quiet=silent), stages(quiet=silent) as bar:
        quantized = api.quantize(
            model,
            file,
            output=output,
            text=text,
            text_b=text_b,
            label=label,
            options=options,
            from_column=source,
            to_column=target,
            max_drop=max_drop,
            min_cosine=min_cosine,
            progress=bar,
        )
    if json:
        print_json(quantized.to_json())
        return
    if quiet:
        return
    verdict = quantized.verdict
    row = (verdict.metric, f"{verdict.before:.4f}", f"{verdict.after:.4f}", f"{verdict.allowed}")
    columns = ("metric", "float32", "int8", "minimum" if verdict.metric == "cosine" else "maximum drop (points)")
    print_table(columns, [row], title=f"{verdict.rows:,} rows: {verdict.data}")
    if verdict.worst is not None:
        print_note(f"lowest cosine: {verdict.worst:.4f}")
    sizes = [disk_bytes(folder) for folder in (model, quantized.folder)]
    before, after = ("" if size is None else f"{size / 1e6:,.1f} MB" for size in sizes)
    print_note(f"model: {quantized.folder} ({after} on disk{f', {before} before' if before else ''})")
