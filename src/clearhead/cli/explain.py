"""clearhead explain: what each word looks at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.loading import load_model
from clearhead.cli.screen import print_json, say


def explain(
    reference: str,
    text: str,
    second: str | None = None,
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"))],
    target: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    word: str | None = None,
    part: str | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Draw what each word looks at: attention of every layer and head.

    Parameters
    ----------
    reference
        A model folder, a hub id, or an alias such as `default`.
    text
        The text.
    second
        A second text, for pairs.
    output
        attention.html (every layer and head), attention.svg (one layer) or attention.json (the numbers).
    target
        For a model with a decoder: the text it writes.
    layer
        Which layer an .svg shows, counted from 0.
    head
        Which head; without it, all heads together.
    word
        Only the lines from this word.
    part
        encoder, decoder or cross; without it, all of them.
    json
        Print one JSON object about what was done.
    quiet
        Say nothing.
    """
    from clearhead.explain import save_attention

    model = load_model(reference, quiet=quiet or json)
    trace = model.trace(text, second, target=target)
    path = save_attention(trace, output, layer=layer, head=head, word=word, part=part, source_note=reference)
    if json:
        print_json({"output": str(path), "tokens": trace.tokens, "layers": len(trace.layers)})
    else:
        say(f"{len(trace.tokens)} tokens, {len(trace.layers)} layers: {path}", quiet=quiet)
