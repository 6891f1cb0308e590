"""Translation scores are equal to those of sacrebleu: of the corpus, of every resample and of every sentence."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import InputError
from clearhead.metrics import (
    bleu_statistics,
    bootstrap,
    chrf_statistics,
    corpus_bleu,
    corpus_chrf,
    exact_matches,
    measure_translations,
    sentence_chrf,
    slice_table,
    tokenizer_for,
)
from tests.variation import scaled

WORDS = [
    "a",
    "man",
    "rides",
    "the",
    "bike",
    ".",
    ",",
    "Ein",
    "Mann",
    "fährt",
    "(Rad)",
    "&amp;",
    "3.14",
    "東京",
    "e\u0301",
    "🙂",
    "-",
    "U.S.",
    "<b>",
    "naïve",
    "\u00a0",
    "don't",
]
texts = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
    st.lists(st.sampled_from(WORDS[:5]), min_size=4, max_size=12).map(" ".join),
    st.text(max_size=12),
    st.just(""),
)
rows = st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=12)
Rows = list[tuple[str, list[str]]]


def transpose_references(reference_lists: list[list[str]]) -> Any:
    """References as sacrebleu takes them: one list per reference position."""
    return [
        [texts[position] if position < len(texts) else None for texts in reference_lists]
        for position in range(max(map(len, reference_lists)))
    ]


def score_by_sacrebleu(name: str, hypotheses: list[str], reference_lists: list[list[str]]) -> float:
    counter: Any = {
        "bleu": lambda: sacrebleu.BLEU(force=True),
        "chrf": lambda: sacrebleu.CHRF(),
        "chrf++": lambda: sacrebleu.CHRF(word_order=2),
    }[name]()
    return float(counter.corpus_score(hypotheses, transpose_references(reference_lists)).score)


@settings(max_examples=scaled(150), deadline=None)
@given(rows)
def test_corpus_scores_are_those_of_sacrebleu(given_rows: Rows) -> None:
    hypotheses, references = [row[0] for row in given_rows], [row[1] for row in given_rows]
    scores = measure_translations(hypotheses, references, n=0)
    for name in ("bleu", "chrf", "chrf++"):
        assert scores.measures[name].value == pytest.approx(score_by_sacrebleu(name, hypotheses, references), abs=1e-9)
    expected = sacrebleu.BLEU(force=True).corpus_score(hypotheses, transpose_references(references))
    assert scores.precisions == pytest.approx(expected.precisions)
    assert scores.brevity == pytest.approx(expected.bp)
    assert scores.ratio == pytest.approx(expected.ratio)


@settings(max_examples=scaled(60), deadline=None)
@given(rows, st.integers(0, 1000))
def test_a_resample_has_the_score_of_its_rows(given_rows: Rows, seed: int) -> None:
    row_indices = np.random.default_rng(seed).integers(0, len(given_rows), len(given_rows))
    hypotheses, references = [row[0] for row in given_rows], [row[1] for row in given_rows]
    resampled = [hypotheses[row] for row in row_indices], [references[row] for row in row_indices]
    weights = np.bincount(row_indices, minlength=len(hypotheses)).astype(float)[:, None]
    bleu_counts, chrf_counts = (
        bleu_statistics(hypotheses, references)[0],
        chrf_statistics(hypotheses, references, word_order=2)[0],
    )
    for name, score, counts in (("bleu", corpus_bleu, bleu_counts), ("chrf++", corpus_chrf, chrf_counts)):
        expected = score_by_sacrebleu(name, *resampled)
        assert score.spec.bind(counts).values(weights)[0] == pytest.approx(expected, abs=1e-9)  # type: ignore[attr-defined]
        assert score(counts[row_indices]) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=scaled(60), deadline=None)
@given(rows)
def test_sentences_are_scored_alone(given_rows: Rows) -> None:
    hypotheses, references = [row[0] for row in given_rows], [row[1] for row in given_rows]
    expected = [sacrebleu.CHRF().sentence_score(hypothesis, texts).score for hypothesis, texts in given_rows]
    assert sentence_chrf(chrf_statistics(hypotheses, references)[0]) == pytest.approx(expected, abs=1e-9)


def test_lower_case_and_tokenizers_are_those_of_sacrebleu() -> None:
    hypotheses, references = ["The Man, he rides 3.5 km", "東京は晴れ"], ["the man , he rides 3.5 km!", "東京は雨"]
    for name in ("13a", "intl", "zh", "char", "none"):
        for lowercase in (True, False):
            counts, signature = bleu_statistics(hypotheses, references, tokenize=name, lowercase=lowercase)
            counter = sacrebleu.BLEU(tokenize=name, lowercase=lowercase)
            assert corpus_bleu(counts) == pytest.approx(counter.corpus_score(hypotheses, [references]).score)
            assert signature == str(counter.get_signature())
    assert [tokenizer_for(code) for code in ("de", "zh", "zh_CN", "ja", None)] == ["13a", "zh", "zh", "char", "13a"]


def make_translations(count: int) -> tuple[list[str], list[str], list[int]]:
    """Translations that lose words more often the longer they are."""
    rng = np.random.default_rng(0)
    references, hypotheses, lengths = [], [], []
    for _ in range(count):
        words = [WORDS[word_index] for word_index in rng.integers(0, 10, rng.integers(4, 30))]
        references.append(" ".join(words))
        hypotheses.append(" ".join(word for word in words if rng.random() > len(words) / 60))
        lengths.append(len(words))
    return hypotheses, references, lengths


def test_intervals_hold_the_value_and_repeat_with_their_seed() -> None:
    hypotheses, references, lengths = make_translations(200)
    scores = measure_translations(hypotheses, references, lengths, n=300, seed=3)
    assert list(scores.measures) == ["bleu", "chrf", "chrf++", "exact_match"]
    for interval in scores.measures.values():
        assert interval.low < interval.value < interval.high
        assert interval.n == 300
    assert scores.measures == measure_translations(hypotheses, references, n=300, seed=3).measures
    assert scores.measures != measure_translations(hypotheses, references, n=300, seed=4).measures
    # the width equals that of sacrebleu's bootstrap, within the noise of both
    counter = sacrebleu.BLEU()
    expected = counter.corpus_score(hypotheses, [references], n_bootstrap=1000)
    bleu = measure_translations(hypotheses, references, n=1000).measures["bleu"]
    assert (bleu.high - bleu.low) / 2 == pytest.approx(expected._ci, rel=0.2)


def test_rows_of_one_document_are_drawn_together() -> None:
    hypotheses, references, _ = make_translations(60)
    groups = [row // 20 for row in range(60)]
    ungrouped, grouped = (
        measure_translations(hypotheses, references),
        measure_translations(hypotheses, references, groups=groups),
    )
    assert ungrouped.measures["bleu"].value == grouped.measures["bleu"].value
    assert ungrouped.measures["bleu"] != grouped.measures["bleu"]
    assert math.isnan(measure_translations(hypotheses, references, groups=[0] * 60).measures["bleu"].low)


def test_slices_go_from_short_to_long_and_keep_every_row() -> None:
    hypotheses, references, lengths = make_translations(300)
    scores = measure_translations(hypotheses, references, lengths, bins=4, n=50)
    assert sum(length_slice.rows for length_slice in scores.slices) == 300
    assert [int(length_slice.name.split(" to ")[0]) for length_slice in scores.slices] == sorted(
        int(length_slice.name.split(" to ")[0]) for length_slice in scores.slices
    )
    assert scores.slices[0].value > scores.slices[-1].value  # the planted loss
    assert scores.slices[0].ratio > scores.slices[-1].ratio
    last = scores.slices[-1]
    low, high = map(int, last.name.split(" to "))
    rows_inside = [row for row, length in enumerate(lengths) if low <= length <= high]
    assert last.rows == len(rows_inside)
    assert last.value == pytest.approx(
        score_by_sacrebleu("bleu", [hypotheses[row] for row in rows_inside], [[references[row]] for row in rows_inside])
    )
    table = slice_table({"length": lengths}, corpus_bleu, bleu_statistics(hypotheses, references)[0], bins=4, n=10)
    assert sorted(length_slice.value for length_slice in table) == pytest.approx(
        sorted(length_slice.value for length_slice in scores.slices)
    )


def test_best_and_worst_rows() -> None:
    references = ["a man rides the bike", "a man rides the bike", "a man rides the bike", ""]
    scores = measure_translations(["a man rides", "", "a man rides the bike ", ""], references, n=10)
    assert scores.worst(2) == [1, 3]
    assert scores.best(1) == [2]
    assert len(scores.worst()) == 4
    assert scores.measures["exact_match"].value == 0.5
    assert exact_matches(["x", "y"], [["y", " x"], "z"]).tolist() == [True, False]


def test_nothing_said_is_the_worst_there_is() -> None:
    scores = measure_translations(["", " "], ["a man", ["a bike", "the bike"]], [2, 2], n=20)
    assert [scores.measures[name].value for name in ("bleu", "chrf", "chrf++", "exact_match")] == [0, 0, 0, 0]
    assert "nrefs:var" in scores.signatures["bleu"]
    stored = json.loads(json.dumps(scores.to_json(), allow_nan=False))
    assert stored["metrics"]["bleu"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert stored["by_source_length"][0]["rows"] == 2


def test_bootstrap_takes_the_corpus_scores_like_any_metric() -> None:
    hypotheses, references, _ = make_translations(50)
    counts, _ = bleu_statistics(hypotheses, references)
    assert bootstrap(corpus_bleu, counts, n=100) == measure_translations(hypotheses, references, n=100).measures["bleu"]


def test_measuring_is_quick() -> None:
    import time

    hypotheses, references, _ = make_translations(500)
    counts, _ = bleu_statistics(hypotheses, references)
    start = time.process_time()
    bootstrap(corpus_bleu, counts, n=1000)
    assert time.process_time() - start < 20.0  # takes half a second; minutes if every resample counted n-grams again


@pytest.mark.parametrize(
    ("hypotheses", "references", "options", "message"),
    [
        ([], [], {}, "at least one row"),
        (["a"], ["a", "b"], {}, "1 translations and 2 references"),
        ("a", ["a"], {}, "not a single string"),
        (["a"], [[]], {}, "references[0] is empty"),
        (["a", None], ["a", "b"], {}, "Row 1 has a value of type NoneType"),
        (["a"], [["a", 3]], {}, "Row 0 has a value of type int"),
        (["a"], [None], {}, "Row 0 has a value of type NoneType"),
        (["a"], ["a"], {"tokenize": "spm"}, "tokenize must be one of 13a"),
        (["a"], ["a"], {"lengths": [1, 2]}, "lengths must be one number per row"),
        (["a"], ["a"], {"lengths": [1], "bins": 0}, "bins must be at least 1"),
        (["a"], ["a"], {"n": -1}, "number of resamples"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    hypotheses: Any, references: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        measure_translations(hypotheses, references, **options)
    assert message in str(caught.value)


def test_counts_of_another_kind_are_refused() -> None:
    for score, counts in ((corpus_bleu, np.ones((3, 9))), (corpus_chrf, np.ones((3, 10))), (corpus_chrf, np.ones(3))):
        with pytest.raises(InputError, match="statistics must be sacrebleu counts"):
            score(counts)
    with pytest.raises(InputError, match="word_order must be 0"):
        chrf_statistics(["a"], ["a"], word_order=3)
