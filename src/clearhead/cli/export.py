"""clearhead export: a model as ONNX, for other runtimes."""

from __future__ import annotations

from pathlib import Path

from clearhead.cli.loading import downloads
from clearhead.cli.screen import model_notes, print_json, say


def export(
    source: str,
    destination: Path,
    /,
    *,
    portable: bool = False,
    precision: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Write model.onnx with the tokenizer, config.json and passport, and export.json that says how to use it.

    Parameters
    ----------
    source
        A model folder, a hub id, or an alias.
    destination
        A new folder.
    portable
        Operators of the ONNX standard alone, for any runtime; without it, fused ones that ONNX Runtime runs faster.
    precision
        float or int8; without it, int8 where `clearhead quantize` found it good enough.
    json
        Print one JSON object.
    quiet
        Say nothing.
    """
    from clearhead import api
    from clearhead.api.support import exported_facts

    silent = quiet or json
    with model_notes(quiet=silent), downloads(quiet=silent) as bars:
        folder = api.export(source, destination, portable=portable, precision=precision, progress=bars)
    about = exported_facts(folder)
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    if json:
        print_json({"folder": str(folder), "files": files, "disk_bytes": sum(files.values()), **about})
        return
    say(f"{folder}: {', '.join(files)} ({sum(files.values()) / 1e6:,.1f} MB)", quiet=quiet)
    inputs, outputs = (", ".join(about[part]) for part in ("inputs", "outputs"))
    say(f"The {about['graph']} graph in {about['precision']} takes {inputs} and gives {outputs}.", quiet=quiet)
    for note in about["notes"]:
        say(note, quiet=quiet)
