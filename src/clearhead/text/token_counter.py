"""Count the tokens of long texts, for pipelines that tokenize each word independently.

BERT's pipeline splits text at whitespace before any other step. The tokens of a text are therefore the concatenated
tokens of its words: its first tokens come from its first words, and the others can be counted once per distinct word.
The `tokenizers` library looks up every substring of a word, longest first, which takes seconds for a megabyte of long
words. This module extends a substring only while it is a prefix of some token.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from clearhead.text.subwords import CONTINUATION
from clearhead.text.words import has_long_word

WHITESPACE = " \n\t\r"  # whitespace in every step of a pipeline
LOCAL_NORMALIZERS = frozenset({"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents"})
WORD_PRE_TOKENIZERS = frozenset({"BertPreTokenizer", "Whitespace", "WhitespaceSplit"})
LOCAL_PRE_TOKENIZERS = WORD_PRE_TOKENIZERS | {"Punctuation", "Digits"}
WORD_MODELS = frozenset({"WordPiece", "WordLevel"})
MAX_GROUP_CHARACTERS = 16_384  # words are tokenized together up to this many characters


@dataclass(frozen=True, kw_only=True)
class WordTokenCounter:
    """Vocabulary and splitting rules of a pipeline that tokenizes each word independently."""

    boundary_characters: str  # a text can be split before any of these without changing a token
    added_tokens: tuple[str, ...]  # tokens that are matched before the text is split
    pieces: frozenset[str]
    prefixes: frozenset[str] = field(repr=False)
    continuation_prefix: str  # marker of a piece within a word
    max_word_length: int  # in characters; longer words are unknown tokens

    def get_first_words(self, text: str, max_length: int) -> str:
        """Return the words within the first `max_length` characters, or the text if it cannot be split there."""
        if len(text) <= max_length:
            return text
        end = max(text.rfind(character, 0, max_length) for character in self.boundary_characters)
        return text if end <= 0 else text[:end]

    def has_slow_words(self, text: str) -> bool:
        """Whether a text has words that the `tokenizers` library processes slowly."""
        return bool(self.pieces) and has_long_word(text)

    def has_added_token(self, text: str) -> bool:
        """Whether a text contains an added token, ignoring case."""
        lower = text.lower()
        return any(token.lower() in lower for token in self.added_tokens)

    def count_tokens(self, words: list[str]) -> int:
        """Count the tokens of words that are already normalized and split."""
        return sum(map(self._count_pieces, words))

    def _count_pieces(self, word: str) -> int:
        """Count the pieces of a word by greedy longest match; a word that cannot be segmented is one unknown token."""
        if len(word) > self.max_word_length:
            return 1
        start, count, prefix = 0, 0, ""
        while start < len(word):
            piece_end, end = 0, start + 1
            while end <= len(word) and (candidate := prefix + word[start:end]) in self.prefixes:
                if candidate in self.pieces:
                    piece_end = end
                end += 1
            if not piece_end:
                return 1
            start, count, prefix = piece_end, count + 1, self.continuation_prefix
        return count


def build_word_token_counter(data: dict[str, Any]) -> WordTokenCounter | None:
    """Build a counter for a tokenizer.json, or return None if its pipeline does not tokenize words independently."""
    normalizers = [step.get("type") for step in _flatten_steps(data.get("normalizer"), "normalizers")]
    pre_tokenizers = [step.get("type") for step in _flatten_steps(data.get("pre_tokenizer"), "pretokenizers")]
    added_tokens = tuple(token["content"] for token in data.get("added_tokens", []))
    model = data.get("model", {})
    if (
        model.get("type") not in WORD_MODELS
        or not LOCAL_NORMALIZERS.issuperset(normalizers)
        or not LOCAL_PRE_TOKENIZERS.issuperset(pre_tokenizers)
        or WORD_PRE_TOKENIZERS.isdisjoint(pre_tokenizers)
        or not all(map(_is_plain_ascii, added_tokens))
    ):
        return None
    # `single_word` added tokens treat an underscore as part of a word
    boundary_punctuation = string.punctuation.replace("_", "") if "BertPreTokenizer" in pre_tokenizers else ""
    pieces = frozenset(model.get("vocab", {}) if model.get("type") == "WordPiece" else ())
    added_characters = frozenset("".join(added_tokens))
    return WordTokenCounter(
        boundary_characters=WHITESPACE + "".join(c for c in boundary_punctuation if c not in added_characters),
        added_tokens=added_tokens,
        pieces=pieces,
        prefixes=frozenset(piece[:end] for piece in pieces for end in range(1, len(piece) + 1)),
        continuation_prefix=model.get("continuing_subword_prefix", CONTINUATION),
        max_word_length=model.get("max_input_chars_per_word", 100),
    )


def _is_plain_ascii(token: str) -> bool:
    """Whether an added token has no spaces and no characters that normalizers surround with spaces, such as Chinese."""
    return token.isascii() and token.isprintable() and " " not in token


def group_words_by_frequency(text: str) -> Iterator[tuple[int, str]]:
    """Yield the distinct words of a text, joined into groups of equal frequency, each with that frequency."""
    for character in WHITESPACE[1:]:
        text = text.replace(character, " ")
    words_by_frequency: dict[int, list[str]] = {}
    for word, frequency in Counter(text.split(" ")).items():
        words_by_frequency.setdefault(frequency, []).append(word)
    for frequency, words in words_by_frequency.items():
        group: list[str] = []
        size = 0
        for word in words:
            group.append(word)
            size += len(word) + 1
            if size > MAX_GROUP_CHARACTERS:
                yield frequency, " ".join(group)
                group, size = [], 0
        if group:
            yield frequency, " ".join(group)


def _flatten_steps(step: dict[str, Any] | None, steps_key: str) -> Iterator[dict[str, Any]]:
    if step is None:
        return
    if step.get("type") == "Sequence":
        for inner_step in step.get(steps_key, []):
            yield from _flatten_steps(inner_step, steps_key)
    else:
        yield step
