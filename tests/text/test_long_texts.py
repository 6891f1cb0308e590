"""The beginning of a long text has the tokens that it has in the whole, and what follows is counted."""

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
from tests.text.tokenizer_folders import SENTENCES, marian

Family = Callable[[str, str], tuple[Tokenizer, Any]]
NAMES = ("bert_cased", "roberta", "gpt2", "albert", "xlm_roberta", "t5", "deberta", "mpnet")
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
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts count as long from a hundred characters on."""
    monkeypatch.setattr(long_texts, "LONG_TEXT", 100)
    monkeypatch.setattr(long_texts, "CHARACTERS_PER_TOKEN", 4)
    monkeypatch.setattr(long_texts, "BLANK_SEARCH", 40)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", NAMES)
def test_the_same_tokens_as_of_the_whole_text(family: Family, name: str) -> None:
    ours, _ = family(name, "legacy")
    texts = [(unit * 700)[:700] for unit in UNITS] + [" ".join(SENTENCES), "x" * 300 + " keeper" * 60]
    pairs = [(texts[-2], "short"), ("short", texts[-2]), (texts[0], texts[-2]), (texts[-2], texts[0])]
    items: list[Any] = [*texts, *pairs]
    for item in items:
        for most in (8, 25, 60):
            whole = truncate(ours.encode_batch([item])[0], most)
            assert ours.encode_batch([item], max_length=most) == [whole], (item[:20], most)
            ids = ours.encode_ids([item], max_length=most)[0]
            assert (ids.ids, ids.segments, ids.truncated) == (whole.ids, whole.segments, whole.truncated)


@pytest.mark.usefixtures("eager")
def test_cut_at_the_left_and_lists_of_words_as_before(family: Family, tmp_path: Path) -> None:
    ours, _ = family("bert_cased", "legacy")
    words = ["keeper"] * 300
    assert ours.encode_batch([words], max_length=20) == [truncate(ours.encode(words), 20)]
    ours.save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(path.read_text().replace("{", '{"truncation_side": "left",', 1))
    left = load_tokenizer(tmp_path, "bert", {}).source
    text = " ".join(SENTENCES)
    whole = truncate(left.encode(text), 20, side="left")
    assert left.encode(text, max_length=20) == whole
    assert left.encode_ids([text], max_length=20)[0].ids == whole.ids


class Counting:
    """Counts the characters that a backend is given."""

    def __init__(self, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.whole, self.longest = 0, 0
        backend: Any = tokenizer._backend
        encode, ids, count = backend.encode, backend.ids, backend.count

        def counted(items: Sequence[Any], *, split: bool) -> list[Encoding]:
            self.whole += sum(len(text) for item in items for text in ([item] if isinstance(item, str) else item))
            return encode(items, split=split)

        def measured(items: Sequence[Any], **how: Any) -> Any:
            self.longest = max(self.longest, *(len(t) for i in items for t in ([i] if isinstance(i, str) else i)))
            return ids(items, **how)

        def summed(text: str) -> int:
            self.longest = max(self.longest, len(text))
            return count(text)

        for name, call in (("encode", counted), ("ids", measured), ("count", summed)):
            monkeypatch.setattr(backend, name, call)


def test_a_long_text_is_not_encoded_whole(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, _ = family("bert_cased", "legacy")
    text = "keeper! " * 12_500
    seen = Counting(ours, monkeypatch)
    found = ours.encode(text, max_length=64)
    assert len(found) == 64
    assert found.truncated == 25_000 + 2 - 64
    assert seen.whole < 5_000  # of 100,000 characters, with their offsets


@pytest.mark.parametrize("unit", ["keeper! ", "!", "<b>", "keeper\n\n"])
def test_huge_texts_are_counted_in_parts(family: Family, monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    ours, _ = family("bert_cased", "legacy")
    text = (unit * 3_000)[:3_000]
    whole = truncate(ours.encode(text), 30)
    pair = truncate(ours.encode("keeper", text), 30)
    monkeypatch.setattr(long_texts, "MAX_TEXT_LENGTH", 1_000)
    monkeypatch.setattr(long_texts, "CHUNK_SIZE", 500)
    monkeypatch.setattr(long_texts, "BLANK_SEARCH", 40)
    monkeypatch.setattr(long_texts, "LONG_TEXT", 100)
    seen = Counting(ours, monkeypatch)
    assert ours.encode(text, max_length=30) == whole
    assert ours.encode_ids([text], max_length=30)[0].truncated == whole.truncated
    assert ours.encode("keeper", text, max_length=30) == pair
    assert seen.longest <= 500


def test_huge_texts_with_hardly_a_token_are_refused(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, _ = family("bert_cased", "legacy")
    monkeypatch.setattr(long_texts, "MAX_TEXT_LENGTH", 1_000)
    monkeypatch.setattr(long_texts, "CHUNK_SIZE", 500)
    with pytest.raises(InputError, match="3,000 characters"):
        ours.encode_ids(["x" * 3_000], max_length=30)


def test_marian_sources_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = load_tokenizer(tmp_path, marian(tmp_path), {}).source
    text = " ".join(SENTENCES[:6])
    whole = truncate(ours.encode(text), 12)
    monkeypatch.setattr(long_texts, "LONG_TEXT", 100)
    monkeypatch.setattr(long_texts, "CHARACTERS_PER_TOKEN", 4)
    assert ours.encode(text, max_length=12) == whole
    assert ours.encode_ids([text], max_length=12)[0].truncated == whole.truncated


@pytest.mark.parametrize("name", ["distilbert", "electra", "mpnet"])
def test_words_are_counted_once_where_a_pipeline_reads_each_alone(
    family: Family, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, _ = family(name, "legacy")
    backend: Any = ours._backend
    assert backend._word_reader is not None
    text = "\tthe keeper's  lamp,\nÉlan Éa 東京 [MASK] a[MASK]b xyzzy\u00a0x\u3000y \x1c \x0bq\r\n" * 40
    items: list[Any] = [text, ("a keeper", text), (text, text[3:]), (text[7:], text), "x" * 900, "short", " " * 900]
    whole = [truncate(one, 24) for one in ours.encode_batch(items)]
    monkeypatch.setattr(pipeline, "LONG_TEXT", 100)
    monkeypatch.setattr(pipeline, "CHARACTERS_PER_TOKEN", 2)
    found = backend.ids(items, split=False, max_length=24)
    assert [(one.ids, one.segments, one.truncated) for one in found] == [
        (one.ids, one.segments, one.truncated) for one in whole
    ]
    assert backend.count(text) == len(ours.encode(text)) - 2


@pytest.mark.parametrize("name", ["bert_real", "distilbert", "electra", "mpnet"])
def test_words_are_counted_as_the_library_counts_them(
    family: Family, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, _ = family(name, "legacy")
    backend: Any = ours._backend
    draw = random.Random(7)
    parts = ["keeper", "e", "é", "e\u0301", "Σ", "я", "東", "-", "_", "[MASK]", "[mask]", "<mask>", "7", "\u200d", "ß"]
    monkeypatch.setattr(pipeline, "LONG_TEXT", 0)
    for _ in range(150):
        words = ["".join(draw.choices(parts, k=draw.choice((1, 3, 40, 99, 140)))) for _ in range(4)]
        text = draw.choice((" ", "\n", "-", "!")).join(words)
        whole = ours.encode(text)
        assert backend.count(text) == whole.special.count(False), text


def test_a_megabyte_of_one_long_word_is_read_once(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, _ = family("mpnet", "legacy")
    backend: Any = ours._backend
    word = "z" * 99 + " "
    alone = backend.count(word)
    read = 0
    library = backend.pipeline

    class Measured:
        def encode_batch_fast(self, items: Sequence[Any], **how: Any) -> Any:
            nonlocal read
            read += sum(map(len, items))
            return library.encode_batch_fast(items, **how)

        def __getattr__(self, name: str) -> Any:
            return getattr(library, name)

    monkeypatch.setattr(backend, "pipeline", Measured())
    assert ours.encode_ids([word * 10_000], max_length=64)[0].truncated == 10_000 * alone + 2 - 64
    assert read < 20_000  # of a million characters


@pytest.mark.parametrize(
    "change",
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
def test_pipelines_that_look_over_blanks(change: dict[str, Any]) -> None:
    words = {
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece"},
        "added_tokens": [{"content": "[MASK]"}],
    }
    assert build_word_token_counter(words) is not None
    assert build_word_token_counter(words | change) is None


def test_added_tokens_that_stand_alone_are_not_made_by_a_cut() -> None:
    words: dict[str, Any] = {
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece"},
        "added_tokens": [{"content": "[new]", "single_word": True}],
    }
    reader = build_word_token_counter(words)
    assert reader is not None
    assert reader.take_first_words("one_two-three", 9) == "one_two"
    assert reader.take_first_words("one_two[three", 9) == "one_two[three"  # [ begins a token
    assert reader.take_first_words("one_two_three", 9) == "one_two_three"
    assert not reader.is_slow("_" * 100)


def test_chinese_letters_are_left_to_the_library(family: Family) -> None:
    ours, _ = family("mpnet", "legacy")
    backend: Any = ours._backend
    assert not backend._word_reader.is_slow("東京" * 100)
    assert backend._word_reader.is_slow("z" * 99)
