"""clearhead explain: what each word looks at, and how a decoder finds its words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from clearhead.cli.loading import downloads
from clearhead.cli.screen import model_notes, print_json, print_table, progress, say, truncations
from clearhead.errors import InputError

Show = Literal["attention", "alignment", "beams", "steps", "positions"]


def explain(
    reference: str,
    text: str | None = None,
    second: str | None = None,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    show: Show | None = None,
    target: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    word: str | None = None,
    part: str | None = None,
    special: bool = False,
    all_words: bool = False,
    words: bool = False,
    beam: int | None = None,
    top: int | None = None,
    max_length: int | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Draw what each word looks at, and how a decoder finds its words.

    Parameters
    ----------
    reference
        A model folder, a hub id, or an alias such as `default`.
    text
        The text, which --show positions can do without.
    second
        A second text, for pairs.
    output
        A file: .svg or .png (a picture), .html (a page to look around in) or .json (the numbers).
    show
        attention: who looks at whom. alignment: which source words each written word looked at. beams: the tree of the
        search. steps: the likeliest words at each step. positions: how places are numbered. Without it, alignment for
        models that write, attention for others.
    target
        For a model with a decoder: the text it writes; without it, the model writes one itself.
    layer
        Which layer an .svg or .png shows, counted from 0.
    head
        Which head; without it, all heads together, or the mean of them.
    word
        Only the lines from this word; without it, those from the most informative word.
    part
        encoder, decoder or cross attention; without it, all of them.
    special
        Show special tokens such as [CLS] and [SEP], which are hidden otherwise.
    all_words
        Draw the lines from all words.
    words
        Take the tokens of a word together in an alignment.
    beam
        How many beginnings are kept while searching; without it 4, and 1 for steps: the likeliest word each time.
    top
        How many candidates each step shows; without it, 5.
    max_length
        New tokens at most; without it 128, and 20 for a model that goes on with a prompt.
    json
        Print one JSON object about what was done; without -o, the numbers themselves.
    quiet
        Say nothing.
    """
    from clearhead import api

    if output is None and not json and show == "positions":
        raise InputError("Name a file for the picture of positions with -o, such as positions.svg, .png or .html.")
    silent = quiet or json
    with (
        model_notes(quiet=silent),
        downloads(quiet=silent) as bars,
        progress("looking", quiet=silent),
        truncations() as cut,
    ):
        made = api.explain(
            reference,
            text,
            second,
            output=output,
            show=show,
            target=target,
            layer=layer,
            head=head,
            word=word,
            part=part,
            special=special,
            all_words=all_words,
            words=words,
            num_beams=beam,
            top=top,
            max_length=max_length,
            download=bars,
        )
    for line in cut:
        say(line, quiet=silent)
    if json:
        print_json(made.to_json() if output is None else {"output": str(output), **made.facts})
    elif output is not None:
        say(f"{made.summary}: {output}", quiet=quiet)
    elif made.table is not None:
        print_table(*made.table())
