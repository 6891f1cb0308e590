"""clearhead models: the models that can be named on this machine."""

from __future__ import annotations

import sys

from clearhead.cli.screen import print_json


def models(*, json: bool = False, quiet: bool = False) -> None:
    """List aliases, models that come with the package, and models in the Hugging Face cache.

    Nothing is loaded, run or fetched: config.json and the sizes of the files are read.

    Parameters
    ----------
    json
        Print one JSON list.
    quiet
        Print the names of models that can be used, and nothing else.
    """
    from clearhead import api
    from clearhead.api.support import format_bytes

    found = api.models()
    if json:
        print_json([model.to_json() for model in found])
        return
    if quiet:
        sys.stdout.write("".join(f"{model.name}\n" for model in found if model.usable))
        return
    rows = []
    for model in found:
        state = "not installed" if model.path is None else model.problem or model.kind
        about = model.name if model.stands_for is None else f"{model.name} ({model.stands_for})"
        size = format_bytes(model.bytes) if model.bytes else ""
        rows.append((about, model.source, model.family or "", state, size, model.path or ""))
    columns = ("model", "source", "family", "what it does", "size", "path")
    wide = [max(len(row[place]) for row in (columns, *rows)) for place in range(len(columns))]
    for row in (columns, *rows):  # lines that a script can cut, and paths in one piece
        sys.stdout.write("  ".join(f"{cell:<{width}}" for cell, width in zip(row, wide, strict=True)).rstrip() + "\n")
