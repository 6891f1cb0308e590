"""clearhead describe: what a model is."""

from __future__ import annotations

from clearhead.cli.loading import load_model
from clearhead.cli.screen import print_json, print_table


def describe(reference: str, /, *, json: bool = False, quiet: bool = False) -> None:
    """Tell what a model is: architecture, sizes, tokenizer, head, passport.

    Parameters
    ----------
    reference
        A model folder, a hub id (org/name or org/name@revision), or an alias such as `default`.
    json
        Print one JSON object instead of a table.
    quiet
        Say nothing but the answer.
    """
    from clearhead.describe import facts, parts, rows

    model = load_model(reference, quiet=quiet or json)
    if json:
        print_json(facts(model) | {"parts": parts(model)})
    else:
        print_table(("what", "value"), rows(model), title=model.reference)
