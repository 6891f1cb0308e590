"""Whether a regular expression of a tokenizer file takes time in proportion to the text, whatever the text.

The `tokenizers` library matches by backtracking, so `(a+)+$` takes forever on a few dozen letters, and even `a*b` takes
hours on a megabyte of `a`. A pattern is accepted only if its form rules both out; every published one is of that form.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NoReturn

LONGEST = 5_000  # characters; published ones stay below 500
MOST_REPEATS = 1_000  # of `{n,m}`
DEEPEST = 16  # groups within groups
FEW = 16  # `{n,m}` with more room than this counts as without a limit
MOST_WAYS = 1_000  # to match at one place: the product of all optional parts and alternatives
ESCAPED_CLASSES = "dDsSwWhHRXNO"
ANCHORS = "bBAzZGK"
LOOKAROUNDS = ("?=", "?!", "?<=", "?<!")


class UnboundedPatternError(ValueError):
    """The pattern may take time out of all proportion to the text, or is not understood."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One element of a pattern: a character class, an assertion, or a group, with its repetition."""

    text: str  # of a class as it is written; empty for groups and assertions
    body: tuple[tuple[Part, ...], ...] = ()  # the alternatives of a group
    asserts: bool = False  # takes no characters
    least: int = 1
    most: int | None = 1  # None: no limit
    possessive: bool = False

    @property
    def loops(self) -> bool:
        """Whether it, or something in it, repeats without a limit, or with one that is no help."""
        wide = self.most is None or self.most - self.least > FEW
        return wide or any(part.loops for branch in self.body for part in branch)

    @property
    def ways(self) -> int:
        """In how many ways it can match at one place, not counting repetitions without a limit."""
        inner = sum(_ways(branch) for branch in self.body) or 1
        return inner * (1 if self.most is None or self.loops else self.most - self.least + 1)

    @property
    def varies(self) -> bool:
        """Whether it can match the same text in more than one way, or texts of different length."""
        inner = any(part.varies for branch in self.body for part in branch)
        return self.most != self.least or inner or len(self.body) > 1

    @property
    def optional(self) -> bool:
        """Whether the match goes on without it."""
        return self.least == 0


@dataclass(kw_only=True)
class _Reader:
    pattern: str
    place: int = 0
    depth: int = 0

    def refuse(self, why: str) -> NoReturn:
        raise UnboundedPatternError(why)

    def peek(self, length: int = 1) -> str:
        return self.pattern[self.place : self.place + length]

    def take(self) -> str:
        if self.place >= len(self.pattern):
            self.refuse("it ends too early")
        self.place += 1
        return self.pattern[self.place - 1]

    def branches(self) -> tuple[tuple[Part, ...], ...]:
        self.depth += 1
        if self.depth > DEEPEST:
            self.refuse("its groups are nested too deeply")
        found: list[tuple[Part, ...]] = []
        branch: list[Part] = []
        while self.place < len(self.pattern) and self.peek() != ")":
            if self.peek() == "|":
                self.take()
                found.append(tuple(branch))
                branch = []
            else:
                branch.append(self.repeated(self.part()))
        self.depth -= 1
        return (*found, tuple(branch))

    def part(self) -> Part:
        character = self.take()
        if character == "[":
            return Part(text=self.character_class())
        if character == "(":
            return self.group()
        if character in "^$":
            return Part(text="", asserts=True)
        if character in "*+?":
            self.refuse("a repetition has nothing to repeat")
        if character == "\\":
            return self.escaped()
        return Part(text=character)

    def escaped(self) -> Part:
        character = self.take()
        if character in "pP" and self.peek() == "{":
            end = self.pattern.find("}", self.place)
            name = self.pattern[self.place + 1 : end]
            if end < 0 or not name.strip("^").replace("_", "").isalnum():
                self.refuse("a character property is not closed")
            self.place = end + 1
            return Part(text=f"\\{character}{{{name}}}")
        if character == "x":
            return Part(text=f"\\x{self.hexadecimal()}")
        if character == "u":
            digits, self.place = self.peek(4), self.place + 4
            return Part(text=f"\\u{digits}")
        if character in ANCHORS:
            return Part(text="", asserts=True)
        if character.isdigit() or (character.isalpha() and character not in ESCAPED_CLASSES + "tnrfvae"):
            self.refuse(f"\\{character} refers to another part of the match, or is not known")
        return Part(text=f"\\{character}")

    def hexadecimal(self) -> str:
        if self.peek() != "{":
            digits, self.place = self.peek(2), self.place + 2
            return digits
        end = self.pattern.find("}", self.place)
        if end < 0:
            self.refuse("a character code is not closed")
        digits, self.place = self.pattern[self.place : end + 1], end + 1
        return digits

    def character_class(self) -> str:
        begin, depth = self.place, 1
        if self.peek() == "^":
            self.take()
        if self.peek() == "]":  # a literal one
            self.take()
        while depth:
            character = self.take()
            if character == "\\":
                self.take()
            elif character == "[":
                depth += 1
            elif character == "]":
                depth -= 1
        return self.pattern[begin - 1 : self.place]

    def group(self) -> Part:
        asserts = False
        if self.peek() == "?":
            marks = (*LOOKAROUNDS, "?:", "?>", "?i:")
            mark = next((one for one in marks if self.pattern.startswith(one, self.place)), "")
            if not mark:
                self.refuse("a group is of a kind that is not known")
            asserts = mark in LOOKAROUNDS
            self.place += len(mark)
        body = self.branches()
        if self.place >= len(self.pattern):
            self.refuse("a group is not closed")
        self.take()
        if asserts and any(part.loops or part.body for branch in body for part in branch):
            self.refuse("it looks ahead or behind without a limit")
        if len(body) == 1 and len(body[0]) == 1 and not asserts:
            return body[0][0]  # a group of one element is that element
        return Part(text="", body=body, asserts=asserts)

    def repeated(self, part: Part) -> Part:
        mark = self.peek()
        if mark == "{":
            bounds = self.bounds()
            if bounds is None:
                return part  # a literal brace: the next call reads it
            least, most = bounds
        elif mark and mark in "*+?":
            self.take()
            least, most = (1 if mark == "+" else 0), (1 if mark == "?" else None)
        else:
            return part
        possessive = self.peek() == "+" and mark != "{"
        if self.peek() and self.peek() in "?+" and (possessive or self.peek() == "?"):
            self.take()
        if self.peek() and self.peek() in "*+{":
            self.refuse("a repetition is repeated")
        if part.asserts:
            self.refuse("an assertion is repeated")
        whole = part.most == part.least == 1
        if not whole and not (most == 1 and not part.optional):  # (a+)+, (a{2,3})*; but (a+)? is harmless
            self.refuse("a repetition is repeated")
        if most != 1 and part.body and part.varies:
            self.refuse("a group that can match in several ways is repeated")
        if not whole:
            return Part(text=part.text, body=part.body, least=0, most=part.most)
        return Part(text=part.text, body=part.body, least=least, most=most, possessive=possessive)

    def bounds(self) -> tuple[int, int | None] | None:
        end = self.pattern.find("}", self.place)
        low, comma, high = self.pattern[self.place + 1 : max(end, 0)].partition(",")
        if end < 0 or not (low + high).isascii() or not (low + high).isdigit() or (not comma and not low):
            return None
        self.place = end + 1
        if max(len(low), len(high)) > 4 or int(low or 0) > MOST_REPEATS or int(high or 0) > MOST_REPEATS:
            self.refuse(f"it repeats more than {MOST_REPEATS:,} times")
        least = int(low or 0)
        return least, (None if comma and not high else int(high) if comma else least)


def check_pattern(pattern: str) -> None:
    """Refuse a pattern whose time cannot be bounded in proportion to the text."""
    if len(pattern) > LONGEST:
        raise UnboundedPatternError(f"it has more than {LONGEST:,} characters")
    reader = _Reader(pattern=pattern)
    branches = reader.branches()
    if reader.place < len(pattern):
        reader.refuse("a parenthesis closes nothing")
    branches = _unwrapped(branches)
    rescued = {part.text for branch in branches for part in _last_loops(branch)}
    for branch in branches:
        _check_branch(branch, rescued)


def _unwrapped(branches: tuple[tuple[Part, ...], ...]) -> tuple[tuple[Part, ...], ...]:
    """The alternatives of a pattern that stands in parentheses as a whole."""
    while len(branches) == 1 and len(branches[0]) == 1 and branches[0][0].body and branches[0][0].most == 1:
        branches = branches[0][0].body
    return branches


def _ways(branch: tuple[Part, ...]) -> int:
    return prod(part.ways for part in branch)


def _last_loops(branch: tuple[Part, ...]) -> list[Part]:
    """The repetitions after which nothing can fail any more: what they have taken is matched and never read again."""
    found: list[Part] = []
    for place in range(len(branch) - 1, -1, -1):
        if branch[place].most is None and all(other.optional for other in branch[:place]):
            found.append(branch[place])
        if not branch[place].optional:
            break
    return found


def _check_branch(branch: tuple[Part, ...], rescued: set[str]) -> None:
    """Refuse repetitions after which the match can fail, unless another alternative matches the same stretch.

    Without one, the stretch would be read again from each of its characters, and the time would grow as its square.
    """
    if _ways(branch) > MOST_WAYS:
        raise UnboundedPatternError("it can match in too many ways")
    open_loops: list[Part] = []
    for part in branch:
        if part.body and part.loops:
            if part.most is None or len(branch) > 1:
                raise UnboundedPatternError("a group with a repetition stands inside a longer pattern")
            for inner in part.body:
                _check_branch(inner, rescued)
        if open_loops and not part.optional:
            if len(open_loops) > 1:
                raise UnboundedPatternError("two repetitions stand before something that can fail")
            if open_loops[0].text not in rescued or not open_loops[0].text:
                raise UnboundedPatternError("something must follow a repetition, so a long run is read again and again")
        if part.loops and not part.body and not part.possessive:
            open_loops.append(part)
