"""Turn the ids of a decoder into readable tokens."""

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
    """Return a display token for each id of the target vocabulary."""
    tokenizer = model.target_tokenizer or model.tokenizer
    # a few tokens may not show how the vocabulary marks word starts
    mark = find_start_marker(tokenizer.vocab)
    unique_ids = sorted(set(ids))
    shown_tokens = label_tokens([*([] if mark is None else [mark]), *tokenizer.tokens(unique_ids)])
    return dict(zip(unique_ids, shown_tokens if mark is None else shown_tokens[1:], strict=True))


def require_text(text: str) -> None:
    """Raise InputError if the text is empty."""
    if not isinstance(text, str) or not text.strip():
        raise InputError("There is no text to decode: pass a text that is not empty.")


def describe_opening(model: Model, text: str) -> str:
    """Return the text before the first token: the start symbol, or the end of the prompt."""
    if model.shape.decoder is not None:
        return "<start>"
    words = escape_invisible(text).split()
    return ("… " if len(words) > 1 else "") + shorten(words[-1], 8) if words else "<start>"
