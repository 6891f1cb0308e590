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
from fuzz.piece_files import (
    BPE,
    BYTE,
    NORMAL,
    UNIGRAM,
    USER_DEFINED,
    Row,
    make_cyclic_table,
    make_growing_table,
    make_piece_file,
)

LETTER_PIECES: list[Row] = [("a", -1.0, NORMAL), ("b", -1.0, NORMAL), ("▁", -1.0, NORMAL)]
BYTE_PIECES: list[Row] = [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
NESTED_PIECES: list[Row] = [("a" * size, -1.0, NORMAL) for size in range(1, 513)]


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
    with pytest.raises(error, match=pattern) as error_info:
        call()
    assert str(error_info.value).isprintable()
    assert len(str(error_info.value)) < 300


@pytest.mark.parametrize(
    ("name", "value", "rows", "message"),
    [
        (
            "MAX_PIECE_LENGTH",
            512,
            [("x" * 513, -1.0, NORMAL)],
            "piece 3 has 513 characters, more than the maximum of 512",
        ),
        ("MAX_PIECE_LENGTH", 512, [("x" * 50_000, 0.0, USER_DEFINED)], "piece 3 has 50,000 characters"),
        ("MAX_PIECES", 5, LETTER_PIECES, "more than 5 pieces"),
        ("MAX_PIECE_CHARACTERS", 14, LETTER_PIECES, "the pieces have 15 characters"),
        ("MAX_FIELDS", 20, LETTER_PIECES, "more than 20 fields"),
        ("MAX_MODEL_BYTES", 50, LETTER_PIECES, "bytes, more than the maximum of 50"),
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
    monkeypatch: pytest.MonkeyPatch, name: str, value: int, rows: list[Row], message: str
) -> None:
    data = make_piece_file(rows)
    monkeypatch.setattr(model_file, name, value)
    check_rejected(lambda: parse_model(data, "x.spm"), rf"^x\.spm.*{message}")


def test_limits_accept_the_largest_published_vocabulary() -> None:
    """XLM-V has 901,629 pieces, which count as four fields each; pieces have at most 512 characters."""
    assert model_file.MAX_PIECES > 901_629
    assert model_file.MAX_FIELDS > 4 * 901_629 + 1_000
    data = make_piece_file([*LETTER_PIECES, ("a" * 512, -1.0, NORMAL)])
    assert segment_text(data, "a" * 512)[-1] == "a" * 512


@pytest.mark.parametrize(("family", "name"), [("t5", "spiece.model"), ("xlm-roberta", "sentencepiece.bpe.model")])
def test_legacy_folders_have_the_same_limits(tmp_path: Path, family: str, name: str) -> None:
    (tmp_path / name).write_bytes(make_piece_file([*LETTER_PIECES, ("x" * 50_000, -1.0, NORMAL)]))
    check_rejected(lambda: load_tokenizer(tmp_path, family, {}), "50,000 characters")


def test_vocabulary_memory_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    model = parse_model(make_piece_file([(letter + "x" * 500, -1.0, NORMAL) for letter in "abcdefghij"]), "x.spm")
    tracemalloc.start()
    segment = make_segmenter(model, "x.spm")
    used_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert segment("a", StepBudget(1))
    assert used_bytes < 1_500 * 1_000  # storing every prefix as a string takes more
    monkeypatch.setattr(trie, "MAX_NODES", 5_000)
    check_rejected(lambda: make_segmenter(model, "x.spm"), "more than 5,000 distinct prefixes")


@pytest.mark.parametrize("model", [UNIGRAM, BPE])
def test_nested_pieces_match_sentencepiece(model: int) -> None:
    scored_pieces = [
        (text, float(len(text)) if model == BPE else -1.0 - len(text) / 100, kind) for text, _, kind in NESTED_PIECES
    ]
    data = make_piece_file([*scored_pieces, *LETTER_PIECES[1:]], model=model)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    for text in ("a" * 1_500, "aab" * 500, "a" * 511 + "b" + "a" * 700, "xaax"):
        assert segment_text(data, text) == theirs.encode(text, out_type=str)


def test_texts_that_take_too_many_steps_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = load_source(tmp_path, make_piece_file([*NESTED_PIECES, *LETTER_PIECES[1:]]))
    monkeypatch.setattr(trie, "MAX_STEPS", 400_000)
    assert len(tokenizer.encode("ab" * 3_000).ids) > 3_000
    message = "A text of 6,000 characters takes more than 400,000 steps with this tokenizer"
    for call in (
        tokenizer.encode,
        lambda text: tokenizer.encode_ids([text]),
        lambda text: tokenizer.encode_plain([text]),
    ):
        check_rejected(lambda call=call: call("a" * 6_000), message, InputError)
    check_rejected(lambda: tokenizer.encode(["a" * 3_000] * 2), message, InputError)  # all words share one budget


def test_long_text_memory_is_linear() -> None:
    data = make_piece_file([*NESTED_PIECES[:64], *LETTER_PIECES[1:]])
    tracemalloc.start()
    segment_text(data, "a" * 3_000)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 1_000_000  # a graph with 64 edges per position takes ten times as much


def test_ordinary_text_of_maximum_length_is_within_the_budget() -> None:
    letter_model, byte_model = (
        make_piece_file(LETTER_PIECES),
        make_piece_file([*LETTER_PIECES, *BYTE_PIECES], byte_fallback=True),
    )
    for data, unit in ((letter_model, "ab a"), (byte_model, "漢字a "), (byte_model, "😀")):
        text = unit * 2_000
        budget = StepBudget(len(text))
        segment_text(data, text, budget)
        assert (trie.MAX_STEPS - budget.remaining) * marian.MAX_SOURCE_LENGTH / len(text) < trie.MAX_STEPS


def test_score_resets_are_charged_to_the_budget() -> None:
    data = make_piece_file([("a", -200_000.0, NORMAL), ("a" * 512, -1.0, NORMAL), ("b", -1.0, NORMAL)])
    budget = StepBudget(1_000)
    segment_text(data, "ab" * 500, budget)
    assert trie.MAX_STEPS - budget.remaining > 400 * 512


def test_long_words_are_not_cached() -> None:
    model = parse_model(make_piece_file([("ab", -1.0, NORMAL), *LETTER_PIECES], model=BPE), "x.spm")
    segment = make_segmenter(model, "x.spm")
    segment("▁warm", StepBudget(5))
    tracemalloc.start()
    for index in range(10):
        segment(f"▁{index}" + "ab" * 1_000, StepBudget(2_000))
    gc.collect()  # clear free lists of tuples
    used_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used_bytes < 10_000  # caching ten words of 2,000 characters takes twice as much even without their pieces


def test_a_long_unknown_span_is_one_piece() -> None:
    assert segment_text(make_piece_file(LETTER_PIECES), "x" * 100_000 + "a" + "yz")[1:] == ["x" * 100_000, "a", "yz"]


def test_unbounded_normalization_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trie, "MAX_STEPS", 300_000)
    for size in (1_000, 8):
        tokenizer = load_source(tmp_path, make_piece_file(LETTER_PIECES, table=make_growing_table("a", b"z" * size)))
        assert tokenizer.encode("a").tokens == ["▁", "z" * size, "</s>"]
        check_rejected(
            lambda t=tokenizer: t.encode("a" * 3_000), "3,000 characters takes more than 300,000 steps", InputError
        )
        check_rejected(lambda t=tokenizer: t.encode("a</s>" * 3_000), "more than 300,000 steps", InputError)


def test_cyclic_normalization_tables_are_rejected() -> None:
    data = make_piece_file(LETTER_PIECES, table=make_cyclic_table("a"))
    assert segment_text(data, "b" + "a" * normalizer.MAX_RULE_LENGTH + "b") == ["▁", "b", "z", "b"]
    check_rejected(lambda: segment_text(data, "a" * 5_000), "a normalization rule has more than 64 characters")
    cyclic_data = make_piece_file(LETTER_PIECES, table=make_cyclic_table("a", has_rules=False))
    check_rejected(lambda: segment_text(cyclic_data, "a" * 5_000), "a normalization rule has more than 64 characters")
    budget = StepBudget(1)
    segment_text(data, ("a" * 60 + "b") * 50, budget)
    assert trie.MAX_STEPS - budget.remaining > 50 * 60 * normalizer.STEPS_PER_RULE_CHARACTER


def test_large_normalization_tables_are_rejected() -> None:
    table = b"\0" * (normalizer.MAX_CHARSMAP_BYTES + 1)
    check_rejected(lambda: normalizer.Charsmap(table, "x.spm"), "the normalization table has more than")


@pytest.mark.parametrize("model", [UNIGRAM, BPE])
def test_user_defined_pieces_with_a_common_prefix(model: int) -> None:
    """The cost of a lookup depends on the length of the match, not on the number of pieces."""
    user_defined_pieces: list[Row] = [(f"q{index:05}", 0.0, USER_DEFINED) for index in range(10_000)]
    data = make_piece_file([*LETTER_PIECES, *user_defined_pieces, ("q0", 0.0, USER_DEFINED)], model=model)
    budget = StepBudget(4_000)
    pieces = segment_text(data, "q" * 3_000 + "q00017q0q019999", budget)
    assert pieces[1:] == ["q" * 3_000, "q00017", "q0", "q01999", "9"]
    assert trie.MAX_STEPS - budget.remaining < 4_000 * 40


def test_added_tokens_with_a_common_prefix(tmp_path: Path) -> None:
    tokens = {str(100 + index): {"content": f"q{index:04}"} for index in range(5_000)}
    tokens["9000"] = {"content": "q0"}
    tokenizer = load_source(tmp_path, make_piece_file(LETTER_PIECES), added_tokens_decoder=tokens)
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


@pytest.mark.parametrize("token_id", [-1, 2**31, 2**32, 2**32 + 3, 2**64, 10**30, 1.0, True, None, "7", [7]], ids=str)
def test_invalid_ids_are_rejected(tmp_path: Path, token_id: Any) -> None:
    vocab = {"</s>": 0, "<unk>": 1, "<pad>": 2, "a": token_id}
    expected = r"vocab\.json: the id of 'a' must be an integer from 0"
    check_rejected(lambda: load_source(tmp_path, make_piece_file(LETTER_PIECES), vocab), expected)
    tokens = {str(token_id): {"content": "q"}}
    if not isinstance(token_id, str):
        check_rejected(
            lambda: load_source(tmp_path, make_piece_file(LETTER_PIECES), None, added_tokens_decoder=tokens),
            "expected a token id",
        )


def test_marian_vocabulary_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vocab = {"</s>": 0, "<unk>": 1, "<pad>": 2}
    long_token, duplicates = {"x" * 5_000: 3}, {"x" * 400: 3, "y" * 400: 3}
    check_rejected(
        lambda: load_source(tmp_path, make_piece_file(LETTER_PIECES), vocab | long_token),
        "a token has 5,000 characters",
    )
    check_rejected(lambda: load_source(tmp_path, make_piece_file(LETTER_PIECES), vocab | duplicates), "share the id 3")
    monkeypatch.setattr(marian, "MAX_PIECES", 4)
    check_rejected(
        lambda: load_source(tmp_path, make_piece_file(LETTER_PIECES)),
        r"vocab\.json has 6 tokens, more than the maximum of 4",
    )
    with (tmp_path / "source.spm").open("r+b") as file:
        file.truncate(model_file.MAX_MODEL_BYTES + 1)
    check_rejected(lambda: load_tokenizer(tmp_path, "marian", {}), r"source\.spm is larger than the limit of 64 MB")


def test_message_contains_the_length_of_the_complete_text(tmp_path: Path) -> None:
    tokenizer = load_source(tmp_path, make_piece_file(LETTER_PIECES))
    text = "a " * 2_000_000
    for call in (lambda: tokenizer.encode(text, max_length=9), lambda: tokenizer.encode_ids([text], max_length=9)):
        check_rejected(call, "A text has 4,000,000 characters, more than the maximum of 300,000", InputError)


def test_byte_pieces_are_decoded_in_linear_time() -> None:
    assert decode_utf8(b"\xff" * 400_000) == "\ufffd" * 400_000
    mixed_bytes = "aé".encode() + b"\xe2\x82" + "漢".encode() + b"\xf0\x9f\x98"
    assert decode_utf8(mixed_bytes) == "aé\ufffd\ufffd漢\ufffd\ufffd\ufffd"
    data = make_piece_file([*LETTER_PIECES, *BYTE_PIECES], byte_fallback=True)
    join = make_joiner(parse_model(data, "x.spm"))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    piece_lists = (
        ["▁", "a", "<0xFF>", "b"],
        ["<0xE2>", "<0x82>", "▁a"],
        ["</s>", "▁", "▁a"],
        ["<unk>", "▁a"],
        ["▁", "▁"],
    )
    for pieces in piece_lists:
        assert join(pieces) == theirs.decode_pieces(pieces), pieces
    assert join(["<0xFF>", "a"] * 100_000) == "\ufffda" * 100_000


def test_test_files_are_valid() -> None:
    table = make_growing_table("a", b"zz")
    data = make_piece_file([*LETTER_PIECES, ("z", -1.0, NORMAL)], table=table)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    assert segment_text(data, "bab") == theirs.encode("bab", out_type=str) == ["▁", "b", "z", "z", "b"]
    assert len(piece_files.encode_varint(300)) == 2
