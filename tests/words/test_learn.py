"""word2vec learns planted topics reproducibly, and its steps equal those of the plain algorithm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clearhead.errors import InputError
from clearhead.words.corpus import WordCorpus, read_corpus
from clearhead.words.learn import choose_block_length, count_shared_samples, init_tables, learn_words
from clearhead.words.steps import Cbow, EmbeddingTables, Skipgram, WordSettings
from tests.words.planted import make_topic_sentences, share_of_same_topic


@pytest.mark.parametrize("mode", ["skipgram", "cbow"])
def test_words_that_stand_together_become_neighbours(mode: str) -> None:
    settings = WordSettings(mode=mode, epochs=10, width=20)  # type: ignore[arg-type]
    learned = learn_words(make_topic_sentences(1000), settings)
    assert share_of_same_topic(learned.vectors) == 1.0
    assert len(learned.vectors) == learned.distinct_words == 32
    assert learned.vectors.counts is not None
    assert int(learned.vectors.counts.sum()) == learned.words_read
    random = train_barely(settings)
    assert share_of_same_topic(random) < 0.6  # without learning they are not


def train_barely(settings: WordSettings):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    return learn_words(
        make_topic_sentences(200), replace(settings, epochs=1, learning_rate=1e-9, min_learning_rate=0.0)
    ).vectors


@pytest.mark.parametrize("mode", ["skipgram", "cbow"])
def test_the_same_seed_gives_the_same_vectors(mode: str) -> None:
    settings = WordSettings(mode=mode, epochs=2, width=10, seed=3)  # type: ignore[arg-type]
    first, second = (learn_words(make_topic_sentences(300), settings).vectors.matrix for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other_seed = learn_words(make_topic_sentences(300), WordSettings(mode=mode, epochs=2, width=10, seed=4))  # type: ignore[arg-type]
    assert not np.array_equal(first, other_seed.vectors.matrix)


def test_several_threads_learn_too() -> None:
    assert (
        share_of_same_topic(learn_words(make_topic_sentences(1000), WordSettings(epochs=10, threads=2)).vectors) == 1.0
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"learning_rate": 0.3},
        {"mode": "cbow", "learning_rate": 0.2},
        {"mode": "cbow", "sample": 0.0, "learning_rate": 0.1},
        {"window": 10, "negative": 20},
        {"width": 7, "sample": 0.0},
    ],
)
def test_hard_settings_do_not_make_vectors_grow_without_end(settings: dict[str, object]) -> None:
    vectors = learn_words(make_topic_sentences(1000), WordSettings(epochs=10, **settings)).vectors  # type: ignore[arg-type]
    assert share_of_same_topic(vectors) > 0.95
    assert vectors.norms.max() < 10


def make_tables(words: int, width: int, seed: int = 0) -> EmbeddingTables:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(2, words, width)).astype(np.float32) * 0.3
    return EmbeddingTables(
        inputs=values[0].copy(),
        outputs=values[1].copy(),
        keep_probs=np.ones(words),
        negative_cdf=np.ones(words),
        top_share=0.1,
    )


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


@pytest.mark.parametrize("width", [6, 5])
def test_a_skipgram_step_is_the_sum_of_its_pairs(width: int) -> None:
    window, length, negative, rate = 2, 4, 3, 0.1
    rng = np.random.default_rng(1)
    context_words = rng.integers(0, 9, length + 2 * window)  # words come twice
    samples = np.array([1, 8, 8, 3, int(context_words[window])])  # one of them is a word of the text
    weights = rng.integers(0, 2, (length, 2 * window + 1)).astype(np.float32)
    weights[:, window] = 0
    before, after = make_tables(9, width), make_tables(9, width)
    Skipgram(after, WordSettings(window=window, negative=negative), length).train_block(
        context_words, samples, weights, rate
    )
    inputs, outputs = before.inputs.astype(float), before.outputs.astype(float)
    expected_in, expected_out = inputs.copy(), outputs.copy()
    for position in range(length):
        center = int(context_words[window + position])
        for offset in range(2 * window + 1):
            if weights[position, offset]:
                context = int(context_words[position + offset])
                slope = rate * (1 - sigmoid(inputs[context] @ outputs[center]))
                expected_in[context] += slope * outputs[center]
                expected_out[center] += slope * inputs[context]
                for sample in samples.tolist():
                    if sample != center:
                        slope = -rate * negative / len(samples) * sigmoid(inputs[context] @ outputs[sample])
                        expected_in[context] += slope * outputs[sample]
                        expected_out[sample] += slope * inputs[context]
    np.testing.assert_allclose(after.inputs, expected_in, atol=1e-5)
    np.testing.assert_allclose(after.outputs, expected_out, atol=1e-5)


def test_a_cbow_step_is_the_sum_of_its_words() -> None:
    window, length, negative, rate, width = 2, 5, 3, 0.1, 6
    rng = np.random.default_rng(2)
    context_words = rng.integers(0, 9, length + 2 * window)
    samples = np.array([1, 8, 8, int(context_words[window])])
    weights = rng.integers(0, 2, (length, 2 * window + 1)).astype(np.float32)
    weights[:, window] = 0
    weights[1] = 0  # a word without neighbours
    before, after = make_tables(9, width), make_tables(9, width)
    Cbow(after, WordSettings(window=window, negative=negative, mode="cbow"), length).train_block(
        context_words, samples, weights, rate
    )
    inputs, outputs = before.inputs.astype(float), before.outputs.astype(float)
    expected_in, expected_out = inputs.copy(), outputs.copy()
    for position in range(length):
        context = [
            int(context_words[position + offset]) for offset in range(2 * window + 1) if weights[position, offset]
        ]
        if not context:
            continue
        center, mean = int(context_words[window + position]), inputs[context].mean(0)
        slope = rate * (1 - sigmoid(mean @ outputs[center]))
        error = slope * outputs[center]
        expected_out[center] += slope * mean
        for sample in samples.tolist():
            if sample != center:
                slope = -rate * negative / len(samples) * sigmoid(mean @ outputs[sample])
                error = error + slope * outputs[sample]
                expected_out[sample] += slope * mean
        for word in context:
            expected_in[word] += error
    np.testing.assert_allclose(after.inputs, expected_in, atol=1e-5)
    np.testing.assert_allclose(after.outputs, expected_out, atol=1e-5)


def write_corpus(tmp_path: Path, sentences: list[list[str]], min_count: int = 1) -> WordCorpus:
    return read_corpus(sentences, tmp_path / "ids", min_count=min_count)


def test_the_text_comes_back_out_of_its_file(tmp_path: Path) -> None:
    text = write_corpus(tmp_path, [["b", "a", "b"], ["rare"], [], ["b", "a"]], min_count=2)
    assert text.words == ("b", "a")
    assert text.counts.tolist() == [3, 2]
    words, sentence, count = text.read_chunk(0)
    assert [text.words[index] for index in words] == ["b", "a", "b", "b", "a"]
    assert (sentence[0] == sentence[2], sentence[2] == sentence[3], count) == (True, False, 6)


def test_frequent_words_are_passed_over_as_the_formula_says(tmp_path: Path) -> None:
    text = write_corpus(tmp_path, [["the"] * 90 + ["a"] * 10])
    keep = init_tables(text, WordSettings(sample=0.1)).keep_probs
    assert keep[0] == pytest.approx((np.sqrt(0.9 / 0.1) + 1) * 0.1 / 0.9, rel=1e-6)
    assert keep[1] == 1
    assert (init_tables(text, WordSettings(sample=0.0)).keep_probs == 1).all()


def test_more_is_learned_at_once_where_no_word_comes_often() -> None:
    calm = EmbeddingTables(
        inputs=np.ones((1, 1)), outputs=np.ones((1, 1)), keep_probs=np.ones(1), negative_cdf=np.ones(1), top_share=0.001
    )
    busy = EmbeddingTables(
        inputs=np.ones((1, 1)), outputs=np.ones((1, 1)), keep_probs=np.ones(1), negative_cdf=np.ones(1), top_share=0.5
    )
    settings = WordSettings(mode="cbow")
    assert choose_block_length(calm, settings) == 128
    assert choose_block_length(busy, settings) == 4
    assert count_shared_samples(32, WordSettings()) == 64
    assert count_shared_samples(32, WordSettings(negative=20)) > 200


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([], "training text is empty"),
        ([[]], "training text is empty"),
        ([["a"] * 9], "2 are needed"),
        ([["a", "b"]], "0 of 2"),
        (["a text"], "Sentence 0 is 'a text', expected a list of words"),
        ([[1, 2]], "expected a list of words"),
    ],
)
def test_texts_that_cannot_be_learned_from(sentences: list[list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        learn_words(sentences)


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "glove"},
        {"width": 0},
        {"window": 0},
        {"learning_rate": 0.0},
        {"epochs": 0},
        {"sample": 2.0},
        {"threads": 0},
        {"seed": -1},
        {"negative": 0},
        {"min_count": 0},
        {"min_learning_rate": 1.0},
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(settings))):
        learn_words(make_topic_sentences(10), WordSettings(**settings))  # type: ignore[arg-type]


def test_progress_goes_from_nothing_to_all() -> None:
    reports: list[tuple[str, int, int | None]] = []
    learned = learn_words(
        make_topic_sentences(100), WordSettings(epochs=2), progress=lambda *step: reports.append(step)
    )
    assert reports[-1] == ("learning", learned.words_read * 2, learned.words_read * 2)
