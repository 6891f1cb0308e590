"""clearhead tokens: how a tokenizer splits a text."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from clearhead.cli.options import Json, Quiet
from clearhead.cli.screen import print_json, print_table


def tokens(
    model: str,
    text: str,
    second: str | None = None,
    /,
    *,
    json: Json = False,
    quiet: Annotated[Quiet, Parameter(help="Print only the ids, separated by spaces.")] = False,
) -> None:
    """Show the tokens of a text or a pair of texts.

    Parameters
    ----------
    model
        A model folder, a hub id or an alias such as `default`.
    text
        The text.
    second
        A second text, for pairs.
    """
    from clearhead import api

    encoding = api.tokens(model, text, second)
    if json:
        names = ("ids", "tokens", "offsets", "words", "segments", "special", "truncated")
        print_json({name: getattr(encoding, name) for name in names})
        return
    if quiet:
        print(*encoding.ids)
        return
    rows = [
        (
            str(index),
            encoding.tokens[index],
            str(encoding.ids[index]),
            "-" if encoding.special[index] else "{}:{}".format(*encoding.offsets[index]),
            "-" if encoding.words[index] is None else str(encoding.words[index]),
            str(encoding.segments[index]),
            "yes" if encoding.special[index] else "",
        )
        for index in range(len(encoding))
    ]
    print_table(("index", "token", "id", "characters", "word", "segment", "special"), rows)
