"""Parse a regular expression of the `tokenizers` library (Oniguruma with Ruby syntax) into a tree.

Only the syntax of published tokenizers is supported. Anything else is rejected, because checking a pattern that the
library parses differently would be useless.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import NoReturn

MAX_REPEATS = 1_000  # maximum n and m in `{n,m}`
MAX_DEPTH = 16  # of nested groups
MAX_BOUNDED_REPEATS = 16  # `{n,m}` with a larger difference counts as unbounded
CLASS_ESCAPES = "dDsSwWhH"
CONTROL_ESCAPES = "tnrfvae"
ANCHOR_ESCAPES = "bBAzZ"
LOOKAROUNDS = ("?=", "?!", "?<=", "?<!")
HEXADECIMAL = frozenset(string.hexdigits)


class UnboundedPatternError(ValueError):
    """The pattern may take superlinear time, or its syntax is not supported."""


@dataclass(frozen=True, kw_only=True)
class PatternElement:
    """An element of a pattern: a character class, an assertion or a group, with its repetition."""

    text: str = ""  # source of a character class with its flags; empty for groups and assertions
    body: tuple[Branch, ...] = ()  # the alternatives of a group or a lookaround
    assertion: str = ""  # kind of a zero-width assertion; empty for other elements
    min_repeats: int = 1
    max_repeats: int | None = 1  # None: unbounded
    possessive: bool = False

    @property
    def is_loop(self) -> bool:
        """Whether the repetition is unbounded or has a large range."""
        return self.max_repeats is None or self.max_repeats - self.min_repeats > MAX_BOUNDED_REPEATS

    @property
    def has_loop(self) -> bool:
        """Whether the element or one of its descendants is a loop."""
        return self.is_loop or any(part.has_loop for branch in self.body for part in branch)

    @property
    def is_optional(self) -> bool:
        """Whether the element may match zero times."""
        return self.min_repeats == 0

    @property
    def is_variable(self) -> bool:
        """Whether the element can match a text in several ways, or texts of different lengths."""
        inner = any(part.is_variable for branch in self.body for part in branch)
        return self.max_repeats != self.min_repeats or inner or (len(self.body) > 1 and not self.assertion)

    @property
    def min_length(self) -> int:
        """Minimum number of characters of a match."""
        inner = min((sum(part.min_length for part in branch) for branch in self.body), default=1)
        return 0 if self.assertion else self.min_repeats * inner

    @property
    def ways(self) -> int:
        """Number of ways to match at one position, not counting different lengths of a loop."""
        if self.assertion:
            return 1
        inner = sum(count_ways(branch) for branch in self.body) or 1
        return inner if self.is_loop or self.max_repeats is None else inner * (self.max_repeats - self.min_repeats + 1)

    @property
    def cost(self) -> int:
        """Maximum number of steps at one position, or per character of a loop."""
        inner = sum(count_steps(branch) * (count_ways(branch) if self.assertion else 1) for branch in self.body) or 1
        return inner * (self.min_repeats + 1 if self.is_loop or self.max_repeats is None else max(self.max_repeats, 1))


Branch = tuple[PatternElement, ...]


def count_ways(branch: Branch) -> int:
    """Count the ways in which an alternative can match at one position, ignoring the lengths of loops."""
    return prod(part.ways for part in branch)


def count_steps(branch: Branch) -> int:
    """Return the maximum steps at one position: each element is tried for every way to match the preceding ones."""
    steps, ways = 0, 1
    for part in branch:
        steps += ways * part.cost
        ways *= part.ways
    return steps


def parse_pattern(pattern: str) -> tuple[Branch, ...]:
    """Parse a pattern and return its alternatives."""
    reader = _PatternParser(pattern=pattern)
    branches = reader.parse_branches()
    if reader.position < len(pattern):
        _refuse("unmatched closing parenthesis")
    return branches


def _refuse(reason: str) -> NoReturn:
    raise UnboundedPatternError(reason)


@dataclass(kw_only=True)
class _PatternParser:
    pattern: str
    position: int = 0
    depth: int = 0
    folds_case: bool = False

    def peek(self, length: int = 1) -> str:
        return self.pattern[self.position : self.position + length]

    def take(self) -> str:
        if self.position >= len(self.pattern):
            _refuse("unexpected end of the pattern")
        self.position += 1
        return self.pattern[self.position - 1]

    def parse_branches(self) -> tuple[Branch, ...]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            _refuse("groups are nested too deeply")
        branches: list[Branch] = []
        branch: list[PatternElement] = []
        while (character := self.peek()) and character != ")":
            if character == "|":
                self.take()
                branches.append(tuple(branch))
                branch = []
            else:
                branch.append(self.parse_repetition(self.parse_element()))
        branches.append(tuple(branch))
        self.depth -= 1
        if not all(branches):
            _refuse("an alternative is empty")
        return tuple(branches)

    def parse_element(self) -> PatternElement:
        character = self.take()
        if character == "(":
            return self.parse_group()
        if character in "^$":
            return PatternElement(assertion=character)
        if character in "*+?{":
            _refuse("a repetition has nothing to repeat")
        if character == "\\":
            if self.peek() and self.peek() in ANCHOR_ESCAPES:
                return PatternElement(assertion=self.take())
            text = self.parse_escape(CLASS_ESCAPES)
        else:
            text = self.parse_class() if character == "[" else character
        if not self.folds_case:
            return PatternElement(text=text)
        if not text.isascii() or text.startswith("[^") or "\\" in text or "&&" in text:
            _refuse("case is ignored outside of plain ASCII letters")  # one character may match several: ß, ss
        return PatternElement(text=f"(?i){text}")

    def parse_escape(self, classes: str) -> str:
        """Parse an escape sequence after its backslash."""
        character = self.take()
        if character in "pP":
            return f"\\{character}{{{self.parse_braces('a character property', _is_property)}}}"
        if character == "x" and self.peek() == "{":
            return f"\\x{{{self.parse_braces('a character code', HEXADECIMAL.issuperset)}}}"
        if character in "xu":
            length = 2 if character == "x" else 4
            digits = self.peek(length)
            if len(digits) != length or not HEXADECIMAL.issuperset(digits):
                _refuse(f"\\{character} needs {length} hexadecimal digits")
            self.position += length
            return f"\\{character}{digits}"
        if character.isalnum() and character not in classes + CONTROL_ESCAPES:
            _refuse(f"\\{character} is a back-reference or not supported")
        return f"\\{character}"

    def parse_braces(self, description: str, is_valid: Callable[[str], bool]) -> str:
        end = self.pattern.find("}", self.position)
        name = self.pattern[self.position + 1 : max(end, 0)]
        if self.peek() != "{" or end < 0 or not name or not is_valid(name):
            _refuse(f"{description} is not closed or not supported")
        self.position = end + 1
        return name

    def parse_class(self) -> str:
        """Parse a character class after its opening bracket."""
        start, depth, at_start = self.position - 1, 1, True
        while depth:
            character = self.take()
            if character == "]" and at_start:
                _refuse("a character class begins with an unescaped bracket")
            if character == "\\":
                self.parse_escape(CLASS_ESCAPES + "b")
            depth += (character == "[") - (character == "]")
            at_start = character == "[" or (at_start and character == "^")
        return self.pattern[start : self.position]

    def parse_group(self) -> PatternElement:
        prefix = ""
        if self.peek() == "?":
            prefixes = (*LOOKAROUNDS, "?:", "?i:")
            prefix = next((prefix for prefix in prefixes if self.pattern.startswith(prefix, self.position)), "")
            if not prefix:
                _refuse("this kind of group is not supported")
            self.position += len(prefix)
        folds_case, self.folds_case = self.folds_case, self.folds_case or prefix == "?i:"
        body = self.parse_branches()
        self.folds_case = folds_case
        if self.peek() != ")":
            _refuse("a group is not closed")
        self.take()
        if prefix in LOOKAROUNDS:
            if any(part.is_loop or part.body for branch in body for part in branch):
                _refuse("a lookahead or lookbehind is unbounded or contains a group")
            return PatternElement(body=body, assertion=prefix)
        if len(body) == len(body[0]) == 1:
            return body[0][0]  # a group with a single element is that element
        return PatternElement(body=body)

    def parse_repetition(self, part: PatternElement) -> PatternElement:
        """Parse the repetition after an element, if there is one, and apply it."""
        operator = self.peek()
        if not operator or operator not in "*+?{":
            return part
        if operator == "{":
            min_repeats, max_repeats = self.parse_bounds()
        else:
            self.take()
            min_repeats, max_repeats = (1 if operator == "+" else 0), (1 if operator == "?" else None)
        possessive = self.peek() == "+" and operator != "{"
        nested = self.peek() == "+" and operator == "{"  # `a{1,3}+` is `(a{1,3})+` in this syntax
        if possessive or nested:
            self.take()
        if self.peek() == "?":
            _refuse("lazy repetitions are not supported")
        if self.peek() and self.peek() in "*+{":
            _refuse("a repetition is repeated")
        if part.assertion or (max_repeats != 1 and not part.min_length):
            _refuse("an element that can match an empty text is repeated")
        if max_repeats != 1 and part.body and part.is_variable:
            _refuse("a group that can match in several ways is repeated")
        if part.body and part.has_loop:
            _refuse("a group with a repetition is repeated")
        if not part.body and (part.min_repeats, part.max_repeats) != (1, 1):
            if (part.min_repeats, max_repeats) != (1, 1):  # (a+)+, (a{2,3})*; but (a+)? is harmless
                _refuse("a repetition is repeated")
            return replace(part, min_repeats=min_repeats, possessive=possessive or part.possessive)
        loop = replace(part, min_repeats=min_repeats, max_repeats=max_repeats, possessive=possessive)
        if loop.is_loop and (self.folds_case or any("(?i)" in text for text in _collect_texts(part))):
            _refuse("an unbounded repetition ignores case")
        if not nested:
            return loop
        if loop.is_loop or not min_repeats:
            _refuse("a repetition is repeated")
        return PatternElement(body=((loop,),), max_repeats=None)

    def parse_bounds(self) -> tuple[int, int | None]:
        """Parse the bounds of `{n}`, `{n,}`, `{,m}` or `{n,m}`."""
        end = self.pattern.find("}", self.position)
        low, comma, high = self.pattern[self.position + 1 : max(end, 0)].partition(",")
        if end < 0 or not (low + high).isascii() or not (low + high).isdigit() or (not comma and not low):
            _refuse("a brace is neither escaped nor part of a repetition")
        self.position = end + 1
        if max(len(low), len(high)) > 4 or int(low or 0) > MAX_REPEATS or int(high or 0) > MAX_REPEATS:
            _refuse(f"a repetition has a bound above {MAX_REPEATS:,}")
        min_repeats = int(low or 0)
        max_repeats = None if comma and not high else int(high) if comma else min_repeats
        if max_repeats is not None and not min_repeats <= max_repeats:
            _refuse("the bounds of a repetition are in the wrong order")
        return min_repeats, max_repeats


def _is_property(name: str) -> bool:
    return name.isascii() and name.removeprefix("^").replace("_", "").isalnum()


def _collect_texts(part: PatternElement) -> list[str]:
    return [part.text, *(text for branch in part.body for inner in branch for text in _collect_texts(inner))]
