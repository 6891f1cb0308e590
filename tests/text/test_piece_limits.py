"""SentencePiece files, Marian vocabularies and long texts are processed in bounded time and memory, or rejected."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from clearhead.errors import ClearheadError, InputError, TokenizerError
from clearhead.text import Tokenizer, load_tokenizer
from clearhead.text.sentencepiece import marian, model_file, normalizer, trie
from clearhead.text.sentencepiece.decoder import decode_utf8, make_joiner
from clearhead.text.sentencepiece.model_file import parse_model
from clearhead.text.sentencepiece.normalizer import SentencePieceNormalizer
from clearhead.text.sentencepiece.segmenter import make_segmenter
from clearhead.text.sentencepiece.trie import StepBudget, build_literal_trie, find_longest_match, make_splitter
from fuzz import piece_files
from fuzz.piece_files import BPE, BYTE, NORMAL, UNIGRAM, USER_DEFINED, Row, cyclic_table, growing_table, piece_file

LETTERS: list[Row] = [("a", -1.0, NORMAL), ("b", -1.0, NORMAL), ("▁", -1.0, NORMAL)]
BYTES: list[Row] = [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
NESTED: list[Row] = [("a" * size, -1.0, NORMAL) for size in range(1, 513)]


def write_folder(folder: Path, model: bytes, vocab: dict[str, Any] | None = None, **settings: Any) -> Path:
    """Write a Marian folder with the same model for source and target."""
    folder.mkdir(exist_ok=True)
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(model)
    ids = vocab or {"</s>": 0, "<unk>": 1, "<pad>": 2, "a": 3, "b": 4, "▁": 5}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def load_source(folder: Path, model: bytes, vocab: dict[str, Any] | None = None, **settings: Any) -> Tokenizer:
    return load_tokenizer(write_folder(folder, model, vocab, **settings), "marian", {}).source


def segment_text(data: bytes, text: str, budget: StepBudget | None = None) -> list[str]:
    model = parse_model(data, "x.spm")
    budget = budget or StepBudget(len(text))
    normalized, _ = SentencePieceNormalizer(model, "x.spm").normalize(text, budget)
    return [piece for piece, _, _ in make_segmenter(model, "x.spm")(normalized, budget)]


def check_rejected(call: Any, pattern: str, error: type[ClearheadError] = TokenizerError) -> None:
    with pytest.raises(error, match=pattern) as raised:
        call()
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("name", "value", "rows", "words"),
    [
        (
            "MAX_PIECE_LENGTH",
            512,
            [("x" * 513, -1.0, NORMAL)],
            "piece 3 has 513 characters, more than the maximum of 512",
        ),
        ("MAX_PIECE_LENGTH", 512, [("x" * 50_000, 0.0, USER_DEFINED)], "piece 3 has 50,000 characters"),
        ("MAX_PIECES", 5, LETTERS, "more than 5 pieces"),
        ("MAX_PIECE_CHARACTERS", 14, LETTERS, "the pieces have 15 characters"),
        ("MAX_FIELDS", 20, LETTERS, "more than 20 fields"),
        ("MAX_MODEL_BYTES", 50, LETTERS, "bytes, more than the maximum of 50"),
        (
            "MAX_ADDED_TOKENS",
            3,
            [("x", 0.0, USER_DEFINED), ("y", 0.0, USER_DEFINED)],
            "4 control and user-defined pieces",
        ),
        ("MAX_PIECES", 10, [("x", float("nan"), NORMAL)], "the score of piece 3 must be finite, got nan"),
        ("MAX_PIECES", 10, [("x", float("-inf"), NORMAL)], "the score of piece 3 must be finite, got -inf"),
    ],
)
def test_sentencepiece_file_limits(
    monkeypatch: pytest.MonkeyPatch, name: str, value: int, rows: list[Row], words: str
) -> None:
    data = piece_file(rows)
    monkeypatch.setattr(model_file, name, value)
    check_rejected(lambda: parse_model(data, "x.spm"), rf"^x\.spm.*{words}")


def test_limits_accept_the_largest_published_vocabulary() -> None:
    """XLM-V has 901,629 pieces, which count as four fields each; pieces have at most 512 characters."""
    assert model_file.MAX_PIECES > 901_629
    assert model_file.MAX_FIELDS > 4 * 901_629 + 1_000
    long = piece_file([*LETTERS, ("a" * 512, -1.0, NORMAL)])
    assert segment_text(long, "a" * 512)[-1] == "a" * 512


@pytest.mark.parametrize(("family", "name"), [("t5", "spiece.model"), ("xlm-roberta", "sentencepiece.bpe.model")])
def test_legacy_folders_have_the_same_limits(tmp_path: Path, family: str, name: str) -> None:
    (tmp_path / name).write_bytes(piece_file([*LETTERS, ("x" * 50_000, -1.0, NORMAL)]))
    check_rejected(lambda: load_tokenizer(tmp_path, family, {}), "50,000 characters")


def test_vocabulary_memory_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    model = parse_model(piece_file([(letter + "x" * 500, -1.0, NORMAL) for letter in "abcdefghij"]), "x.spm")
    tracemalloc.start()
    segment = make_segmenter(model, "x.spm")
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert segment("a", StepBudget(1))
    assert used < 1_500 * 1_000  # storing every prefix as a string takes more
    monkeypatch.setattr(trie, "MAX_NODES", 5_000)
    check_rejected(lambda: make_segmenter(model, "x.spm"), "more than 5,000 distinct prefixes")


@pytest.mark.parametrize("model", [UNIGRAM, BPE])
def test_nested_pieces_match_sentencepiece(model: int) -> None:
    scored = [(text, float(len(text)) if model == BPE else -1.0 - len(text) / 100, kind) for text, _, kind in NESTED]
    data = piece_file([*scored, *LETTERS[1:]], model=model)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    for text in ("a" * 1_500, "aab" * 500, "a" * 511 + "b" + "a" * 700, "xaax"):
        assert segment_text(data, text) == theirs.encode(text, out_type=str)


def test_texts_that_take_too_many_steps_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = load_source(tmp_path, piece_file([*NESTED, *LETTERS[1:]]))
    monkeypatch.setattr(trie, "MAX_STEPS", 400_000)
    assert len(tokenizer.encode("ab" * 3_000).ids) > 3_000
    words = "a text of 6,000 characters takes more than 400,000 steps with this tokenizer"
    for call in (
        tokenizer.encode,
        lambda text: tokenizer.encode_ids([text]),
        lambda text: tokenizer.encode_plain([text]),
    ):
        check_rejected(lambda call=call: call("a" * 6_000), words, InputError)
    check_rejected(lambda: tokenizer.encode(["a" * 3_000] * 2), words, InputError)  # all words share one budget


def test_long_text_memory_is_linear() -> None:
    data = piece_file([*NESTED[:64], *LETTERS[1:]])
    tracemalloc.start()
    segment_text(data, "a" * 3_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # a graph with 64 edges per position takes ten times as much


def test_ordinary_text_of_maximum_length_is_within_the_budget() -> None:
    plain, with_bytes = piece_file(LETTERS), piece_file([*LETTERS, *BYTES], byte_fallback=True)
    for data, unit in ((plain, "ab a"), (with_bytes, "漢字a "), (with_bytes, "😀")):
        text = unit * 2_000
        budget = StepBudget(len(text))
        segment_text(data, text, budget)
        assert (trie.MAX_STEPS - budget.remaining) * marian.MAX_SOURCE_LENGTH / len(text) < trie.MAX_STEPS


def test_score_resets_are_charged_to_the_budget() -> None:
    data = piece_file([("a", -200_000.0, NORMAL), ("a" * 512, -1.0, NORMAL), ("b", -1.0, NORMAL)])
    budget = StepBudget(1_000)
    segment_text(data, "ab" * 500, budget)
    assert trie.MAX_STEPS - budget.remaining > 400 * 512


def test_long_words_are_not_cached() -> None:
    model = parse_model(piece_file([("ab", -1.0, NORMAL), *LETTERS], model=BPE), "x.spm")
    segment = make_segmenter(model, "x.spm")
    segment("▁warm", StepBudget(5))
    tracemalloc.start()
    for index in range(10):
        segment(f"▁{index}" + "ab" * 1_000, StepBudget(2_000))
    gc.collect()  # clear free lists of tuples
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 10_000  # caching ten words of 2,000 characters takes twice as much even without their pieces


def test_a_long_unknown_span_is_one_piece() -> None:
    assert segment_text(piece_file(LETTERS), "x" * 100_000 + "a" + "yz")[1:] == ["x" * 100_000, "a", "yz"]


def test_unbounded_normalization_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trie, "MAX_STEPS", 300_000)
    for size in (1_000, 8):
        tokenizer = load_source(tmp_path, piece_file(LETTERS, table=growing_table("a", b"z" * size)))
        assert tokenizer.encode("a").tokens == ["▁", "z" * size, "</s>"]
        check_rejected(
            lambda t=tokenizer: t.encode("a" * 3_000), "3,000 characters takes more than 300,000 steps", InputError
        )
        check_rejected(lambda t=tokenizer: t.encode("a</s>" * 3_000), "more than 300,000 steps", InputError)


def test_cyclic_normalization_tables_are_rejected() -> None:
    data = piece_file(LETTERS, table=cyclic_table("a"))
    assert segment_text(data, "b" + "a" * normalizer.MAX_RULE_LENGTH + "b") == ["▁", "b", "z", "b"]
    check_rejected(lambda: segment_text(data, "a" * 5_000), "a normalization rule has more than 64 characters")
    endless = piece_file(LETTERS, table=cyclic_table("a", has_rules=False))
    check_rejected(lambda: segment_text(endless, "a" * 5_000), "a normalization rule has more than 64 characters")
    budget = StepBudget(1)
    segment_text(data, ("a" * 60 + "b") * 50, budget)
    assert trie.MAX_STEPS - budget.remaining > 50 * 60 * normalizer.STEPS_PER_RULE_CHARACTER


def test_large_normalization_tables_are_rejected() -> None:
    table = b"\0" * (normalizer.MAX_CHARSMAP_BYTES + 1)
    check_rejected(lambda: normalizer.Charsmap(table, "x.spm"), "the normalization table has more than")


@pytest.mark.parametrize("model", [UNIGRAM, BPE])
def test_user_defined_pieces_with_a_common_prefix(model: int) -> None:
    """The cost of a lookup depends on the length of the match, not on the number of pieces."""
    users: list[Row] = [(f"q{index:05}", 0.0, USER_DEFINED) for index in range(10_000)]
    data = piece_file([*LETTERS, *users, ("q0", 0.0, USER_DEFINED)], model=model)
    budget = StepBudget(4_000)
    pieces = segment_text(data, "q" * 3_000 + "q00017q0q019999", budget)
    assert pieces[1:] == ["q" * 3_000, "q00017", "q0", "q01999", "9"]
    assert trie.MAX_STEPS - budget.remaining < 4_000 * 40


def test_added_tokens_with_a_common_prefix(tmp_path: Path) -> None:
    tokens = {str(100 + index): {"content": f"q{index:04}"} for index in range(5_000)}
    tokens["9000"] = {"content": "q0"}
    tokenizer = load_source(tmp_path, piece_file(LETTERS), added_tokens_decoder=tokens)
    assert tokenizer.encode("q0017q0q00019").tokens == ["q0017", "q0", "q0001", "▁", "9", "</s>"]
    split = make_splitter(build_literal_trie([token["content"] for token in tokens.values()], "x"))
    budget = StepBudget(1)
    assert split("q" * 5_000, budget) == ["q" * 5_000]
    assert trie.MAX_STEPS - budget.remaining <= 5_000


def test_literal_matches_are_leftmost_and_longest() -> None:
    root = build_literal_trie(["", "ab", "abc", "b", "bcd"], "x")
    assert make_splitter(root)("xabcdbcdab", StepBudget(1)) == ["x", "abc", "d", "bcd", "", "ab", ""]
    assert make_splitter(build_literal_trie([""], "x"))("ab", StepBudget(1)) == ["ab"]
    assert find_longest_match(root, "abx", 0, StepBudget(1)) == 2


def test_literal_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    check_rejected(
        lambda: build_literal_trie(["x" * 513], "tokenizer_config.json"),
        "a token has 513 characters, more than the maximum of 512",
    )
    monkeypatch.setattr(trie, "MAX_LITERAL_NODES", 100)
    check_rejected(
        lambda: build_literal_trie([f"{n}" for n in range(1_000)], "x.spm"), "more than 100 distinct prefixes"
    )


@pytest.mark.parametrize("index", [-1, 2**31, 2**32, 2**32 + 3, 2**64, 10**30, 1.0, True, None, "7", [7]], ids=str)
def test_invalid_ids_are_rejected(tmp_path: Path, index: Any) -> None:
    vocab = {"</s>": 0, "<unk>": 1, "<pad>": 2, "a": index}
    expected = r"vocab\.json: the id of 'a' must be an integer from 0"
    check_rejected(lambda: load_source(tmp_path, piece_file(LETTERS), vocab), expected)
    tokens = {str(index): {"content": "q"}}
    if not isinstance(index, str):
        check_rejected(
            lambda: load_source(tmp_path, piece_file(LETTERS), None, added_tokens_decoder=tokens), "expected a token id"
        )


def test_marian_vocabulary_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vocab = {"</s>": 0, "<unk>": 1, "<pad>": 2}
    long, duplicates = {"x" * 5_000: 3}, {"x" * 400: 3, "y" * 400: 3}
    check_rejected(lambda: load_source(tmp_path, piece_file(LETTERS), vocab | long), "a token has 5,000 characters")
    check_rejected(lambda: load_source(tmp_path, piece_file(LETTERS), vocab | duplicates), "share the id 3")
    monkeypatch.setattr(marian, "MAX_PIECES", 4)
    check_rejected(
        lambda: load_source(tmp_path, piece_file(LETTERS)), r"vocab\.json has 6 tokens, more than the maximum of 4"
    )
    with (tmp_path / "source.spm").open("r+b") as file:
        file.truncate(model_file.MAX_MODEL_BYTES + 1)
    check_rejected(lambda: load_tokenizer(tmp_path, "marian", {}), r"source\.spm is larger than the limit of 64 MB")


def test_message_contains_the_length_of_the_complete_text(tmp_path: Path) -> None:
    tokenizer = load_source(tmp_path, piece_file(LETTERS))
    text = "a " * 2_000_000
    for call in (lambda: tokenizer.encode(text, max_length=9), lambda: tokenizer.encode_ids([text], max_length=9)):
        check_rejected(call, "a text has 4,000,000 characters, more than the maximum of 300,000", InputError)


def test_byte_pieces_are_decoded_in_linear_time() -> None:
    assert decode_utf8(b"\xff" * 400_000) == "\ufffd" * 400_000
    mixed = "aé".encode() + b"\xe2\x82" + "漢".encode() + b"\xf0\x9f\x98"
    assert decode_utf8(mixed) == "aé\ufffd\ufffd漢\ufffd\ufffd\ufffd"
    data = piece_file([*LETTERS, *BYTES], byte_fallback=True)
    join = make_joiner(parse_model(data, "x.spm"))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    rows = (["▁", "a", "<0xFF>", "b"], ["<0xE2>", "<0x82>", "▁a"], ["</s>", "▁", "▁a"], ["<unk>", "▁a"], ["▁", "▁"])
    for row in rows:
        assert join(row) == theirs.decode_pieces(row), row
    assert join(["<0xFF>", "a"] * 100_000) == "\ufffda" * 100_000


def test_test_files_are_valid() -> None:
    table = growing_table("a", b"zz")
    data = piece_file([*LETTERS, ("z", -1.0, NORMAL)], table=table)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    assert segment_text(data, "bab") == theirs.encode("bab", out_type=str) == ["▁", "b", "z", "z", "b"]
    assert len(piece_files.number(300)) == 2
