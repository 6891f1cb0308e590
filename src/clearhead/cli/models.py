"""clearhead models: the models on this machine."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.options import Json, Quiet
from clearhead.cli.screen import print_json


def models(
    *,
    json: Annotated[Json, Parameter(help="Print one JSON list.")] = False,
    quiet: Annotated[Quiet, Parameter(help="Print only the names of usable models.")] = False,
) -> None:
    """List aliases, the models included in the package and those in the Hugging Face cache.

    Nothing is loaded or downloaded; only config.json and file sizes are read.
    """
    from clearhead import api
    from clearhead.api.support import format_bytes

    inventory = api.models()
    if json:
        print_json([model.to_json() for model in inventory])
        return
    if quiet:
        sys.stdout.write("".join(f"{model.name}\n" for model in inventory if model.usable))
        return
    rows = []
    for model in inventory:
        state = "not installed" if model.path is None else model.problem or model.kind
        name = model.name if model.stands_for is None else f"{model.name} ({model.stands_for})"
        size = format_bytes(model.bytes) if model.bytes else ""
        rows.append((name, model.source, model.family or "", state, size, model.path or ""))
    columns = ("model", "source", "family", "kind", "size", "path")
    widths = [max(len(row[index]) for row in (columns, *rows)) for index in range(len(columns))]
    for row in (columns, *rows):  # also on a terminal: paths stay in one piece
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")
