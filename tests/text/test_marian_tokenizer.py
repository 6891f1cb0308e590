"""Marian tokenizers: pieces match SentencePiece, ids come from vocab.json, for source and target."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.errors import InputError, TokenizerError
from clearhead.text import Tokenizer, TokenizerPair, load_tokenizer
from clearhead.text.sentencepiece.decoder import make_joiner
from clearhead.text.sentencepiece.model_file import parse_model
from clearhead.text.sentencepiece.normalizer import SentencePieceNormalizer
from clearhead.text.sentencepiece.segmenter import make_segmenter
from clearhead.text.sentencepiece.trie import StepBudget
from tests.text.tokenizer_folders import (
    SENTENCES,
    TEXTS,
    WORDS,
    find_published_files,
    train_sentencepiece,
    write_json,
    write_marian,
)
from tests.variation import scaled

VARIANTS: dict[str, dict[str, Any]] = {
    "unigram": {},
    "separate": {"has_separate_vocabs": True},
    "bpe": {"model_type": "bpe"},
    "bytes": {"byte_fallback": True, "vocab_size": 500},
    "bpe_bytes": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 520},
    "user": {"user_defined_symbols": "keep,ee,>"},
    "bpe_user": {"model_type": "bpe", "user_defined_symbols": "keep,ee,>"},
    "blanks_kept": {"remove_extra_whitespaces": False},
    "no_prefix": {"add_dummy_prefix": False},
    "identity": {"normalization_rule_name": "identity"},
    "folded": {"normalization_rule_name": "nfkc_cf"},
    "phrases": {"split_by_whitespace": False},
}
CODES = (">>fr<< Hello world", ">>fr<<Hello", ">>xx<< unknown code", ">>a", "a >>fr<< b", "</s>>>fr<<x", "<pad></s> y")
LoadPair = Callable[[str], tuple[TokenizerPair, Any]]


@pytest.fixture(scope="session")
def load_pair(tmp_path_factory: pytest.TempPathFactory, load_reference: Callable[[Path], Any]) -> LoadPair:
    loaded_pairs: dict[str, tuple[TokenizerPair, Any]] = {}

    def build(name: str) -> tuple[TokenizerPair, Any]:
        if name not in loaded_pairs:
            folder = tmp_path_factory.mktemp(name)
            write_marian(folder, **VARIANTS[name])
            loaded_pairs[name] = load_tokenizer(folder, "marian", {}), load_reference(folder)
        return loaded_pairs[name]

    return build


def get_sides(pair: TokenizerPair) -> tuple[Tokenizer, Tokenizer]:
    assert pair.target is not None
    return pair.source, pair.target


def make_piece_splitter(data: bytes) -> Callable[[str], list[str]]:
    """Return a function that splits texts with a SentencePiece model."""
    model = parse_model(data, "spiece.model")
    normalizer, segment = SentencePieceNormalizer(model, "spiece.model"), make_segmenter(model, "spiece.model")

    def split(text: str) -> list[str]:
        budget = StepBudget(len(text))
        return [piece for piece, _, _ in segment(normalizer.normalize(text, budget)[0], budget)]

    return split


def make_marian_texts(count: int) -> list[str]:
    rng = random.Random(7)
    letters = "abcdeeé \u0301\u0323\u0302\t\n漢字▁<>.,!ﬁ½\u200b👩\u200d한ÅÄß0kp"
    texts = ["".join(rng.choice(letters) for _ in range(rng.randint(0, 25))) for _ in range(count)]
    return [rng.choice(["", "", ">>fr<<", "x</s> ", "<unk>"]) + text for text in texts]


@pytest.mark.parametrize("name", VARIANTS)
def test_source_and_target_match_transformers(load_pair: LoadPair, name: str) -> None:
    pair, theirs = load_pair(name)
    source, target = get_sides(pair)
    for text in [*TEXTS, *SENTENCES, *CODES, *make_marian_texts(150)]:
        expected = theirs(text, return_special_tokens_mask=True)
        encoding = source.encode(text)
        assert encoding.ids == expected["input_ids"], text
        assert encoding.special == [bool(flag) for flag in expected["special_tokens_mask"]], text
        encoding = target.encode(text)
        assert encoding.ids == theirs(text_target=text)["input_ids"], text
        for skip_special in (True, False):
            assert target.decode(encoding.ids, skip_special=skip_special) == theirs.decode(
                encoding.ids, skip_special_tokens=skip_special
            )
    for words in WORDS[:3]:
        encoding = source.encode(words)
        assert encoding.ids == theirs(words, is_split_into_words=True)["input_ids"]
        assert {w for w in encoding.words if w is not None} <= set(range(len(words)))


def test_vocabulary_matches_transformers(load_pair: LoadPair) -> None:
    for name in ("unigram", "separate"):
        pair, theirs = load_pair(name)
        assert pair.source.vocab == theirs.get_vocab()
        assert pair.source.vocab_size == len(theirs)
        assert pair.source.max_length == theirs.model_max_length == 512
        for key in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"):
            assert getattr(pair.source, f"{key}_id") == getattr(theirs, f"{key}_token_id")
    assert load_pair("unigram")[0].source.token_id(">>fr<<") is not None
    assert load_pair("unigram")[0].source.token_id("no such token") is None


def test_source_and_target_ids_differ(load_pair: LoadPair) -> None:
    pair, theirs = load_pair("separate")
    source, target = get_sides(pair)
    text = SENTENCES[6]
    assert source.encode(text).ids == theirs(text)["input_ids"]
    assert target.encode(text).ids != theirs(text)["input_ids"]


@settings(max_examples=scaled(150), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_random_text_matches_transformers(load_pair: LoadPair, text: str) -> None:
    for name in ("unigram", "bpe_bytes"):
        pair, theirs = load_pair(name)
        encoding = pair.source.encode(text)
        assert encoding.ids == theirs(text)["input_ids"]
        assert all(0 <= start <= end <= len(text) for start, end in encoding.offsets)
        assert sorted(w for w in encoding.words if w is not None) == [w for w in encoding.words if w is not None]


def test_offsets_match_words(load_pair: LoadPair) -> None:
    source = load_pair("unigram")[0].source
    text = ">>fr<<  The  old keeper\u0301</s> wrote"
    encoding = source.encode(text)
    spans: dict[int, tuple[int, int]] = {}
    for word, (start, end) in zip(encoding.words, encoding.offsets, strict=True):
        if word is not None:
            spans[word] = (min(start, spans.get(word, (start, end))[0]), max(end, spans.get(word, (start, end))[1]))
    assert [text[start:end] for start, end in spans.values()] == [
        ">>fr<<",
        "The",
        "old",
        "keeper\u0301",
        "</s>",
        "wrote",
    ]


@pytest.mark.parametrize("name", ["unigram", "separate"])
def test_save_and_reload(load_pair: LoadPair, name: str, tmp_path: Path, load_reference: Callable[[Path], Any]) -> None:
    pair, theirs = load_pair(name)
    our_folder, their_folder = tmp_path / "mine", tmp_path / "foreign"
    pair.source.save(our_folder)
    theirs.save_pretrained(their_folder)
    for folder in (our_folder, their_folder):
        write_json(folder / "config.json", {"model_type": "marian"})
        reloaded = load_tokenizer(folder, "marian", {})
        reloaded_reference = load_reference(folder)
        for text in (*TEXTS, *CODES):
            assert reloaded.source.encode(text) == pair.source.encode(text)
            assert get_sides(reloaded)[1].encode(text) == get_sides(pair)[1].encode(text)
            assert reloaded_reference(text)["input_ids"] == theirs(text)["input_ids"]


def test_truncation_is_counted(load_pair: LoadPair) -> None:
    pair, theirs = load_pair("unigram")
    text = SENTENCES[0]
    complete = pair.source.encode(text)
    truncated = pair.source.encode(text, max_length=6)
    assert truncated.ids == theirs(text, truncation=True, max_length=6)["input_ids"]
    assert truncated.truncated == len(complete) - 6
    assert len(pair.source.windows(text, max_length=6, stride=2)) > 3


def test_pieces_of_a_published_model_match_sentencepiece() -> None:
    data = find_published_files("albert/spiece.model")[0].read_bytes()
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    split = make_piece_splitter(data)
    for text in [*TEXTS, *SENTENCES, *make_marian_texts(1500), "ggg 000,000 aaaa eeeee xxx " * 20]:
        assert split(text) == theirs.encode(text, out_type=str)


def test_very_long_line(load_pair: LoadPair) -> None:
    pair, theirs = load_pair("unigram")
    line = "The old lighthouse keeper wrote é 漢 letters. " * 5_000
    assert pair.source.encode(line).ids == theirs(line)["input_ids"]


def test_long_line_with_score_resets(load_pair: LoadPair) -> None:
    """SentencePiece resets path scores in long lines; random letters have many near ties that depend on it."""
    pair, theirs = load_pair("unigram")
    line = "".join(random.Random(0).choices("etaoinshrdlu  ", k=300_000))
    assert pair.source.encode(line).ids == theirs(line)["input_ids"]


@pytest.mark.parametrize("symbols", ["ab,a,b,abc,bc", "é,éa,aé,a,aa,aaa", "▁a,a▁b,b,▁"])
def test_overlapping_user_defined_pieces(symbols: str) -> None:
    data = train_sentencepiece(SENTENCES[:10], vocab_size=220, user_defined_symbols=symbols)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    split = make_piece_splitter(data)
    rng = random.Random(3)
    for _ in range(1000):
        text = "".join(rng.choices("abcéek >p", k=rng.randint(1, 14)))
        assert split(text) == theirs.encode(text, out_type=str), text


def test_unsupported_files_are_rejected(tmp_path: Path) -> None:
    write_marian(tmp_path)
    tokenizer = load_tokenizer(tmp_path, "marian", {}).source
    with pytest.raises(InputError, match="single text"):
        tokenizer.encode("a", "b")
    for settings_change, pattern in (
        ({"sp_model_kwargs": {"enable_sampling": True}}, "random"),
        ({"extra_special_tokens": ["<x>"]}, "additional special tokens"),
        ({"unk_token": "<none>"}, "The unk_token .* is not in the vocabulary"),
        ({"added_tokens_decoder": {"3": {"content": "x", "lstrip": True}}}, "lstrip, rstrip or single_word"),
    ):
        write_json(tmp_path / "tokenizer_config.json", settings_change)
        with pytest.raises(TokenizerError, match=pattern):
            load_tokenizer(tmp_path, "marian", {})
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "target.spm").unlink()
    with pytest.raises(TokenizerError, match=r"target\.spm not found; expected source\.spm, target\.spm, vocab\.json"):
        load_tokenizer(tmp_path, "marian", {})


def test_hostile_marian_files(tmp_path: Path) -> None:
    write_marian(tmp_path)
    valid_files = {name: (tmp_path / name).read_bytes() for name in ("source.spm", "vocab.json")}
    vocab = json.loads(valid_files["vocab.json"])
    cases = {
        "source.spm": [
            b"",
            b"\x00",
            b"\xff" * 40,
            valid_files["source.spm"][:1000],
            b"\x0a\xff\xff\xff\xff\x7f" + b"x" * 9,
        ],
        "vocab.json": [
            b"",
            b"[]",
            b"\xff\xfe",
            json.dumps(vocab | {"a b": -4}).encode(),
            json.dumps(vocab | {"a b": 1}).encode(),
            json.dumps(vocab | {"a b": "1"}).encode(),
            json.dumps({"x": 0}).encode(),
        ],
    }
    for name, invalid_contents in cases.items():
        for content in invalid_contents:
            (tmp_path / name).write_bytes(content)
            with pytest.raises(TokenizerError):
                load_tokenizer(tmp_path, "marian", {})
        (tmp_path / name).write_bytes(valid_files[name])
    assert load_tokenizer(tmp_path, "marian", {}).target is not None


def test_corrupt_bytes_raise_tokenizer_errors(tmp_path: Path) -> None:
    """With random bytes changed, a SentencePiece file loads and encodes, or raises a TokenizerError."""
    data = train_sentencepiece(SENTENCES[:6], vocab_size=120)
    rng = random.Random(11)
    rejected_count = 0
    for trial in range(200):
        damaged = bytearray(data)
        changed_range = len(data) if trial % 4 else 2_000  # the pieces precede the normalization table
        for _ in range(rng.randint(1, 30)):
            damaged[rng.randrange(changed_range)] = rng.randrange(256)
        if trial % 5 == 0:
            del damaged[rng.randrange(len(damaged)) :]
        try:
            model = parse_model(bytes(damaged), "broken.model")
            text, origins = SentencePieceNormalizer(model, "broken.model").normalize(
                "A keeper e\u0301 ﬁ ½ 漢", StepBudget(18)
            )
            make_segmenter(model, "broken.model")(text, StepBudget(18))
            with contextlib.suppress(ValueError):  # an invalid byte piece is reported when the folder is loaded
                make_joiner(model)([p.text for p in model.pieces])
            assert len(origins) == len(text) + 1
        except TokenizerError:
            rejected_count += 1
    assert rejected_count > 20
