"""clearhead describe: what a model is."""

from __future__ import annotations

from clearhead.cli.loading import download_bars
from clearhead.cli.options import Json, Quiet
from clearhead.cli.screen import model_notes, print_blank_line, print_facts, print_json


def describe(model: str, /, *, json: Json = False, quiet: Quiet = False) -> None:
    """Show architecture, sizes, tokenizer, head and passport of a model.

    Parameters
    ----------
    model
        A model folder, a hub id (org/name or org/name@revision) or an alias such as `default`. Folders of
        `train --method tfidf` and `train --task aspect` work, too.
    """
    from clearhead import api

    silent = quiet or json
    with model_notes(quiet=silent), download_bars(quiet=silent) as bars:
        description = api.describe(model, download=bars)
    if json:
        print_json(description.to_json())
        return
    for number, (title, facts) in enumerate(description.tables):
        if number:
            print_blank_line()
        print_facts(facts, title=title)
