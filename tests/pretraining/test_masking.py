"""The statistics of masks over a hundred thousand tokens: 15 %, 80/10/10, never special tokens, whole words, spans."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clearhead.jobs.learn_tokenizer import learn_tokenizer
from clearhead.pretraining.batch import Kit, Lesson, Masking, Texts, make_kit
from clearhead.pretraining.masking import MASKED, assemble, choose, masked
from clearhead.pretraining.replaced_tokens import REPLACED
from clearhead.pretraining.span_corruption import SPANS
from clearhead.text import Tokenizer, load_tokenizer

CLS, SEP, MASK, PAD, UNK = 2, 3, 4, 0, 1
WORDS = 500  # of a vocabulary; every third goes on with the word before it


@pytest.fixture(scope="module")
def kit() -> Kit:
    special = np.zeros(WORDS, bool)
    special[:5] = True
    continues = (np.arange(WORDS) % 3 == 2) & ~special
    return Kit(
        size=WORDS,
        special=special,
        continues=continues,
        ordinary=np.arange(5, WORDS),
        opens=(CLS,),
        between=(SEP,),
        closes=(SEP,),
        mask=MASK,
    )


@pytest.fixture(scope="module")
def texts() -> Texts:
    """100,000 tokens in 900 texts, some of them special or unknown as texts have them."""
    draw = np.random.default_rng(0)
    return [(draw.integers(0, WORDS, int(draw.integers(20, 203))), None, 0) for _ in range(900)]


def near(share: float, expected: float, count: int) -> bool:
    """Within five standard errors."""
    return abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / count) + 1e-4


def originals(texts: Texts, kit: Kit) -> np.ndarray:
    return assemble(texts, kit)[0]


def test_fifteen_percent_and_eighty_ten_ten(texts: Texts, kit: Kit) -> None:
    lesson = masked(texts, kit, np.random.default_rng(1))
    ids = originals(texts, kit)
    assert len(ids) > 100_000
    able = ~kit.special[ids]
    assert near(len(lesson.places) / able.sum(), 0.15, 10**6)  # a fixed share of each text: no chance in it
    assert not kit.special[ids[lesson.places]].any()
    assert (lesson.words == ids[lesson.places]).all()
    read, right, count = lesson.ids[lesson.places], lesson.words, len(lesson.places)
    assert near(float((read == MASK).mean()), 0.8, count)
    assert near(float((read == right).mean()), 0.1 + 0.1 / 495, count)
    other = (read != MASK) & (read != right)
    assert near(float(other.mean()), 0.1 * 494 / 495, count)
    assert not kit.special[read[other]].any()
    untouched = np.setdiff1d(np.arange(len(ids)), lesson.places)
    assert (lesson.ids[untouched] == ids[untouched]).all()


def test_every_text_has_its_share(texts: Texts, kit: Kit) -> None:
    ids, lengths, _, _ = assemble(texts, kit)
    places = choose(ids, lengths, kit, np.random.default_rng(2))
    rows = np.repeat(np.arange(len(lengths)), lengths)
    asked = np.bincount(rows[places], minlength=len(lengths))
    able = np.bincount(rows, ~kit.special[ids], len(lengths))
    assert (np.abs(asked - 0.15 * able) <= 0.51).all()
    short: Texts = [(np.array([7]), None, 0), (np.array([PAD, UNK]), None, 0)]
    made = masked(short, kit, np.random.default_rng(0))
    assert list(made.words) == [7]  # at least one, but never a special token


def test_masks_are_drawn_anew_and_repeat_with_the_seed(texts: Texts, kit: Kit) -> None:
    first, again, other = (masked(texts[:50], kit, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (first.ids == again.ids).all()
    assert len(np.intersect1d(first.places, other.places)) < 0.3 * len(first.places)


def test_places_are_even(kit: Kit) -> None:
    """No place of a text is asked about more often than another."""
    same: Texts = [(np.arange(10, 50), None, 0)] * 4000
    lesson = masked(same, kit, np.random.default_rng(0))
    counts = np.bincount(lesson.places % 42, minlength=42)[1:41]
    assert counts.sum() == 4000 * 6
    assert (np.abs(counts / 4000 - 0.15) < 5 * math.sqrt(0.15 * 0.85 / 4000)).all()


def test_whole_words(texts: Texts, kit: Kit) -> None:
    words = replace(kit, masking="words")
    lesson = masked(texts, words, np.random.default_rng(1))
    ids = originals(texts, kit)
    asked = np.zeros(len(ids), bool)
    asked[lesson.places] = True
    inner = np.flatnonzero(kit.continues[ids] & ~kit.special[np.roll(ids, 1)])
    assert len(inner) > 20_000
    assert (asked[inner] == asked[inner - 1]).all()  # a word is asked about as a whole, or not at all
    assert abs(asked.sum() / (~kit.special[ids]).sum() - 0.15) < 0.004
    pieces = masked(texts, kit, np.random.default_rng(1)).places
    parted = np.zeros(len(ids), bool)
    parted[pieces] = True
    assert (parted[inner] != parted[inner - 1]).mean() > 0.2  # the control: tokens one by one part words


def test_spans(texts: Texts, kit: Kit) -> None:
    lesson = masked(texts[:300], replace(kit, masking="spans"), np.random.default_rng(1))
    ids = originals(texts[:300], kit)
    asked = np.zeros(len(ids), bool)
    asked[lesson.places] = True
    assert not kit.special[ids[asked]].any()
    assert abs(asked.sum() / (~kit.special[ids]).sum() - 0.15) < 0.01
    runs = np.diff(np.flatnonzero(np.diff(np.concatenate([[0], asked.astype(int), [0]]))))[::2]
    assert runs.mean() > 3  # alone, masks at random have runs of 1.2


def test_pairs_have_segments(kit: Kit) -> None:
    lesson = masked([(np.arange(10, 14), np.arange(20, 23), 1)], replace(kit, rate=1e-9), np.random.default_rng(0))
    assert lesson.segments is not None
    assert lesson.pairs is not None
    assert list(lesson.lengths) == [10]
    assert list(lesson.segments) == [0] * 6 + [1] * 4
    assert next(int(one) for place, one in enumerate(lesson.ids) if place not in lesson.places) == CLS
    assert list(lesson.pairs) == [1]


def test_replaced_tokens_hide_every_question(texts: Texts, kit: Kit) -> None:
    lesson = REPLACED.make(texts[:100], kit, np.random.default_rng(1))
    assert (lesson.ids[lesson.places] == MASK).all()
    assert abs(len(lesson.places) / (~kit.special[originals(texts[:100], kit)]).sum() - 0.15) < 0.005


def test_a_part_of_a_lesson(texts: Texts, kit: Kit) -> None:
    lesson = masked(texts[:6], kit, np.random.default_rng(1))
    parts = [lesson.part(0, 2), lesson.part(2, 6)]
    for name in ("ids", "lengths", "segments", "words", "before"):
        assert (np.concatenate([getattr(part, name) for part in parts]) == getattr(lesson, name)).all()
    assert isinstance(parts[1], Lesson)
    assert (parts[1].places == lesson.places[len(parts[0].places) :] - len(parts[0].ids)).all()


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_any_number_of_ranks_has_the_same_texts(texts: Texts, kit: Kit, ranks: int) -> None:
    lesson = masked(texts[:20], kit, np.random.default_rng(1))
    shares = [lesson.share(rank, ranks) for rank in range(ranks)]
    for name in ("ids", "lengths", "words"):
        assert (np.concatenate([getattr(one, name) for one in shares]) == getattr(lesson, name)).all()
    assert max(len(one.lengths) for one in shares) - min(len(one.lengths) for one in shares) <= 1


def test_a_tokenizer_says_what_stands_around_texts() -> None:
    lines = ["walking talking walked talked walker talker"] * 5
    bert = make_kit(learn_tokenizer(iter(lines), use="bert", size=40).tokenizer)
    assert (bert.opens, bert.between, bert.closes, bert.mask) == ((2,), (3,), (3,), 4)
    assert bert.special[:5].all()
    assert bert.continues.any()
    roberta = make_kit(learn_tokenizer(iter(lines), use="roberta", size=300).tokenizer)
    assert (roberta.opens, roberta.between, roberta.closes) == ((0,), (2, 2), (2,))
    t5 = make_kit(learn_tokenizer(iter(lines), use="t5", size=200).tokenizer)
    assert len(t5.sentinels) == 100
    assert t5.special[list(t5.sentinels)].all()
    gpt = make_kit(learn_tokenizer(iter(lines), use="gpt", size=300).tokenizer)
    assert (gpt.opens, gpt.mask) == ((), None)
    assert MASKED.lacks(bert) == SPANS.lacks(replace(t5, start=0)) == ""
    assert "no mask token" in MASKED.lacks(gpt)
    assert "no sentinels" in SPANS.lacks(gpt)
    assert "starts with" in SPANS.lacks(t5)


def words_in(tokenizer: Tokenizer, text: str) -> list[str]:
    """A text cut where words begin, by what a kit says of its tokens."""
    kit, words = make_kit(tokenizer), list[str]()
    for one in tokenizer.pieces([text])[0]:
        token = tokenizer.tokens([one])[0]
        if kit.continues[one] and words:
            words[-1] += f"+{token}"
        else:
            words.append(token)
    return words


def test_words_of_a_real_vocabulary_of_bytes(weights_folder: Path, tmp_path: Path) -> None:
    """GPT-2's has the words ##, ### and more, and is no WordPiece for that; é and ï are two bytes each."""
    for theirs, ours in (("encoder.json", "vocab.json"), ("vocab.bpe", "merges.txt")):
        (tmp_path / ours).symlink_to((weights_folder / "tokenizers" / "gpt2" / theirs).resolve())
    tokenizer = load_tokenizer(tmp_path, "gpt2", {"model_type": "gpt2"}).source
    found = [word.replace("+", "") for word in words_in(tokenizer, " Unbelievably, a naïve ## café.")]
    assert found == ["ĠUnbelievably", ",", "Ġa", "ĠnaÃ¯ve", "Ġ##", "ĠcafÃ©", "."]


def test_letters_of_several_bytes_are_not_cut() -> None:
    tokenizer = learn_tokenizer(iter(["naïve café ## walking"] * 9), use="roberta", size=280).tokenizer
    assert [word.count("Ġ") for word in words_in(tokenizer, " naïve café Ωmega")] == [1, 1, 1]


@pytest.mark.parametrize("masking", ["tokens", "words", "spans"])
def test_texts_of_special_tokens_alone_ask_nothing(kit: Kit, masking: Masking) -> None:
    lesson = masked([(np.zeros(5, int), None, 0)] * 3, replace(kit, masking=masking), np.random.default_rng(0))
    assert len(lesson.places) == len(lesson.words) == 0
