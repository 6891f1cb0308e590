"""clearhead contrast: what context does to the vector of a word."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.options import DATA, Json, Quiet
from clearhead.cli.screen import print_blank_line, print_json, print_note, print_table


def contrast(
    model: str,
    first: str,
    second: str,
    word: str,
    /,
    *,
    also: Annotated[list[str] | None, Parameter(group=DATA)] = None,
    json: Json = False,
    quiet: Annotated[Quiet, Parameter(help="Print only the cosine of the last layer.")] = False,
) -> None:
    """Compare the vectors of a word in two sentences, layer by layer.

    Both start as the same vector in the embedding table; each layer mixes in more of their contexts.

    Parameters
    ----------
    model
        A model folder, a hub id or an alias; or word vectors, which are the same in every sentence.
    first
        A sentence that contains the word.
    second
        Another sentence that contains the word.
    word
        The word.
    also
        Another sentence with the word, to find its nearest sense; repeatable.
    """
    from clearhead import api
    from clearhead.api.support import has_vectors
    from clearhead.cli.loading import load_model
    from clearhead.cli.words import load_vectors

    silent = quiet or json
    if has_vectors(model):
        loaded = load_vectors(model, limit=None, quiet=silent)
        comparison = api.contrast(loaded, first, second, word, also=also or ())
    else:
        comparison = api.contrast(load_model(model, quiet=silent), first, second, word, also=also or ())
    if json:
        print_json(comparison.to_json())
        return
    layers = comparison.layers
    if quiet:
        print(f"{layers[-1].cosine:.4f}")
        return
    rows = [(layer.name, f"{layer.cosine:.4f}", "#" * round(20 * max(layer.cosine, 0.0))) for layer in layers]
    print_table(("layer", "cosine", ""), rows, title=f"{word} in the two sentences")
    print_blank_line()
    if len(layers) == 1:  # word vectors: every occurrence has the same neighbors
        neighbors = [(neighbor.text, f"{neighbor.cosine:.4f}") for neighbor in comparison.occurrences[0].words]
        print_table(("neighbor", "cosine"), neighbors)
    elif not also:
        nearest = [
            (occurrence.sentence, ", ".join(neighbor.text for neighbor in occurrence.words))
            for occurrence in comparison.occurrences
        ]
        print_table(("sentence", "nearest words in it (last layer)"), nearest)
    else:
        for occurrence in comparison.occurrences:
            senses = [(sense.text, f"{sense.cosine:.4f}") for sense in occurrence.senses]
            print_table((f"nearest to {word} in: {occurrence.sentence}", "cosine"), senses)
    for note in comparison.notes:
        print_note(note)
