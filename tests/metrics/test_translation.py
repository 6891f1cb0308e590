"""Translations are scored as sacrebleu scores them: the corpus, every resample of it, and every sentence."""

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


def columns(wanted: list[list[str]]) -> Any:
    """References in sacrebleu's form."""
    return [[ones[k] if k < len(ones) else None for ones in wanted] for k in range(max(map(len, wanted)))]


def theirs(name: str, said: list[str], wanted: list[list[str]]) -> float:
    made: Any = {
        "bleu": lambda: sacrebleu.BLEU(force=True),
        "chrf": lambda: sacrebleu.CHRF(),
        "chrf++": lambda: sacrebleu.CHRF(word_order=2),
    }[name]()
    return float(made.corpus_score(said, columns(wanted)).score)


@settings(max_examples=scaled(150), deadline=None)
@given(rows)
def test_corpus_scores_are_those_of_sacrebleu(given_rows: Rows) -> None:
    said, wanted = [row[0] for row in given_rows], [row[1] for row in given_rows]
    scores = measure_translations(said, wanted, n=0)
    for name in ("bleu", "chrf", "chrf++"):
        assert scores.measures[name].value == pytest.approx(theirs(name, said, wanted), abs=1e-9)
    whole = sacrebleu.BLEU(force=True).corpus_score(said, columns(wanted))
    assert scores.precisions == pytest.approx(whole.precisions)
    assert scores.brevity == pytest.approx(whole.bp)
    assert scores.ratio == pytest.approx(whole.ratio)


@settings(max_examples=scaled(60), deadline=None)
@given(rows, st.integers(0, 1000))
def test_a_resample_has_the_score_of_its_rows(given_rows: Rows, seed: int) -> None:
    drawn = np.random.default_rng(seed).integers(0, len(given_rows), len(given_rows))
    said, wanted = [row[0] for row in given_rows], [row[1] for row in given_rows]
    again = [said[row] for row in drawn], [wanted[row] for row in drawn]
    weights = np.bincount(drawn, minlength=len(said)).astype(float)[:, None]
    words, letters = bleu_statistics(said, wanted)[0], chrf_statistics(said, wanted, word_order=2)[0]
    for name, score, counts in (("bleu", corpus_bleu, words), ("chrf++", corpus_chrf, letters)):
        expected = theirs(name, *again)
        assert score.spec.bind(counts).values(weights)[0] == pytest.approx(expected, abs=1e-9)  # type: ignore[attr-defined]
        assert score(counts[drawn]) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=scaled(60), deadline=None)
@given(rows)
def test_sentences_are_scored_alone(given_rows: Rows) -> None:
    said, wanted = [row[0] for row in given_rows], [row[1] for row in given_rows]
    alone = [sacrebleu.CHRF().sentence_score(one, ones).score for one, ones in given_rows]
    assert sentence_chrf(chrf_statistics(said, wanted)[0]) == pytest.approx(alone, abs=1e-9)


def test_lower_case_and_tokenizers_are_those_of_sacrebleu() -> None:
    said, wanted = ["The Man, he rides 3.5 km", "東京は晴れ"], ["the man , he rides 3.5 km!", "東京は雨"]
    for name in ("13a", "intl", "zh", "char", "none"):
        for lowercase in (True, False):
            counts, signature = bleu_statistics(said, wanted, tokenize=name, lowercase=lowercase)
            counter = sacrebleu.BLEU(tokenize=name, lowercase=lowercase)
            assert corpus_bleu(counts) == pytest.approx(counter.corpus_score(said, [wanted]).score)
            assert signature == str(counter.get_signature())
    assert [tokenizer_for(code) for code in ("de", "zh", "zh_CN", "ja", None)] == ["13a", "zh", "zh", "char", "13a"]


def sample(count: int) -> tuple[list[str], list[str], list[int]]:
    """Translations that lose words more often the longer they are."""
    rng = np.random.default_rng(0)
    wanted, said, lengths = [], [], []
    for _ in range(count):
        words = [WORDS[k] for k in rng.integers(0, 10, rng.integers(4, 30))]
        wanted.append(" ".join(words))
        said.append(" ".join(word for word in words if rng.random() > len(words) / 60))
        lengths.append(len(words))
    return said, wanted, lengths


def test_intervals_hold_the_value_and_repeat_with_their_seed() -> None:
    said, wanted, lengths = sample(200)
    scores = measure_translations(said, wanted, lengths, n=300, seed=3)
    assert list(scores.measures) == ["bleu", "chrf", "chrf++", "exact_match"]
    for interval in scores.measures.values():
        assert interval.low < interval.value < interval.high
        assert interval.n == 300
    assert scores.measures == measure_translations(said, wanted, n=300, seed=3).measures
    assert scores.measures != measure_translations(said, wanted, n=300, seed=4).measures
    # the width is that of sacrebleu's own bootstrap, within the noise of either
    counter = sacrebleu.BLEU()
    peer = counter.corpus_score(said, [wanted], n_bootstrap=1000)
    bleu = measure_translations(said, wanted, n=1000).measures["bleu"]
    assert (bleu.high - bleu.low) / 2 == pytest.approx(peer._ci, rel=0.2)


def test_rows_of_one_document_are_drawn_together() -> None:
    said, wanted, _ = sample(60)
    groups = [row // 20 for row in range(60)]
    alone, together = measure_translations(said, wanted), measure_translations(said, wanted, groups=groups)
    assert alone.measures["bleu"].value == together.measures["bleu"].value
    assert alone.measures["bleu"] != together.measures["bleu"]
    assert math.isnan(measure_translations(said, wanted, groups=[0] * 60).measures["bleu"].low)


def test_slices_go_from_short_to_long_and_keep_every_row() -> None:
    said, wanted, lengths = sample(300)
    scores = measure_translations(said, wanted, lengths, bins=4, n=50)
    assert sum(one.rows for one in scores.slices) == 300
    assert [int(one.name.split(" to ")[0]) for one in scores.slices] == sorted(
        int(one.name.split(" to ")[0]) for one in scores.slices
    )
    assert scores.slices[0].value > scores.slices[-1].value  # the planted loss
    assert scores.slices[0].ratio > scores.slices[-1].ratio
    last = scores.slices[-1]
    low, high = map(int, last.name.split(" to "))
    inside = [row for row, length in enumerate(lengths) if low <= length <= high]
    assert last.rows == len(inside)
    assert last.value == pytest.approx(theirs("bleu", [said[r] for r in inside], [[wanted[r]] for r in inside]))
    table = slice_table({"length": lengths}, corpus_bleu, bleu_statistics(said, wanted)[0], bins=4, n=10)
    assert sorted(one.value for one in table) == pytest.approx(sorted(one.value for one in scores.slices))


def test_best_and_worst_rows() -> None:
    wanted = ["a man rides the bike", "a man rides the bike", "a man rides the bike", ""]
    scores = measure_translations(["a man rides", "", "a man rides the bike ", ""], wanted, n=10)
    assert scores.worst(2) == [1, 3]
    assert scores.best(1) == [2]
    assert len(scores.worst()) == 4
    assert scores.measures["exact_match"].value == 0.5
    assert exact_matches(["x", "y"], [["y", " x"], "z"]).tolist() == [True, False]


def test_nothing_said_is_the_worst_there_is() -> None:
    scores = measure_translations(["", " "], ["a man", ["a bike", "the bike"]], [2, 2], n=20)
    assert [scores.measures[name].value for name in ("bleu", "chrf", "chrf++", "exact_match")] == [0, 0, 0, 0]
    assert "nrefs:var" in scores.signatures["bleu"]
    told = json.loads(json.dumps(scores.to_json(), allow_nan=False))
    assert told["metrics"]["bleu"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert told["by_source_length"][0]["rows"] == 2


def test_bootstrap_takes_the_corpus_scores_like_any_metric() -> None:
    said, wanted, _ = sample(50)
    counts, _ = bleu_statistics(said, wanted)
    assert bootstrap(corpus_bleu, counts, n=100) == measure_translations(said, wanted, n=100).measures["bleu"]


def test_measuring_is_quick() -> None:
    import time

    said, wanted, _ = sample(500)
    counts, _ = bleu_statistics(said, wanted)
    began = time.process_time()
    bootstrap(corpus_bleu, counts, n=1000)
    assert time.process_time() - began < 20.0  # half a second; minutes if every resample counted n-grams again


@pytest.mark.parametrize(
    ("said", "wanted", "options", "told"),
    [
        ([], [], {}, "at least one row"),
        (["a"], ["a", "b"], {}, "1 translations and 2 references"),
        ("a", ["a"], {}, "not a single string"),
        (["a"], [[]], {}, "references[0] is empty"),
        (["a", None], ["a", "b"], {}, "Row 1 holds a value of type NoneType"),
        (["a"], [["a", 3]], {}, "Row 0 holds a value of type int"),
        (["a"], [None], {}, "Row 0 holds a value of type NoneType"),
        (["a"], ["a"], {"tokenize": "spm"}, "tokenize must be one of 13a"),
        (["a"], ["a"], {"lengths": [1, 2]}, "lengths must be one number per row"),
        (["a"], ["a"], {"lengths": [1], "bins": 0}, "bins must be at least 1"),
        (["a"], ["a"], {"n": -1}, "number of resamples"),
    ],
)
def test_what_cannot_be_measured_is_refused(said: Any, wanted: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        measure_translations(said, wanted, **options)
    assert told in str(caught.value)


def test_counts_of_another_kind_are_refused() -> None:
    for score, counts in ((corpus_bleu, np.ones((3, 9))), (corpus_chrf, np.ones((3, 10))), (corpus_chrf, np.ones(3))):
        with pytest.raises(InputError, match="statistics must be counts"):
            score(counts)
    with pytest.raises(InputError, match="word_order is 0"):
        chrf_statistics(["a"], ["a"], word_order=3)
