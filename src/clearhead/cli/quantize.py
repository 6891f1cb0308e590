"""clearhead quantize: eight bits, if the model stays good enough."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.screen import model_notes, print_json, print_table, say, stages


def quantize(
    reference: str,
    file: str | None = None,
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"))],
    text: str | None = None,
    text_b: str | None = None,
    label: str | None = None,
    options: str | None = None,
    source: str | None = None,
    target: str | None = None,
    allowed: float = 0.5,
    least_cosine: float = 0.995,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Make a model run in eight bits, measured beside float on your own rows; refused where it loses too much.

    Parameters
    ----------
    reference
        A model folder, a hub id, or an alias such as `default`.
    file
        Rows whose labels are known; of a translator, rows with translations; of an encoder, texts. Without it, the
        development rows of the model's own run, or everyday sentences.
    output
        The new model folder; it runs in eight bits wherever it is used.
    text
        The column with the text.
    text_b
        The column with the second text.
    label
        The column with the label.
    options
        The columns with the options of a question, commas between them.
    source
        Of a translator: the column that is read.
    target
        Of a translator: the column with the right translations.
    allowed
        How many points of the model's metric may be lost.
    least_cosine
        Of an encoder: the mean cosine that its vectors must keep with those in float.
    json
        Print one JSON object with the verdict.
    quiet
        Say nothing.
    """
    from clearhead import api
    from clearhead.api.support import disk_bytes

    silent = quiet or json
    with model_notes(quiet=silent), stages(quiet=silent) as bar:
        made = api.quantize(
            reference,
            file,
            output=output,
            text=text,
            text_b=text_b,
            label=label,
            options=options,
            from_column=source,
            to_column=target,
            allowed=allowed,
            least_cosine=least_cosine,
            told=bar,
        )
    if json:
        print_json(made.to_json())
        return
    if quiet:
        return
    verdict = made.verdict
    rows = [(verdict.metric, f"{verdict.before:.4f}", f"{verdict.after:.4f}", f"{verdict.allowed}")]
    names = ("metric", "float", "int8", "least" if verdict.metric == "cosine" else "points allowed")
    print_table(names, rows, title=f"{verdict.rows:,} rows: {verdict.data}")
    if verdict.worst is not None:
        say(f"worst cosine: {verdict.worst:.4f}")
    sizes = [disk_bytes(folder) for folder in (reference, made.folder)]
    before, after = ("" if size is None else f"{size / 1e6:,.1f} MB" for size in sizes)
    say(f"model: {made.folder} ({after} on disk{f', {before} before' if before else ''})")
