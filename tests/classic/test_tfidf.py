"""TF-IDF in numpy gives the numbers of scikit-learn, for whatever text."""

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
from tests.classic.texts import double, made_texts, single
from tests.variation import scaled

# words that meet each other, letters whose lower case is longer, marks, digits, half pairs, signs, line ends
PIECES = ["the", "THE", "Straße", "İki", "ǅep", "naïve", "日本語", "١٢", "don't", "a", "_x_", "e\u0301te", "\ud800b"]
TEXT = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=12).flatmap(
        lambda words: st.sampled_from([" ", "\n", "-", "\u200d", "\u00a0"]).map(lambda gap: gap.join(words))
    ),
    st.text(max_size=30),
)


def dense(sparse: SparseRows) -> Array:
    made = np.zeros((len(sparse), sparse.width))
    np.add.at(made, (sparse.rows, sparse.indices), sparse.values)
    return made


@settings(max_examples=scaled(300))
@given(
    texts=st.lists(TEXT, min_size=1, max_size=12),
    others=st.lists(TEXT, max_size=5),
    ngrams=st.sampled_from([(1, 2), (1, 1), (2, 2), (1, 3), (2, 4)]),
    lowercase=st.booleans(),
    sublinear=st.booleans(),
    min_rows=st.integers(1, 3),
)
def test_equals_scikit_learn(
    texts: list[str], others: list[str], ngrams: tuple[int, int], lowercase: bool, sublinear: bool, min_rows: int
) -> None:
    vectorizer = TfidfVectorizer(ngram_range=ngrams, lowercase=lowercase, sublinear_tf=sublinear, min_df=min_rows)
    ours: dict[str, Any] = {"ngrams": ngrams, "lowercase": lowercase, "sublinear": sublinear, "min_rows": min_rows}
    if min_rows > len(texts):  # there scikit-learn says that the settings are impossible
        return
    try:
        theirs = vectorizer.fit_transform(texts)
    except ValueError:
        with pytest.raises(InputError, match="nothing to count"):
            fit_tfidf(single(texts), **ours)
        return
    made, matrix = fit_tfidf(single(texts), **ours)
    assert list(made.terms) == list(vectorizer.get_feature_names_out())
    np.testing.assert_allclose(made.idf, vectorizer.idf_, rtol=1e-6)
    np.testing.assert_allclose(matrix.toarray(), theirs.toarray(), atol=1e-6)
    again = [*others, "", "no such thing", *texts]
    np.testing.assert_allclose(dense(made.transform(again)), vectorizer.transform(again).toarray(), atol=1e-6)


@settings(max_examples=scaled(100))
@given(texts=st.lists(TEXT, min_size=2, max_size=12), most=st.integers(1, 10))
def test_most_frequent_terms_are_kept(texts: list[str], most: int) -> None:
    texts = [*texts, "some words", "some other words"]
    made, matrix = fit_tfidf(single(texts), min_rows=1, max_terms=most)
    theirs = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, max_features=most).fit(texts)

    def times(terms: Any) -> list[int]:
        counted = [tfidf.extract_terms(text, TfidfSettings()) for text in texts]
        return sorted(sum(found.count(term) for found in counted) for term in terms)

    assert times(made.terms) == times(theirs.get_feature_names_out())  # of equal ones scikit-learn takes any
    same = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, vocabulary=list(made.terms))
    np.testing.assert_allclose(matrix.toarray(), same.fit_transform(texts).toarray(), atol=1e-6)


def test_of_equally_frequent_terms_the_first_letters_are_kept() -> None:
    made, _ = fit_tfidf(single(["dd cc bb aa"]), min_rows=1, max_terms=3, ngrams=(1, 1))
    assert made.terms == ("aa", "bb", "cc")


def test_pairs_are_both_texts_their_difference_their_product_and_cosine() -> None:
    first, second = made_texts(40, 1), made_texts(40, 2)
    second[3] = first[3]
    second[4] = "nothing known"
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2).fit(first + second)
    a, b = vectorizer.transform(first).toarray(), vectorizer.transform(second).toarray()
    expected = np.concatenate([a, b, np.abs(a - b), a * b, (a * b).sum(1, keepdims=True)], 1)
    made, matrix = fit_tfidf(double(first, second), pairs=True)
    assert made.width == expected.shape[1] == matrix.shape[1]
    np.testing.assert_allclose(matrix.toarray(), expected, atol=1e-6)
    np.testing.assert_allclose(dense(made.transform(first, second)), expected, atol=1e-6)
    assert matrix[3, made.width - 1] == pytest.approx(1)
    assert matrix[4, made.width - 1] == 0


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    texts = made_texts(50)
    made, matrix = fit_tfidf(single(texts))
    alone = [made.transform([text]) for text in texts]
    assert np.array_equal(np.concatenate([row.values for row in alone]), matrix.data)
    assert np.array_equal(np.concatenate([row.indices for row in alone]), matrix.indices)


class Followed(str):
    """A text that knows how many of its kind are alive."""

    alive = 0
    most = 0

    def __new__(cls, text: str) -> Followed:
        cls.alive += 1
        cls.most = max(cls.most, cls.alive)
        return super().__new__(cls, text)

    def __del__(self) -> None:
        type(self).alive -= 1


def test_texts_are_never_all_in_memory() -> None:
    gc.collect()

    def rows() -> Iterator[tuple[str, str | None]]:
        return ((Followed(text), None) for text in made_texts(5000))

    _, matrix = fit_tfidf(rows)
    assert matrix.shape[0] == 5000
    assert 0 < Followed.most <= 2 * tfidf.CHUNK + 2  # a chunk, and the next one while it is read


def test_rare_terms_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"often again word{number} other{number}" for number in range(300)]
    exact, _ = fit_tfidf(single(texts), min_rows=5)
    monkeypatch.setattr(tfidf, "MOST_COUNTED", 60)
    made, matrix = fit_tfidf(single(texts), min_rows=5)
    assert made.terms == exact.terms == ("again", "often", "often again")
    assert np.array_equal(made.idf, exact.idf)
    assert matrix.shape == (300, 3)


def test_a_term_of_endless_length_is_left_out() -> None:
    made, _ = fit_tfidf(single(["x" * 300 + " short", "x" * 300 + " short"]))
    assert made.terms == ("short",)


def test_no_rows_at_all() -> None:
    with pytest.raises(InputError, match="0 texts"):
        fit_tfidf(single([]))
    made = Tfidf(terms=("aa",), idf=np.ones(1, np.float32))
    assert (len(made.transform([])), made.transform([]).width) == (0, 1)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"ngrams": (2, 1)}, "ngrams"),
        ({"ngrams": (0, 1)}, "ngrams"),
        ({"ngrams": (1, 9)}, "ngrams"),
        ({"min_rows": 0}, "min_rows"),
        ({"max_terms": 0}, "max_terms"),
        ({"max_terms": 1 << 40}, "max_terms"),
        ({"pairs": True}, "row 1 has no second text"),
    ],
)
def test_settings_that_cannot_be(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        fit_tfidf(single(["aa bb", "aa bb"]), **wrong)


def test_inputs_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="row 1 has a second text"):
        fit_tfidf(double(["aa"], ["bb"]))
    one = Tfidf(terms=("aa",), idf=np.ones(1, np.float32))
    two = Tfidf(terms=("aa",), idf=np.ones(1, np.float32), settings=TfidfSettings(pairs=True))
    with pytest.raises(InputError, match="reads one text a row, and two came"):
        one.transform(["aa"], ["aa"])
    with pytest.raises(InputError, match="reads two texts a row, and one came"):
        two.transform(["aa"])
    with pytest.raises(InputError, match="as many"):
        two.transform(["aa"], ["aa", "bb"])
    for wrong in ("aa", [None], [b"aa"]):
        with pytest.raises(InputError, match="list of strings"):
            one.transform(wrong)  # type: ignore[arg-type]


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(MissingExtraError, match=r"clearhead\[train\]"):
        fit_tfidf(single(["aa bb", "aa bb"]))
