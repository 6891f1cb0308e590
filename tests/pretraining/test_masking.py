"""The statistics of masks over a hundred thousand tokens: 15 %, 80/10/10, never special tokens, whole words, spans."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clearhead.jobs.learn_tokenizer import learn_tokenizer
from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.masking import MASKED_TOKENS, choose_targets, make_masked_batch, pack_texts
from clearhead.pretraining.objective import TextPairs
from clearhead.pretraining.replaced_tokens import REPLACED_TOKENS
from clearhead.pretraining.span_corruption import SPAN_CORRUPTION
from clearhead.pretraining.vocab_info import Masking, VocabInfo, read_vocab_info
from clearhead.text import Tokenizer, load_tokenizer

CLS, SEP, MASK, PAD, UNK = 2, 3, 4, 0, 1
WORDS = 500  # of a vocabulary; every third goes on with the word before it


@pytest.fixture(scope="module")
def vocab() -> VocabInfo:
    special = np.zeros(WORDS, bool)
    special[:5] = True
    continues = (np.arange(WORDS) % 3 == 2) & ~special
    return VocabInfo(
        size=WORDS,
        is_special=special,
        is_continuation=continues,
        ordinary_ids=np.arange(5, WORDS),
        prefix_ids=(CLS,),
        separator_ids=(SEP,),
        suffix_ids=(SEP,),
        mask_id=MASK,
    )


@pytest.fixture(scope="module")
def texts() -> TextPairs:
    """100,000 tokens in 900 texts, some of them special or unknown as texts have them."""
    draw = np.random.default_rng(0)
    return [(draw.integers(0, WORDS, int(draw.integers(20, 203))), None, 0) for _ in range(900)]


def is_near(rate: float, expected: float, count: int) -> bool:
    """Within five standard errors."""
    return abs(rate - expected) < 5 * math.sqrt(expected * (1 - expected) / count) + 1e-4


def pack_ids(texts: TextPairs, vocab: VocabInfo) -> np.ndarray:
    return pack_texts(texts, vocab)[0]


def test_fifteen_percent_and_eighty_ten_ten(texts: TextPairs, vocab: VocabInfo) -> None:
    batch = make_masked_batch(texts, vocab, np.random.default_rng(1))
    ids = pack_ids(texts, vocab)
    assert len(ids) > 100_000
    is_maskable = ~vocab.is_special[ids]
    assert is_near(len(batch.positions) / is_maskable.sum(), 0.15, 10**6)  # a fixed share of each text: no chance in it
    assert not vocab.is_special[ids[batch.positions]].any()
    assert (batch.labels == ids[batch.positions]).all()
    inputs, labels, count = batch.ids[batch.positions], batch.labels, len(batch.positions)
    assert is_near(float((inputs == MASK).mean()), 0.8, count)
    assert is_near(float((inputs == labels).mean()), 0.1 + 0.1 / 495, count)
    is_random = (inputs != MASK) & (inputs != labels)
    assert is_near(float(is_random.mean()), 0.1 * 494 / 495, count)
    assert not vocab.is_special[inputs[is_random]].any()
    untouched = np.setdiff1d(np.arange(len(ids)), batch.positions)
    assert (batch.ids[untouched] == ids[untouched]).all()


def test_every_text_has_its_share(texts: TextPairs, vocab: VocabInfo) -> None:
    ids, lengths, _, _ = pack_texts(texts, vocab)
    positions = choose_targets(ids, lengths, vocab, np.random.default_rng(2))
    rows = np.repeat(np.arange(len(lengths)), lengths)
    target_counts = np.bincount(rows[positions], minlength=len(lengths))
    maskable = np.bincount(rows, ~vocab.is_special[ids], len(lengths))
    assert (np.abs(target_counts - 0.15 * maskable) <= 0.51).all()
    short: TextPairs = [(np.array([7]), None, 0), (np.array([PAD, UNK]), None, 0)]
    batch = make_masked_batch(short, vocab, np.random.default_rng(0))
    assert list(batch.labels) == [7]  # at least one, but never a special token


def test_masks_are_drawn_anew_and_repeat_with_the_seed(texts: TextPairs, vocab: VocabInfo) -> None:
    first, again, other_seed = (make_masked_batch(texts[:50], vocab, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (first.ids == again.ids).all()
    assert len(np.intersect1d(first.positions, other_seed.positions)) < 0.3 * len(first.positions)


def test_places_are_even(vocab: VocabInfo) -> None:
    """No place of a text is asked about more often than another."""
    same: TextPairs = [(np.arange(10, 50), None, 0)] * 4000
    batch = make_masked_batch(same, vocab, np.random.default_rng(0))
    counts = np.bincount(batch.positions % 42, minlength=42)[1:41]
    assert counts.sum() == 4000 * 6
    assert (np.abs(counts / 4000 - 0.15) < 5 * math.sqrt(0.15 * 0.85 / 4000)).all()


def test_whole_words(texts: TextPairs, vocab: VocabInfo) -> None:
    words = replace(vocab, masking="words")
    batch = make_masked_batch(texts, words, np.random.default_rng(1))
    ids = pack_ids(texts, vocab)
    is_target = np.zeros(len(ids), bool)
    is_target[batch.positions] = True
    continuations = np.flatnonzero(vocab.is_continuation[ids] & ~vocab.is_special[np.roll(ids, 1)])
    assert len(continuations) > 20_000
    assert (
        is_target[continuations] == is_target[continuations - 1]
    ).all()  # a word is asked about as a whole, or not at all
    assert abs(is_target.sum() / (~vocab.is_special[ids]).sum() - 0.15) < 0.004
    token_targets = make_masked_batch(texts, vocab, np.random.default_rng(1)).positions
    is_token_target = np.zeros(len(ids), bool)
    is_token_target[token_targets] = True
    assert (
        is_token_target[continuations] != is_token_target[continuations - 1]
    ).mean() > 0.2  # the control: tokens one by one part words


def test_spans(texts: TextPairs, vocab: VocabInfo) -> None:
    batch = make_masked_batch(texts[:300], replace(vocab, masking="spans"), np.random.default_rng(1))
    ids = pack_ids(texts[:300], vocab)
    is_target = np.zeros(len(ids), bool)
    is_target[batch.positions] = True
    assert not vocab.is_special[ids[is_target]].any()
    assert abs(is_target.sum() / (~vocab.is_special[ids]).sum() - 0.15) < 0.01
    runs = np.diff(np.flatnonzero(np.diff(np.concatenate([[0], is_target.astype(int), [0]]))))[::2]
    assert runs.mean() > 3  # alone, masks at random have runs of 1.2


def test_pairs_have_segments(vocab: VocabInfo) -> None:
    batch = make_masked_batch(
        [(np.arange(10, 14), np.arange(20, 23), 1)], replace(vocab, mask_rate=1e-9), np.random.default_rng(0)
    )
    assert batch.segments is not None
    assert batch.pair_labels is not None
    assert list(batch.lengths) == [10]
    assert list(batch.segments) == [0] * 6 + [1] * 4
    assert next(int(token) for position, token in enumerate(batch.ids) if position not in batch.positions) == CLS
    assert list(batch.pair_labels) == [1]


def test_replaced_tokens_hide_every_question(texts: TextPairs, vocab: VocabInfo) -> None:
    batch = REPLACED_TOKENS.make_batch(texts[:100], vocab, np.random.default_rng(1))
    assert (batch.ids[batch.positions] == MASK).all()
    assert abs(len(batch.positions) / (~vocab.is_special[pack_ids(texts[:100], vocab)]).sum() - 0.15) < 0.005


def test_a_part_of_a_lesson(texts: TextPairs, vocab: VocabInfo) -> None:
    batch = make_masked_batch(texts[:6], vocab, np.random.default_rng(1))
    parts = [batch.slice_texts(0, 2), batch.slice_texts(2, 6)]
    for name in ("ids", "lengths", "segments", "labels", "previous_ids"):
        assert (np.concatenate([getattr(part, name) for part in parts]) == getattr(batch, name)).all()
    assert isinstance(parts[1], PretrainBatch)
    assert (parts[1].positions == batch.positions[len(parts[0].positions) :] - len(parts[0].ids)).all()


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_any_number_of_ranks_has_the_same_texts(texts: TextPairs, vocab: VocabInfo, ranks: int) -> None:
    batch = make_masked_batch(texts[:20], vocab, np.random.default_rng(1))
    shares = [batch.texts_of_rank(rank, ranks) for rank in range(ranks)]
    for name in ("ids", "lengths", "labels"):
        assert (np.concatenate([getattr(share, name) for share in shares]) == getattr(batch, name)).all()
    assert max(len(share.lengths) for share in shares) - min(len(share.lengths) for share in shares) <= 1


def test_a_tokenizer_says_what_stands_around_texts() -> None:
    lines = ["walking talking walked talked walker talker"] * 5
    bert = read_vocab_info(learn_tokenizer(iter(lines), use="bert", vocab_size=40).tokenizer)
    assert (bert.prefix_ids, bert.separator_ids, bert.suffix_ids, bert.mask_id) == ((2,), (3,), (3,), 4)
    assert bert.is_special[:5].all()
    assert bert.is_continuation.any()
    roberta = read_vocab_info(learn_tokenizer(iter(lines), use="roberta", vocab_size=300).tokenizer)
    assert (roberta.prefix_ids, roberta.separator_ids, roberta.suffix_ids) == ((0,), (2, 2), (2,))
    t5 = read_vocab_info(learn_tokenizer(iter(lines), use="t5", vocab_size=200).tokenizer)
    assert len(t5.sentinel_ids) == 100
    assert t5.is_special[list(t5.sentinel_ids)].all()
    gpt = read_vocab_info(learn_tokenizer(iter(lines), use="gpt", vocab_size=300).tokenizer)
    assert (gpt.prefix_ids, gpt.mask_id) == ((), None)
    assert MASKED_TOKENS.find_problem(bert) == SPAN_CORRUPTION.find_problem(replace(t5, decoder_start_id=0)) == ""
    assert "no mask token" in MASKED_TOKENS.find_problem(gpt)
    assert "no sentinels" in SPAN_CORRUPTION.find_problem(gpt)
    assert "decoder start token" in SPAN_CORRUPTION.find_problem(t5)


def split_into_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """A text cut where words begin, by what a vocab says of its tokens."""
    vocab, words = read_vocab_info(tokenizer), list[str]()
    for token_id in tokenizer.encode_plain([text])[0]:
        token = tokenizer.tokens([token_id])[0]
        if vocab.is_continuation[token_id] and words:
            words[-1] += f"+{token}"
        else:
            words.append(token)
    return words


def test_words_of_a_real_vocabulary_of_bytes(weights_folder: Path, tmp_path: Path) -> None:
    """GPT-2's has the words ##, ### and more, and is no WordPiece for that; é and ï are two bytes each."""
    for theirs, ours in (("encoder.json", "vocab.json"), ("vocab.bpe", "merges.txt")):
        (tmp_path / ours).symlink_to((weights_folder / "tokenizers" / "gpt2" / theirs).resolve())
    tokenizer = load_tokenizer(tmp_path, "gpt2", {"model_type": "gpt2"}).source
    words = [word.replace("+", "") for word in split_into_words(tokenizer, " Unbelievably, a naïve ## café.")]
    assert words == ["ĠUnbelievably", ",", "Ġa", "ĠnaÃ¯ve", "Ġ##", "ĠcafÃ©", "."]


def test_letters_of_several_bytes_are_not_cut() -> None:
    tokenizer = learn_tokenizer(iter(["naïve café ## walking"] * 9), use="roberta", vocab_size=280).tokenizer
    assert [word.count("Ġ") for word in split_into_words(tokenizer, " naïve café Ωmega")] == [1, 1, 1]


@pytest.mark.parametrize("masking", ["tokens", "words", "spans"])
def test_texts_of_special_tokens_alone_ask_nothing(vocab: VocabInfo, masking: Masking) -> None:
    batch = make_masked_batch(
        [(np.zeros(5, int), None, 0)] * 3, replace(vocab, masking=masking), np.random.default_rng(0)
    )
    assert len(batch.positions) == len(batch.labels) == 0
