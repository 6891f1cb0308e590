"""clearhead tokens: how a text is cut."""

from __future__ import annotations

from clearhead.cli.screen import print_json, print_table


def tokens(reference: str, text: str, second: str | None = None, /, *, json: bool = False, quiet: bool = False) -> None:
    """Show how a text, or a pair of texts, is cut into tokens.

    Parameters
    ----------
    reference
        A model folder, a hub id, or an alias such as `default`.
    text
        The text.
    second
        A second text, for pairs.
    json
        Print one JSON object instead of a table.
    quiet
        Print the ids alone, separated by spaces.
    """
    from clearhead import api

    encoding = api.tokens(reference, text, second)
    if json:
        names = ("ids", "tokens", "offsets", "words", "segments", "special", "truncated")
        print_json({name: getattr(encoding, name) for name in names})
        return
    if quiet:
        print(*encoding.ids)
        return
    rows = [
        (
            str(place),
            encoding.tokens[place],
            str(encoding.ids[place]),
            "-" if encoding.special[place] else "{}:{}".format(*encoding.offsets[place]),
            "-" if encoding.words[place] is None else str(encoding.words[place]),
            str(encoding.segments[place]),
            "yes" if encoding.special[place] else "",
        )
        for place in range(len(encoding))
    ]
    print_table(("", "token", "id", "characters", "word", "segment", "special"), rows)
