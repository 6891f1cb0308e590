"""Select the tokens and the initial word of an attention picture, and report hidden attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.explain.tokens import Token, find_word, group_by_word
from clearhead.explain.trace_view import AttentionView, is_causal, mask_informative_links

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

UNKNOWN = ("[UNK]", "<unk>")


def select_tokens(tokens: Sequence[Token], special: bool) -> list[int]:
    """Return the indices of the tokens to show: without special tokens, unless `special` or there are no others."""
    return [index for index, token in enumerate(tokens) if special or not token.special] or list(range(len(tokens)))


def needs_special_tokens(attention: AttentionView, special: bool, words: Sequence[int] | None) -> bool:
    """Whether special tokens are shown: if `special`, or if the requested word is one."""
    return special or any(attention.queries[index].special for index in words or ())


def find_requested_word(attention: AttentionView, word: int | str | None) -> list[int] | None:
    """Return the token indices of the requested word, or None without one."""
    return None if word is None else find_word(attention.queries, word)


def find_informative_word(attention: AttentionView) -> list[int]:
    """Return the token indices of the word that a picture opens on if none is requested.

    In an encoder, this is the word with the most attention from other words, averaged over their tokens, all heads and
    all layers; of its tokens, the one with most attention counts. In causal models and in cross-attention, it is the
    word with the most focused attention (sum of squared probabilities). Special tokens do not count, and punctuation is
    never selected. Ties go to the first word.
    """
    words = _find_words(attention.queries)
    if not words:
        return select_tokens(attention.queries, special=False)[:1]
    if attention.part == "encoder" and not is_causal(attention):
        mean = np.mean([layer.probs.mean(0) for layer in attention.layers], 0)
        return max(words, key=lambda word: _mean_attention_to(mean, attention.queries, word))
    for mask in (mask_informative_links(attention), _mask_other_words(attention)):
        focus = np.mean([np.where(mask, layer.probs**2, 0.0).sum(-1).mean(0) for layer in attention.layers], 0)
        if focus.max() > 0:
            return max(words, key=lambda word: round(float(focus[word].mean()), 6))
    return words[-1]


def _find_words(tokens: Sequence[Token]) -> list[list[int]]:
    """Return the words with letters or digits, without attached punctuation."""
    words = []
    for group in group_by_word(tokens):
        spoken = [index for index in group if _has_letters(tokens[index])]
        if spoken and not tokens[group[0]].special:
            words.append([index for index in group if spoken[0] <= index <= spoken[-1]])
    return words


def _has_letters(token: Token) -> bool:
    return token.raw not in UNKNOWN and any(character.isalnum() for character in token.text)


def _mean_attention_to(mean: Array, tokens: Sequence[Token], word: Sequence[int]) -> float:
    others = [index for index, token in enumerate(tokens) if not token.special and index not in word]
    return round(float(mean[np.ix_(others, list(word))].mean(0).max()), 6) if others else 0.0


def _mask_other_words(attention: AttentionView) -> Array:
    """Mask the links between different tokens that are not special, for very short texts."""
    mask = np.ones((len(attention.queries), len(attention.keys)), bool)
    mask[[token.special for token in attention.queries]] = False
    mask[:, [token.special for token in attention.keys]] = False
    if attention.part != "cross":
        np.fill_diagonal(mask, val=False)
    return mask


def sum_hidden_probs(probs: Array, keys: Sequence[int]) -> Array:
    """Return the probability of each query on hidden keys; the last axis of `probs` is the keys."""
    is_hidden = np.ones(probs.shape[-1], bool)
    is_hidden[list(keys)] = False
    return probs[..., is_hidden].sum(-1)  # type: ignore[no-any-return]


def describe_hidden_share(share: float, subject: str = "Special tokens are hidden") -> str:
    """Describe the share of attention on hidden tokens."""
    return f"{subject}: they get {share:.0%} of the attention; the probabilities are the model's own, not renormalized."
