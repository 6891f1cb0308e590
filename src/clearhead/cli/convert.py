"""clearhead convert: a safe copy of a model."""

from __future__ import annotations

from pathlib import Path

from clearhead.cli.screen import model_notes, print_json, say


def convert(
    source: str, destination: Path, /, *, allow_pickle: bool = False, json: bool = False, quiet: bool = False
) -> None:
    """Copy a model to a folder of safetensors that clearhead, transformers and sentence-transformers read.

    Parameters
    ----------
    source
        A model folder, a hub id, or an alias.
    destination
        A new folder.
    allow_pickle
        Read a pytorch_model.bin if there is nothing else. Only for files you trust; it is read in a child process
        that takes tensors and nothing else.
    json
        Print one JSON object.
    quiet
        Say nothing.
    """
    from clearhead import api

    with model_notes(quiet=quiet or json):
        folder = api.convert(source, destination, allow_pickle=allow_pickle)
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    if json:
        print_json({"folder": str(folder), "files": files})
    else:
        say(f"{folder}: {', '.join(files)}", quiet=quiet)
