"""Patterns of published tokenizers are accepted; patterns that can take superlinear time are rejected."""

from __future__ import annotations

import random
from itertools import islice

import pytest
from tokenizers import Regex, pre_tokenizers

from clearhead.text.limits.pattern_parser import UnboundedPatternError, count_steps, parse_pattern
from clearhead.text.limits.patterns import (
    MAX_STEPS_PER_CHARACTER,
    anchor_at_run_start,
    check_pattern,
    depends_on_position,
)
from fuzz.patterns import draw_accepted_patterns

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WHITE_SPACE = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + WHITE_SPACE
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED_WORDS = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*%s"
NOT_HAN = r"&&[^\p{Han}]]"

PUBLISHED = {
    "GPT-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "GPT-2 of tiktoken": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    "cl100k, Llama 3, Phi-4, GLM-4": LLAMA3,
    "cl100k of tiktoken": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    "cl100k of tiktoken, older": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+"
    ),
    "Qwen2": LLAMA3.replace("{1,3}", ""),
    "Qwen with marks": LLAMA3.replace("{1,3}", "").replace(r"?\p{L}+", r"?[\p{L}\p{M}]+"),
    "o200k, gpt-oss, Llama 4": (
        CASED_WORDS % (CONTRACTIONS + "?", CONTRACTIONS + "?")
        + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
        + WHITE_SPACE
    ),
    "Mistral tekken": CASED_WORDS % ("", "") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + WHITE_SPACE,
    "Kimi K2": (
        r"[\p{Han}]+|"
        + (CASED_WORDS % (CONTRACTIONS + "?", CONTRACTIONS + "?"))
        .replace(UPPER, UPPER[:-1] + NOT_HAN)
        .replace(LOWER, LOWER[:-1] + NOT_HAN)
        + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
        + WHITE_SPACE
    ),
    "DeepSeek V3": (
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
        r"| ?[\p{P}\p{S}]+[\r\n]*|" + WHITE_SPACE
    ),
    "DeepSeek V3, CJK": "[一-龥぀-ゟ゠-ヿ]+",
    "DeepSeek V2, lines": r"[\r\n]",
    "DeepSeek V2, letters": r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷ𐐀-𐑏]+",
    "DeepSeek V2, punctuation": r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
    "DeepSeek V2, CJK": "[一-龥ࠀ-一가-퟿]+",
    "DeepSeek Coder": r"\s?\p{P}+",
    "digits": r"\p{N}{1,3}",
    "StarCoder": r"\d",
    "Falcon": "[0-9][0-9][0-9]",
    "Bloom, Viking": " ?[^(\\s|[.,!?…。，、।۔،])]+",
    "CLIP": r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "CLIP, blanks": r"\s+",
    "ALBERT, XLNet": " {2,}",
    "DeBERTa": r"\s{2,}|[\n\r\t]",
    "lines": r"[^\r\n]",
    "words": r"\w+|[^\w\s]+",
    "a character": ".",
    "after a letter": r"(?<=\S)\s",
    "in parentheses": "([a-z]+|[0-9]+)",
}
SLOW = (
    "(a+)+$",
    "(a|a)*b",
    "(a|aa)+$",
    "a*b",
    r"\s*\n",
    "(.*)*",
    "(.*a){20}",
    ".{1,1000}{1,1000}",
    "a?" * 30 + "a" * 30,
    r"(a)\1",
    "(?=.*x)",
    "a{0,900}a{0,900}a{0,900}b",
    r"(\w+\s?)*$",
    r"^(\d+)*$",
    "x*x*x*y|x+",
    "(a*?)*?b",
    "(?:a?){50}a{50}",
    r"\s+(?=x)",
    "(" * 100 + ")" * 100,
    "(a{2}b*)+",
    "(x+x+)+y",
    r"(?R)",
    "x" * 6_000,
    # another alternative consumes a part of the run before the rescue, or the rescue consumes only a part
    "a+b|a+?",
    "a+b|a|a+",
    r"\w+\s|\w|\w+",
    "a+b||a+",
    "(?:a+b)?|a+",
    "a+b|a{1,900}a|a+",
    "a+b|a?|a+",
    "a+b|a*?|a+",
    # the rescue has another class, a required prefix, or can itself fail
    "(?i:[a-z])+1|[a-z]+",
    "a+b|ba+",
    "a+b|a+c",
    "a+b|^a+",
    "a*+a+|a+b",
    r"a+b|\s++(?!\S)",
    r"\s++(?!\S)|\S",
    "a+b|a{3,80}",
    # possessive loops restart at the next character
    r"\p{L}++\d",
    "[^x]++y",
    "a++$|b",
    # too many steps per character
    "|".join(["a{1000}" * 50] * 10),
    "a{900}b",
    "|".join(["a+b"] * 200) + "|a+",
    "(?=a{900}b)",
    "(?:[ab]{1,9}){9}",
    # parsed differently by the library, or matches of unknown length
    r"\X[bc]",
    r"\R+",
    r"(\xa+)+$",
    r"[\c](a+)+$]x",
    "[](a+)+$]",
    "(?i:ß)+s",
    "(?i:[sß]){16}x",
    r"(?i:\w){16}x",
    r"\K",
    r"\G",
    "a{3,1}",
    "a{2}?",
    "x{",
    "(?>a+)b",
    "(?<n>a)",
    "(?x: a)",
    "|",
    "a|",
    "(|a)",
    "(?=a)*",
    "(?:$)+",
    r"\p{L",
    r"\u12",
)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_patterns_are_accepted(name: str) -> None:
    check_pattern(PUBLISHED[name])
    Regex(PUBLISHED[name])
    assert sum(map(count_steps, parse_pattern(PUBLISHED[name]))) <= MAX_STEPS_PER_CHARACTER / 2


@pytest.mark.parametrize("pattern", SLOW, ids=lambda pattern: pattern[:20])
def test_slow_patterns_are_rejected(pattern: str) -> None:
    with pytest.raises(UnboundedPatternError):
        check_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["a+b|a+", "a+|a+b", "a+b|x?a+c|a+", r"\s++$|\s+(?!\S)|\s", "x?a+b|y?a+b?", "(?<!a)a+b|a", "(?:ab)+c?"]
)
def test_loops_with_a_rescue_are_accepted(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize("pattern", [r"\s+$", "a++$", "[ab]+(?=b)", "a+(?!b)", r"[ab]+\b(?=c| )", r"\w+(?<!a)"])
def test_anchoring_preserves_matches(pattern: str) -> None:
    anchored = anchor_at_run_start(pattern)
    check_pattern(anchored)
    with pytest.raises(UnboundedPatternError):
        check_pattern(pattern)
    splitters = [pre_tokenizers.Split(Regex(equivalent), "isolated") for equivalent in (pattern, anchored)]
    rng = random.Random(1)
    for _ in range(300):
        text = "".join(rng.choices("ab c\n", k=rng.randrange(1, 14)))
        assert splitters[0].pre_tokenize_str(text) == splitters[1].pre_tokenize_str(text)


@pytest.mark.parametrize("pattern", ["a+", "a+b", "a*$", "a+$|b", "xa+$", "a{2,}$"])
def test_other_patterns_are_not_anchored(pattern: str) -> None:
    assert anchor_at_run_start(pattern) == pattern


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("a", False), (" {2,}", False), ("^", True), ("a?", True), (r"a\b", True), ("(?:a|^b)c", True)],
)
def test_patterns_that_depend_on_the_position(pattern: str, expected: bool) -> None:
    assert depends_on_position(pattern) is expected


def test_accepted_random_patterns_are_valid_in_the_library() -> None:
    """`make fuzz` measures the time of thousands of them; here only the computed steps are checked."""
    for pattern in islice(draw_accepted_patterns(random.Random(0)), 50):
        assert sum(map(count_steps, parse_pattern(pattern))) <= MAX_STEPS_PER_CHARACTER
        pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str("aab b\n" * 20)
