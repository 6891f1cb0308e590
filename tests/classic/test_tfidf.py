"""TF-IDF in numpy equals that of scikit-learn, for any text."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from clearhead.classic import SparseRows, Tfidf, TfidfSettings, fit_tfidf, tfidf
from clearhead.errors import InputError, MissingExtraError
from clearhead.metrics.checks import Array
from tests.classic.texts import iter_text_pairs, iter_texts, make_texts
from tests.variation import scaled

# words that can be joined, letters with a longer lower case, combining marks, digits, lone surrogates
WORDS = ["the", "THE", "Straße", "İki", "ǅep", "naïve", "日本語", "١٢", "don't", "a", "_x_", "e\u0301te", "\ud800b"]
TEXT = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=12).flatmap(
        lambda words: st.sampled_from([" ", "\n", "-", "\u200d", "\u00a0"]).map(lambda gap: gap.join(words))
    ),
    st.text(max_size=30),
)


def to_dense(sparse: SparseRows) -> Array:
    table = np.zeros((len(sparse), sparse.width))
    np.add.at(table, (sparse.rows, sparse.indices), sparse.values)
    return table


@settings(max_examples=scaled(300))
@given(
    texts=st.lists(TEXT, min_size=1, max_size=12),
    more_texts=st.lists(TEXT, max_size=5),
    ngrams=st.sampled_from([(1, 2), (1, 1), (2, 2), (1, 3), (2, 4)]),
    lowercase=st.booleans(),
    sublinear=st.booleans(),
    min_rows=st.integers(1, 3),
)
def test_equals_scikit_learn(
    texts: list[str], more_texts: list[str], ngrams: tuple[int, int], lowercase: bool, sublinear: bool, min_rows: int
) -> None:
    vectorizer = TfidfVectorizer(ngram_range=ngrams, lowercase=lowercase, sublinear_tf=sublinear, min_df=min_rows)
    options: dict[str, Any] = {"ngrams": ngrams, "lowercase": lowercase, "sublinear": sublinear, "min_rows": min_rows}
    if min_rows > len(texts):  # an error in scikit-learn
        return
    try:
        expected = vectorizer.fit_transform(texts)
    except ValueError:
        with pytest.raises(InputError, match="No word of two or more letters occurs"):
            fit_tfidf(iter_texts(texts), **options)
        return
    fitted, matrix = fit_tfidf(iter_texts(texts), **options)
    assert list(fitted.terms) == list(vectorizer.get_feature_names_out())
    np.testing.assert_allclose(fitted.idf, vectorizer.idf_, rtol=1e-6)
    np.testing.assert_allclose(matrix.toarray(), expected.toarray(), atol=1e-6)
    new_texts = [*more_texts, "", "no such thing", *texts]
    np.testing.assert_allclose(
        to_dense(fitted.transform(new_texts)), vectorizer.transform(new_texts).toarray(), atol=1e-6
    )


@settings(max_examples=scaled(100))
@given(texts=st.lists(TEXT, min_size=2, max_size=12), max_terms=st.integers(1, 10))
def test_most_frequent_terms_are_kept(texts: list[str], max_terms: int) -> None:
    texts = [*texts, "some words", "some other words"]
    fitted, matrix = fit_tfidf(iter_texts(texts), min_rows=1, max_terms=max_terms)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, max_features=max_terms).fit(texts)

    def count_occurrences(terms: Any) -> list[int]:
        terms_of_texts = [tfidf.extract_terms(text, TfidfSettings()) for text in texts]
        return sorted(sum(text_terms.count(term) for text_terms in terms_of_texts) for term in terms)

    assert count_occurrences(fitted.terms) == count_occurrences(
        vectorizer.get_feature_names_out()
    )  # ties are arbitrary in scikit-learn
    same_vocabulary = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, vocabulary=list(fitted.terms))
    np.testing.assert_allclose(matrix.toarray(), same_vocabulary.fit_transform(texts).toarray(), atol=1e-6)


def test_of_equally_frequent_terms_the_first_letters_are_kept() -> None:
    fitted, _ = fit_tfidf(iter_texts(["dd cc bb aa"]), min_rows=1, max_terms=3, ngrams=(1, 1))
    assert fitted.terms == ("aa", "bb", "cc")


def test_pairs_are_both_texts_their_difference_their_product_and_cosine() -> None:
    first, second = make_texts(40, 1), make_texts(40, 2)
    second[3] = first[3]
    second[4] = "nothing known"
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2).fit(first + second)
    a, b = vectorizer.transform(first).toarray(), vectorizer.transform(second).toarray()
    expected = np.concatenate([a, b, np.abs(a - b), a * b, (a * b).sum(1, keepdims=True)], 1)
    fitted, matrix = fit_tfidf(iter_text_pairs(first, second), pairs=True)
    assert fitted.width == expected.shape[1] == matrix.shape[1]
    np.testing.assert_allclose(matrix.toarray(), expected, atol=1e-6)
    np.testing.assert_allclose(to_dense(fitted.transform(first, second)), expected, atol=1e-6)
    assert matrix[3, fitted.width - 1] == pytest.approx(1)
    assert matrix[4, fitted.width - 1] == 0


def test_a_row_does_not_depend_on_its_neighbors() -> None:
    texts = make_texts(50)
    fitted, matrix = fit_tfidf(iter_texts(texts))
    single_rows = [fitted.transform([text]) for text in texts]
    assert np.array_equal(np.concatenate([row.values for row in single_rows]), matrix.data)
    assert np.array_equal(np.concatenate([row.indices for row in single_rows]), matrix.indices)


class CountedText(str):
    """A text that counts its live instances."""

    alive = 0
    most = 0

    def __new__(cls, text: str) -> CountedText:
        cls.alive += 1
        cls.most = max(cls.most, cls.alive)
        return super().__new__(cls, text)

    def __del__(self) -> None:
        type(self).alive -= 1


def test_texts_are_never_all_in_memory() -> None:
    gc.collect()

    def rows() -> Iterator[tuple[str, str | None]]:
        return ((CountedText(text), None) for text in make_texts(5000))

    _, matrix = fit_tfidf(rows)
    assert matrix.shape[0] == 5000
    assert 0 < CountedText.most <= 2 * tfidf.CHUNK_ROWS + 2  # a chunk, and the next one while it is being read


def test_rare_terms_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"often again word{number} other{number}" for number in range(300)]
    exact, _ = fit_tfidf(iter_texts(texts), min_rows=5)
    monkeypatch.setattr(tfidf, "MAX_COUNTED_TERMS", 60)
    pruned, matrix = fit_tfidf(iter_texts(texts), min_rows=5)
    assert pruned.terms == exact.terms == ("again", "often", "often again")
    assert np.array_equal(pruned.idf, exact.idf)
    assert matrix.shape == (300, 3)


def test_a_term_of_endless_length_is_left_out() -> None:
    fitted, _ = fit_tfidf(iter_texts(["x" * 300 + " short", "x" * 300 + " short"]))
    assert fitted.terms == ("short",)


def test_no_rows_at_all() -> None:
    with pytest.raises(InputError, match="0 texts"):
        fit_tfidf(iter_texts([]))
    fitted = Tfidf(terms=("aa",), idf=np.ones(1, np.float32))
    assert (len(fitted.transform([])), fitted.transform([]).width) == (0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ngrams": (2, 1)}, "ngrams"),
        ({"ngrams": (0, 1)}, "ngrams"),
        ({"ngrams": (1, 9)}, "ngrams"),
        ({"min_rows": 0}, "min_rows"),
        ({"max_terms": 0}, "max_terms"),
        ({"max_terms": 1 << 40}, "max_terms"),
        ({"pairs": True}, "Row 1 has no second text"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_tfidf(iter_texts(["aa bb", "aa bb"]), **options)


def test_inputs_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="Row 1 has a second text"):
        fit_tfidf(iter_text_pairs(["aa"], ["bb"]))
    single_model = Tfidf(terms=("aa",), idf=np.ones(1, np.float32))
    pair_model = Tfidf(terms=("aa",), idf=np.ones(1, np.float32), settings=TfidfSettings(pairs=True))
    with pytest.raises(InputError, match="expects one text per row, got two"):
        single_model.transform(["aa"], ["aa"])
    with pytest.raises(InputError, match="expects two texts per row, got one"):
        pair_model.transform(["aa"])
    with pytest.raises(InputError, match="counts must match"):
        pair_model.transform(["aa"], ["aa", "bb"])
    for texts in ("aa", [None], [b"aa"]):
        with pytest.raises(InputError, match="list of strings"):
            single_model.transform(texts)  # type: ignore[arg-type]


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(MissingExtraError, match=r"clearhead\[train\]"):
        fit_tfidf(iter_texts(["aa bb", "aa bb"]))
