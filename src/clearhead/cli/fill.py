"""clearhead fill: words for a mask."""

from __future__ import annotations

from clearhead.cli.loading import downloads
from clearhead.cli.screen import model_notes, print_json, print_table


def fill(reference: str, text: str, /, *, top: int = 5, json: bool = False, quiet: bool = False) -> None:
    """Guess the words behind [MASK], as masked-word training taught the model to.

    Parameters
    ----------
    reference
        A model with a masked-word head: a folder, a hub id, or an alias.
    text
        A text with one or more [MASK] in it.
    top
        How many guesses for each mask.
    json
        Print one JSON list with a list of guesses per mask.
    quiet
        Print the best guess for each mask and nothing else.
    """
    from clearhead import api

    with model_notes(quiet=quiet or json), downloads(quiet=quiet or json) as bars:
        guesses = api.fill(reference, text, top, download=bars)
    if json:
        print_json([[{"token": g.token, "probability": g.probability, "id": g.id} for g in mask] for mask in guesses])
        return
    if quiet:
        print(*(mask[0].token for mask in guesses))
        return
    for number, mask in enumerate(guesses, start=1):
        title = None if len(guesses) == 1 else f"mask {number}"
        print_table(("word", "probability"), [(g.token, f"{g.probability:.3f}") for g in mask], title)
