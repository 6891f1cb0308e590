"""Ids, offsets, words, segments and special tokens match `transformers`, for every family and file format."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.text import Encoding, Tokenizer, load_tokenizer
from tests.text.tokenizer_folders import LEGACY_WRITERS, TEXTS, WORDS
from tests.variation import scaled

LoadFamily = Callable[[str, str], tuple[Tokenizer, Any]]
ORIGINS = ("legacy", "theirs", "ours")
RANDOM_TEXT_FAMILIES = ("bert_cased", "roberta_prefixed", "albert", "t5", "deberta_split", "openai_gpt")

# Letters of many scripts, combining marks, whitespace, and strings that look like special tokens.
LETTERS = st.sampled_from(
    "aeAEßéıΣ漢字かな한글אב\u0301\u0308\u200b\u200d\u00ad\t\n\r \u00a0\u3000.,'\"`()<>[]/_▁#👩🏽ﬁ½²\x00\x07"
)
TEXT_PARTS = st.one_of(
    LETTERS,
    st.characters(exclude_categories=["Cs"]),
    st.sampled_from(["[MASK]", "<mask>", "</s>", " lighthouse keeper", "<extra_id_1>", "  ", "``", "The"]),
)
RANDOM_TEXT = st.lists(TEXT_PARTS, max_size=40).map("".join)


def make_encoding(library_encoding: Any) -> Encoding:
    """Convert an encoding of the reference library."""
    return Encoding(
        ids=library_encoding.ids,
        tokens=library_encoding.tokens,
        offsets=library_encoding.offsets,
        words=library_encoding.word_ids,
        segments=library_encoding.type_ids,
        special=[bool(flag) for flag in library_encoding.special_tokens_mask],
        sides=library_encoding.sequence_ids,
    )


@pytest.mark.thin(4)
@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("name", LEGACY_WRITERS)
def test_encodings_match_transformers(load_family: LoadFamily, name: str, origin: str) -> None:
    ours, theirs = load_family(name, origin)
    texts = list(TEXTS)
    assert ours.encode_batch(texts) == [make_encoding(e) for e in theirs(texts).encodings]
    assert [ours.encode(text) for text in texts] == ours.encode_batch(texts)
    first_texts, second_texts = texts, texts[5:] + texts[:5]
    pairs = list(zip(first_texts, second_texts, strict=True))
    assert ours.encode_batch(pairs) == [make_encoding(e) for e in theirs(first_texts, second_texts).encodings]
    for words in WORDS:
        if words:
            assert ours.encode(words) == make_encoding(theirs(words, is_split_into_words=True).encodings[0])
    split_encoding = theirs([WORDS[0]], [WORDS[1]], is_split_into_words=True).encodings[0]
    assert ours.encode(WORDS[0], WORDS[1]) == make_encoding(split_encoding)


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("name", LEGACY_WRITERS)
def test_decoding_and_vocabulary_match_transformers(load_family: LoadFamily, name: str, origin: str) -> None:
    ours, theirs = load_family(name, origin)
    for text in TEXTS:
        ids = ours.encode(text).ids
        for skip_special in (True, False):
            assert ours.decode(ids, skip_special=skip_special) == theirs.decode(ids, skip_special_tokens=skip_special)
    assert ours.decode_batch([[], ids]) == theirs.batch_decode([[], ids], skip_special_tokens=True)
    assert ours.vocab == theirs.get_vocab()
    assert ours.vocab_size == len(theirs)
    for key in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"):
        assert getattr(ours, f"{key}_token") == getattr(theirs, f"{key}_token")
        assert getattr(ours, f"{key}_id") == getattr(theirs, f"{key}_token_id")
    max_length = theirs.model_max_length
    assert ours.max_length == (max_length if max_length < 1_000_000 else None)


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", LEGACY_WRITERS)
def test_truncation_matches_transformers(load_family: LoadFamily, name: str) -> None:
    ours, theirs = load_family(name, "legacy")
    text, second_text = TEXTS[6] * 3, TEXTS[7] * 2
    full_length, full_pair_length = len(ours.encode(text)), len(ours.encode(text, second_text))
    for max_length in (5, 8, 13, 30, full_length - 1, full_length, full_length + 1):
        truncated = ours.encode(text, max_length=max_length)
        assert truncated.ids == theirs(text, truncation=True, max_length=max_length)["input_ids"]
        assert truncated.truncated == max(full_length - max_length, 0)
        for first, paired_text in ((text, second_text), (second_text, text), (text, text)):
            truncated = ours.encode(first, paired_text, max_length=max_length)
            expected = theirs([first], [paired_text], truncation=True, max_length=max_length)
            assert truncated.ids == expected["input_ids"][0]
    assert ours.encode(text, second_text, max_length=full_pair_length).truncated == 0


@pytest.mark.parametrize("name", RANDOM_TEXT_FAMILIES)
@settings(max_examples=scaled(60), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(text=RANDOM_TEXT, second=RANDOM_TEXT)
def test_random_text_matches_transformers(load_family: LoadFamily, name: str, text: str, second: str) -> None:
    ours, theirs = load_family(name, "legacy")
    expected = theirs([text, second], [second, text]).encodings
    assert ours.encode_batch([(text, second), (second, text)]) == [make_encoding(e) for e in expected]
    ids = ours.encode(text).ids
    assert ids == theirs(text)["input_ids"]
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("name", LEGACY_WRITERS)
def test_a_single_difference_is_detected(load_family: LoadFamily, name: str) -> None:
    """Encodings that differ in one value of any list are not equal."""
    ours, theirs = load_family(name, "legacy")
    expected = make_encoding(theirs(TEXTS[6]).encodings[0])
    encoding = ours.encode(TEXTS[6])
    assert encoding == expected
    assert replace(encoding, ids=[encoding.ids[0] + 1, *encoding.ids[1:]]) != expected
    assert replace(encoding, offsets=[*encoding.offsets[:-1], (7, 9)]) != expected
    assert replace(encoding, words=[9, *encoding.words[1:]]) != expected
    assert replace(encoding, segments=[1, *encoding.segments[1:]]) != expected
    assert replace(encoding, special=[not encoding.special[0], *encoding.special[1:]]) != expected
    assert replace(encoding, sides=[1, *encoding.sides[1:]]) != expected


def test_texts_detect_wrong_settings(load_family: LoadFamily, tmp_path: Path) -> None:
    """The test texts reveal a tokenizer that ignores one of its settings."""
    for name, setting, value in (
        ("bert_cased", "do_lower_case", True),
        ("bert_cased", "tokenize_chinese_chars", True),
        ("bert_cased", "strip_accents", None),
        ("roberta_prefixed", "add_prefix_space", False),
        ("albert", "keep_accents", False),
        ("deberta_split", "split_by_punct", False),
        ("t5", "extra_ids", 0),
    ):
        folder = tmp_path / f"{name}_{setting}"
        model_type = LEGACY_WRITERS[name](folder)
        config_path = folder / "tokenizer_config.json"
        config_path.write_text(json.dumps(json.loads(config_path.read_text()) | {setting: value}))
        changed_tokenizer = load_tokenizer(folder, model_type, {}).source
        ours, _ = load_family(name, "legacy")
        differs_on_probes = changed_tokenizer.golden() != ours.golden()
        assert differs_on_probes or changed_tokenizer.encode_batch(TEXTS) != ours.encode_batch(TEXTS), setting


@pytest.mark.slow
def test_very_long_line(load_family: LoadFamily) -> None:
    line = ("The lighthouse keeper's café, 東京 and 3.14 letters. " * 22_000)[: 1 << 20]
    for name in ("bert_real", "albert_real"):
        ours, theirs = load_family(name, "legacy")
        expected = theirs(line)["input_ids"]
        assert ours.encode(line).ids == expected
        assert ours.encode(line, max_length=512).truncated == len(expected) - 512
        window_ids = [token_id for window in ours.windows(line, max_length=512) for token_id in window.ids[1:-1]]
        assert window_ids == expected[1:-1]


def test_golden_ids_match_transformers(load_family: LoadFamily) -> None:
    for name in ("bert_cased", "gpt2", "t5"):
        ours, theirs = load_family(name, "legacy")
        golden = ours.golden()
        assert len(golden) >= 8
        assert golden == {text: theirs(text)["input_ids"] for text in golden}
    assert load_family("bert_cased", "legacy")[0].golden() != load_family("distilbert", "legacy")[0].golden()
