"""Example spans: every token once, half of the pairs negative, and a pseudorandom permutation."""

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


def write_corpus(folder: Path, sentence_lengths: list[list[int]]) -> Corpus:
    """Documents whose sentences have the given lengths; the ids count up."""
    sizes = [size for document in sentence_lengths for size in document]
    total = sum(sizes)
    folder.mkdir(parents=True, exist_ok=True)
    (np.arange(total) % 60_000 + 5).astype("<u2").tofile(folder / "00000.tokens")
    (np.cumsum(sizes) - sizes).astype("<i8").tofile(folder / "00000.sentences")
    counts = [len(document) for document in sentence_lengths]
    (np.cumsum(counts) - counts).astype("<i8").tofile(folder / "00000.documents")
    shard = Shard(tokens=total, sentences=len(sizes), documents=len(sentence_lengths), taken=len(sizes), hashes={})
    return Corpus(folder, CorpusIndex(shards=[shard], whole=True))


@pytest.fixture(scope="module")
def subset(tmp_path_factory: pytest.TempPathFactory) -> CorpusSubset:
    """100,000 tokens and more in documents of 1 to 60 sentences."""
    draw = np.random.default_rng(0)
    lengths = [[int(length) for length in draw.integers(3, 40, int(draw.integers(1, 60)))] for _ in range(250)]
    corpus = write_corpus(tmp_path_factory.mktemp("corpus"), lengths)
    assert corpus.tokens > 100_000
    return CorpusSubset(corpus=corpus, documents=np.arange(corpus.documents))


def document_of_token(subset: CorpusSubset) -> np.ndarray:
    """The document of every token."""
    sizes = [int(bounds[-1] - bounds[0]) for bounds in map(subset.sentence_bounds, range(len(subset)))]
    return np.repeat(np.arange(len(sizes)), sizes)


def test_singles_hold_every_token_once(subset: CorpusSubset) -> None:
    documents = document_of_token(subset)
    spans = np.array(list(sample_texts(subset, 100, np.random.default_rng(0))))
    occurrences = np.zeros(subset.corpus.tokens, int)
    for start, length, *_ in spans:
        occurrences[start : start + length] += 1
        assert documents[start] == documents[start + length - 1]  # never over the end of a document
    assert occurrences.max() == 1
    assert occurrences.mean() > 0.985  # but for a few tokens at ends
    assert spans[:, 1].max() == 100
    assert spans[:, 4].sum() <= len(subset)  # where documents end
    other_spans = np.array(list(sample_texts(subset, 100, np.random.default_rng(1))))
    assert not np.array_equal(spans[:50], other_spans[:50])  # another epoch cuts elsewhere


def test_next_sentences_are_half_true(subset: CorpusSubset) -> None:
    documents = document_of_token(subset)
    spans = np.array(list(sample_pairs(subset, 125, np.random.default_rng(0))))
    tokens = int(spans[:, 1].sum() + spans[:, 3].sum())
    assert tokens > 100_000
    assert abs(spans[:, 4].mean() - 0.5) < 0.01
    assert (spans[:, 1] > 0).all()
    assert (spans[:, 3] > 0).all()
    assert (spans[:, 1] + spans[:, 3]).max() <= 125
    is_same_document = documents[spans[:, 0]] == documents[spans[:, 2]]
    assert (is_same_document == (spans[:, 4] == 0)).all()  # true pairs are of one document, the others never
    positives = spans[spans[:, 4] == 0]
    assert (positives[:, 2] >= positives[:, 0] + positives[:, 1]).all()
    assert (
        positives[:, 2] == positives[:, 0] + positives[:, 1]
    ).mean() > 0.8  # B begins where A ends, where nothing was cut off
    assert ((spans[:, 1] + spans[:, 3]) < 60).mean() > 0.04  # short ones now and then


@pytest.mark.parametrize(("least", "most", "room"), [(1, 60, 125), (40, 60, 29), (2, 8, 125), (3, 6, 509), (1, 3, 400)])
def test_nothing_but_words_tells_which_pairs_are_true(tmp_path: Path, least: int, most: int, room: int) -> None:
    draw = np.random.default_rng(1)
    spans, features = [], []
    for name in ("learned", "asked"):  # of other documents, so that nothing is known by heart
        sizes = np.exp(draw.normal(2.8, 0.7, (16_000, most))).astype(int) + 1  # many are short, a few very long
        count = 60_000 // (least + most)
        lengths = [[int(length) for length in row[: int(draw.integers(least, most + 1))]] for row in sizes[:count]]
        corpus = write_corpus(tmp_path / name, lengths)
        subset = CorpusSubset(corpus=corpus, documents=np.arange(corpus.documents))
        cuts = np.array(list(sample_pairs(subset, room, np.random.default_rng(0))))
        bounds = np.unique(np.concatenate([subset.sentence_bounds(index) for index in range(len(subset))]))
        lasts = np.array([subset.sentence_bounds(index)[-1] for index in range(len(subset))])
        a, b, ends = cuts[:, 1], cuts[:, 3], cuts[:, 2] + cuts[:, 3]
        sentences = np.searchsorted(bounds, ends) - np.searchsorted(bounds, cuts[:, 2])
        spans.append(cuts)
        features.append(
            np.stack([a, b, a + b, a - b, np.isin(ends, lasts), sentences, 4 * a + np.isin(ends, lasts)], 1)
        )
    assert len(spans[1]) > 3000
    assert abs(spans[1][:, 4].mean() - 0.5) < 0.01
    for train_values, test_values in zip(features[0].T, features[1].T, strict=True):
        rate = {value: spans[0][:, 4][train_values == value].mean() for value in np.unique(train_values)}
        predicted = np.array([rate.get(value, 0.5) > 0.5 for value in test_values])
        accuracy = float((predicted == spans[1][:, 4]).mean())
        assert accuracy < 0.5 + 3.5 / np.sqrt(4 * len(test_values))  # no better than a coin


@pytest.mark.parametrize("counts", [[5000, 5], [5000, *[3] * 10], [5000], [300, 300], [40] * 3])
def test_long_documents_among_few_have_strangers(tmp_path: Path, counts: list[int]) -> None:
    draw = np.random.default_rng(2)
    corpus = write_corpus(tmp_path, [[int(length) for length in draw.integers(3, 40, count)] for count in counts])
    subset = CorpusSubset(corpus=corpus, documents=np.arange(len(counts)))
    spans = np.array(list(sample_pairs(subset, 125, np.random.default_rng(0))))
    assert 0.35 < spans[:, 4].mean() < 0.65
    negatives = spans[spans[:, 4] == 1]
    assert (negatives[:, 2] != negatives[:, 0] + negatives[:, 1]).all()  # never what follows


def test_orders_are_half_swapped(subset: CorpusSubset) -> None:
    documents = document_of_token(subset)
    spans = np.array(list(sample_ordered_pairs(subset, 125, np.random.default_rng(0))))
    assert abs(spans[:, 4].mean() - 0.5) < 0.06
    assert (documents[spans[:, 0]] == documents[spans[:, 2]]).all()
    assert ((spans[:, 0] < spans[:, 2]) == (spans[:, 4] == 0)).all()


def test_one_document_and_single_sentences(tmp_path: Path) -> None:
    one_document = CorpusSubset(corpus=write_corpus(tmp_path / "a", [[10] * 50]), documents=np.arange(1))
    spans = np.array(list(sample_pairs(one_document, 61, np.random.default_rng(0))))
    assert {0, 1} == set(spans[:, 4])
    short = CorpusSubset(corpus=write_corpus(tmp_path / "b", [[10]] * 50), documents=np.arange(50))
    assert list(sample_pairs(short, 61, np.random.default_rng(0))) == []
    assert list(sample_ordered_pairs(short, 61, np.random.default_rng(0))) == []
    assert len(list(sample_texts(short, 61, np.random.default_rng(0)))) == 50


def test_documents_are_held_out(subset: CorpusSubset, tmp_path: Path) -> None:
    train, held, note = split_held_out(subset.corpus, 0)
    assert not set(train.documents) & set(held.documents)
    assert len(train) + len(held) == len(subset)
    tokens = sum(int(held.sentence_bounds(index)[-1] - held.sentence_bounds(index)[0]) for index in range(len(held)))
    assert 5000 <= tokens <= 10_000
    assert f"{len(held)} of 250 documents" in note
    few = write_corpus(tmp_path / "a", [[10] * 200, [10] * 5])
    train, held, note = split_held_out(few, 0)
    assert [len(train.sentence_bounds(index)) - 1 for index in range(2)] == [196, 5]
    assert len(held) == 1
    assert held.sentence_bounds(0)[0] == train.sentence_bounds(0)[-1]
    assert "last sentences of 1 documents" in note
    assert len(split_held_out(write_corpus(tmp_path / "b", [[10] * 3]), 0)[1]) == 0


def test_a_table_lies_on_disk_and_repeats(subset: CorpusSubset, tmp_path: Path) -> None:
    first = np.array(make_span_table(tmp_path / "cuts.bin", sample_pairs, subset, 125, 3, 1))
    again = make_span_table(tmp_path / "cuts.bin", sample_pairs, subset, 125, 3, 1)
    assert isinstance(again, np.memmap)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, make_span_table(tmp_path / "cuts.bin", sample_pairs, subset, 125, 3, 2))
    assert len(make_span_table(tmp_path / "none.bin", lambda *_: iter(()), subset, 125, 3, 1)) == 0


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 65, 1000, 4097])
def test_an_order_is_a_shuffle(count: int) -> None:
    shuffled = shuffle_positions(np.arange(count), count, 1, 0)
    assert sorted(shuffled) == list(range(count))
    assert np.array_equal(
        shuffle_positions(np.arange(count)[::-1], count, 1, 0), shuffled[::-1]
    )  # any part without the rest
    if count > 60:
        assert not np.array_equal(shuffled, shuffle_positions(np.arange(count), count, 1, 1))
        assert abs(np.corrcoef(shuffled, np.arange(count))[0, 1]) < 0.4


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
    decoder_inputs = np.split(batch.target_ids, np.cumsum(batch.target_lengths)[:-1])
    masked = total = 0
    for (text, *_), source, target, decoder_ids in zip(texts, sources, targets, decoder_inputs, strict=True):
        assert source[-1] == target[-1] == EOS
        assert decoder_ids[0] == START
        assert (decoder_ids[1:] == target[:-1]).all()
        spans: dict[int, list[int]] = {}
        for token in target[:-1]:
            if token >= 69_900:
                sentinel = int(token)
                spans[sentinel] = []
            else:
                spans[sentinel].append(int(token))
        restored = [part for token in source[:-1] for part in (spans[int(token)] if token >= 69_900 else [int(token)])]
        assert restored == list(text)
        masked, total = masked + sum(map(len, spans.values())), total + len(text)
    assert abs(masked / total - 0.15) < 0.02
    word = (batch.labels < 69_900) & (batch.labels != EOS)  # texts count upwards: before a word stands the one less
    assert (batch.previous_ids[word] == np.where(batch.labels[word] > 100, batch.labels[word] - 1, -1)).all()
    assert (batch.previous_ids[~word] == -1).all()


def test_the_rest_of_a_document_does_not_end_it(tmp_path: Path) -> None:
    """Where last sentences are held out, what is left of a long document goes on there; a short one is whole."""
    train, held, _ = split_held_out(write_corpus(tmp_path / "a", [[10] * 200, [10] * 3]), 0)
    spans = [list(sample_texts(part, 64, np.random.default_rng(0))) for part in (train, held)]
    assert [sum(end for *_, end in cuts) for cuts in spans] == [1, 1]


def test_next_words() -> None:
    texts: TextPairs = [(np.arange(10, 14), None, 1), (np.arange(20, 23), None, 0)] * 50
    batch = make_next_token_batch(texts, vocab(), np.random.default_rng(0))
    rows = np.split(batch.ids, np.cumsum(batch.lengths)[:-1])
    label_rows = np.split(batch.labels, np.cumsum(batch.lengths)[:-1])
    with_prefix = 0
    for (text, _, ends), row, labels in zip(texts, rows, label_rows, strict=True):
        assert (row[1:] == labels[:-1]).all()
        with_prefix += row[0] == EOS
        assert list(labels)[-1] == (EOS if ends else text[-1])
        assert [token for token in (*row[:1], *labels) if token != EOS] == list(text)
    assert 30 < with_prefix < 70


def test_both_ways() -> None:
    vocab_info = replace(vocab(), prefix_ids=(2,), suffix_ids=(3,))
    batch = make_bidirectional_batch(
        [(np.array([10, 11, 12]), None, 0), (np.array([20]), None, 0)], vocab_info, np.random.default_rng(0)
    )
    assert list(batch.ids) == [2, 10, 11, 12, 3, 2, 20, 3]
    assert list(batch.lengths) == [5, 3]
    labels = dict(zip(batch.positions.tolist(), batch.labels.tolist(), strict=True))
    forward, backward = (
        {position // 2: word for position, word in labels.items() if position % 2 == direction} for direction in (0, 1)
    )
    assert forward == {0: 10, 1: 11, 2: 12, 3: 3, 5: 20, 6: 3}
    assert backward == {1: 2, 2: 10, 3: 11, 4: 12, 6: 2, 7: 20}
    previous = dict(zip(batch.positions.tolist(), batch.previous_ids.tolist(), strict=True))
    assert (previous[2], previous[3], previous[5]) == (10, -1, 2)  # what stood before the asked word in the text
    part = batch.slice_texts(1, 2)
    assert list(part.labels) == [20, 3, 2, 20]
    assert part.positions.max() < 2 * 3
