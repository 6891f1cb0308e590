"""Whether a regular expression of a tokenizer file takes time in proportion to the text, whatever the text.

The `tokenizers` library matches by backtracking, so `(a+)+$` takes forever on a few dozen letters, and even `a*b` takes
hours on a megabyte of `a`: it reads the run again from each of its characters. A pattern is accepted only if its form
rules both out; every published one is of that form.

An alternative is a bounded prefix, a loop over one character class, and what follows. If what follows can fail, the run
that the loop has read must be taken by another alternative (its rescue), or the next search reads the run again. The
rescue may stand before the failing one. If it stands behind it, each alternative between them must be a greedy loop
over the same class, too: the longest match ends where what follows matches for the last time in the run, so that such
an alternative matches once in a run, and the run is read at most once more for each of them. No rescue is needed where
a lookbehind lets the loop start only at the beginning of a run.
"""

from __future__ import annotations

from clearhead.text.limits.pattern_parser import (
    Branch,
    PatternElement,
    UnboundedPatternError,
    count_steps,
    parse_pattern,
)

MAX_PATTERN_LENGTH = 5_000  # characters; published ones stay below 1,000
MAX_STEPS = 500  # for each character of a text; published ones need at most 306
NEGATED_CLASSES = {r"\s": r"\S", r"\w": r"\W", r"\d": r"\D", r"\S": r"\s", r"\W": r"\w", r"\D": r"\d"}


def check_pattern(pattern: str) -> None:
    """Refuse a pattern whose time cannot be bounded in proportion to the text."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise UnboundedPatternError(f"it has more than {MAX_PATTERN_LENGTH:,} characters")
    branches = _flatten(parse_pattern(pattern))
    failing = [_failing_loop(branch) for branch in branches]
    for place, loop in enumerate(failing):
        if loop is not None and not _is_rescued(branches, place, loop.text):
            raise UnboundedPatternError("something must follow a repetition, so a long run is read again and again")
    readings = 1 + sum(loop is not None for loop in failing)
    if readings * sum(count_steps(branch) for branch in branches) > MAX_STEPS:
        raise UnboundedPatternError(f"it can take more than {MAX_STEPS:,} steps for each character")


def anchor_at_run_start(pattern: str) -> str:
    r"""The same matches in bounded time for a pattern such as `\s+$` (DeepSeek V2): a loop, then only assertions.

    What can follow the loop depends on the position alone, so whatever fails from the first character of a run fails
    from every other one, and nothing is left to match behind the longest match.
    """
    branches = parse_pattern(pattern)
    loop, *rest = branches[0]
    is_whole_run = loop.text and (loop.min_repeats, loop.max_repeats) == (1, None)
    if len(branches) > 1 or not is_whole_run or not rest or not all(part.assertion for part in rest):
        return pattern
    return f"(?<!{loop.text}){pattern}"


def depends_on_position(pattern: str) -> bool:
    """Whether a pattern can match nothing, or looks at what stands around a match: it may match at any border."""
    branches = parse_pattern(pattern)
    return any(sum(part.min_length for part in branch) == 0 or _has_assertion(branch) for branch in branches)


def _has_assertion(branch: Branch) -> bool:
    return any(part.assertion or any(map(_has_assertion, part.body)) for part in branch)


def _flatten(branches: tuple[Branch, ...]) -> list[Branch]:
    """The alternatives, those of an alternative that is nothing but a group too."""
    flat: list[Branch] = []
    for branch in branches:
        group = branch[0]
        is_group = (
            len(branch) == 1 and group.body and not group.assertion and group.min_repeats == group.max_repeats == 1
        )
        flat.extend(_flatten(group.body) if is_group else [branch])
    return flat


def _failing_loop(branch: Branch) -> PatternElement | None:
    """The loop after which the alternative can fail, if it has one."""
    if any(inner.has_loop for part in branch for alternative in part.body for inner in alternative):
        raise UnboundedPatternError("a group with a repetition stands inside a longer pattern")
    loops = [
        place
        for place, part in enumerate(branch)
        if part.is_loop and not all(later.is_optional for later in branch[place + 1 :])
    ]
    if not loops:
        return None
    if len(loops) > 1:
        raise UnboundedPatternError("two repetitions stand before something that can fail")
    loop = branch[loops[0]]
    if not loop.text:
        raise UnboundedPatternError("something must follow the repetition of a group")
    return None if _backs_off(branch, loops[0]) or _starts_run(branch, loops[0]) else loop


def _backs_off(branch: Branch, place: int) -> bool:
    r"""Whether a loop takes all of a run but for its last character, as in `\s+(?!\S)`: only short runs fail."""
    loop, rest = branch[place], branch[place + 1 :]
    if loop.max_repeats is not None or loop.possessive or len(rest) != 1 or loop.text not in NEGATED_CLASSES:
        return False
    return rest[0].assertion == "?!" and rest[0].body == ((PatternElement(text=NEGATED_CLASSES[loop.text]),),)


def _starts_run(branch: Branch, place: int) -> bool:
    r"""Whether a loop begins only where a run does, as in `(?<!\s)\s+$`."""
    return place > 0 and branch[place - 1] == PatternElement(
        assertion="?<!", body=((PatternElement(text=branch[place].text),),)
    )


def _is_rescued(branches: list[Branch], place: int, text: str) -> bool:
    """Whether a run that an alternative has read for nothing is taken by another one before anything else matches."""
    if any(_takes_run(branch, text) for branch in branches[:place]):
        return True
    for branch in branches[place + 1 :]:
        if _takes_run(branch, text):
            return True
        loop = next((part for part in branch if part.is_loop), None)
        if loop is None or loop.text != text or loop.max_repeats is not None:
            return False
    return False


def _takes_run(branch: Branch, text: str) -> bool:
    """Whether an alternative always takes a run of a class as a whole, or all but its last character."""
    for place, part in enumerate(branch):
        if part.is_loop:
            rest = branch[place + 1 :]
            never_fails = all(later.is_optional for later in rest) or _backs_off(branch, place)
            return part.text == text and part.max_repeats is None and never_fails
        if not part.is_optional:
            return False
    return False
