"""Ids of a decoder as tokens that people can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clearhead.errors import InputError
from clearhead.explain.svg import escape_invisible, shorten
from clearhead.explain.tokens import Token, label_tokens
from clearhead.text.subwords import find_start_marker

if TYPE_CHECKING:
    from clearhead.model import Model


def label_token_ids(model: Model, ids: Sequence[int]) -> dict[int, Token]:
    """Each of some ids of what a model writes, as a token to show."""
    tokenizer = model.target_tokenizer or model.tokenizer
    # a few tokens alone need not show how the vocabulary marks the beginning of a word
    mark = find_start_marker(tokenizer.vocab)
    unique_ids = sorted(set(ids))
    shown_tokens = label_tokens([*([] if mark is None else [mark]), *tokenizer.tokens(unique_ids)])
    return dict(zip(unique_ids, shown_tokens if mark is None else shown_tokens[1:], strict=True))


def require_text(text: str) -> None:
    """Say what is missing where nothing is given to decode."""
    if not isinstance(text, str) or not text.strip():
        raise InputError("There is no text to decode: give one with at least a word.")


def describe_opening(model: Model, text: str) -> str:
    """What stands before the first word: the start symbol, or the end of a prompt."""
    if model.shape.decoder is not None:
        return "<start>"
    words = escape_invisible(text).split()
    return ("… " if len(words) > 1 else "") + shorten(words[-1], 8) if words else "<start>"
