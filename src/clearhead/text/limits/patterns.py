"""Check that a regular expression of a tokenizer file matches any text in linear time.

The `tokenizers` library matches by backtracking, so `(a+)+$` takes exponential time on a few dozen letters, and even
`a*b` takes hours on a megabyte of `a`, because the search restarts at each character of the run. A pattern is accepted
only if its structure rules out both. All published patterns have this structure.

An alternative consists of a bounded prefix, a loop over one character class, and a suffix. If the suffix can fail,
another alternative (the rescue) must consume the run that the loop has matched; otherwise the next search reads the run
again. The rescue may precede the failing alternative. If it follows it, each alternative between them must also be a
greedy loop over the same class: its longest match ends at the last position in the run where its suffix matches, so it
matches once per run, and the run is read at most once more for each such alternative. No rescue is needed if a
lookbehind lets the loop start only at the beginning of a run.
"""

from __future__ import annotations

from clearhead.text.limits.pattern_parser import (
    Branch,
    PatternElement,
    UnboundedPatternError,
    count_steps,
    parse_pattern,
)

MAX_PATTERN_LENGTH = 5_000  # characters; published patterns have fewer than 1,000
MAX_STEPS_PER_CHARACTER = 500  # per character of a text; published patterns need at most 306
NEGATED_CLASSES = {r"\s": r"\S", r"\w": r"\W", r"\d": r"\D", r"\S": r"\s", r"\W": r"\w", r"\D": r"\d"}


def check_pattern(pattern: str) -> None:
    """Raise an UnboundedPatternError unless the pattern is known to match in linear time."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise UnboundedPatternError(f"it has more than {MAX_PATTERN_LENGTH:,} characters")
    branches = _flatten_groups(parse_pattern(pattern))
    failing_loops = [_find_failing_loop(branch) for branch in branches]
    for index, loop in enumerate(failing_loops):
        if loop is not None and not _is_rescued(branches, index, loop.text):
            raise UnboundedPatternError("the suffix of a repetition can fail, so a long run is read repeatedly")
    max_passes = 1 + sum(loop is not None for loop in failing_loops)
    if max_passes * sum(count_steps(branch) for branch in branches) > MAX_STEPS_PER_CHARACTER:
        raise UnboundedPatternError(f"it can take more than {MAX_STEPS_PER_CHARACTER:,} steps per character")


def anchor_at_run_start(pattern: str) -> str:
    r"""Return an equivalent linear-time pattern for a loop followed by assertions, such as `\s+$` (DeepSeek V2).

    The assertions depend only on the position where the loop ends. If they fail from the first character of a run, they
    fail from every other one, and nothing after the longest match can match.
    """
    branches = parse_pattern(pattern)
    loop, *remainder = branches[0]
    is_whole_run = loop.text and (loop.min_repeats, loop.max_repeats) == (1, None)
    if len(branches) > 1 or not is_whole_run or not remainder or not all(element.assertion for element in remainder):
        return pattern
    return f"(?<!{loop.text}){pattern}"


def depends_on_position(pattern: str) -> bool:
    """Whether a pattern has an empty match or an assertion, and may therefore match at any boundary."""
    branches = parse_pattern(pattern)
    return any(sum(element.min_length for element in branch) == 0 or _has_assertion(branch) for branch in branches)


def _has_assertion(branch: Branch) -> bool:
    return any(element.assertion or any(map(_has_assertion, element.body)) for element in branch)


def _flatten_groups(branches: tuple[Branch, ...]) -> list[Branch]:
    """Return the alternatives, replacing alternatives that consist of a single group by those of the group."""
    flat: list[Branch] = []
    for branch in branches:
        group = branch[0]
        is_group = (
            len(branch) == 1 and group.body and not group.assertion and group.min_repeats == group.max_repeats == 1
        )
        flat.extend(_flatten_groups(group.body) if is_group else [branch])
    return flat


def _find_failing_loop(branch: Branch) -> PatternElement | None:
    """Return the loop after which the alternative can fail, or None."""
    if any(child.has_loop for element in branch for alternative in element.body for child in alternative):
        raise UnboundedPatternError("a group with a repetition is part of a longer alternative")
    loop_indices = [
        index
        for index, element in enumerate(branch)
        if element.is_loop and not all(following.is_optional for following in branch[index + 1 :])
    ]
    if not loop_indices:
        return None
    if len(loop_indices) > 1:
        raise UnboundedPatternError("two repetitions precede a suffix that can fail")
    loop = branch[loop_indices[0]]
    if not loop.text:
        raise UnboundedPatternError("the suffix of a repeated group can fail")
    return None if _leaves_last_character(branch, loop_indices[0]) or _is_anchored(branch, loop_indices[0]) else loop


def _leaves_last_character(branch: Branch, index: int) -> bool:
    r"""Whether a loop consumes a run up to its last character, as in `\s+(?!\S)`, which fails only on short runs."""
    loop, remainder = branch[index], branch[index + 1 :]
    if loop.max_repeats is not None or loop.is_possessive or len(remainder) != 1 or loop.text not in NEGATED_CLASSES:
        return False
    return remainder[0].assertion == "?!" and remainder[0].body == ((PatternElement(text=NEGATED_CLASSES[loop.text]),),)


def _is_anchored(branch: Branch, index: int) -> bool:
    r"""Whether a loop can start only at the beginning of a run, as in `(?<!\s)\s+$`."""
    return index > 0 and branch[index - 1] == PatternElement(
        assertion="?<!", body=((PatternElement(text=branch[index].text),),)
    )


def _is_rescued(branches: list[Branch], index: int, text: str) -> bool:
    """Whether another alternative consumes the run on which this one failed before any other match."""
    if any(_consumes_run(branch, text) for branch in branches[:index]):
        return True
    for branch in branches[index + 1 :]:
        if _consumes_run(branch, text):
            return True
        loop = next((element for element in branch if element.is_loop), None)
        if loop is None or loop.text != text or loop.max_repeats is not None:
            return False
    return False


def _consumes_run(branch: Branch, text: str) -> bool:
    """Whether an alternative always consumes a complete run of a class, or all but its last character."""
    for index, element in enumerate(branch):
        if element.is_loop:
            remainder = branch[index + 1 :]
            never_fails = all(following.is_optional for following in remainder) or _leaves_last_character(branch, index)
            return element.text == text and element.max_repeats is None and never_fails
        if not element.is_optional:
            return False
    return False
