"""What objectives of pre-training need to know of a vocabulary, read from a tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from clearhead.errors import InputError
from clearhead.text.subwords import find_continuations

if TYPE_CHECKING:
    from clearhead.text import Tokenizer

Array = np.ndarray[Any, Any]
Masking = Literal["tokens", "words", "spans"]


@dataclass(frozen=True, kw_only=True)
class VocabInfo:
    """What objectives need to know of a vocabulary."""

    size: int
    is_special: Array  # (size,): tokens that are never asked about
    is_continuation: Array  # (size,): tokens that go on with the word before them
    ordinary_ids: Array  # ids of tokens that may stand for any other
    prefix_ids: tuple[int, ...] = ()  # what stands before a text, ...
    separator_ids: tuple[int, ...] = ()  # ... between two, ...
    suffix_ids: tuple[int, ...] = ()  # ... and after the last
    mask_id: int | None = None
    eos_id: int | None = None
    sentinel_ids: tuple[int, ...] = ()  # of span corruption, in the order in which they are used
    decoder_start_id: int | None = None  # what a decoder begins with
    mask_rate: float = 0.15  # of the tokens that are asked about
    masking: Masking = "tokens"


def read_vocab_info(
    tokenizer: Tokenizer, *, rate: float = 0.15, masking: Masking = "tokens", start: int | None = None
) -> VocabInfo:
    """Read a tokenizer's special tokens, what it puts around texts, and which tokens begin words."""
    size = max(tokenizer.vocab.values()) + 1
    tokens: list[str] = [""] * size
    for token, number in tokenizer.vocab.items():
        tokens[number] = token
    special = np.array([not token for token in tokens])
    sentinels = [tokenizer.vocab[name] for n in range(100) if (name := f"<extra_id_{n}>") in tokenizer.vocab]
    for number in (*sentinels, *(tokenizer.vocab.get(token, -1) for token in tokenizer.special_tokens_map.values())):
        if number >= 0:
            special[number] = True
    opens, between, closes = _find_template(tokenizer)
    return VocabInfo(
        size=size,
        is_special=special,
        is_continuation=np.array(find_continuations(tokens)) & ~special,
        ordinary_ids=np.flatnonzero(~special),
        prefix_ids=opens,
        separator_ids=between,
        suffix_ids=closes,
        mask_id=tokenizer.mask_id,
        eos_id=tokenizer.eos_id,
        sentinel_ids=tuple(sentinels),
        decoder_start_id=start,
        mask_rate=rate,
        masking=masking,
    )


def _find_template(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """What a tokenizer puts before, between and after two texts, found by giving it two."""
    made = tokenizer.encode("a", "a")
    sides = [0 if side is None else side + 1 for side in made.sides]
    if 1 not in sides or 2 not in sides:
        raise InputError("The tokenizer gives no token for the letter a, so that texts cannot be put together with it.")
    first, last = sides.index(1), len(sides) - 1 - sides[::-1].index(2)
    end_of_first, begin_of_second = len(sides) - 1 - sides[::-1].index(1), sides.index(2)
    ids = tuple(made.ids)
    return ids[:first], ids[end_of_first + 1 : begin_of_second], ids[last + 1 :]
