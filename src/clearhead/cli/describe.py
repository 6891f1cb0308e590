"""clearhead describe: what a model is."""

from __future__ import annotations

from clearhead.cli.loading import downloads
from clearhead.cli.screen import model_notes, print_json, print_table


def describe(reference: str, /, *, json: bool = False, quiet: bool = False) -> None:
    """Tell what a model is: architecture, sizes, tokenizer, head, passport.

    Parameters
    ----------
    reference
        A model folder, a hub id (org/name or org/name@revision), or an alias such as `default`; of a folder of
        `train --task aspect`, both of its models are told. Counted words (`train --method tfidf`) are a model too.
    json
        Print one JSON object instead of a table.
    quiet
        Say nothing but the answer.
    """
    from clearhead import api

    silent = quiet or json
    with model_notes(quiet=silent), downloads(quiet=silent) as bars:
        made = api.describe(reference, download=bars)
    if json:
        print_json(made.to_json())
        return
    for title, rows in made.tables:
        print_table(("what", "value"), rows, title=title)
