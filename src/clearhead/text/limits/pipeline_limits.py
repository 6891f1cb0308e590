"""Limits for a tokenizer.json, checked before the library builds it: growth of texts and time of patterns.

The library trusts the file, but a sequence of replacements can expand a word to a terabyte, padding can request a
billion tokens, and a pattern can take exponential time. Each step has a growth factor, its worst case in
output bytes per input byte. The product of the factors decides whether the file is accepted and how long a text may be.
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
    check_byte_size,
    check_deterministic,
    check_length,
    check_model_sizes,
    iter_added_tokens,
)
from clearhead.text.sentencepiece.normalizer import MAX_REPLACEMENT_BYTES, Charsmap
from clearhead.text.sentencepiece.trie import StepBudget

MAX_TEXT_LENGTH = 2_000_000  # characters per call: at most 0.7 GB and three seconds if each is a token
MAX_GROWTH = 2_000  # worst-case output bytes per input byte; ALBERT's pipeline has 1,100
# The output of a pre-tokenizer is not measured, hence the lower limit. Two byte-level steps have a factor of 4.
MAX_PRE_TOKENIZER_GROWTH = 6
MAX_NORMALIZED_BYTES = 12_000_000  # of a normalized text: each can be a token, which takes 130 bytes in the library
NORMALIZATION_CHUNK_SIZE = 16_384  # characters that are normalized together to measure their growth
MAX_PIPELINE_STEPS = 64  # per normalizer, pre-tokenizer, post-processor or decoder; published ones have at most ten
MAX_TEMPLATE_TOKENS = 1_000  # that a template inserts
MAX_TEMPLATE_CHARACTERS = 100_000  # of the tokens that a template inserts
MAX_INSERTED_BYTES = 8  # inserted at a position, which may recur between any two added tokens

# growth in UTF-8 by NFC and NFD, by NFKC and NFKD, and by lowercasing
CANONICAL_GROWTH, COMPATIBILITY_GROWTH, LOWERCASE_GROWTH = 3.0, 11.0, 1.5
BYTE_LEVEL_GROWTH = 2.0
UNICODE_GROWTH = {
    "NFC": CANONICAL_GROWTH,
    "NFD": CANONICAL_GROWTH,
    "NFKC": COMPATIBILITY_GROWTH,
    "NFKD": COMPATIBILITY_GROWTH,
    "Lowercase": LOWERCASE_GROWTH,
}
REMOVING_STEPS = frozenset({"Strip", "StripAccents", "Nmt"})  # steps that insert at most whitespace

Step = dict[str, Any]


def check_pipeline(data: dict[str, Any]) -> float:
    """Return the maximum growth factor of a tokenizer.json in bytes; raise a TokenizerError if it is unbounded."""
    check_recipe_sections(data)
    check_deterministic(data.get("model"))
    _measure_growth(data, "decoder", _check_decoder_step)
    growth = measure_normalizer_growth(data)
    check_added_tokens(iter_added_tokens(data), growth)
    growth *= _measure_growth(data, "pre_tokenizer", _measure_pre_tokenizer_step, limit=MAX_PRE_TOKENIZER_GROWTH)
    if growth > MAX_GROWTH:
        raise TokenizerError(_format_growth_error("normalizer and pre_tokenizer"))
    return growth


def bound_patterns(data: dict[str, Any]) -> bool:
    """Replace patterns in place by equivalent ones that take linear time; return whether any was replaced."""
    has_changed = False
    for section in ("normalizer", "pre_tokenizer"):
        for step in _iter_steps(data.get(section), section):
            pattern = step.get("pattern")
            regex = pattern.get("Regex") if isinstance(pattern, dict) else None
            if isinstance(regex, str) and (bounded := _anchor_pattern(regex)) != regex:
                step["pattern"], has_changed = {"Regex": bounded}, True
    return has_changed


def _anchor_pattern(pattern: str) -> str:
    try:
        return anchor_at_run_start(pattern)
    except UnboundedPatternError:
        return pattern  # rejected later by the check, with the reason


def measure_normalizer_growth(data: dict[str, Any]) -> float:
    """Return the maximum growth factor of the normalizer of a tokenizer.json in bytes."""
    return _measure_growth(data, "normalizer", _measure_normalizer_step)


def check_recipe_sections(data: dict[str, Any]) -> None:
    """Check the sections of a tokenizer.json that recipes also use: template, added tokens and vocabulary."""
    post_processor_steps = list(_iter_steps(data.get("post_processor"), "post_processor"))
    for step in post_processor_steps:
        _check_post_processor_step(step)
    if sum(step["type"] == "TemplateProcessing" for step in post_processor_steps) > 1:
        raise TokenizerError("tokenizer.json: the post_processor has more than one template.")
    check_added_tokens(iter_added_tokens(data))
    check_model_sizes(data.get("model"))


def check_charsmap(data: bytes, name: str) -> float:
    """Return the maximum growth factor of a SentencePiece normalization table."""
    charsmap = Charsmap(data, name)
    trie_size = int.from_bytes(data[:4], "little") if len(data) >= 4 else 0
    longest_rule = max(map(len, data[4 + trie_size :].split(b"\0")), default=0)
    if longest_rule > MAX_REPLACEMENT_BYTES:
        raise TokenizerError(
            f"{name}: a normalization rule has {longest_rule:,} bytes, "
            f"more than the maximum of {MAX_REPLACEMENT_BYTES:,}."
        )
    ascii_replacements = (charsmap.match_longest(chr(code), 0, StepBudget(1))[0] for code in range(1, 128))
    longest_ascii = max(len(replacement.encode()) for replacement in ascii_replacements)
    return max(1.0, longest_ascii, longest_rule / 2)  # all other rules replace at least two bytes


def check_text_size(text: str, growth: float = 1.0, normalizer: Any = None, *, max_length: int | None = None) -> None:
    """Raise an InputError if a text is too long to be tokenized at once, before or after normalization."""
    max_length = MAX_TEXT_LENGTH if max_length is None else max_length
    if len(text) > max_length:
        raise InputError(
            f"A text has {len(text):,} characters, more than the maximum of {max_length:,} that can be tokenized at "
            "once; split it."
        )
    if len(text.encode("utf-8", "surrogatepass")) * growth <= MAX_NORMALIZED_BYTES or normalizer is None:
        return
    normalized_size = 0
    for start in range(0, len(text), NORMALIZATION_CHUNK_SIZE):
        normalized_size += len(normalizer.normalize_str(text[start : start + NORMALIZATION_CHUNK_SIZE]).encode())
        if normalized_size > MAX_NORMALIZED_BYTES:
            raise InputError(
                f"A text of {len(text):,} characters exceeds {MAX_NORMALIZED_BYTES:,} bytes after normalization; split "
                "it, or use another tokenizer."
            )


def _measure_growth(
    data: dict[str, Any], section: str, measure_step: Callable[[Step], float], limit: float = MAX_GROWTH
) -> float:
    """Return the product of the growth factors of the steps of a section."""
    growth, applied_types = 1.0, set[str]()
    for step in _iter_steps(data.get(section), section):
        if step["type"] not in applied_types:
            growth *= measure_step(step)
        if step["type"] in UNICODE_GROWTH:
            applied_types.add(step["type"])  # applied again, the step changes nothing ...
        elif step["type"] not in REMOVING_STEPS:
            applied_types.clear()  # ... unless another step inserted text in between
        if growth > limit:
            raise TokenizerError(_format_growth_error(section, limit))
    return growth


def _format_growth_error(section: str, limit: float = MAX_GROWTH) -> str:
    return f"tokenizer.json cannot be used: its {section} can lengthen a text by a factor of more than {limit:,}"


def _iter_steps(root: object, section: str) -> Iterator[Step]:
    """Yield the steps of a section in order, including those of nested sequences."""
    stack, count = [root], 0
    while stack:
        step = stack.pop()
        if step is None:
            continue
        count += 1
        if count > MAX_PIPELINE_STEPS:
            raise TokenizerError(f"tokenizer.json: {section} has more than {MAX_PIPELINE_STEPS} steps.")
        if not isinstance(step, dict) or not isinstance(step.get("type"), str):
            raise TokenizerError(
                f"tokenizer.json: {section} must be an object with a type, or a sequence of such objects."
            )
        nested_lists = [step[key] for key in ("normalizers", "pretokenizers", "processors", "decoders") if key in step]
        if step["type"] != "Sequence":
            yield step
        for steps in nested_lists:
            if not isinstance(steps, list):
                raise TokenizerError(f"tokenizer.json: the steps of {section} must be a list.")
            stack.extend(reversed(steps[: MAX_PIPELINE_STEPS + 1]))


def _measure_normalizer_step(step: Step) -> float:
    step_type = step["type"]
    if step_type == "BertNormalizer":
        return CANONICAL_GROWTH * LOWERCASE_GROWTH * 5 / 3  # Chinese characters (three bytes) get a space on both sides
    if step_type == "ByteLevel":
        return BYTE_LEVEL_GROWTH
    if step_type == "Prepend":  # before each span between added tokens, which may have a single character
        return 1.0 + check_byte_size(step.get("prepend"), "prepend", MAX_INSERTED_BYTES)
    if step_type == "Replace":
        return _measure_replace_step(step)
    if step_type == "Precompiled":
        return _measure_charsmap_step(step)
    return UNICODE_GROWTH.get(step_type, 1.0)


def _measure_pre_tokenizer_step(step: Step) -> float:
    step_type = step["type"]
    if step_type == "ByteLevel":
        return BYTE_LEVEL_GROWTH + (1.0 if step.get("add_prefix_space", True) is not False else 0.0)
    if step_type == "Metaspace":
        marker_size = check_length(step.get("replacement"), "replacement")
        # for each space, and before each word, which may have a single character
        return max(marker_size, 1.0 + marker_size)
    if step_type == "Split":
        _check_step_pattern(step)
    elif step_type == "FixedLength":
        length = step.get("length", 1)
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise TokenizerError(f"tokenizer.json: length must be an integer >= 1, got {to_printable(length)}.")
    return 1.0


def _check_decoder_step(step: Step) -> float:
    if step["type"] == "Replace":
        return _measure_replace_step(step)
    for key in ("prefix", "suffix", "replacement", "pad_token", "word_delimiter_token"):
        if step.get(key) is not None:
            check_length(step[key], key)
    return 1.0


def _measure_replace_step(step: Step) -> float:
    content_size = check_length(step.get("content"), "content", max_length=MAX_LITERAL_LENGTH)
    literal = _check_step_pattern(step)
    if literal is not None:
        return max(1.0, content_size / len(literal.encode("utf-8", "surrogatepass")))
    if depends_on_position(step["pattern"]["Regex"]):  # `^` matches in every span between added tokens
        check_byte_size(step["content"], "content", MAX_INSERTED_BYTES)
    return content_size + 1.0  # a pattern may match a single character, or an empty text between two


def _check_step_pattern(step: Step) -> str | None:
    """Check the pattern of a step; return a literal pattern, or None for a regular expression."""
    pattern = step.get("pattern")
    if isinstance(pattern, dict) and len(pattern) == 1:
        pattern_type, text = next(iter(pattern.items()))
        if pattern_type == "String" and isinstance(text, str) and text:
            check_length(text, "pattern")
            return text
        if pattern_type == "Regex" and isinstance(text, str) and text:
            try:
                check_pattern(text)
            except UnboundedPatternError as error:
                raise TokenizerError(
                    f"tokenizer.json cannot be used: the pattern {to_printable(text)!r} may take unbounded time "
                    f"({error})."
                ) from None
            return None
    raise TokenizerError(f"tokenizer.json: the pattern of {step['type']} must be a string or a regular expression.")


def _measure_charsmap_step(step: Step) -> float:
    """Return the maximum growth factor of a Precompiled step."""
    charsmap = step.get("precompiled_charsmap")
    if charsmap is None or charsmap == "":
        return 1.0
    try:
        data = base64.b64decode(charsmap if isinstance(charsmap, str) else "?", validate=True)
    except (binascii.Error, ValueError):
        raise TokenizerError("tokenizer.json: precompiled_charsmap is not base64.") from None
    return check_charsmap(data, "tokenizer.json")


def _check_post_processor_step(step: Step) -> None:
    for key in ("sep", "cls"):  # a token and its id, in BertProcessing and RobertaProcessing
        if isinstance(step.get(key), list) and step[key]:
            check_length(step[key][0], key)
    if step["type"] != "TemplateProcessing":
        return
    template_tokens = step.get("special_tokens")
    id_counts, character_counts = dict[str, int](), dict[str, int]()
    for name, token in template_tokens.items() if isinstance(template_tokens, dict) else ():
        if isinstance(token, dict):
            ids, contents = (
                value if isinstance(value, list) else [] for value in (token.get("ids"), token.get("tokens"))
            )
            id_counts[name], character_counts[name] = (
                len(ids),
                sum(len(content) for content in contents if isinstance(content, str)),
            )
    for name in ("single", "pair"):
        template = step.get(name)
        if not isinstance(template, list) or len(template) > MAX_TEMPLATE_TOKENS:
            raise TokenizerError(
                f"tokenizer.json: the template {name} must be a list of at most {MAX_TEMPLATE_TOKENS} elements."
            )
        inserted_tokens, inserted_characters, sequences = 0, 0, []
        for entry in template:
            element = entry if isinstance(entry, dict) else {}
            sequence, special_token = element.get("Sequence"), element.get("SpecialToken")
            if isinstance(sequence, dict):
                sequences.append(str(sequence.get("id")))
            elif isinstance(special_token, dict):
                inserted_tokens += id_counts.get(str(special_token.get("id")), 1)
                inserted_characters += character_counts.get(str(special_token.get("id")), 1)
        if inserted_tokens > MAX_TEMPLATE_TOKENS:
            raise TokenizerError(f"tokenizer.json: the template {name} inserts more than {MAX_TEMPLATE_TOKENS} tokens.")
        if inserted_characters > MAX_TEMPLATE_CHARACTERS:
            raise TokenizerError(
                f"tokenizer.json: the template {name} inserts more than {MAX_TEMPLATE_CHARACTERS:,} characters."
            )
        if len(set(sequences)) != len(sequences):
            raise TokenizerError(f"tokenizer.json: the template {name} contains a text more than once.")
