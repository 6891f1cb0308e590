"""A regular expression as a tree, in the syntax of the `tokenizers` library (Oniguruma with Ruby's syntax).

Only the syntax that published tokenizers use is read. Everything else is refused: a pattern that is parsed in another
way here than in the library would be checked for nothing.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import NoReturn

MAX_REPEATS = 1_000  # of `{n,m}`
MAX_DEPTH = 16  # groups within groups
MAX_BOUNDED_REPEATS = 16  # `{n,m}` with more room than this counts as without a limit
CLASS_ESCAPES = "dDsSwWhH"
CONTROL_ESCAPES = "tnrfvae"
ANCHOR_ESCAPES = "bBAzZ"
LOOKAROUNDS = ("?=", "?!", "?<=", "?<!")
HEXADECIMAL = frozenset(string.hexdigits)


class UnboundedPatternError(ValueError):
    """The time of the pattern may be out of proportion to the text, or the pattern is not understood."""


@dataclass(frozen=True, kw_only=True)
class PatternElement:
    """One element of a pattern: a character class, an assertion or a group, with its repetition."""

    text: str = ""  # of a class as it is written, with its flags; empty for groups and assertions
    body: tuple[Branch, ...] = ()  # the alternatives of a group or a lookaround
    assertion: str = ""  # the kind of an assertion: it takes no characters
    min_repeats: int = 1
    max_repeats: int | None = 1  # None: no limit
    possessive: bool = False

    @property
    def is_loop(self) -> bool:
        """Whether it repeats without a limit, or with one that is no help."""
        return self.max_repeats is None or self.max_repeats - self.min_repeats > MAX_BOUNDED_REPEATS

    @property
    def has_loop(self) -> bool:
        """Whether it, or something in it, is a loop."""
        return self.is_loop or any(part.has_loop for branch in self.body for part in branch)

    @property
    def is_optional(self) -> bool:
        """Whether the match continues without it."""
        return self.min_repeats == 0

    @property
    def is_variable(self) -> bool:
        """Whether it can match the same text in more than one way, or texts of different length."""
        inner = any(part.is_variable for branch in self.body for part in branch)
        return self.max_repeats != self.min_repeats or inner or (len(self.body) > 1 and not self.assertion)

    @property
    def min_length(self) -> int:
        """The characters that it takes at least."""
        inner = min((sum(part.min_length for part in branch) for branch in self.body), default=1)
        return 0 if self.assertion else self.min_repeats * inner

    @property
    def ways(self) -> int:
        """In how many ways it can match at one position, not counting the lengths of a loop."""
        if self.assertion:
            return 1
        inner = sum(count_ways(branch) for branch in self.body) or 1
        return inner if self.is_loop or self.max_repeats is None else inner * (self.max_repeats - self.min_repeats + 1)

    @property
    def cost(self) -> int:
        """The most steps that it takes at one position, or for each character that a loop takes."""
        inner = sum(count_steps(branch) * (count_ways(branch) if self.assertion else 1) for branch in self.body) or 1
        return inner * (self.min_repeats + 1 if self.is_loop or self.max_repeats is None else max(self.max_repeats, 1))


Branch = tuple[PatternElement, ...]


def count_ways(branch: Branch) -> int:
    """In how many ways an alternative can match at one position, not counting the lengths of loops."""
    return prod(part.ways for part in branch)


def count_steps(branch: Branch) -> int:
    """The most steps of an alternative at one position: each part is tried for every way to match those before it."""
    steps, ways = 0, 1
    for part in branch:
        steps += ways * part.cost
        ways *= part.ways
    return steps


def parse_pattern(pattern: str) -> tuple[Branch, ...]:
    """The alternatives of a pattern."""
    reader = _Reader(pattern=pattern)
    branches = reader.branches()
    if reader.position < len(pattern):
        _refuse("a parenthesis closes nothing")
    return branches


def _refuse(why: str) -> NoReturn:
    raise UnboundedPatternError(why)


@dataclass(kw_only=True)
class _Reader:
    pattern: str
    position: int = 0
    depth: int = 0
    folds_case: bool = False

    def peek(self, length: int = 1) -> str:
        return self.pattern[self.position : self.position + length]

    def take(self) -> str:
        if self.position >= len(self.pattern):
            _refuse("it ends too early")
        self.position += 1
        return self.pattern[self.position - 1]

    def branches(self) -> tuple[Branch, ...]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            _refuse("its groups are nested too deeply")
        branches: list[Branch] = []
        branch: list[PatternElement] = []
        while (character := self.peek()) and character != ")":
            if character == "|":
                self.take()
                branches.append(tuple(branch))
                branch = []
            else:
                branch.append(self.repeated(self.part()))
        branches.append(tuple(branch))
        self.depth -= 1
        if not all(branches):
            _refuse("an alternative is empty")
        return tuple(branches)

    def part(self) -> PatternElement:
        character = self.take()
        if character == "(":
            return self.group()
        if character in "^$":
            return PatternElement(assertion=character)
        if character in "*+?{":
            _refuse("a repetition has nothing to repeat")
        if character == "\\":
            if self.peek() and self.peek() in ANCHOR_ESCAPES:
                return PatternElement(assertion=self.take())
            text = self.escaped(CLASS_ESCAPES)
        else:
            text = self.character_class() if character == "[" else character
        if not self.folds_case:
            return PatternElement(text=text)
        if not text.isascii() or text.startswith("[^") or "\\" in text or "&&" in text:
            _refuse("case is ignored outside of plain ASCII letters")  # one character may equal several: ß, ss
        return PatternElement(text=f"(?i){text}")

    def escaped(self, classes: str) -> str:
        """What stands behind a backslash, which has been read."""
        character = self.take()
        if character in "pP":
            return f"\\{character}{{{self.braced('a character property', _is_property)}}}"
        if character == "x" and self.peek() == "{":
            return f"\\x{{{self.braced('a character code', HEXADECIMAL.issuperset)}}}"
        if character in "xu":
            length = 2 if character == "x" else 4
            digits = self.peek(length)
            if len(digits) != length or not HEXADECIMAL.issuperset(digits):
                _refuse(f"\\{character} needs {length} hexadecimal digits")
            self.position += length
            return f"\\{character}{digits}"
        if character.isalnum() and character not in classes + CONTROL_ESCAPES:
            _refuse(f"\\{character} refers to another part of the match, or is not known")
        return f"\\{character}"

    def braced(self, what: str, is_valid: Callable[[str], bool]) -> str:
        end = self.pattern.find("}", self.position)
        name = self.pattern[self.position + 1 : max(end, 0)]
        if self.peek() != "{" or end < 0 or not name or not is_valid(name):
            _refuse(f"{what} is not closed, or not known")
        self.position = end + 1
        return name

    def character_class(self) -> str:
        """A class up to its end; the bracket that opens it has been read."""
        start, depth, opened = self.position - 1, 1, True
        while depth:
            character = self.take()
            if character == "]" and opened:
                _refuse("a character class begins with an unescaped bracket")
            if character == "\\":
                self.escaped(CLASS_ESCAPES + "b")
            depth += (character == "[") - (character == "]")
            opened = character == "[" or (opened and character == "^")
        return self.pattern[start : self.position]

    def group(self) -> PatternElement:
        mark = ""
        if self.peek() == "?":
            marks = (*LOOKAROUNDS, "?:", "?i:")
            mark = next((mark for mark in marks if self.pattern.startswith(mark, self.position)), "")
            if not mark:
                _refuse("a group is of a kind that is not known")
            self.position += len(mark)
        folds_case, self.folds_case = self.folds_case, self.folds_case or mark == "?i:"
        body = self.branches()
        self.folds_case = folds_case
        if self.peek() != ")":
            _refuse("a group is not closed")
        self.take()
        if mark in LOOKAROUNDS:
            if any(part.is_loop or part.body for branch in body for part in branch):
                _refuse("it looks ahead or behind without a limit")
            return PatternElement(body=body, assertion=mark)
        if len(body) == len(body[0]) == 1:
            return body[0][0]  # a group of one element is that element
        return PatternElement(body=body)

    def repeated(self, part: PatternElement) -> PatternElement:
        """The part with the repetition that follows it, if one does."""
        mark = self.peek()
        if not mark or mark not in "*+?{":
            return part
        if mark == "{":
            least, most = self.bounds()
        else:
            self.take()
            least, most = (1 if mark == "+" else 0), (1 if mark == "?" else None)
        possessive = self.peek() == "+" and mark != "{"
        nested = self.peek() == "+" and mark == "{"  # `a{1,3}+` is `(a{1,3})+` in this syntax
        if possessive or nested:
            self.take()
        if self.peek() == "?":
            _refuse("a repetition is lazy")
        if self.peek() and self.peek() in "*+{":
            _refuse("a repetition is repeated")
        if part.assertion or (most != 1 and not part.min_length):
            _refuse("something is repeated that takes no characters")
        if most != 1 and part.body and part.is_variable:
            _refuse("a group that can match in several ways is repeated")
        if part.body and part.has_loop:
            _refuse("a group with a repetition is repeated")
        if not part.body and (part.min_repeats, part.max_repeats) != (1, 1):
            if (part.min_repeats, most) != (1, 1):  # (a+)+, (a{2,3})*; but (a+)? is harmless
                _refuse("a repetition is repeated")
            return replace(part, min_repeats=least, possessive=possessive or part.possessive)
        repeated = replace(part, min_repeats=least, max_repeats=most, possessive=possessive)
        if repeated.is_loop and (self.folds_case or any("(?i)" in text for text in _texts(part))):
            _refuse("a repetition without a limit ignores case")
        if not nested:
            return repeated
        if repeated.is_loop or not least:
            _refuse("a repetition is repeated")
        return PatternElement(body=((repeated,),), max_repeats=None)

    def bounds(self) -> tuple[int, int | None]:
        """The numbers of `{n}`, `{n,}`, `{,m}` or `{n,m}`."""
        end = self.pattern.find("}", self.position)
        low, comma, high = self.pattern[self.position + 1 : max(end, 0)].partition(",")
        if end < 0 or not (low + high).isascii() or not (low + high).isdigit() or (not comma and not low):
            _refuse("a brace is neither escaped nor a repetition")
        self.position = end + 1
        if max(len(low), len(high)) > 4 or int(low or 0) > MAX_REPEATS or int(high or 0) > MAX_REPEATS:
            _refuse(f"it repeats more than {MAX_REPEATS:,} times")
        least = int(low or 0)
        most = None if comma and not high else int(high) if comma else least
        if most is not None and not least <= most:
            _refuse("the limits of a repetition are in the wrong order")
        return least, most


def _is_property(name: str) -> bool:
    return name.isascii() and name.removeprefix("^").replace("_", "").isalnum()


def _texts(part: PatternElement) -> list[str]:
    return [part.text, *(text for branch in part.body for inner in branch for text in _texts(inner))]
