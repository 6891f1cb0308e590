"""Marian: pieces as SentencePiece itself cuts them, ids from vocab.json, on both sides of a translation."""

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
from tests.text.tokenizer_folders import SENTENCES, TEXTS, WORDS, marian, real, sentence_pieces, write_json
from tests.variation import scaled

VARIANTS: dict[str, dict[str, Any]] = {
    "unigram": {},
    "separate": {"separate": True},
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
Both = Callable[[str], tuple[TokenizerPair, Any]]


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory, reference_of: Callable[[Path], Any]) -> Both:
    made: dict[str, tuple[TokenizerPair, Any]] = {}

    def build(name: str) -> tuple[TokenizerPair, Any]:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            marian(folder, **VARIANTS[name])
            made[name] = load_tokenizer(folder, "marian", {}), reference_of(folder)
        return made[name]

    return build


def sides(pair: TokenizerPair) -> tuple[Tokenizer, Tokenizer]:
    assert pair.target is not None
    return pair.source, pair.target


def piece_cutter(data: bytes) -> Callable[[str], list[str]]:
    """The pieces of a text under a SentencePiece model."""
    model = parse_model(data, "spiece.model")
    normalizer, segment = SentencePieceNormalizer(model, "spiece.model"), make_segmenter(model, "spiece.model")

    def cut(text: str) -> list[str]:
        budget = StepBudget(len(text))
        return [piece for piece, _, _ in segment(normalizer.normalize(text, budget)[0], budget)]

    return cut


def random_texts(count: int) -> list[str]:
    choose = random.Random(7)
    letters = "abcdeeé \u0301\u0323\u0302\t\n漢字▁<>.,!ﬁ½\u200b👩\u200d한ÅÄß0kp"
    texts = ["".join(choose.choice(letters) for _ in range(choose.randint(0, 25))) for _ in range(count)]
    return [choose.choice(["", "", ">>fr<<", "x</s> ", "<unk>"]) + text for text in texts]


@pytest.mark.parametrize("name", VARIANTS)
def test_both_sides_encode_and_decode_as_in_transformers(both: Both, name: str) -> None:
    pair, theirs = both(name)
    source, target = sides(pair)
    for text in [*TEXTS, *SENTENCES, *CODES, *random_texts(150)]:
        expected = theirs(text, return_special_tokens_mask=True)
        found = source.encode(text)
        assert found.ids == expected["input_ids"], text
        assert found.special == [bool(mark) for mark in expected["special_tokens_mask"]], text
        found = target.encode(text)
        assert found.ids == theirs(text_target=text)["input_ids"], text
        for skip in (True, False):
            assert target.decode(found.ids, skip_special=skip) == theirs.decode(found.ids, skip_special_tokens=skip)
    for words in WORDS[:3]:
        found = source.encode(words)
        assert found.ids == theirs(words, is_split_into_words=True)["input_ids"]
        assert {w for w in found.words if w is not None} <= set(range(len(words)))


def test_numbers_are_those_of_transformers(both: Both) -> None:
    for name in ("unigram", "separate"):
        pair, theirs = both(name)
        assert pair.source.vocab == theirs.get_vocab()
        assert pair.source.vocab_size == len(theirs)
        assert pair.source.max_length == theirs.model_max_length == 512
        for key in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"):
            assert getattr(pair.source, f"{key}_id") == getattr(theirs, f"{key}_token_id")
    assert both("unigram")[0].source.token_id(">>fr<<") is not None
    assert both("unigram")[0].source.token_id("no such token") is None


def test_control_the_other_side_gives_other_ids(both: Both) -> None:
    pair, theirs = both("separate")
    source, target = sides(pair)
    text = SENTENCES[6]
    assert source.encode(text).ids == theirs(text)["input_ids"]
    assert target.encode(text).ids != theirs(text)["input_ids"]


@settings(max_examples=scaled(150), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_random_text_encodes_as_in_transformers(both: Both, text: str) -> None:
    for name in ("unigram", "bpe_bytes"):
        pair, theirs = both(name)
        found = pair.source.encode(text)
        assert found.ids == theirs(text)["input_ids"]
        assert all(0 <= start <= end <= len(text) for start, end in found.offsets)
        assert sorted(w for w in found.words if w is not None) == [w for w in found.words if w is not None]


def test_offsets_point_at_the_words(both: Both) -> None:
    source = both("unigram")[0].source
    text = ">>fr<<  The  old keeper\u0301</s> wrote"
    encoding = source.encode(text)
    spans: dict[int, tuple[int, int]] = {}
    for word, (start, end) in zip(encoding.words, encoding.offsets, strict=True):
        if word is not None:
            spans[word] = (min(start, spans.get(word, (start, end))[0]), max(end, spans.get(word, (start, end))[1]))
    assert [text[a:b] for a, b in spans.values()] == [">>fr<<", "The", "old", "keeper\u0301", "</s>", "wrote"]


@pytest.mark.parametrize("name", ["unigram", "separate"])
def test_saving_and_reading_back(both: Both, name: str, tmp_path: Path, reference_of: Callable[[Path], Any]) -> None:
    pair, theirs = both(name)
    mine, foreign = tmp_path / "mine", tmp_path / "foreign"
    pair.source.save(mine)
    theirs.save_pretrained(foreign)
    for folder in (mine, foreign):
        write_json(folder / "config.json", {"model_type": "marian"})
        again = load_tokenizer(folder, "marian", {})
        read = reference_of(folder)
        for text in (*TEXTS, *CODES):
            assert again.source.encode(text) == pair.source.encode(text)
            assert sides(again)[1].encode(text) == sides(pair)[1].encode(text)
            assert read(text)["input_ids"] == theirs(text)["input_ids"]


def test_cutting_is_counted(both: Both) -> None:
    pair, theirs = both("unigram")
    text = SENTENCES[0]
    whole = pair.source.encode(text)
    cut = pair.source.encode(text, max_length=6)
    assert cut.ids == theirs(text, truncation=True, max_length=6)["input_ids"]
    assert cut.truncated == len(whole) - 6
    assert len(pair.source.windows(text, max_length=6, stride=2)) > 3


def test_the_real_model_is_cut_as_sentencepiece_cuts_it() -> None:
    data = real("albert/spiece.model")[0].read_bytes()
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    cut = piece_cutter(data)
    for text in [*TEXTS, *SENTENCES, *random_texts(1500), "ggg 000,000 aaaa eeeee xxx " * 20]:
        assert cut(text) == theirs.encode(text, out_type=str)


def test_a_line_of_a_megabyte(both: Both) -> None:
    pair, theirs = both("unigram")
    line = "The old lighthouse keeper wrote é 漢 letters. " * 5_000
    assert pair.source.encode(line).ids == theirs(line)["input_ids"]


def test_a_long_line_keeps_its_precision(both: Both) -> None:
    """SentencePiece sets its sums back to zero on the way; random letters are full of near ties that show it."""
    pair, theirs = both("unigram")
    line = "".join(random.Random(0).choices("etaoinshrdlu  ", k=300_000))
    assert pair.source.encode(line).ids == theirs(line)["input_ids"]


@pytest.mark.parametrize("symbols", ["ab,a,b,abc,bc", "é,éa,aé,a,aa,aaa", "▁a,a▁b,b,▁"])
def test_user_defined_pieces_that_overlap(symbols: str) -> None:
    data = sentence_pieces(SENTENCES[:10], vocab_size=220, user_defined_symbols=symbols)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    cut = piece_cutter(data)
    choose = random.Random(3)
    for _ in range(1000):
        text = "".join(choose.choices("abcéek >p", k=choose.randint(1, 14)))
        assert cut(text) == theirs.encode(text, out_type=str), text


def test_refusals(tmp_path: Path) -> None:
    marian(tmp_path)
    tokenizer = load_tokenizer(tmp_path, "marian", {}).source
    with pytest.raises(InputError, match="one text"):
        tokenizer.encode("a", "b")
    for change, words in (
        ({"sp_model_kwargs": {"enable_sampling": True}}, "chance"),
        ({"extra_special_tokens": ["<x>"]}, "no further special tokens"),
        ({"unk_token": "<none>"}, "lacks the unk_token"),
        ({"added_tokens_decoder": {"3": {"content": "x", "lstrip": True}}}, "strip blanks"),
    ):
        write_json(tmp_path / "tokenizer_config.json", change)
        with pytest.raises(TokenizerError, match=words):
            load_tokenizer(tmp_path, "marian", {})
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "target.spm").unlink()
    with pytest.raises(TokenizerError, match=r"found no target\.spm; looked for source\.spm, target\.spm, vocab\.json"):
        load_tokenizer(tmp_path, "marian", {})


def test_hostile_marian_files(tmp_path: Path) -> None:
    marian(tmp_path)
    good = {name: (tmp_path / name).read_bytes() for name in ("source.spm", "vocab.json")}
    vocab = json.loads(good["vocab.json"])
    cases = {
        "source.spm": [b"", b"\x00", b"\xff" * 40, good["source.spm"][:1000], b"\x0a\xff\xff\xff\xff\x7f" + b"x" * 9],
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
    for name, bodies in cases.items():
        for body in bodies:
            (tmp_path / name).write_bytes(body)
            with pytest.raises(TokenizerError):
                load_tokenizer(tmp_path, "marian", {})
        (tmp_path / name).write_bytes(good[name])
    assert load_tokenizer(tmp_path, "marian", {}).target is not None


def test_damaged_bytes_never_escape_as_another_error(tmp_path: Path) -> None:
    """Flip bytes of a SentencePiece file: it loads and encodes, or it is a TokenizerError."""
    data = sentence_pieces(SENTENCES[:6], vocab_size=120)
    choose = random.Random(11)
    refused = 0
    for turn in range(200):
        broken = bytearray(data)
        reach = len(data) if turn % 4 else 2_000  # the pieces come first, the rest is the table of normalisation
        for _ in range(choose.randint(1, 30)):
            broken[choose.randrange(reach)] = choose.randrange(256)
        if turn % 5 == 0:
            del broken[choose.randrange(len(broken)) :]
        try:
            model = parse_model(bytes(broken), "broken.model")
            text, origins = SentencePieceNormalizer(model, "broken.model").normalize(
                "A keeper e\u0301 ﬁ ½ 漢", StepBudget(18)
            )
            make_segmenter(model, "broken.model")(text, StepBudget(18))
            with contextlib.suppress(ValueError):  # a byte piece that names no byte: reported when the folder is loaded
                make_joiner(model)([p.text for p in model.pieces])
            assert len(origins) == len(text) + 1
        except TokenizerError:
            refused += 1
    assert refused > 20
