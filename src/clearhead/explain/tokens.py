"""Tokens as people read them: word pieces, bytes, control characters and very long texts made fit to show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.errors import InputError
from clearhead.explain.svg.text import shorten, visible
from clearhead.text.subwords import read_subwords

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
_SIGNS = {"": "(empty)", " ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥"}


@dataclass(frozen=True)
class Token:
    """One token: as the tokenizer writes it, as people read it, and short enough for a picture."""

    raw: str
    text: str  # the piece without its marks
    label: str  # what a picture shows
    whole: str  # what a tooltip shows
    starts: bool  # whether a word starts here
    special: bool


def read_tokens(tokens: Sequence[str], inserted: Sequence[bool] | None = None) -> list[Token]:
    """From the tokenizer's pieces (##ing, Ġthe, ▁the) to tokens with friendly labels.

    `inserted` tells which tokens the tokenizer put in; those with a special token's name count as such, too.
    """
    specials = [raw in SPECIAL or bool(inserted and inserted[place]) for place, raw in enumerate(tokens)]
    made = []
    for raw, (text, starts), special in zip(tokens, read_subwords(tokens, specials), specials, strict=True):
        shown = visible(_SIGNS.get(text, text))
        if not starts and text[:1].isalnum():
            shown = f"-{shown}"  # as in hyphenation: it belongs to the piece before
        plain = visible(raw) or "(empty)"
        whole = plain if plain == shown else f"{shown} (token: {plain})"
        made.append(Token(raw, text, shorten(shown), whole, starts, special))
    return made


def read(tokens: Sequence[Token]) -> str:
    """The text that the tokens spell, without special tokens; as much as a heading can hold."""
    pieces = (" " * token.starts + shorten(token.text, 30) for token in tokens if not token.special)
    return shorten(visible("".join(pieces)).strip(), 200)


def word_groups(tokens: Sequence[Token]) -> list[list[int]]:
    """The places of each word's tokens."""
    made: list[list[int]] = []
    for place, token in enumerate(tokens):
        if not made or token.starts or token.special or tokens[place - 1].special:
            made.append([])
        made[-1].append(place)
    return made


def spelled_words(tokens: Sequence[Token], places: Sequence[int]) -> list[str]:
    """The different words at these places, pieces in a row joined, short enough to show."""
    made: list[list[int]] = []
    for place in places:
        joins = made and made[-1][-1] == place - 1 and not tokens[place].starts and not tokens[place].special
        made[-1].append(place) if joins else made.append([place])
    whole = (
        tokens[run[0]].label if len(run) == 1 else shorten(visible("".join(tokens[i].text for i in run)))
        for run in made
    )
    return list(dict.fromkeys(whole))


def find_word(tokens: Sequence[Token], word: int | str) -> list[int]:
    """Places of a word: an index, or a text (each token of that text, or the pieces that together spell it)."""
    if isinstance(word, bool) or not isinstance(word, int | str):
        raise InputError(f"word must be a token's number or its text, and it is {type(word).__name__}.")
    if isinstance(word, int):
        return [_place(word, len(tokens))]
    for same in (lambda text: text, str.casefold):
        wanted = same(word)
        if found := [i for i, token in enumerate(tokens) if wanted in (same(token.raw), same(token.text))]:
            return found
        if found := _spelled(tokens, re.sub(r"\s", "", wanted), same):
            return found
    if re.fullmatch(r"[0-9]{1,9}", word):
        return [_place(int(word), len(tokens))]
    have = ", ".join(token.label for token in tokens[:40]) + (", ..." if len(tokens) > 40 else "")
    raise InputError(f"There is no token {visible(word)[:60]!r} in this text; its tokens are {have}.")


def _spelled(tokens: Sequence[Token], wanted: str, same: object) -> list[int]:
    """The pieces in a row that together give the word, wherever it stands."""
    found: list[int] = []
    for first in range(len(tokens)):
        spelled = ""
        for place in range(first, len(tokens)):
            spelled += same(tokens[place].text)  # type: ignore[operator]
            if spelled == wanted:
                found.extend(range(first, place + 1))
            if tokens[place].special or not wanted.startswith(spelled) or spelled == wanted:
                break
    return found


def _place(place: int, count: int) -> int:
    if not 0 <= place < count:
        raise InputError(f"word {place} is out of range: the {count} tokens are numbered 0 to {count - 1}.")
    return place
