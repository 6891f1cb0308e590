"""clearhead contrast: what context does to a word."""

from __future__ import annotations

from clearhead.cli.screen import print_json, print_table, say


def contrast(
    reference: str,
    first: str,
    second: str,
    word: str,
    /,
    *,
    also: list[str] | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Show one word in two sentences: equal in the word table, and told apart by the layers that read its neighbours.

    Parameters
    ----------
    reference
        A model folder, a hub id or an alias; or word vectors, which cannot tell the sentences apart.
    first
        A sentence with the word.
    second
        Another sentence with the word.
    word
        The word.
    also
        A further sentence with the word, to find the nearest sense; can be said again.
    json
        Print one JSON object.
    quiet
        Print the cosine of the last layer alone.
    """
    from clearhead import api
    from clearhead.api.support import has_vectors
    from clearhead.cli.loading import load_model
    from clearhead.cli.words import load_vectors

    still = quiet or json
    if has_vectors(reference):
        made = api.contrast(load_vectors(reference, limit=None, quiet=still), first, second, word, also=also or ())
    else:
        made = api.contrast(load_model(reference, quiet=still), first, second, word, also=also or ())
    if json:
        print_json(made.to_json())
        return
    if quiet:
        print(f"{made.layers[-1].cosine:.4f}")
        return
    rows = [(layer.name, f"{layer.cosine:.4f}", "#" * round(20 * max(layer.cosine, 0.0))) for layer in made.layers]
    print_table(("", "cosine", ""), rows, title=f"{word} in the two sentences")
    if len(made.layers) == 1:  # word vectors: every occurrence has the same neighbours
        near = [(one.text, f"{one.cosine:.4f}") for one in made.occurrences[0].words]
        print_table(("neighbours", "cosine"), near)
    elif not also:
        near = [(place.sentence, ", ".join(one.text for one in place.words)) for place in made.occurrences]
        print_table(("sentence", "nearest words in it, last layer"), near)
    else:
        for place in made.occurrences:
            senses = [(one.text, f"{one.cosine:.4f}") for one in place.senses]
            print_table((f"nearest to {word} in: {place.sentence}", "cosine"), senses)
    for note in made.notes:
        say(note)
