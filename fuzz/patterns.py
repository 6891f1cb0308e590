"""Time random accepted regular expressions in `tokenizers`: `python fuzz/patterns.py --count 3000 --seed 0`.

A pattern is a finding if its time grows faster than linearly between a text and one eight times as long, or if the
child process that measures it must be killed.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator

SHORT_LENGTH, LONG_LENGTH = 2_000, 16_000  # characters
MIN_SECONDS = 0.05  # for the long text; faster patterns are not findings
MAX_RATIO = 24  # of the two times; 8 is linear, 64 is quadratic
TIMEOUT = 60  # seconds for a batch, in addition to one second per pattern
BATCH = 250
ATOMS = ("a", "b", "[ab]", r"\w", r"\s", "[^c]", ".", r"\p{L}", r"\S", "(?i:a)", "(?i:[ab])", r"\x61", r"\W", r"[\s\d]")
REPEATS = ("+", "*", "?", "++", "*+", "?+", "+?", "{2}", "{1,3}", "{0,40}", "{2,}", "{1,3}+", "{,2}", "{30}", "{20,60}")
ASSERTIONS = ("$", "^", r"\b", "(?!b)", "(?=a)", r"(?!\S)", r"(?!\s)", "(?<=a)", "(?<!b)", "(?=a|bb)")
TEXTS = ("a", "ab", " ", "b", "a ", "a\n", " " * 900 + "a", "a" * 900 + "b")
ENDS = ("", "c")


def make_element(rng: random.Random, depth: int) -> str:
    """Draw a character class, an assertion or a group, usually with a quantifier."""
    kind = rng.random()
    if kind < 0.12:
        return rng.choice(ASSERTIONS)
    atom = rng.choice(ATOMS)
    if kind < 0.25 and depth < 2:
        atom = f"{rng.choice(('(?:', '(', '(?i:'))}{make_pattern(rng, depth + 1)})"
    return atom + (rng.choice(REPEATS) if rng.random() < 0.6 else "")


def make_pattern(rng: random.Random, depth: int = 0) -> str:
    """Draw alternatives that often share elements."""
    pool = [make_element(rng, depth) for _ in range(rng.choice((1, 2, 3)))]
    branches = []
    for _ in range(rng.choice((1, 1, 2, 3, 4)) if depth else rng.choice((1, 2, 3, 4, 5))):
        parts = [
            rng.choice(pool) if rng.random() < 0.6 else make_element(rng, depth)
            for _ in range(rng.choice((1, 2, 2, 3)))
        ]
        branches.append("".join(parts))
    return "|".join(branches)


def draw_accepted_patterns(rng: random.Random) -> Iterator[str]:
    """Draw distinct patterns with a loop that the check accepts."""
    from clearhead.text.limits.pattern_parser import UnboundedPatternError, parse_pattern
    from clearhead.text.limits.patterns import check_pattern

    accepted: set[str] = set()
    while True:
        pattern = make_pattern(rng)
        if pattern in accepted:
            continue
        accepted.add(pattern)
        try:
            check_pattern(pattern)
        except UnboundedPatternError:
            continue
        if any(element.has_loop for branch in parse_pattern(pattern) for element in branch):
            yield pattern


def measure_pattern(pattern: str) -> str:
    """Time a pattern; returns the problem, or an empty string."""
    from tokenizers import Regex, pre_tokenizers

    try:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
    except Exception:
        return ""  # the library does not accept it
    for unit in TEXTS:
        for end in ENDS:
            times = []
            for size in (LONG_LENGTH // 64, SHORT_LENGTH, LONG_LENGTH):
                text = (unit * (size // len(unit) + 1))[:size] + end
                start = time.process_time()
                split.pre_tokenize_str(text)
                times.append(time.process_time() - start)
            if times[2] > max(MIN_SECONDS, MAX_RATIO * times[1]):
                return f"{times[1]:.3f} and {times[2]:.3f} seconds on {unit[:12]!r} ... {end!r}"
    return ""


def run_worker() -> None:
    """Measure patterns from stdin; print each pattern before its result, so that the parent knows which one hangs."""
    for line in sys.stdin:
        print(line.strip(), flush=True)
        print(json.dumps({"wrong": measure_pattern(json.loads(line))}), flush=True)


def measure_batch(patterns: list[str]) -> list[str]:
    """Measure patterns in a child process; returns the findings."""
    command = [sys.executable, __file__, "--child"]
    lines = "".join(json.dumps(pattern) + "\n" for pattern in patterns)
    try:
        process = subprocess.run(
            command, input=lines, capture_output=True, text=True, timeout=TIMEOUT + BATCH, check=False
        )
        output = process.stdout
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
    answers = output.splitlines()
    findings: list[str] = []
    for index, pattern in enumerate(patterns):
        if 2 * index + 1 >= len(answers):
            return [*findings, f"{pattern!r}: the child process was killed or crashed"]
        if problem := json.loads(answers[2 * index + 1])["wrong"]:
            findings.append(f"{pattern!r}: {problem}")
    return findings


def main() -> int:
    """Measure accepted patterns up to the requested number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_worker()
        return 0
    patterns, findings, measured = draw_accepted_patterns(random.Random(arguments.seed)), list[str](), 0
    while measured < arguments.count:
        batch = [next(patterns) for _ in range(min(BATCH, arguments.count - measured))]
        measured += len(batch)
        for finding in measure_batch(batch):
            findings.append(finding)
            print(finding, flush=True)
        print(f"{measured:,} accepted patterns, {len(findings)} findings", flush=True)
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
