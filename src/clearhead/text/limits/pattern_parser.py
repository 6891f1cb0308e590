"""Parse a regular expression of the `tokenizers` library (Oniguruma with Ruby syntax) into a tree.

Only the syntax of published tokenizers is supported. Anything else is rejected, because checking a pattern is useless
if the library parses it differently.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import NoReturn

MAX_REPEATS = 1_000  # maximum n and m in `{n,m}`
MAX_DEPTH = 16  # nesting levels of groups
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
    is_possessive: bool = False

    @property
    def is_loop(self) -> bool:
        """Whether the repetition is unbounded or has a large range."""
        return self.max_repeats is None or self.max_repeats - self.min_repeats > MAX_BOUNDED_REPEATS

    @property
    def has_loop(self) -> bool:
        """Whether the element or one of its descendants is a loop."""
        return self.is_loop or any(element.has_loop for branch in self.body for element in branch)

    @property
    def is_optional(self) -> bool:
        """Whether the element may match zero times."""
        return self.min_repeats == 0

    @property
    def is_variable(self) -> bool:
        """Whether the element can match a text in several ways, or texts of different lengths."""
        has_variable_part = any(element.is_variable for branch in self.body for element in branch)
        return self.max_repeats != self.min_repeats or has_variable_part or (len(self.body) > 1 and not self.assertion)

    @property
    def min_length(self) -> int:
        """Minimum number of characters of a match."""
        body_length = min((sum(element.min_length for element in branch) for branch in self.body), default=1)
        return 0 if self.assertion else self.min_repeats * body_length

    @property
    def way_count(self) -> int:
        """Number of ways to match at one position, not counting different lengths of a loop."""
        if self.assertion:
            return 1
        body_ways = sum(count_ways(branch) for branch in self.body) or 1
        if self.is_loop or self.max_repeats is None:
            return body_ways
        return body_ways * (self.max_repeats - self.min_repeats + 1)

    @property
    def max_steps(self) -> int:
        """Maximum number of steps at one position, or per character of a loop."""
        body_steps = (
            sum(count_steps(branch) * (count_ways(branch) if self.assertion else 1) for branch in self.body) or 1
        )
        if self.is_loop or self.max_repeats is None:
            return body_steps * (self.min_repeats + 1)
        return body_steps * max(self.max_repeats, 1)


Branch = tuple[PatternElement, ...]


def count_ways(branch: Branch) -> int:
    """Count the ways in which an alternative can match at one position, ignoring the lengths of loops."""
    return prod(element.way_count for element in branch)


def count_steps(branch: Branch) -> int:
    """Return the maximum steps at one position: each element is tried for every way to match the preceding ones."""
    steps, ways = 0, 1
    for element in branch:
        steps += ways * element.max_steps
        ways *= element.way_count
    return steps


def parse_pattern(pattern: str) -> tuple[Branch, ...]:
    """Parse a pattern and return its alternatives."""
    parser = _PatternParser(pattern=pattern)
    branches = parser.parse_branches()
    if parser.position < len(pattern):
        _reject("unmatched closing parenthesis")
    return branches


def _reject(reason: str) -> NoReturn:
    raise UnboundedPatternError(reason)


@dataclass(kw_only=True)
class _PatternParser:
    pattern: str
    position: int = 0
    depth: int = 0
    folds_case: bool = False

    def peek(self, length: int = 1) -> str:
        return self.pattern[self.position : self.position + length]

    def take_character(self) -> str:
        if self.position >= len(self.pattern):
            _reject("unexpected end of the pattern")
        self.position += 1
        return self.pattern[self.position - 1]

    def parse_branches(self) -> tuple[Branch, ...]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            _reject("groups are nested too deeply")
        branches: list[Branch] = []
        elements: list[PatternElement] = []
        while (character := self.peek()) and character != ")":
            if character == "|":
                self.take_character()
                branches.append(tuple(elements))
                elements = []
            else:
                elements.append(self.parse_repetition(self.parse_element()))
        branches.append(tuple(elements))
        self.depth -= 1
        if not all(branches):
            _reject("an alternative is empty")
        return tuple(branches)

    def parse_element(self) -> PatternElement:
        character = self.take_character()
        if character == "(":
            return self.parse_group()
        if character in "^$":
            return PatternElement(assertion=character)
        if character in "*+?{":
            _reject("a repetition has nothing to repeat")
        if character == "\\":
            if self.peek() and self.peek() in ANCHOR_ESCAPES:
                return PatternElement(assertion=self.take_character())
            text = self.parse_escape(CLASS_ESCAPES)
        else:
            text = self.parse_class() if character == "[" else character
        if not self.folds_case:
            return PatternElement(text=text)
        if not text.isascii() or text.startswith("[^") or "\\" in text or "&&" in text:
            _reject("case is ignored outside of plain ASCII letters")  # one character may match several: ß, ss
        return PatternElement(text=f"(?i){text}")

    def parse_escape(self, classes: str) -> str:
        """Parse an escape sequence after its backslash."""
        character = self.take_character()
        if character in "pP":
            return f"\\{character}{{{self.parse_braces('a character property', _is_property)}}}"
        if character == "x" and self.peek() == "{":
            return f"\\x{{{self.parse_braces('a character code', HEXADECIMAL.issuperset)}}}"
        if character in "xu":
            length = 2 if character == "x" else 4
            digits = self.peek(length)
            if len(digits) != length or not HEXADECIMAL.issuperset(digits):
                _reject(f"\\{character} needs {length} hexadecimal digits")
            self.position += length
            return f"\\{character}{digits}"
        if character.isalnum() and character not in classes + CONTROL_ESCAPES:
            _reject(f"\\{character} is a back-reference or not supported")
        return f"\\{character}"

    def parse_braces(self, description: str, is_valid: Callable[[str], bool]) -> str:
        end = self.pattern.find("}", self.position)
        name = self.pattern[self.position + 1 : max(end, 0)]
        if self.peek() != "{" or end < 0 or not name or not is_valid(name):
            _reject(f"{description} is not closed or not supported")
        self.position = end + 1
        return name

    def parse_class(self) -> str:
        """Parse a character class after its opening bracket."""
        start, depth, at_start = self.position - 1, 1, True
        while depth:
            character = self.take_character()
            if character == "]" and at_start:
                _reject("a character class begins with an unescaped bracket")
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
                _reject("this kind of group is not supported")
            self.position += len(prefix)
        folds_case, self.folds_case = self.folds_case, self.folds_case or prefix == "?i:"
        body = self.parse_branches()
        self.folds_case = folds_case
        if self.peek() != ")":
            _reject("a group is not closed")
        self.take_character()
        if prefix in LOOKAROUNDS:
            if any(element.is_loop or element.body for branch in body for element in branch):
                _reject("a lookahead or lookbehind is unbounded or contains a group")
            return PatternElement(body=body, assertion=prefix)
        if len(body) == len(body[0]) == 1:
            return body[0][0]  # a group with a single element is that element
        return PatternElement(body=body)

    def parse_repetition(self, element: PatternElement) -> PatternElement:
        """Parse the repetition after an element, if there is one, and apply it."""
        operator = self.peek()
        if not operator or operator not in "*+?{":
            return element
        if operator == "{":
            min_repeats, max_repeats = self.parse_bounds()
        else:
            self.take_character()
            min_repeats, max_repeats = (1 if operator == "+" else 0), (1 if operator == "?" else None)
        is_possessive = self.peek() == "+" and operator != "{"
        is_nested = self.peek() == "+" and operator == "{"  # `a{1,3}+` is `(a{1,3})+` in this syntax
        if is_possessive or is_nested:
            self.take_character()
        if self.peek() == "?":
            _reject("lazy repetitions are not supported")
        if self.peek() and self.peek() in "*+{":
            _reject("a repetition is repeated")
        if element.assertion or (max_repeats != 1 and not element.min_length):
            _reject("an element that can match an empty text is repeated")
        if max_repeats != 1 and element.body and element.is_variable:
            _reject("a group that can match in several ways is repeated")
        if element.body and element.has_loop:
            _reject("a group with a repetition is repeated")
        if not element.body and (element.min_repeats, element.max_repeats) != (1, 1):
            if (element.min_repeats, max_repeats) != (1, 1):  # (a+)+, (a{2,3})*; but (a+)? is harmless
                _reject("a repetition is repeated")
            return replace(element, min_repeats=min_repeats, is_possessive=is_possessive or element.is_possessive)
        loop = replace(element, min_repeats=min_repeats, max_repeats=max_repeats, is_possessive=is_possessive)
        if loop.is_loop and (self.folds_case or any("(?i)" in text for text in _collect_texts(element))):
            _reject("an unbounded repetition ignores case")
        if not is_nested:
            return loop
        if loop.is_loop or not min_repeats:
            _reject("a repetition is repeated")
        return PatternElement(body=((loop,),), max_repeats=None)

    def parse_bounds(self) -> tuple[int, int | None]:
        """Parse the bounds of `{n}`, `{n,}`, `{,m}` or `{n,m}`."""
        end = self.pattern.find("}", self.position)
        min_digits, comma, max_digits = self.pattern[self.position + 1 : max(end, 0)].partition(",")
        if (
            end < 0
            or not (min_digits + max_digits).isascii()
            or not (min_digits + max_digits).isdigit()
            or (not comma and not min_digits)
        ):
            _reject("a brace is neither escaped nor part of a repetition")
        self.position = end + 1
        if (
            max(len(min_digits), len(max_digits)) > 4
            or int(min_digits or 0) > MAX_REPEATS
            or int(max_digits or 0) > MAX_REPEATS
        ):
            _reject(f"a repetition has a bound above {MAX_REPEATS:,}")
        min_repeats = int(min_digits or 0)
        max_repeats = None if comma and not max_digits else int(max_digits) if comma else min_repeats
        if max_repeats is not None and not min_repeats <= max_repeats:
            _reject("the bounds of a repetition are in the wrong order")
        return min_repeats, max_repeats


def _is_property(name: str) -> bool:
    return name.isascii() and name.removeprefix("^").replace("_", "").isalnum()


def _collect_texts(element: PatternElement) -> list[str]:
    return [element.text, *(text for branch in element.body for child in branch for text in _collect_texts(child))]
