"""SentencePiece's normalisation, character by character, with the way back to the original text.

The Rust library has one as well, but it looks at grapheme clusters first and so differs for stacked accents. Marian's
reference is SentencePiece itself, so this one follows SentencePiece: at each place the longest rule of the table wins.
"""

from __future__ import annotations

import struct

from clearhead.errors import TokenizerError
from clearhead.text.pieces import USER_DEFINED, PieceModel

SPACE = "▁"
LONGEST = 1024  # bytes of one replacement; Unicode's own longest has 33, and more could fill the memory
REMEMBERED = 100_000  # characters and pairs; a long-lived server must not remember all that it ever saw


class Charsmap:
    """A table of rules in a double-array trie: 4 bytes of size, the trie, then the replacements, each ended by NUL."""

    def __init__(self, data: bytes, name: str) -> None:
        self._name = name
        size = int.from_bytes(data[:4], "little") if len(data) >= 4 else 0
        if data and (size % 4 or not 0 < size <= len(data) - 4):
            raise TokenizerError(f"{name}: the table of normalisation is damaged")
        self._units: tuple[int, ...] = struct.unpack(f"<{size // 4}I", data[4 : 4 + size])
        self._replacements = data[4 + size :]
        self._single: dict[str, tuple[int | None, str]] = {}  # what a character alone becomes, and where it leads
        self._dead: set[str] = set()  # two characters that no rule starts with

    def longest(self, text: str, start: int) -> tuple[str, int]:
        """What the text from here on begins with after normalisation, and how many characters that takes."""
        first = text[start]
        if len(self._dead) > REMEMBERED or len(self._single) > REMEMBERED:
            self._dead, self._single = set(), {}
        if first not in self._single:
            node, rule = self._walk(self._root(), first)
            self._single[first] = (node, first if rule is None else rule)
        node, best = self._single[first]
        taken = 1
        pair = text[start : start + 2]
        if node is None or len(pair) < 2 or pair in self._dead:
            return best, taken
        for position in range(start + 1, len(text)):
            node, rule = self._walk(node, text[position])
            if node is None and position == start + 1:
                self._dead.add(pair)
            if rule is not None:
                best, taken = rule, position - start + 1
            if node is None:
                break
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
        end = self._replacements.find(b"\0", start, start + LONGEST)
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


class PieceNormalizer:
    """Text as SentencePiece sees it: rules applied, blanks collapsed and written as ▁, one ▁ in front."""

    def __init__(self, model: PieceModel, name: str) -> None:
        if model.whitespace_is_suffix or not model.escape_whitespaces:
            raise TokenizerError(f"{name} treats blanks in a way that is not supported")
        self._map = Charsmap(model.charsmap, name)
        self._collapse = model.remove_extra_whitespaces
        self._prefix = model.add_dummy_prefix
        # User-defined pieces pass through untouched, the longest first.
        users = sorted((p.text for p in model.pieces if p.kind == USER_DEFINED and p.text), key=len, reverse=True)
        self._users: dict[str, list[str]] = {}
        for user in users:
            self._users.setdefault(user[0], []).append(user)

    def normalize(self, text: str) -> tuple[str, list[int]]:
        """The normalised text, and for each of its characters, and its end, the place in the original."""
        start = 0
        while self._collapse and start < len(text):
            head, taken = self._next(text, start)
            if head != " ":
                break
            start += taken
        if start == len(text):
            return "", [0]
        letters = [SPACE] if self._prefix else []
        origins = [start] if self._prefix else []
        after_space = self._collapse
        while start < len(text):
            part, taken = self._next(text, start)
            if after_space:
                part = part.lstrip(" ")
            if part:
                letters.extend(part.replace(" ", SPACE))
                origins.extend([start] * len(part))
                after_space = self._collapse and part.endswith(" ")
            start += taken
        while self._collapse and letters and letters[-1] == SPACE:
            letters.pop()
            start = origins.pop()
        return "".join(letters), [*origins, start]

    def _next(self, text: str, start: int) -> tuple[str, int]:
        for user in self._users.get(text[start], ()):
            if text.startswith(user, start):
                return user, len(user)
        return self._map.longest(text, start)
