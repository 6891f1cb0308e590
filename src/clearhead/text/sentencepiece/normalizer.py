"""SentencePiece normalization with a mapping from each character to its position in the original text.

The `tokenizers` library matches grapheme clusters first and therefore differs for stacked accents. Marian's reference
is SentencePiece itself, so this module follows SentencePiece: at each position the longest rule of the table wins.
"""

from __future__ import annotations

import struct

from clearhead.errors import TokenizerError
from clearhead.text.sentencepiece.model_file import USER_DEFINED, SentencePieceModel
from clearhead.text.sentencepiece.trie import STEPS_PER_CHARACTER, StepBudget, build_literal_trie, find_longest_match
from clearhead.text.subwords import METASPACE

MAX_REPLACEMENT_BYTES = 1024  # per replacement; the longest in Unicode has 33, and longer ones could exhaust memory
MAX_RULE_LENGTH = 64  # characters that one rule replaces; the longest in Unicode has 4
MAX_CHARSMAP_BYTES = 4 << 20  # the tables of NFKC and case folding have 250,000 bytes
MAX_CACHED_RULES = 50_000  # characters and pairs; limits the memory of long-running servers
MAX_FREE_CHARACTERS = 8  # replacements up to this length are not charged to the budget
STEPS_PER_RULE_CHARACTER = 20  # cost of each character that is looked up in the table


class Charsmap:
    """A precompiled table of rules: the trie size (4 bytes), a double-array trie and NUL-terminated replacements."""

    def __init__(self, data: bytes, name: str) -> None:
        self._name = name
        if len(data) > MAX_CHARSMAP_BYTES:
            raise TokenizerError(f"{name}: the normalization table has more than {MAX_CHARSMAP_BYTES:,} bytes.")
        trie_size = int.from_bytes(data[:4], "little") if len(data) >= 4 else 0
        if data and (trie_size % 4 or not 0 < trie_size <= len(data) - 4):
            raise TokenizerError(f"{name}: the normalization table is corrupt.")
        self._units: tuple[int, ...] = struct.unpack(f"<{trie_size // 4}I", data[4 : 4 + trie_size])
        self._replacements = data[4 + trie_size :]
        # trie node and replacement after the first character
        self._single_matches: dict[str, tuple[int | None, str]] = {}
        self._match_cache: dict[str, tuple[str, int]] = {}  # matches that the next two characters determine

    def match_longest(self, text: str, start: int, budget: StepBudget) -> tuple[str, int]:
        """Return the replacement of the longest match at `start` and the number of characters matched."""
        return self._match_cache.get(text[start : start + 2]) or self._match_uncached(text, start, budget)

    def _match_uncached(self, text: str, start: int, budget: StepBudget) -> tuple[str, int]:
        if len(self._match_cache) > MAX_CACHED_RULES or len(self._single_matches) > MAX_CACHED_RULES:
            self._match_cache, self._single_matches = {}, {}
        first = text[start]
        single_match = self._single_matches.get(first)
        if single_match is None:
            node, rule_replacement = self._follow_character(self._get_root(), first)
            single_match = self._single_matches[first] = (node, first if rule_replacement is None else rule_replacement)
        node, replacement = single_match
        length, position = 1, start
        for position in range(start + 1, min(start + MAX_RULE_LENGTH + 1, len(text))):
            node, rule_replacement = self._follow_character(node, text[position])
            if rule_replacement is not None:
                replacement, length = rule_replacement, position - start + 1
            if node is None:
                break
        if position - start == MAX_RULE_LENGTH and node is not None:  # a corrupt table may contain cycles
            raise TokenizerError(f"{self._name}: a normalization rule has more than {MAX_RULE_LENGTH} characters.")
        budget.spend(STEPS_PER_RULE_CHARACTER * (position - start))
        if position == start or (position == start + 1 and node is None):
            self._match_cache[text[start : start + 2]] = (replacement, length)
        return replacement, length

    def _get_root(self) -> int | None:
        return self._decode_offset(self._units[0]) if self._units else None

    def _follow_character(self, node: int | None, character: str) -> tuple[int | None, str | None]:
        """Follow one character; return the next node or None, and the replacement if a rule ends there."""
        unit = 0
        for byte in character.encode():
            if node is None:
                return None, None
            index = node ^ byte
            unit = self._get_unit(index)
            if unit & 0x800000FF != byte:  # the unit's label
                return None, None
            node = index ^ self._decode_offset(unit)
        if node is None or not unit >> 8 & 1:  # no rule ends here
            return node, None
        start = self._get_unit(node) & 0x7FFFFFFF
        end = self._replacements.find(b"\0", start, start + MAX_REPLACEMENT_BYTES)
        if end < 0:
            raise TokenizerError(f"{self._name}: the normalization table contains an offset out of range.")
        return node, self._replacements[start:end].decode("utf-8", "replace")

    def _get_unit(self, index: int) -> int:
        if index >= len(self._units):
            raise TokenizerError(f"{self._name}: the normalization table contains an offset out of range.")
        return self._units[index]

    @staticmethod
    def _decode_offset(unit: int) -> int:
        return (unit >> 10) << ((unit & 0x200) >> 6)


class SentencePieceNormalizer:
    """Normalize text as SentencePiece does: apply rules, collapse whitespace and replace it by ▁, prepend ▁."""

    def __init__(self, model: SentencePieceModel, name: str) -> None:
        if model.whitespace_is_suffix or not model.escape_whitespaces:
            raise TokenizerError(
                f"{name}: whitespace as suffix (treat_whitespace_as_suffix) and unescaped whitespace "
                "(escape_whitespaces: false) are not supported."
            )
        self._charsmap = Charsmap(model.charsmap, name)
        self._collapse_whitespace = model.remove_extra_whitespaces
        self._add_prefix = model.add_dummy_prefix
        # User-defined pieces are not normalized; the longest match wins.
        self._user_defined = build_literal_trie(
            (piece.text for piece in model.pieces if piece.kind == USER_DEFINED), name
        )
        self._match_next = self._match_user_defined_or_rule if self._user_defined else self._charsmap.match_longest

    def normalize(self, text: str, budget: StepBudget) -> tuple[str, list[int]]:
        """Return the normalized text and the original position of each of its characters and of its end."""
        start = 0
        while self._collapse_whitespace and start < len(text):
            replacement, length = self._match_next(text, start, budget)
            if replacement != " ":
                break
            start += length
        if start == len(text):
            return "", [0]
        characters = [METASPACE] if self._add_prefix else []
        origins = [start] if self._add_prefix else []
        after_space = self._collapse_whitespace
        while start < len(text):
            replacement, length = self._match_next(text, start, budget)
            if len(replacement) > MAX_FREE_CHARACTERS:
                budget.spend(STEPS_PER_CHARACTER * len(replacement))
            if after_space:
                replacement = replacement.lstrip(" ")
            if len(replacement) == 1:  # by far the most frequent case
                characters.append(METASPACE if replacement == " " else replacement)
                origins.append(start)
                after_space = self._collapse_whitespace and replacement == " "
            elif replacement:
                characters.extend(replacement.replace(" ", METASPACE))
                origins.extend([start] * len(replacement))
                after_space = self._collapse_whitespace and replacement.endswith(" ")
            start += length
        while self._collapse_whitespace and characters and characters[-1] == METASPACE:
            characters.pop()
            start = origins.pop()
        budget.spend(STEPS_PER_CHARACTER * len(characters))
        return "".join(characters), [*origins, start]

    def _match_user_defined_or_rule(self, text: str, start: int, budget: StepBudget) -> tuple[str, int]:
        if (
            text[start] in self._user_defined
            and (end := find_longest_match(self._user_defined, text, start, budget)) > start
        ):
            return text[start:end], end - start
        return self._charsmap.match_longest(text, start, budget)
