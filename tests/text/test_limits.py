"""A tokenizer.json whose work has no bound is refused before the library builds it; published pipelines are not."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import InputError, TokenizerError
from clearhead.text import Tokenizer, limits, load_tokenizer, pipeline
from clearhead.text.patterns import UnboundedPatternError, check_pattern

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lo}\p{M}]*[\p{Ll}\p{Lo}\p{M}]+(?i:'s)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lo}\p{M}]+[\p{Ll}]*"
)
USUAL = (
    GPT2, GPT4, CASED, r"\s{2,}|[\n\r\t]", " {2,}", r"[^\r\n]", r"\p{N}{1,3}", "[一-龥぀-ゟ]+", r"\w+|[^\w\s]+",
    r"\d", ".", " ?[^(\\s|[.,!?…。，、।۔،])]+", r"(?<=\S)\s", "([a-z]+|[0-9]+)", r"\s*[\r\n]+|\s+",
)  # fmt: skip
ENDLESS = (
    "(a+)+$", "(a|a)*b", "(a|aa)+$", "a*b", r"\s*\n", "(.*)*", "(.*a){20}", ".{1,1000}{1,1000}", "a?" * 30 + "a" * 30,
    r"(a)\1", "(?=.*x)", "a{0,900}a{0,900}a{0,900}b", r"(\w+\s?)*$", r"^(\d+)*$", "x*x*x*y|x+", "(a*?)*?b",
    "(?:a?){50}a{50}", r"\s+(?=x)", "(" * 100 + ")" * 100, "(a{2}b*)+", "(x+x+)+y", r"(?R)", "x" * 6_000,
)  # fmt: skip


@pytest.mark.parametrize("pattern", USUAL)
def test_patterns_of_published_tokenizers(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize("pattern", ENDLESS, ids=lambda pattern: pattern[:20])
def test_patterns_that_could_take_forever(pattern: str) -> None:
    with pytest.raises(UnboundedPatternError):
        check_pattern(pattern)


def replacement(old: str, new: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def in_sequence(kind: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", kind: list(steps)}


def template(single: list[Any], ids: int = 1) -> dict[str, Any]:
    token = {"[X]": {"id": "[X]", "ids": [0] * ids, "tokens": ["a"] * ids}}
    return {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": token}


def made(tmp_path: Path, model: dict[str, Any] | None = None, **parts: Any) -> Tokenizer:
    """A tokenizer.json that is taken as it is."""
    words = {"type": "WordLevel", "vocab": {"a": 0, "?": 1, "▁": 2, "▁a": 3}, "unk_token": "?"}
    data = {"version": "1.0", "added_tokens": [], "model": words | (model or {})} | parts
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    return load_tokenizer(tmp_path, "modernbert", {}).source


A, X = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[X]", "type_id": 0}}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
PIECE = {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
LONG_RULE = base64.b64encode((4).to_bytes(4, "little") + b"\0" * 4 + b"x" * 60_000 + b"\0").decode()

HOSTILE: dict[str, dict[str, Any]] = {
    "replacements": {"normalizer": in_sequence("normalizers", *[replacement("a", "aaaa")] * 12)},
    "one long replacement": {"normalizer": replacement("a", "b" * 100_000)},
    "nothing replaced": {"normalizer": replacement("", "b")},
    "prepended": {"normalizer": in_sequence("normalizers", *[{"type": "Prepend", "prepend": "a" * 900}] * 3)},
    "nested": {"normalizer": in_sequence("normalizers", in_sequence("normalizers", *[replacement("a", "a" * 90)] * 3))},
    "many steps": {"normalizer": in_sequence("normalizers", *[{"type": "NFC"}] * 100)},
    "bytes of bytes": {"pre_tokenizer": in_sequence("pretokenizers", *[BYTES] * 30)},
    "a long rule": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": LONG_RULE}},
    "pattern": {"pre_tokenizer": split("(a|a)*b")},
    "pattern of a replacement": {"normalizer": {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}},
    "no length": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "long template": {"post_processor": template([X] * 5_000 + [A])},
    "many ids": {"post_processor": template([X, A], ids=5_000)},
    "text twice": {"post_processor": template([A] * 200)},
    "added tokens": {"added_tokens": [{"id": 9, "content": "x" * 9_000_000}]},
    "decoder": {"decoder": in_sequence("decoders", *[replacement("a", "aaaa")] * 12)},
    "long words": {"model": PIECE | {"max_input_chars_per_word": 10**9}},
    "long unknown": {"model": {"unk_token": "?" * 100_000}},
    "long affix": {"model": PIECE | {"continuing_subword_prefix": "#" * 100_000}},
    "long pieces": {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0], ["b" * 9_000, -1.0]]}},
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_pipelines_without_bounds(tmp_path: Path, case: str) -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer\.json") as caught:
        made(tmp_path, **HOSTILE[case])
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


PUBLISHED: dict[str, dict[str, Any]] = {
    "Llama": {"normalizer": in_sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, replacement(" ", "▁"))},
    "GPT-2": {"pre_tokenizer": BYTES},
    "GPT-4": {"pre_tokenizer": in_sequence("pretokenizers", split(GPT4), BYTES | {"use_regex": False})},
    "T5": {"pre_tokenizer": in_sequence("pretokenizers", {"type": "WhitespaceSplit"}, METASPACE)},
    "ALBERT": {"normalizer": in_sequence(
        "normalizers", replacement("``", '"'), replacement("''", '"'), {"type": "NFKD"}, {"type": "StripAccents"},
        {"type": "Lowercase"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    ), "pre_tokenizer": METASPACE},
    "one template": {"post_processor": template([X, A, X])},
}  # fmt: skip


@pytest.mark.parametrize("case", PUBLISHED)
def test_published_pipelines_load_and_encode(tmp_path: Path, case: str) -> None:
    assert made(tmp_path, **PUBLISHED[case]).encode("a a ﷺ").ids


@pytest.mark.parametrize("strategy", [{"Fixed": 10**9}, {"Fixed": 2**40}, "BatchLongest"], ids=str)
def test_padding_and_cutting_of_a_file_are_never_done(tmp_path: Path, strategy: Any) -> None:
    pad = {"strategy": strategy, "direction": "Right", "pad_to_multiple_of": 10**9, "pad_id": 0, "pad_type_id": 0}
    cut = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    tokenizer = made(
        tmp_path, pre_tokenizer={"type": "Whitespace"}, padding=pad | {"pad_token": "a"}, truncation=cut
    )
    assert tokenizer.encode("a a a").ids == [0, 0, 0]
    assert tokenizer.pad_token == "a"


def test_a_recipe_does_not_run_the_steps_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\nword\n", encoding="utf-8")
    load_tokenizer(tmp_path, "bert", {}).source.save(tmp_path / "saved")
    path = tmp_path / "saved" / "tokenizer.json"
    data = json.loads(path.read_text("utf-8"))
    for part in (HOSTILE["replacements"], HOSTILE["text twice"]):
        path.write_text(json.dumps(data | part), encoding="utf-8")
        with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
            load_tokenizer(tmp_path / "saved", "bert", {})


def test_short_texts_need_no_look() -> None:
    assert pipeline.FEW_CHARACTERS * limits.MOST_GROWTH <= limits.MOST_BYTES


def test_texts_are_bounded_as_they_are_and_as_they_become(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = made(tmp_path, normalizer=replacement("a", "b" * 50))
    monkeypatch.setattr(limits, "MOST_BYTES", 10_000)
    monkeypatch.setattr(limits, "STRETCH", 64)
    monkeypatch.setattr(pipeline, "FEW_CHARACTERS", 10)
    assert tokenizer.encode("c" * 9_000).ids == [1]  # nothing of it grows
    for call in (tokenizer.encode, lambda text: tokenizer.encode_ids([text]), lambda text: tokenizer.pieces([text])):
        with pytest.raises(InputError, match="longer than 10,000"):
            call("a" * 300)
    monkeypatch.setattr(limits, "MOST_TEXT", 100)
    with pytest.raises(InputError, match="101 characters, more than the 100"):
        tokenizer.encode("c" * 101)
    with pytest.raises(InputError, match="more than the 100"):
        tokenizer.encode(["c" * 6_000, "c" * 6_000])
