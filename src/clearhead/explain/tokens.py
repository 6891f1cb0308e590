"""Make tokens readable: subword markers, bytes, control characters and very long tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clearhead.errors import InputError
from clearhead.explain.svg.text import escape_invisible, shorten
from clearhead.text.subwords import find_start_marker, strip_subword_markers

if TYPE_CHECKING:
    from clearhead.model import Model

SPECIAL = frozenset(
    {
        "[CLS]",
        "[SEP]",
        "[PAD]",
        "[BOS]",
        "[EOS]",
        "<s>",
        "</s>",
        "<pad>",
        "<bos>",
        "<eos>",
        "<start>",
        "<end>",
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
    }
)
_SYMBOLS = {"": "(empty)", " ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥"}


@dataclass(frozen=True)
class Token:
    """A token: raw, as readable text, and as a label."""

    raw: str
    text: str  # without subword markers
    label: str  # shortened, for pictures
    tooltip: str  # full label, for tooltips
    starts_word: bool  # whether a word starts here
    special: bool


def label_tokens(tokens: Sequence[str], inserted: Sequence[bool] | None = None) -> list[Token]:
    """Convert raw tokens (##ing, Ġthe, ▁the) to tokens with readable labels.

    `inserted` marks tokens that the tokenizer added; tokens with the name of a special token are special, too.
    """
    specials = [raw in SPECIAL or bool(inserted and inserted[index]) for index, raw in enumerate(tokens)]
    tokens_read = []
    for raw, (text, starts), special in zip(tokens, strip_subword_markers(tokens, specials), specials, strict=True):
        label = escape_invisible(_SYMBOLS.get(text, text))
        if not starts and text[:1].isalnum():
            label = f"-{label}"  # as in hyphenation: a continuation of the previous token
        visible_raw = escape_invisible(raw) or "(empty)"
        tooltip = visible_raw if visible_raw == label else f"{label} (token: {visible_raw})"
        tokens_read.append(Token(raw, text, shorten(label), tooltip, starts, special))
    return tokens_read


def spell_text(tokens: Sequence[Token]) -> str:
    """Join the tokens to text without special tokens, shortened for a heading."""
    texts = (" " * token.starts_word + shorten(token.text, 30) for token in tokens if not token.special)
    return shorten(escape_invisible("".join(texts)).strip(), 200)


def group_by_word(tokens: Sequence[Token]) -> list[list[int]]:
    """Group token indices by word."""
    groups: list[list[int]] = []
    for index, token in enumerate(tokens):
        if not groups or token.starts_word or token.special or tokens[index - 1].special:
            groups.append([])
        groups[-1].append(index)
    return groups


def spell_words(tokens: Sequence[Token], indices: Sequence[int]) -> list[str]:
    """Return the distinct words at these indices; consecutive subwords are joined."""
    runs: list[list[int]] = []
    for index in indices:
        joins = runs and runs[-1][-1] == index - 1 and not tokens[index].starts_word and not tokens[index].special
        runs[-1].append(index) if joins else runs.append([index])
    spellings = (
        tokens[run[0]].label if len(run) == 1 else shorten(escape_invisible("".join(tokens[i].text for i in run)))
        for run in runs
    )
    return list(dict.fromkeys(spellings))


def find_word(tokens: Sequence[Token], word: int | str) -> list[int]:
    """Return the token indices of a word, given as an index or as text (of a token, or of several subwords)."""
    if isinstance(word, bool) or not isinstance(word, int | str):
        raise InputError(f"word must be a token index or a text, got {type(word).__name__}.")
    if isinstance(word, int):
        return [_check_index(word, len(tokens))]
    for same in (lambda text: text, str.casefold):
        target = same(word)
        if matches := [i for i, token in enumerate(tokens) if target in (same(token.raw), same(token.text))]:
            return matches
        if matches := _find_spelling(tokens, re.sub(r"\s", "", target), same):
            return matches
    if re.fullmatch(r"[0-9]{1,9}", word):
        return [_check_index(int(word), len(tokens))]
    have = ", ".join(token.label for token in tokens[:40]) + (", ..." if len(tokens) > 40 else "")
    raise InputError(f"There is no token {escape_invisible(word)[:60]!r} in this text; expected one of {have}.")


def _find_spelling(tokens: Sequence[Token], target: str, same: object) -> list[int]:
    """Return the indices of all token sequences that spell the word."""
    matches: list[int] = []
    for first in range(len(tokens)):
        spelled = ""
        for index in range(first, len(tokens)):
            spelled += same(tokens[index].text)  # type: ignore[operator]
            if spelled == target:
                matches.extend(range(first, index + 1))
            if tokens[index].special or not target.startswith(spelled) or spelled == target:
                break
    return matches


def _check_index(index: int, count: int) -> int:
    if not 0 <= index < count:
        raise InputError(f"word {index} is out of range: the {count} tokens are numbered from 0 to {count - 1}.")
    return index


def label_token_ids(model: Model, ids: Sequence[int]) -> dict[int, Token]:
    """Return a display token for each id of the target vocabulary."""
    tokenizer = model.target_tokenizer or model.tokenizer
    # a few tokens may not show how the vocabulary marks word starts
    start_marker = find_start_marker(tokenizer.vocab)
    unique_ids = sorted(set(ids))
    shown_tokens = label_tokens([*([] if start_marker is None else [start_marker]), *tokenizer.tokens(unique_ids)])
    return dict(zip(unique_ids, shown_tokens if start_marker is None else shown_tokens[1:], strict=True))


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
