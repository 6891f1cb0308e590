"""clearhead export: a model as ONNX, for other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.loading import download_bars
from clearhead.cli.options import MODEL, Json, Precision, Quiet
from clearhead.cli.screen import model_notes, print_json, print_note


def export(
    model: str,
    folder: Path,
    /,
    *,
    portable: Annotated[bool, Parameter(group=MODEL)] = False,
    precision: Precision = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a model as ONNX: model.onnx, tokenizer, config.json, passport, and export.json with instructions for use.

    Parameters
    ----------
    model
        A model folder, a hub id or an alias.
    folder
        Output folder: new or empty.
    portable
        Use only operators of the ONNX standard, which any runtime supports; the default graph is fused for ONNX
        Runtime, which runs it faster.
    """
    from clearhead import api
    from clearhead.api.support import exported_facts

    silent = quiet or json
    with model_notes(quiet=silent), download_bars(quiet=silent) as bars:
        exported = api.export(model, folder, portable=portable, precision=precision, progress=bars)
    facts = exported_facts(exported)
    files = {path.name: path.stat().st_size for path in sorted(exported.iterdir())}
    total = sum(files.values())
    if json:
        print_json({"folder": str(exported), "files": files, "disk_bytes": total, **facts})
        return
    print_note(f"{exported}: {', '.join(files)} ({total / 1e6:,.1f} MB)", quiet=quiet)
    inputs, outputs = (", ".join(facts[part]) for part in ("inputs", "outputs"))
    graph = f"{facts['graph']} graph, {facts['precision']}"
    print_note(f"{graph}; inputs: {inputs}; outputs: {outputs}", quiet=quiet)
    for note in facts["notes"]:
        print_note(note, quiet=quiet)
