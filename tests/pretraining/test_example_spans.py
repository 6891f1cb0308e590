"""Examples cut from documents: every token once, pairs that are half true, and an order that is a shuffle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clearhead.pretraining.bidirectional import make_bidirectional_batch
from clearhead.pretraining.corpus_subset import CorpusSubset, split_held_out
from clearhead.pretraining.example_spans import (
    make_span_table,
    sample_ordered_pairs,
    sample_pairs,
    sample_texts,
    shuffle_positions,
)
from clearhead.pretraining.next_token import make_next_token_batch
from clearhead.pretraining.objective import TextPairs
from clearhead.pretraining.shards import Corpus, CorpusIndex, Shard
from clearhead.pretraining.span_corruption import make_corrupted_batch
from clearhead.pretraining.vocab_info import VocabInfo

EOS, START = 1, 0


def corpus_of(folder: Path, lengths: list[list[int]]) -> Corpus:
    """Documents whose sentences have the given lengths; the ids count up."""
    sizes = [size for document in lengths for size in document]
    total = sum(sizes)
    folder.mkdir(parents=True, exist_ok=True)
    (np.arange(total) % 60_000 + 5).astype("<u2").tofile(folder / "00000.tokens")
    (np.cumsum(sizes) - sizes).astype("<i8").tofile(folder / "00000.sentences")
    counts = [len(document) for document in lengths]
    (np.cumsum(counts) - counts).astype("<i8").tofile(folder / "00000.documents")
    shard = Shard(tokens=total, sentences=len(sizes), documents=len(lengths), taken=len(sizes), hashes={})
    return Corpus(folder, CorpusIndex(shards=[shard], whole=True))


@pytest.fixture(scope="module")
def portion(tmp_path_factory: pytest.TempPathFactory) -> CorpusSubset:
    """100,000 tokens and more in documents of 1 to 60 sentences."""
    draw = np.random.default_rng(0)
    lengths = [[int(one) for one in draw.integers(3, 40, int(draw.integers(1, 60)))] for _ in range(250)]
    corpus = corpus_of(tmp_path_factory.mktemp("corpus"), lengths)
    assert corpus.tokens > 100_000
    return CorpusSubset(corpus=corpus, documents=np.arange(corpus.documents))


def owners(portion: CorpusSubset) -> np.ndarray:
    """The document of every token."""
    sizes = [int(one[-1] - one[0]) for one in map(portion.sentence_bounds, range(len(portion)))]
    return np.repeat(np.arange(len(sizes)), sizes)


def test_singles_hold_every_token_once(portion: CorpusSubset) -> None:
    own = owners(portion)
    made = np.array(list(sample_texts(portion, 100, np.random.default_rng(0))))
    seen = np.zeros(portion.corpus.tokens, int)
    for start, length, *_ in made:
        seen[start : start + length] += 1
        assert own[start] == own[start + length - 1]  # never over the end of a document
    assert seen.max() == 1
    assert seen.mean() > 0.985  # but for a few tokens at ends
    assert made[:, 1].max() == 100
    assert made[:, 4].sum() <= len(portion)  # where documents end
    other = np.array(list(sample_texts(portion, 100, np.random.default_rng(1))))
    assert not np.array_equal(made[:50], other[:50])  # another epoch cuts elsewhere


def test_next_sentences_are_half_true(portion: CorpusSubset) -> None:
    own = owners(portion)
    made = np.array(list(sample_pairs(portion, 125, np.random.default_rng(0))))
    tokens = int(made[:, 1].sum() + made[:, 3].sum())
    assert tokens > 100_000
    assert abs(made[:, 4].mean() - 0.5) < 0.01
    assert (made[:, 1] > 0).all()
    assert (made[:, 3] > 0).all()
    assert (made[:, 1] + made[:, 3]).max() <= 125
    same = own[made[:, 0]] == own[made[:, 2]]
    assert (same == (made[:, 4] == 0)).all()  # true pairs are of one document, the others never
    true = made[made[:, 4] == 0]
    assert (true[:, 2] >= true[:, 0] + true[:, 1]).all()
    assert (true[:, 2] == true[:, 0] + true[:, 1]).mean() > 0.8  # B begins where A ends, where nothing was cut off
    assert ((made[:, 1] + made[:, 3]) < 60).mean() > 0.04  # short ones now and then


@pytest.mark.parametrize(("least", "most", "room"), [(1, 60, 125), (40, 60, 29), (2, 8, 125), (3, 6, 509), (1, 3, 400)])
def test_nothing_but_words_tells_which_pairs_are_true(tmp_path: Path, least: int, most: int, room: int) -> None:
    draw = np.random.default_rng(1)
    made, tables = [], []
    for half in ("learned", "asked"):  # of other documents, so that nothing is known by heart
        sizes = np.exp(draw.normal(2.8, 0.7, (16_000, most))).astype(int) + 1  # many are short, a few very long
        count = 60_000 // (least + most)
        lengths = [[int(one) for one in row[: int(draw.integers(least, most + 1))]] for row in sizes[:count]]
        whole = corpus_of(tmp_path / half, lengths)
        portion = CorpusSubset(corpus=whole, documents=np.arange(whole.documents))
        cuts = np.array(list(sample_pairs(portion, room, np.random.default_rng(0))))
        bounds = np.unique(np.concatenate([portion.sentence_bounds(place) for place in range(len(portion))]))
        lasts = np.array([portion.sentence_bounds(place)[-1] for place in range(len(portion))])
        a, b, ends = cuts[:, 1], cuts[:, 3], cuts[:, 2] + cuts[:, 3]
        sentences = np.searchsorted(bounds, ends) - np.searchsorted(bounds, cuts[:, 2])
        made.append(cuts)
        tables.append(np.stack([a, b, a + b, a - b, np.isin(ends, lasts), sentences, 4 * a + np.isin(ends, lasts)], 1))
    assert len(made[1]) > 3000
    assert abs(made[1][:, 4].mean() - 0.5) < 0.01
    for learned, asked in zip(tables[0].T, tables[1].T, strict=True):
        rate = {value: made[0][:, 4][learned == value].mean() for value in np.unique(learned)}
        said = np.array([rate.get(value, 0.5) > 0.5 for value in asked])
        right = float((said == made[1][:, 4]).mean())
        assert right < 0.5 + 3.5 / np.sqrt(4 * len(asked))  # no better than a coin


@pytest.mark.parametrize("counts", [[5000, 5], [5000, *[3] * 10], [5000], [300, 300], [40] * 3])
def test_long_documents_among_few_have_strangers(tmp_path: Path, counts: list[int]) -> None:
    draw = np.random.default_rng(2)
    corpus = corpus_of(tmp_path, [[int(one) for one in draw.integers(3, 40, count)] for count in counts])
    portion = CorpusSubset(corpus=corpus, documents=np.arange(len(counts)))
    made = np.array(list(sample_pairs(portion, 125, np.random.default_rng(0))))
    assert 0.35 < made[:, 4].mean() < 0.65
    strange = made[made[:, 4] == 1]
    assert (strange[:, 2] != strange[:, 0] + strange[:, 1]).all()  # never what follows


def test_orders_are_half_swapped(portion: CorpusSubset) -> None:
    own = owners(portion)
    made = np.array(list(sample_ordered_pairs(portion, 125, np.random.default_rng(0))))
    assert abs(made[:, 4].mean() - 0.5) < 0.06
    assert (own[made[:, 0]] == own[made[:, 2]]).all()
    assert ((made[:, 0] < made[:, 2]) == (made[:, 4] == 0)).all()


def test_one_document_and_single_sentences(tmp_path: Path) -> None:
    alone = CorpusSubset(corpus=corpus_of(tmp_path / "a", [[10] * 50]), documents=np.arange(1))
    made = np.array(list(sample_pairs(alone, 61, np.random.default_rng(0))))
    assert {0, 1} == set(made[:, 4])
    short = CorpusSubset(corpus=corpus_of(tmp_path / "b", [[10]] * 50), documents=np.arange(50))
    assert list(sample_pairs(short, 61, np.random.default_rng(0))) == []
    assert list(sample_ordered_pairs(short, 61, np.random.default_rng(0))) == []
    assert len(list(sample_texts(short, 61, np.random.default_rng(0)))) == 50


def test_documents_are_held_out(portion: CorpusSubset, tmp_path: Path) -> None:
    train, held, said = split_held_out(portion.corpus, 0)
    assert not set(train.documents) & set(held.documents)
    assert len(train) + len(held) == len(portion)
    tokens = sum(int(held.sentence_bounds(one)[-1] - held.sentence_bounds(one)[0]) for one in range(len(held)))
    assert 5000 <= tokens <= 10_000
    assert f"{len(held)} of 250 documents" in said
    few = corpus_of(tmp_path / "a", [[10] * 200, [10] * 5])
    train, held, said = split_held_out(few, 0)
    assert [len(train.sentence_bounds(place)) - 1 for place in range(2)] == [196, 5]
    assert len(held) == 1
    assert held.sentence_bounds(0)[0] == train.sentence_bounds(0)[-1]
    assert "last sentences of 1 documents" in said
    assert len(split_held_out(corpus_of(tmp_path / "b", [[10] * 3]), 0)[1]) == 0


def test_a_table_lies_on_disk_and_repeats(portion: CorpusSubset, tmp_path: Path) -> None:
    first = np.array(make_span_table(tmp_path / "cuts.bin", sample_pairs, portion, 125, 3, 1))
    again = make_span_table(tmp_path / "cuts.bin", sample_pairs, portion, 125, 3, 1)
    assert isinstance(again, np.memmap)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, make_span_table(tmp_path / "cuts.bin", sample_pairs, portion, 125, 3, 2))
    assert len(make_span_table(tmp_path / "none.bin", lambda *_: iter(()), portion, 125, 3, 1)) == 0


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 65, 1000, 4097])
def test_an_order_is_a_shuffle(count: int) -> None:
    made = shuffle_positions(np.arange(count), count, 1, 0)
    assert sorted(made) == list(range(count))
    assert np.array_equal(
        shuffle_positions(np.arange(count)[::-1], count, 1, 0), made[::-1]
    )  # any part without the rest
    if count > 60:
        assert not np.array_equal(made, shuffle_positions(np.arange(count), count, 1, 1))
        assert abs(np.corrcoef(made, np.arange(count))[0, 1]) < 0.4


def vocab() -> VocabInfo:
    special = np.zeros(70_000, bool)
    sentinels = tuple(range(69_999, 69_899, -1))
    special[[0, 1, *sentinels]] = True
    return VocabInfo(
        size=70_000,
        is_special=special,
        is_continuation=special & False,
        ordinary_ids=np.flatnonzero(~special),
        eos_id=EOS,
        decoder_start_id=START,
        sentinel_ids=sentinels,
    )


def test_spans_go_out_and_can_be_put_back() -> None:
    texts: TextPairs = [
        (np.arange(100, 100 + length), None, 0) for _ in range(20) for length in (1, 2, 3, 10, 100, 500)
    ]
    batch = make_corrupted_batch(texts, vocab(), np.random.default_rng(0))
    assert batch.target_ids is not None
    assert batch.target_lengths is not None
    sources = np.split(batch.ids, np.cumsum(batch.lengths)[:-1])
    targets = np.split(batch.labels, np.cumsum(batch.target_lengths)[:-1])
    reads = np.split(batch.target_ids, np.cumsum(batch.target_lengths)[:-1])
    gone = total = 0
    for (text, *_), source, target, read in zip(texts, sources, targets, reads, strict=True):
        assert source[-1] == target[-1] == EOS
        assert read[0] == START
        assert (read[1:] == target[:-1]).all()
        spans: dict[int, list[int]] = {}
        for one in target[:-1]:
            if one >= 69_900:
                mark = int(one)
                spans[mark] = []
            else:
                spans[mark].append(int(one))
        whole = [part for one in source[:-1] for part in (spans[int(one)] if one >= 69_900 else [int(one)])]
        assert whole == list(text)
        gone, total = gone + sum(map(len, spans.values())), total + len(text)
    assert abs(gone / total - 0.15) < 0.02
    word = (batch.labels < 69_900) & (batch.labels != EOS)  # texts count upwards: before a word stands the one less
    assert (batch.previous_ids[word] == np.where(batch.labels[word] > 100, batch.labels[word] - 1, -1)).all()
    assert (batch.previous_ids[~word] == -1).all()


def test_the_rest_of_a_document_does_not_end_it(tmp_path: Path) -> None:
    """Where last sentences are held out, what is left of a long document goes on there; a short one is whole."""
    train, held, _ = split_held_out(corpus_of(tmp_path / "a", [[10] * 200, [10] * 3]), 0)
    made = [list(sample_texts(part, 64, np.random.default_rng(0))) for part in (train, held)]
    assert [sum(end for *_, end in cuts) for cuts in made] == [1, 1]


def test_next_words() -> None:
    texts: TextPairs = [(np.arange(10, 14), None, 1), (np.arange(20, 23), None, 0)] * 50
    batch = make_next_token_batch(texts, vocab(), np.random.default_rng(0))
    rows = np.split(batch.ids, np.cumsum(batch.lengths)[:-1])
    words = np.split(batch.labels, np.cumsum(batch.lengths)[:-1])
    opened = 0
    for (text, _, ends), read, right in zip(texts, rows, words, strict=True):
        assert (read[1:] == right[:-1]).all()
        opened += read[0] == EOS
        assert list(right)[-1] == (EOS if ends else text[-1])
        assert [one for one in (*read[:1], *right) if one != EOS] == list(text)
    assert 30 < opened < 70


def test_both_ways() -> None:
    made = replace(vocab(), prefix_ids=(2,), suffix_ids=(3,))
    batch = make_bidirectional_batch(
        [(np.array([10, 11, 12]), None, 0), (np.array([20]), None, 0)], made, np.random.default_rng(0)
    )
    assert list(batch.ids) == [2, 10, 11, 12, 3, 2, 20, 3]
    assert list(batch.lengths) == [5, 3]
    asked = dict(zip(batch.positions.tolist(), batch.labels.tolist(), strict=True))
    forth, back = ({place // 2: word for place, word in asked.items() if place % 2 == way} for way in (0, 1))
    assert forth == {0: 10, 1: 11, 2: 12, 3: 3, 5: 20, 6: 3}
    assert back == {1: 2, 2: 10, 3: 11, 4: 12, 6: 2, 7: 20}
    known = dict(zip(batch.positions.tolist(), batch.previous_ids.tolist(), strict=True))
    assert (known[2], known[3], known[5]) == (10, -1, 2)  # what stood before the asked word in the text
    part = batch.slice_texts(1, 2)
    assert list(part.labels) == [20, 3, 2, 20]
    assert part.positions.max() < 2 * 3
