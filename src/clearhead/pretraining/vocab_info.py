"""Vocabulary facts that pre-training objectives need, read from a tokenizer."""

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
    """Vocabulary facts that pre-training objectives need."""

    size: int
    is_special: Array  # (size,): tokens that are never targets
    is_continuation: Array  # (size,): tokens that continue a word
    ordinary_ids: Array  # tokens that may replace a target at random
    prefix_ids: tuple[int, ...] = ()  # before a text, ...
    separator_ids: tuple[int, ...] = ()  # ... between two, ...
    suffix_ids: tuple[int, ...] = ()  # ... and after the last
    mask_id: int | None = None
    eos_id: int | None = None
    sentinel_ids: tuple[int, ...] = ()  # of span corruption, in order of use
    decoder_start_id: int | None = None  # first input of a decoder
    mask_rate: float = 0.15  # share of tokens that are targets
    masking: Masking = "tokens"


def read_vocab_info(
    tokenizer: Tokenizer, *, mask_rate: float = 0.15, masking: Masking = "tokens", decoder_start_id: int | None = None
) -> VocabInfo:
    """Read the special tokens of a tokenizer, the template around texts, and which tokens continue words."""
    size = max(tokenizer.vocab.values()) + 1
    tokens: list[str] = [""] * size
    for token, token_id in tokenizer.vocab.items():
        tokens[token_id] = token
    is_special = np.array([not token for token in tokens])
    sentinel_ids = [tokenizer.vocab[name] for n in range(100) if (name := f"<extra_id_{n}>") in tokenizer.vocab]
    for token_id in (
        *sentinel_ids,
        *(tokenizer.vocab.get(token, -1) for token in tokenizer.special_tokens_map.values()),
    ):
        if token_id >= 0:
            is_special[token_id] = True
    prefix_ids, separator_ids, suffix_ids = _find_template(tokenizer)
    return VocabInfo(
        size=size,
        is_special=is_special,
        is_continuation=np.array(find_continuations(tokens)) & ~is_special,
        ordinary_ids=np.flatnonzero(~is_special),
        prefix_ids=prefix_ids,
        separator_ids=separator_ids,
        suffix_ids=suffix_ids,
        mask_id=tokenizer.mask_id,
        eos_id=tokenizer.eos_id,
        sentinel_ids=tuple(sentinel_ids),
        decoder_start_id=decoder_start_id,
        mask_rate=mask_rate,
        masking=masking,
    )


def _find_template(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Find the ids before, between and after two texts by encoding a pair."""
    encoding = tokenizer.encode("a", "a")
    sides = [0 if side is None else side + 1 for side in encoding.sides]
    if 1 not in sides or 2 not in sides:
        raise InputError(
            "The tokenizer returns no token for the letter a, so its template for pairs cannot be determined."
        )
    first_start, second_end = sides.index(1), len(sides) - 1 - sides[::-1].index(2)
    first_end, second_start = len(sides) - 1 - sides[::-1].index(1), sides.index(2)
    ids = tuple(encoding.ids)
    return ids[:first_start], ids[first_end + 1 : second_start], ids[second_end + 1 :]
