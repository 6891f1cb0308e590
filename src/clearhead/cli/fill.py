"""clearhead fill: predict masked words."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.loading import download_bars
from clearhead.cli.options import OUTPUT, Json, Quiet
from clearhead.cli.screen import model_notes, print_blank_line, print_json, print_table


def fill(
    model: str,
    text: str,
    /,
    *,
    top: Annotated[int, Parameter(group=OUTPUT)] = 5,
    json: Annotated[Json, Parameter(help="Print one JSON list with a list of candidates per mask.")] = False,
    quiet: Annotated[Quiet, Parameter(help="Print only the most likely word of each mask.")] = False,
) -> None:
    """Predict the words hidden by [MASK], the pre-training objective of BERT.

    Parameters
    ----------
    model
        A model with a masked language modeling head: a folder, a hub id or an alias.
    text
        A text with one or more [MASK].
    top
        Number of candidates per mask (default: 5).
    """
    from clearhead import api

    with model_notes(quiet=quiet or json), download_bars(quiet=quiet or json) as bars:
        masks = api.fill(model, text, top, download=bars)
    if json:
        print_json(
            [
                [{"token": guess.token, "probability": guess.probability, "id": guess.id} for guess in guesses]
                for guesses in masks
            ]
        )
        return
    if quiet:
        print(*(guesses[0].token for guesses in masks))
        return
    for number, guesses in enumerate(masks, start=1):
        if number > 1:
            print_blank_line()
        title = None if len(masks) == 1 else f"mask {number}"
        print_table(("word", "probability"), [(guess.token, f"{guess.probability:.3f}") for guess in guesses], title)
