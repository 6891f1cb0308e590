"""A tokenizer.json of unbounded cost is rejected before the library builds it; published pipelines are accepted."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import InputError, TokenizerError
from clearhead.text import Tokenizer, load_tokenizer, pipeline
from clearhead.text.limits import pipeline_limits as limits
from clearhead.text.limits import vocabulary_limits
from clearhead.text.vocabulary import options as vocabulary_options
from tests.text.test_patterns import LLAMA3


def make_replacement(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def make_split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def make_sequence(key: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", key: list(steps)}


def make_template(single: list[Any], id_count: int = 1, token: str = "a") -> dict[str, Any]:
    special_tokens = {"[X]": {"id": "[X]", "ids": [0] * id_count, "tokens": [token] * id_count}}
    return {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": special_tokens}


def load(tmp_path: Path, model: dict[str, Any] | None = None, **sections: Any) -> Tokenizer:
    """Load a tokenizer.json without a recipe."""
    word_level_model = {"type": "WordLevel", "vocab": {"a": 0, "?": 1, "▁": 2, "▁a": 3}, "unk_token": "?"}
    data = {"version": "1.0", "added_tokens": [], "model": word_level_model | (model or {})} | sections
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    return load_tokenizer(tmp_path, "modernbert", {}).source


def make_added_token(content: str, **flags: bool) -> dict[str, Any]:
    defaults = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": True, "special": False}
    return {"id": 4, "content": content} | defaults | flags


def make_regex_replacement(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


A, X = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[X]", "type_id": 0}}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
WORDPIECE_MODEL = {
    "type": "WordPiece",
    "unk_token": "?",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100,
}
LONG_RULE = base64.b64encode((4).to_bytes(4, "little") + b"\0" * 4 + b"x" * 60_000 + b"\0").decode()

HOSTILE: dict[str, dict[str, Any]] = {
    "repeated replacements": {"normalizer": make_sequence("normalizers", *[make_replacement("a", "aaaa")] * 12)},
    "one long replacement": {"normalizer": make_replacement("a", "b" * 100_000)},
    "replacement of an empty text": {"normalizer": make_replacement("", "b")},
    "long prepended texts": {
        "normalizer": make_sequence("normalizers", *[{"type": "Prepend", "prepend": "a" * 900}] * 3)
    },
    "nested replacements": {
        "normalizer": make_sequence("normalizers", make_sequence("normalizers", *[make_replacement("a", "a" * 90)] * 3))
    },
    "many steps": {"normalizer": make_sequence("normalizers", *[{"type": "NFC"}] * 100)},
    "alternating expansions": {
        "normalizer": make_sequence("normalizers", *[{"type": "NFKD"}, make_replacement("′", "⁗")] * 20)
    },
    "two templates": {"post_processor": make_sequence("processors", make_template([X, A]), make_template([A, X]))},
    "30 byte-level steps": {"pre_tokenizer": make_sequence("pretokenizers", *[BYTE_LEVEL] * 30)},
    "long normalization rule": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": LONG_RULE}},
    "slow pattern": {"pre_tokenizer": make_split("(a|a)*b")},
    "slow pattern of a replacement": {
        "normalizer": {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}
    },
    "length zero": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "long template": {"post_processor": make_template([X] * 5_000 + [A])},
    "many ids of a template token": {"post_processor": make_template([X, A], id_count=5_000)},
    "repeated text in a template": {"post_processor": make_template([A] * 200)},
    "long added token": {"added_tokens": [{"id": 9, "content": "x" * 9_000_000}]},
    "repeated replacements in the decoder": {
        "decoder": make_sequence("decoders", *[make_replacement("a", "aaaa")] * 12)
    },
    "long words": {"model": WORDPIECE_MODEL | {"max_input_chars_per_word": 10**9}},
    "very long unknown token": {"model": {"unk_token": "?" * 100_000}},
    "very long prefix": {"model": WORDPIECE_MODEL | {"continuing_subword_prefix": "#" * 100_000}},
    "added tokens that grow": {
        "normalizer": make_replacement("x", "y" * 900),
        "added_tokens": [make_added_token("x" * 9_000)],
    },
    "long text prepended to every span": {"normalizer": {"type": "Prepend", "prepend": "a" * 900}},
    "long text at the start of every span": {"normalizer": make_regex_replacement("^", "b" * 900)},
    "long text at every word boundary": {"normalizer": make_regex_replacement(r"\b", "b" * 900)},
    "long text for the first character of every span": {"normalizer": make_regex_replacement("^.|x", "b" * 900)},
    "long text for empty matches": {"normalizer": make_regex_replacement("x?", "b" * 900)},
    "long unknown token": {"model": {"unk_token": "?" * 900}},
    "long prefix": {"model": WORDPIECE_MODEL | {"continuing_subword_prefix": "#" * 900}},
    "long suffix": {"model": {"end_of_word_suffix": "#" * 900}},
    "long vocabulary entry": {"model": {"vocab": {"a" * 20_000: 0, "?": 1}}},
    "long literal": {"pre_tokenizer": make_split("a") | {"pattern": {"String": "a" * 20_000}}},
    "three byte-level steps": {"pre_tokenizer": make_sequence("pretokenizers", *[BYTE_LEVEL] * 3)},
    "long tokens of a template": {"post_processor": make_template([X, A], token="a" * 200_000)},
    "long separator": {"post_processor": {"type": "BertProcessing", "sep": ["a" * 2_000, 0], "cls": ["a", 0]}},
    "dropout": {"model": {"type": "BPE", "dropout": 0.1, "merges": []}},
    "id out of range": {"model": {"vocab": {"a": 0, "?": 2**32}}},
    "negative id": {"model": {"vocab": {"a": 0, "?": -1}}},
    "duplicate id": {"model": {"vocab": {"a": 0, "?": 0}}},
    "score that is not a number": {
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0], ["b", float("nan")]]}
    },
    "score out of range": {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0], ["b", 1e300]]}},
    "long pieces": {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0], ["b" * 9_000, -1.0]]}},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_unbounded_pipelines_are_rejected(tmp_path: Path, case: str) -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer\.json") as error_info:
        load(tmp_path, **HOSTILE[case])
    assert str(error_info.value).isprintable()
    assert len(str(error_info.value)) < 600


SETTINGS: dict[str, dict[str, Any]] = {
    "long added tokens": {
        "added_tokens_decoder": {str(i): make_added_token("x" * 300_000 + str(i)) for i in range(9, 20)}
    },
    "many added tokens": {"added_tokens_decoder": {str(i): make_added_token(str(i)) for i in range(9, 50)}},
    "added tokens that grow": {"added_tokens_decoder": {"9": make_added_token("x" * 9_000)}},
    "extra tokens that grow": {"extra_special_tokens": [make_added_token("x" * 9_000)]},
    "long unknown token": {"unk_token": "?" * 900},
    "long class token": {"cls_token": "?" * 9_000},
}


@pytest.mark.parametrize("case", SETTINGS)
def test_unbounded_settings_are_rejected(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary_limits, "MAX_ADDED_TOKENS", 40)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(SETTINGS[case]), encoding="utf-8")
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json") as error_info:
        load(tmp_path, normalizer=make_replacement("x", "y" * 900))
    assert len(str(error_info.value)) < 600


def test_special_tokens_are_not_normalized(tmp_path: Path) -> None:
    token = make_added_token("x" * 9_000, special=True, normalized=False)
    tokenizer = load(tmp_path, normalizer=make_replacement("x", "y" * 900), added_tokens=[token])
    assert tokenizer.encode("x" * 9_000).ids == [4]


def test_patterns_at_the_end_of_a_line_take_linear_time(tmp_path: Path) -> None:
    """DeepSeek V2 has such a pattern; it is anchored at the start of a run, with the same matches."""
    bpe_model = {"type": "BPE", "vocab": {"a": 0, " ": 1, "  ": 2, "?": 3}, "merges": [[" ", " "]], "unk_token": "?"}
    tokenizer = load(tmp_path, model=bpe_model, pre_tokenizer=make_sequence("pretokenizers", make_split(r"\s+$")))
    assert tokenizer.encode("a  a  ").tokens == ["a", "  ", "a", "  "]
    assert len(tokenizer.encode_plain(["a" + " " * 100_000 + "a"])[0]) == 50_002


PUBLISHED: dict[str, dict[str, Any]] = {
    "Llama": {
        "normalizer": make_sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, make_replacement(" ", "▁"))
    },
    "GPT-2": {"pre_tokenizer": BYTE_LEVEL},
    "GPT-4": {"pre_tokenizer": make_sequence("pretokenizers", make_split(LLAMA3), BYTE_LEVEL | {"use_regex": False})},
    "T5": {"pre_tokenizer": make_sequence("pretokenizers", {"type": "WhitespaceSplit"}, METASPACE)},
    "ALBERT": {
        "normalizer": make_sequence(
            "normalizers",
            make_replacement("``", '"'),
            make_replacement("''", '"'),
            {"type": "NFKD"},
            {"type": "StripAccents"},
            {"type": "Lowercase"},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ),
        "pre_tokenizer": METASPACE,
    },
    "one template": {"post_processor": make_template([X, A, X])},
}


@pytest.mark.parametrize("case", PUBLISHED)
def test_published_pipelines_load_and_encode(tmp_path: Path, case: str) -> None:
    assert load(tmp_path, **PUBLISHED[case]).encode("a a ﷺ").ids


@pytest.mark.parametrize("strategy", [{"Fixed": 10**9}, {"Fixed": 2**40}, "BatchLongest"], ids=str)
def test_padding_and_truncation_of_a_file_are_ignored(tmp_path: Path, strategy: Any) -> None:
    padding = {"strategy": strategy, "direction": "Right", "pad_to_multiple_of": 10**9, "pad_id": 0, "pad_type_id": 0}
    truncation = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    tokenizer = load(
        tmp_path, pre_tokenizer={"type": "Whitespace"}, padding=padding | {"pad_token": "a"}, truncation=truncation
    )
    assert tokenizer.encode("a a a").ids == [0, 0, 0]
    assert tokenizer.pad_token == "a"


def test_recipes_reject_unbounded_files(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\nword\n", encoding="utf-8")
    load_tokenizer(tmp_path, "bert", {}).source.save(tmp_path / "saved")
    path = tmp_path / "saved" / "tokenizer.json"
    data = json.loads(path.read_text("utf-8"))
    for hostile_sections in (HOSTILE["repeated replacements"], HOSTILE["repeated text in a template"]):
        path.write_text(json.dumps(data | hostile_sections), encoding="utf-8")
        with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
            load_tokenizer(tmp_path / "saved", "bert", {})


def test_short_texts_need_no_check() -> None:
    assert 4 * pipeline.MAX_UNCHECKED_CHARACTERS * limits.MAX_GROWTH <= limits.MAX_NORMALIZED_BYTES


def test_texts_are_limited_before_and_after_normalization(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = load(tmp_path, normalizer=make_replacement("a", "b" * 50))
    monkeypatch.setattr(limits, "MAX_NORMALIZED_BYTES", 10_000)
    monkeypatch.setattr(limits, "NORMALIZATION_CHUNK_SIZE", 64)
    monkeypatch.setattr(pipeline, "MAX_UNCHECKED_CHARACTERS", 10)
    assert tokenizer.encode("c" * 9_000).ids == [1]  # normalization does not change it
    for call in (
        tokenizer.encode,
        lambda text: tokenizer.encode_ids([text]),
        lambda text: tokenizer.encode_plain([text]),
    ):
        with pytest.raises(InputError, match="exceeds 10,000 bytes"):
            call("a" * 300)
    monkeypatch.setattr(limits, "MAX_TEXT_LENGTH", 100)
    with pytest.raises(InputError, match="101 characters, more than the maximum of 100"):
        tokenizer.encode("c" * 101)
    with pytest.raises(InputError, match="more than the maximum of 100"):
        tokenizer.encode(["c" * 6_000, "c" * 6_000])


def test_trained_special_tokens_can_be_loaded() -> None:
    assert vocabulary_options.MAX_SPECIAL_TOKEN_BYTES <= vocabulary_limits.MAX_AFFIX_BYTES
