"""The beginning of a long text has the same tokens as in the complete text, and the others are counted."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import InputError
from clearhead.text import Encoding, Tokenizer, load_tokenizer, long_texts, pipeline
from clearhead.text.encoding import truncate
from clearhead.text.token_counter import build_word_token_counter
from tests.text.tokenizer_folders import SENTENCES, write_marian

LoadFamily = Callable[[str, str], tuple[Tokenizer, Any]]
FAMILIES = ("bert_cased", "roberta", "gpt2", "albert", "xlm_roberta", "t5", "deberta", "mpnet")
UNITS = (
    "!",
    "##",
    "<p class='a'>",
    "'",
    "a",
    "keeper",
    "東京",
    "👩‍👩‍👧‍👦",
    "e\u0301",
    "\u200b",
    "12",
    " ",
    "\n",
    "a ",
    "[MASK]",
    "<mask> ",
    "\x01",
    " ".join(SENTENCES) + " ",
)


@pytest.fixture
def lower_length_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat texts of more than 100 characters as long."""
    monkeypatch.setattr(long_texts, "LONG_TEXT_LENGTH", 100)
    monkeypatch.setattr(long_texts, "CHARACTERS_PER_TOKEN", 4)
    monkeypatch.setattr(long_texts, "WHITESPACE_SEARCH", 40)


@pytest.mark.usefixtures("lower_length_limits")
@pytest.mark.parametrize("name", FAMILIES)
def test_prefix_tokens_match_the_complete_text(load_family: LoadFamily, name: str) -> None:
    ours, _ = load_family(name, "legacy")
    texts = [(unit * 700)[:700] for unit in UNITS] + [" ".join(SENTENCES), "x" * 300 + " keeper" * 60]
    pairs = [(texts[-2], "short"), ("short", texts[-2]), (texts[0], texts[-2]), (texts[-2], texts[0])]
    items: list[Any] = [*texts, *pairs]
    for item in items:
        for max_length in (8, 25, 60):
            expected = truncate(ours.encode_batch([item])[0], max_length)
            assert ours.encode_batch([item], max_length=max_length) == [expected], (item[:20], max_length)
            token_ids = ours.encode_ids([item], max_length=max_length)[0]
            assert (token_ids.ids, token_ids.segments, token_ids.truncated) == (
                expected.ids,
                expected.segments,
                expected.truncated,
            )


@pytest.mark.usefixtures("lower_length_limits")
def test_left_truncation_and_lists_of_words(load_family: LoadFamily, tmp_path: Path) -> None:
    ours, _ = load_family("bert_cased", "legacy")
    words = ["keeper"] * 300
    assert ours.encode_batch([words], max_length=20) == [truncate(ours.encode(words), 20)]
    ours.save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(path.read_text().replace("{", '{"truncation_side": "left",', 1))
    left_tokenizer = load_tokenizer(tmp_path, "bert", {}).source
    text = " ".join(SENTENCES)
    expected = truncate(left_tokenizer.encode(text), 20, side="left")
    assert left_tokenizer.encode(text, max_length=20) == expected
    assert left_tokenizer.encode_ids([text], max_length=20)[0].ids == expected.ids


class BackendRecorder:
    """Records the characters that a backend receives."""

    def __init__(self, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.encoded_characters, self.longest_length = 0, 0
        backend: Any = tokenizer._backend
        encode, encode_ids, count_tokens = backend.encode, backend.encode_ids, backend.count_tokens

        def record_encode(items: Sequence[Any], *, split: bool) -> list[Encoding]:
            self.encoded_characters += sum(
                len(text) for item in items for text in ([item] if isinstance(item, str) else item)
            )
            return encode(items, split=split)

        def record_ids(items: Sequence[Any], **options: Any) -> Any:
            self.longest_length = max(
                self.longest_length,
                *(len(text) for item in items for text in ([item] if isinstance(item, str) else item)),
            )
            return encode_ids(items, **options)

        def record_count(text: str) -> int:
            self.longest_length = max(self.longest_length, len(text))
            return count_tokens(text)

        for name, recorder in (("encode", record_encode), ("encode_ids", record_ids), ("count_tokens", record_count)):
            monkeypatch.setattr(backend, name, recorder)


def test_long_texts_are_not_encoded_completely(load_family: LoadFamily, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, _ = load_family("bert_cased", "legacy")
    text = "keeper! " * 12_500
    recorder = BackendRecorder(ours, monkeypatch)
    encoding = ours.encode(text, max_length=64)
    assert len(encoding) == 64
    assert encoding.truncated == 25_000 + 2 - 64
    assert recorder.encoded_characters < 5_000  # of 100,000 characters, with their offsets


@pytest.mark.parametrize("unit", ["keeper! ", "!", "<b>", "keeper\n\n"])
def test_huge_texts_are_counted_in_chunks(load_family: LoadFamily, monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    ours, _ = load_family("bert_cased", "legacy")
    text = (unit * 3_000)[:3_000]
    expected = truncate(ours.encode(text), 30)
    expected_pair = truncate(ours.encode("keeper", text), 30)
    monkeypatch.setattr(long_texts, "MAX_TEXT_LENGTH", 1_000)
    monkeypatch.setattr(long_texts, "CHUNK_SIZE", 500)
    monkeypatch.setattr(long_texts, "WHITESPACE_SEARCH", 40)
    monkeypatch.setattr(long_texts, "LONG_TEXT_LENGTH", 100)
    recorder = BackendRecorder(ours, monkeypatch)
    assert ours.encode(text, max_length=30) == expected
    assert ours.encode_ids([text], max_length=30)[0].truncated == expected.truncated
    assert ours.encode("keeper", text, max_length=30) == expected_pair
    assert recorder.longest_length <= 500


def test_huge_texts_with_few_tokens_are_rejected(load_family: LoadFamily, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, _ = load_family("bert_cased", "legacy")
    monkeypatch.setattr(long_texts, "MAX_TEXT_LENGTH", 1_000)
    monkeypatch.setattr(long_texts, "CHUNK_SIZE", 500)
    with pytest.raises(InputError, match="3,000 characters"):
        ours.encode_ids(["x" * 3_000], max_length=30)


def test_long_marian_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = load_tokenizer(tmp_path, write_marian(tmp_path), {}).source
    text = " ".join(SENTENCES[:6])
    expected = truncate(ours.encode(text), 12)
    monkeypatch.setattr(long_texts, "LONG_TEXT_LENGTH", 100)
    monkeypatch.setattr(long_texts, "CHARACTERS_PER_TOKEN", 4)
    assert ours.encode(text, max_length=12) == expected
    assert ours.encode_ids([text], max_length=12)[0].truncated == expected.truncated


@pytest.mark.parametrize("name", ["distilbert", "electra", "mpnet"])
def test_independent_words_are_counted_once(
    load_family: LoadFamily, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, _ = load_family(name, "legacy")
    backend: Any = ours._backend
    assert backend._word_counter is not None
    text = "\tthe keeper's  lamp,\nÉlan Éa 東京 [MASK] a[MASK]b xyzzy\u00a0x\u3000y \x1c \x0bq\r\n" * 40
    items: list[Any] = [text, ("a keeper", text), (text, text[3:]), (text[7:], text), "x" * 900, "short", " " * 900]
    expected = [truncate(encoding, 24) for encoding in ours.encode_batch(items)]
    monkeypatch.setattr(pipeline, "LONG_TEXT_LENGTH", 100)
    monkeypatch.setattr(pipeline, "CHARACTERS_PER_TOKEN", 2)
    token_ids = backend.encode_ids(items, split=False, max_length=24)
    assert [(encoding.ids, encoding.segments, encoding.truncated) for encoding in token_ids] == [
        (encoding.ids, encoding.segments, encoding.truncated) for encoding in expected
    ]
    assert backend.count_tokens(text) == len(ours.encode(text)) - 2


@pytest.mark.parametrize("name", ["bert_real", "distilbert", "electra", "mpnet"])
def test_word_counts_match_the_library(load_family: LoadFamily, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, _ = load_family(name, "legacy")
    backend: Any = ours._backend
    rng = random.Random(7)
    parts = ["keeper", "e", "é", "e\u0301", "Σ", "я", "東", "-", "_", "[MASK]", "[mask]", "<mask>", "7", "\u200d", "ß"]
    monkeypatch.setattr(pipeline, "LONG_TEXT_LENGTH", 0)
    for _ in range(150):
        words = ["".join(rng.choices(parts, k=rng.choice((1, 3, 40, 99, 140)))) for _ in range(4)]
        text = rng.choice((" ", "\n", "-", "!")).join(words)
        encoding = ours.encode(text)
        assert backend.count_tokens(text) == encoding.special.count(False), text


def test_a_repeated_long_word_is_tokenized_once(load_family: LoadFamily, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, _ = load_family("mpnet", "legacy")
    backend: Any = ours._backend
    word = "z" * 99 + " "
    tokens_per_word = backend.count_tokens(word)
    encoded_characters = 0
    library_pipeline = backend.pipeline

    class RecordingPipeline:
        def encode_batch_fast(self, items: Sequence[Any], **options: Any) -> Any:
            nonlocal encoded_characters
            encoded_characters += sum(map(len, items))
            return library_pipeline.encode_batch_fast(items, **options)

        def __getattr__(self, name: str) -> Any:
            return getattr(library_pipeline, name)

    monkeypatch.setattr(backend, "pipeline", RecordingPipeline())
    assert ours.encode_ids([word * 10_000], max_length=64)[0].truncated == 10_000 * tokens_per_word + 2 - 64
    assert encoded_characters < 20_000  # of a million characters


@pytest.mark.parametrize(
    "changed_section",
    [
        {"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "_"}},
        {"pre_tokenizer": None},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Punctuation", "behavior": "Isolated"}]}},
        {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}},
        {"model": {"type": "BPE"}},
        {"added_tokens": [{"content": "two words"}]},
        {"added_tokens": [{"content": "two\u00a0words"}]},
        {"added_tokens": [{"content": "東京"}]},
    ],
)
def test_pipelines_that_cross_word_boundaries(changed_section: dict[str, Any]) -> None:
    data = {
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece"},
        "added_tokens": [{"content": "[MASK]"}],
    }
    assert build_word_token_counter(data) is not None
    assert build_word_token_counter(data | changed_section) is None


def test_splitting_does_not_create_added_tokens() -> None:
    data: dict[str, Any] = {
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece"},
        "added_tokens": [{"content": "[new]", "single_word": True}],
    }
    counter = build_word_token_counter(data)
    assert counter is not None
    assert counter.get_first_words("one_two-three", 9) == "one_two"
    assert counter.get_first_words("one_two[three", 9) == "one_two[three"  # an added token starts with [
    assert counter.get_first_words("one_two_three", 9) == "one_two_three"
    assert not counter.has_slow_words("_" * 100)


def test_chinese_characters_are_not_slow(load_family: LoadFamily) -> None:
    ours, _ = load_family("mpnet", "legacy")
    backend: Any = ours._backend
    assert not backend._word_counter.has_slow_words("東京" * 100)
    assert backend._word_counter.has_slow_words("z" * 99)
