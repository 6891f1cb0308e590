"""clearhead convert: a safetensors copy of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.options import MODEL, Json, Quiet
from clearhead.cli.screen import model_notes, print_json, print_note


def convert(
    model: str,
    folder: Path,
    /,
    *,
    allow_pickle: Annotated[bool, Parameter(group=MODEL)] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Copy a model to a folder of safetensors that clearhead, transformers and sentence-transformers read.

    Parameters
    ----------
    model
        A model folder, a hub id or an alias.
    folder
        Output folder: new or empty.
    allow_pickle
        Read pytorch_model.bin if there are no safetensors; only for files you trust. A child process reads it and
        accepts nothing but tensors.
    """
    from clearhead import api

    with model_notes(quiet=quiet or json):
        copy = api.convert(model, folder, allow_pickle=allow_pickle)
    files = sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file())
    if json:
        print_json({"folder": str(copy), "files": files})
    else:
        print_note(f"{copy}: {', '.join(files)}", quiet=quiet)
