"""Bounds of a tokenizer.json, checked before the library builds it: how much a text can grow, and in what time.

The library does what a file says: a sequence of replacements can make a terabyte of a word, padding can ask for a
billion tokens, a pattern can take forever. Every step gets a factor, its worst case in bytes out per byte in; their
product decides whether the file is used and how long a text it may read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import Any

from clearhead.errors import InputError, TokenizerError
from clearhead.files import to_printable
from clearhead.text.limits.pattern_parser import UnboundedPatternError
from clearhead.text.limits.patterns import anchor_at_run_start, check_pattern, depends_on_position
from clearhead.text.limits.vocabulary_limits import (
    MAX_LITERAL_LENGTH,
    check_added_tokens,
    check_bytes,
    check_deterministic,
    check_length,
    check_model,
    iterate_added_tokens,
)
from clearhead.text.sentencepiece.normalizer import MAX_REPLACEMENT_BYTES as LONGEST_REPLACEMENT
from clearhead.text.sentencepiece.normalizer import Charsmap
from clearhead.text.sentencepiece.trie import StepBudget

MAX_TEXT_LENGTH = 2_000_000  # characters that are tokenized at once: 0.7 GB and three seconds where each is a token
MAX_GROWTH = 2_000  # bytes out per byte in, on paper; ALBERT's pipeline has 1,100
MAX_PRE_TOKENIZER_GROWTH = (
    6  # the same for a pre-tokenizer alone, whose work is not measured; bytes as letters twice have 4
)
MAX_NORMALIZED_BYTES = 12_000_000  # that a text may grow to: each can be a token, of which the library keeps 130 bytes
NORMALIZED_CHUNK = 16_384  # characters that are normalized together to see how long they become
MAX_PIPELINE_STEPS = 64  # of a normalizer, pre-tokenizer, post-processor or decoder; published ones have at most ten
MAX_TEMPLATE_TOKENS = 1_000  # tokens that a template puts around a text
MAX_TEMPLATE_CHARACTERS = 100_000  # of the tokens that a template puts around a text
MAX_INSERTED_BYTES = 8  # bytes of what is put in at a position, which each stretch between two added tokens has

CANONICAL_GROWTH, COMPATIBILITY_GROWTH, LOWERCASE_GROWTH = (
    3.0,
    11.0,
    1.5,
)  # growth in UTF-8 of NFC and NFD, of NFKC and NFKD, and of lower case
BYTE_LEVEL_GROWTH = 2.0
UNICODE_GROWTH = {
    "NFC": CANONICAL_GROWTH,
    "NFD": CANONICAL_GROWTH,
    "NFKC": COMPATIBILITY_GROWTH,
    "NFKD": COMPATIBILITY_GROWTH,
    "Lowercase": LOWERCASE_GROWTH,
}
REMOVING_STEPS = frozenset({"Strip", "StripAccents", "Nmt"})  # steps that put nothing in but blanks

Step = dict[str, Any]


def check_pipeline(data: dict[str, Any]) -> float:
    """Refuse a tokenizer.json without bounds; returns how many times longer, in bytes, it can make a text."""
    check_recipe_parts(data)
    check_deterministic(data.get("model"))
    _growth(data, "decoder", _joined)
    growth = measure_normalizer_growth(data)
    check_added_tokens(iterate_added_tokens(data), growth)
    growth *= _growth(data, "pre_tokenizer", _cut, most=MAX_PRE_TOKENIZER_GROWTH)
    if growth > MAX_GROWTH:
        raise TokenizerError(_endless("normalizer and pre_tokenizer"))
    return growth


def bound_patterns(data: dict[str, Any]) -> bool:
    """Replace patterns by others with the same matches in bounded time, in place; returns whether there are any."""
    changed = False
    for part in ("normalizer", "pre_tokenizer"):
        for step in _steps(data.get(part), part):
            pattern = step.get("pattern")
            old = pattern.get("Regex") if isinstance(pattern, dict) else None
            if isinstance(old, str) and (new := _start_at_runs(old)) != old:
                step["pattern"], changed = {"Regex": new}, True
    return changed


def _start_at_runs(pattern: str) -> str:
    try:
        return anchor_at_run_start(pattern)
    except UnboundedPatternError:
        return pattern  # the check says why


def measure_normalizer_growth(data: dict[str, Any]) -> float:
    """How many times longer, in bytes, the normalizer of a tokenizer.json can make a text."""
    return _growth(data, "normalizer", _normalized)


def check_recipe_parts(data: dict[str, Any]) -> None:
    """Refuse what even a recipe takes over: a template, added tokens or a vocabulary without bounds."""
    inserted = list(_steps(data.get("post_processor"), "post_processor"))
    for step in inserted:
        _check_inserted(step)
    if sum(step["type"] == "TemplateProcessing" for step in inserted) > 1:
        raise TokenizerError("tokenizer.json: the post_processor has more than one template")
    check_added_tokens(iterate_added_tokens(data))
    check_model(data.get("model"))


def check_charsmap(table: bytes, name: str) -> float:
    """The growth of a pipeline around SentencePiece's table of normalization: the longest rule for each byte read."""
    charsmap = Charsmap(table, name)
    size = int.from_bytes(table[:4], "little") if len(table) >= 4 else 0
    longest = max(map(len, table[4 + size :].split(b"\0")), default=0)
    if longest > LONGEST_REPLACEMENT:
        raise TokenizerError(
            f"{name}: a rule of normalization has {longest:,} bytes, more than {LONGEST_REPLACEMENT:,}"
        )
    alone = max(len(charsmap.match_longest(chr(code), 0, StepBudget(1))[0].encode()) for code in range(1, 128))
    return max(1.0, alone, longest / 2)  # every other rule stands for two bytes or more


def check_text_size(text: str, growth: float = 1.0, normalizer: Any = None, *, max_length: int | None = None) -> None:
    """Refuse a text that is too long to be tokenized at once, as it is or as the normalizer makes it."""
    max_length = MAX_TEXT_LENGTH if max_length is None else max_length
    if len(text) > max_length:
        raise InputError(
            f"a text has {len(text):,} characters, more than the {max_length:,} that are tokenized at once; split it"
        )
    if len(text.encode("utf-8", "surrogatepass")) * growth <= MAX_NORMALIZED_BYTES or normalizer is None:
        return
    size = 0
    for start in range(0, len(text), NORMALIZED_CHUNK):
        size += len(normalizer.normalize_str(text[start : start + NORMALIZED_CHUNK]).encode())
        if size > MAX_NORMALIZED_BYTES:
            raise InputError(
                f"{len(text):,} characters of a text become longer than {MAX_NORMALIZED_BYTES:,} bytes when the "
                "tokenizer normalizes them; split it, or use another tokenizer"
            )


def _growth(data: dict[str, Any], part: str, measure: Callable[[Step], float], most: float = MAX_GROWTH) -> float:
    """The product of the steps of one part."""
    growth, seen = 1.0, set[str]()
    for step in _steps(data.get(part), part):
        if step["type"] not in seen:
            growth *= measure(step)
        if step["type"] in UNICODE_GROWTH:
            seen.add(step["type"])  # the second time there is nothing left to expand, ...
        elif step["type"] not in REMOVING_STEPS:
            seen.clear()  # ... but for what a step has put in
        if growth > most:
            raise TokenizerError(_endless(part, most))
    return growth


def _endless(part: str, most: float = MAX_GROWTH) -> str:
    return f"tokenizer.json cannot be used: its {part} can make a text more than {most:,} times longer"


def _steps(value: object, part: str) -> Iterator[Step]:
    """The steps of one part in their order, those of sequences within sequences too."""
    waiting, count = [value], 0
    while waiting:
        step = waiting.pop()
        if step is None:
            continue
        count += 1
        if count > MAX_PIPELINE_STEPS:
            raise TokenizerError(f"tokenizer.json: {part} has more than {MAX_PIPELINE_STEPS} steps")
        if not isinstance(step, dict) or not isinstance(step.get("type"), str):
            raise TokenizerError(f"tokenizer.json: {part} must be an object with a type, or a sequence of them")
        inner = [step[key] for key in ("normalizers", "pretokenizers", "processors", "decoders") if key in step]
        if step["type"] != "Sequence":
            yield step
        for steps in inner:
            if not isinstance(steps, list):
                raise TokenizerError(f"tokenizer.json: the steps of a {part} must be a list")
            waiting.extend(reversed(steps[: MAX_PIPELINE_STEPS + 1]))


def _normalized(step: Step) -> float:
    kind = step["type"]
    if kind == "BertNormalizer":
        return (
            CANONICAL_GROWTH * LOWERCASE_GROWTH * 5 / 3
        )  # a Chinese character of three bytes gets a blank on both sides
    if kind == "ByteLevel":
        return BYTE_LEVEL_GROWTH
    if kind == "Prepend":  # before each stretch between added tokens, which may be one character long
        return 1.0 + check_bytes(step.get("prepend"), "prepend", MAX_INSERTED_BYTES)
    if kind == "Replace":
        return _replaced(step)
    if kind == "Precompiled":
        return _precompiled(step)
    return UNICODE_GROWTH.get(kind, 1.0)


def _cut(step: Step) -> float:
    kind = step["type"]
    if kind == "ByteLevel":
        return BYTE_LEVEL_GROWTH + (1.0 if step.get("add_prefix_space", True) is not False else 0.0)
    if kind == "Metaspace":
        mark = check_length(step.get("replacement"), "replacement")
        return max(mark, 1.0 + mark)  # for each blank, and before each word, which may be one character long
    if kind == "Split":
        _pattern(step)
    elif kind == "FixedLength":
        length = step.get("length", 1)
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise TokenizerError(f"tokenizer.json: length must be an integer >= 1, got {to_printable(length)}")
    return 1.0


def _joined(step: Step) -> float:
    if step["type"] == "Replace":
        return _replaced(step)
    for key in ("prefix", "suffix", "replacement", "pad_token", "word_delimiter_token"):
        if step.get(key) is not None:
            check_length(step[key], key)
    return 1.0


def _replaced(step: Step) -> float:
    content = check_length(step.get("content"), "content", max_length=MAX_LITERAL_LENGTH)
    literal = _pattern(step)
    if literal is not None:
        return max(1.0, content / len(literal.encode("utf-8", "surrogatepass")))
    if depends_on_position(step["pattern"]["Regex"]):  # `^` matches in every stretch between added tokens
        check_bytes(step["content"], "content", MAX_INSERTED_BYTES)
    return content + 1.0  # a pattern may match a single character, or nothing between two


def _pattern(step: Step) -> str | None:
    """The literal pattern of a step; None if it is a regular expression, whose time is checked."""
    pattern = step.get("pattern")
    if isinstance(pattern, dict) and len(pattern) == 1:
        kind, text = next(iter(pattern.items()))
        if kind == "String" and isinstance(text, str) and text:
            check_length(text, "pattern")
            return text
        if kind == "Regex" and isinstance(text, str) and text:
            try:
                check_pattern(text)
            except UnboundedPatternError as error:
                raise TokenizerError(
                    f"tokenizer.json cannot be used: the time of the pattern {to_printable(text)!r} has no bound "
                    f"({error})"
                ) from None
            return None
    raise TokenizerError(f"tokenizer.json: the pattern of a {step['type']} must be a text or a regular expression")


def _precompiled(step: Step) -> float:
    """The longest replacement of a table, for each byte that it stands for."""
    table = step.get("precompiled_charsmap")
    if table is None or table == "":
        return 1.0
    try:
        data = base64.b64decode(table if isinstance(table, str) else "?", validate=True)
    except (binascii.Error, ValueError):
        raise TokenizerError("tokenizer.json: precompiled_charsmap is not base64") from None
    return check_charsmap(data, "tokenizer.json")


def _check_inserted(step: Step) -> None:
    for key in ("sep", "cls"):  # of BertProcessing and RobertaProcessing: a token and its id
        if isinstance(step.get(key), list) and step[key]:
            check_length(step[key][0], key)
    if step["type"] != "TemplateProcessing":
        return
    tokens = step.get("special_tokens")
    sizes, letters = dict[str, int](), dict[str, int]()
    for name, token in tokens.items() if isinstance(tokens, dict) else ():
        if isinstance(token, dict):
            ids, texts = (value if isinstance(value, list) else [] for value in (token.get("ids"), token.get("tokens")))
            sizes[name], letters[name] = len(ids), sum(len(text) for text in texts if isinstance(text, str))
    for name in ("single", "pair"):
        pieces = step.get(name)
        if not isinstance(pieces, list) or len(pieces) > MAX_TEMPLATE_TOKENS:
            raise TokenizerError(
                f"tokenizer.json: the template {name} must be a list of at most {MAX_TEMPLATE_TOKENS} parts"
            )
        inserted, characters, sequences = 0, 0, []
        for piece in pieces:
            part = piece if isinstance(piece, dict) else {}
            text, special = part.get("Sequence"), part.get("SpecialToken")
            if isinstance(text, dict):
                sequences.append(str(text.get("id")))
            elif isinstance(special, dict):
                inserted += sizes.get(str(special.get("id")), 1)
                characters += letters.get(str(special.get("id")), 1)
        if inserted > MAX_TEMPLATE_TOKENS:
            raise TokenizerError(f"tokenizer.json: the template {name} inserts more than {MAX_TEMPLATE_TOKENS} tokens")
        if characters > MAX_TEMPLATE_CHARACTERS:
            raise TokenizerError(
                f"tokenizer.json: the template {name} inserts more than {MAX_TEMPLATE_CHARACTERS:,} characters"
            )
        if len(set(sequences)) != len(sequences):
            raise TokenizerError(f"tokenizer.json: the template {name} repeats a text")
