"""Tokens as people read them: word pieces, bytes, control characters and very long texts made fit to show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.errors import InputError
from clearhead.explain.svg.text import escape_invisible, shorten
from clearhead.text.subwords import strip_subword_markers

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
    """One token: as the tokenizer writes it, as people read it, and short enough for a picture."""

    raw: str
    text: str  # the piece without its marks
    label: str  # what a picture shows
    tooltip: str  # what a tooltip shows
    starts_word: bool  # whether a word starts here
    special: bool


def label_tokens(tokens: Sequence[str], inserted: Sequence[bool] | None = None) -> list[Token]:
    """From the tokenizer's pieces (##ing, Ġthe, ▁the) to tokens with friendly labels.

    `inserted` tells which tokens the tokenizer put in; those with a special token's name count as such, too.
    """
    specials = [raw in SPECIAL or bool(inserted and inserted[index]) for index, raw in enumerate(tokens)]
    tokens_read = []
    for raw, (text, starts), special in zip(tokens, strip_subword_markers(tokens, specials), specials, strict=True):
        label = escape_invisible(_SYMBOLS.get(text, text))
        if not starts and text[:1].isalnum():
            label = f"-{label}"  # as in hyphenation: it belongs to the piece before
        plain = escape_invisible(raw) or "(empty)"
        tooltip = plain if plain == label else f"{label} (token: {plain})"
        tokens_read.append(Token(raw, text, shorten(label), tooltip, starts, special))
    return tokens_read


def spell_text(tokens: Sequence[Token]) -> str:
    """The text that the tokens spell, without special tokens; as much as a heading can hold."""
    pieces = (" " * token.starts_word + shorten(token.text, 30) for token in tokens if not token.special)
    return shorten(escape_invisible("".join(pieces)).strip(), 200)


def group_by_word(tokens: Sequence[Token]) -> list[list[int]]:
    """The places of each word's tokens."""
    groups: list[list[int]] = []
    for index, token in enumerate(tokens):
        if not groups or token.starts_word or token.special or tokens[index - 1].special:
            groups.append([])
        groups[-1].append(index)
    return groups


def spell_words(tokens: Sequence[Token], indices: Sequence[int]) -> list[str]:
    """The different words at these places, pieces in a row joined, short enough to show."""
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
    """Places of a word: an index, or a text (each token of that text, or the pieces that together spell it)."""
    if isinstance(word, bool) or not isinstance(word, int | str):
        raise InputError(f"word must be a token's number or its text, and it is {type(word).__name__}.")
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
    raise InputError(f"There is no token {escape_invisible(word)[:60]!r} in this text; its tokens are {have}.")


def _find_spelling(tokens: Sequence[Token], target: str, same: object) -> list[int]:
    """The pieces in a row that together give the word, wherever it stands."""
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
        raise InputError(f"word {index} is out of range: the {count} tokens are numbered 0 to {count - 1}.")
    return index
