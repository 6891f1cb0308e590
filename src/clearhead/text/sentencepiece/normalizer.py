"""SentencePiece's normalisation, character by character, with the way back to the original text.

The Rust library has one as well, but it looks at grapheme clusters first and so differs for stacked accents. Marian's
reference is SentencePiece itself, so this one follows SentencePiece: at each place the longest rule of the table wins.
"""

from __future__ import annotations

import struct

from clearhead.errors import TokenizerError
from clearhead.text.sentencepiece.model_file import USER_DEFINED, SentencePieceModel
from clearhead.text.sentencepiece.trie import STEPS_PER_CHARACTER, StepBudget, build_literal_trie, find_longest_match
from clearhead.text.subwords import METASPACE

MAX_REPLACEMENT_BYTES = 1024  # bytes of one replacement; Unicode's own longest has 33, and more could fill the memory
MAX_RULE_LENGTH = 64  # characters that one rule replaces; Unicode's own longest has 4
MAX_CHARSMAP_BYTES = 4 << 20  # bytes; the tables of NFKC and of case folding have 250,000
MAX_CACHED_RULES = 50_000  # characters and pairs; a long-lived server must not remember all that it ever saw
MAX_FREE_CHARACTERS = 8  # of a replacement that needs no look at what is left of the budget
STEPS_PER_RULE_CHARACTER = 20  # steps, for each character that is followed in the table


class Charsmap:
    """A table of rules in a double-array trie: 4 bytes of size, the trie, then the replacements, each ended by NUL."""

    def __init__(self, data: bytes, name: str) -> None:
        self._name = name
        if len(data) > MAX_CHARSMAP_BYTES:
            raise TokenizerError(f"{name}: the table of normalization has more than {MAX_CHARSMAP_BYTES:,} bytes")
        size = int.from_bytes(data[:4], "little") if len(data) >= 4 else 0
        if data and (size % 4 or not 0 < size <= len(data) - 4):
            raise TokenizerError(f"{name}: the table of normalisation is damaged")
        self._units: tuple[int, ...] = struct.unpack(f"<{size // 4}I", data[4 : 4 + size])
        self._replacements = data[4 + size :]
        self._single: dict[str, tuple[int | None, str]] = {}  # what a character alone becomes, and where it leads
        self._settled: dict[str, tuple[str, int]] = {}  # answers that two characters decide, or the last one alone

    def match_longest(self, text: str, start: int, budget: StepBudget) -> tuple[str, int]:
        """What the text from here on begins with after normalisation, and how many characters that takes."""
        return self._settled.get(text[start : start + 2]) or self._follow(text, start, budget)

    def _follow(self, text: str, start: int, budget: StepBudget) -> tuple[str, int]:
        if len(self._settled) > MAX_CACHED_RULES or len(self._single) > MAX_CACHED_RULES:
            self._settled, self._single = {}, {}
        first = text[start]
        known = self._single.get(first)
        if known is None:
            node, rule = self._walk(self._root(), first)
            known = self._single[first] = (node, first if rule is None else rule)
        node, best = known
        taken, position = 1, start
        for position in range(start + 1, min(start + MAX_RULE_LENGTH + 1, len(text))):
            node, rule = self._walk(node, text[position])
            if rule is not None:
                best, taken = rule, position - start + 1
            if node is None:
                break
        if position - start == MAX_RULE_LENGTH and node is not None:  # a table may also lead back into itself
            raise TokenizerError(f"{self._name}: a rule of normalization has more than {MAX_RULE_LENGTH} characters")
        budget.spend(STEPS_PER_RULE_CHARACTER * (position - start))
        if position == start or (position == start + 1 and node is None):
            self._settled[text[start : start + 2]] = (best, taken)
        return best, taken

    def _root(self) -> int | None:
        return self._offset(self._units[0]) if self._units else None

    def _walk(self, node: int | None, character: str) -> tuple[int | None, str | None]:
        """Follow one character; the new place, None if no rule goes there, and the replacement if a rule ends there."""
        unit = 0
        for byte in character.encode():
            if node is None:
                return None, None
            place = node ^ byte
            unit = self._unit(place)
            if unit & 0x800000FF != byte:  # the unit's label
                return None, None
            node = place ^ self._offset(unit)
        if node is None or not unit >> 8 & 1:  # no rule ends here
            return node, None
        start = self._unit(node) & 0x7FFFFFFF
        end = self._replacements.find(b"\0", start, start + MAX_REPLACEMENT_BYTES)
        if end < 0:
            raise TokenizerError(f"{self._name}: the table of normalisation points outside of itself")
        return node, self._replacements[start:end].decode("utf-8", "replace")

    def _unit(self, place: int) -> int:
        if place >= len(self._units):
            raise TokenizerError(f"{self._name}: the table of normalisation points outside of itself")
        return self._units[place]

    @staticmethod
    def _offset(unit: int) -> int:
        return (unit >> 10) << ((unit & 0x200) >> 6)


class SentencePieceNormalizer:
    """Text as SentencePiece sees it: rules applied, blanks collapsed and written as ▁, one ▁ in front."""

    def __init__(self, model: SentencePieceModel, name: str) -> None:
        if model.whitespace_is_suffix or not model.escape_whitespaces:
            raise TokenizerError(f"{name} treats blanks in a way that is not supported")
        self._map = Charsmap(model.charsmap, name)
        self._collapse = model.remove_extra_whitespaces
        self._prefix = model.add_dummy_prefix
        # User-defined pieces pass through untouched, the longest first.
        self._users = build_literal_trie((p.text for p in model.pieces if p.kind == USER_DEFINED), name)
        self._next = self._user_or_rule if self._users else self._map.match_longest

    def normalize(self, text: str, budget: StepBudget) -> tuple[str, list[int]]:
        """The normalised text, and for each of its characters, and its end, the place in the original."""
        start = 0
        while self._collapse and start < len(text):
            head, taken = self._next(text, start, budget)
            if head != " ":
                break
            start += taken
        if start == len(text):
            return "", [0]
        letters = [METASPACE] if self._prefix else []
        origins = [start] if self._prefix else []
        after_space = self._collapse
        while start < len(text):
            part, taken = self._next(text, start, budget)
            if len(part) > MAX_FREE_CHARACTERS:
                budget.spend(STEPS_PER_CHARACTER * len(part))
            if after_space:
                part = part.lstrip(" ")
            if len(part) == 1:  # nearly always
                letters.append(METASPACE if part == " " else part)
                origins.append(start)
                after_space = self._collapse and part == " "
            elif part:
                letters.extend(part.replace(" ", METASPACE))
                origins.extend([start] * len(part))
                after_space = self._collapse and part.endswith(" ")
            start += taken
        while self._collapse and letters and letters[-1] == METASPACE:
            letters.pop()
            start = origins.pop()
        budget.spend(STEPS_PER_CHARACTER * len(letters))
        return "".join(letters), [*origins, start]

    def _user_or_rule(self, text: str, start: int, budget: StepBudget) -> tuple[str, int]:
        if text[start] in self._users and (end := find_longest_match(self._users, text, start, budget)) > start:
            return text[start:end], end - start
        return self._map.match_longest(text, start, budget)
