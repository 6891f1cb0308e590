"""Pipelines that read each word alone, so that a long text is counted without reading a word twice.

BERT's pipeline splits at blanks before anything looks at two characters together. The tokens of a text are then those
of its words, one after another: its first tokens come from its first words, and the rest is counted word by word, the
same word once. The library looks up every stretch of a word from the longest on, which takes seconds for a megabyte
of long words; here a stretch grows only as long as some token begins with it.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from clearhead.text.subwords import CONTINUATION
from clearhead.text.words import has_long_word

BLANKS = " \n\t\r"  # what every step takes for a blank
LOCAL_NORMALIZERS = frozenset({"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents"})
WORD_SPLITTERS = frozenset({"BertPreTokenizer", "Whitespace", "WhitespaceSplit"})
LOCAL_SPLITTERS = WORD_SPLITTERS | {"Punctuation", "Digits"}
MODELS = frozenset({"WordPiece", "WordLevel"})
MAX_GROUP_CHARACTERS = 16_384  # characters of words that are counted in one text


@dataclass(frozen=True, kw_only=True)
class WordTokenCounter:
    """What is known of a pipeline that reads each word alone."""

    cut_characters: str  # before these characters a text can be cut without changing a token
    added_tokens: tuple[str, ...]  # tokens that are found in the text before anything else
    pieces: frozenset[str]
    prefixes: frozenset[str] = field(repr=False)
    continuation_prefix: str  # before a piece that continues a word
    max_word_length: int  # characters of a word; a longer one is unknown

    def take_first_words(self, text: str, size: int) -> str:
        """The words that end within the first `size` characters; all of a text that cannot be cut there."""
        if len(text) <= size:
            return text
        end = max(text.rfind(sign, 0, size) for sign in self.cut_characters)
        return text if end <= 0 else text[:end]

    def is_slow(self, text: str) -> bool:
        """Whether the library would take long for the words of a text."""
        return bool(self.pieces) and has_long_word(text)

    def has_added_token(self, text: str) -> bool:
        """Whether a text may hold an added token, in upper or lower case."""
        lower = text.lower()
        return any(token.lower() in lower for token in self.added_tokens)

    def count_tokens(self, words: list[str]) -> int:
        """How many tokens words have, as they are after all splitting."""
        return sum(map(self._count_word, words))

    def _count_word(self, word: str) -> int:
        """The longest piece first, again and again; a word that is not all pieces is one unknown token."""
        if len(word) > self.max_word_length:
            return 1
        start, count, before = 0, 0, ""
        while start < len(word):
            found, end = 0, start + 1
            while end <= len(word) and (part := before + word[start:end]) in self.prefixes:
                if part in self.pieces:
                    found = end
                end += 1
            if not found:
                return 1
            start, count, before = found, count + 1, self.continuation_prefix
        return count


def build_word_token_counter(data: dict[str, Any]) -> WordTokenCounter | None:
    """How a tokenizer.json reads words, if it makes the same tokens of a text as of its words, cut at blanks."""
    normalizers = [step.get("type") for step in _steps(data.get("normalizer"), "normalizers")]
    splits = [step.get("type") for step in _steps(data.get("pre_tokenizer"), "pretokenizers")]
    added = tuple(token["content"] for token in data.get("added_tokens", []))
    model = data.get("model", {})
    if (
        model.get("type") not in MODELS
        or not LOCAL_NORMALIZERS.issuperset(normalizers)
        or not LOCAL_SPLITTERS.issuperset(splits)
        or WORD_SPLITTERS.isdisjoint(splits)
        or not all(map(_is_plain, added))
    ):
        return None
    # an underscore is part of a word to added tokens that must stand alone
    signs = string.punctuation.replace("_", "") if "BertPreTokenizer" in splits else ""
    pieces = frozenset(model.get("vocab", {}) if model.get("type") == "WordPiece" else ())
    return WordTokenCounter(
        cut_characters=BLANKS + "".join(sign for sign in signs if not any(sign in token for token in added)),
        added_tokens=added,
        pieces=pieces,
        prefixes=frozenset(piece[:end] for piece in pieces for end in range(1, len(piece) + 1)),
        continuation_prefix=model.get("continuing_subword_prefix", CONTINUATION),
        max_word_length=model.get("max_input_chars_per_word", 100),
    )


def _is_plain(token: str) -> bool:
    """Whether an added token has no blank, and nothing that a normalizer turns into one, such as Chinese letters."""
    return token.isascii() and token.isprintable() and " " not in token


def group_words_by_frequency(text: str) -> Iterator[tuple[int, str]]:
    """Each word of a text once, in stretches of words that are equally frequent, with how frequent they are."""
    for blank in BLANKS[1:]:
        text = text.replace(blank, " ")
    groups: dict[int, list[str]] = {}
    for word, frequency in Counter(text.split(" ")).items():
        groups.setdefault(frequency, []).append(word)
    for frequency, words in groups.items():
        some: list[str] = []
        size = 0
        for word in words:
            some.append(word)
            size += len(word) + 1
            if size > MAX_GROUP_CHARACTERS:
                yield frequency, " ".join(some)
                some, size = [], 0
        if some:
            yield frequency, " ".join(some)


def _steps(step: dict[str, Any] | None, inner: str) -> Iterator[dict[str, Any]]:
    if step is None:
        return
    if step.get("type") == "Sequence":
        for one in step.get(inner, []):
            yield from _steps(one, inner)
    else:
        yield step
