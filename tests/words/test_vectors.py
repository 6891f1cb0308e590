"""Word vectors: lookup, nearest neighbors, analogies, means."""

from __future__ import annotations

import numpy as np
import pytest

from clearhead.errors import InputError
from clearhead.text.words import split_vector_words
from clearhead.words import WordVectors
from clearhead.words.vectors import parse_expression
from tests.words.planted import royal


def test_a_word_is_found_as_written_and_then_in_small_letters() -> None:
    vectors = royal()
    assert vectors.find("King") == vectors.find("king") == 0
    assert vectors.find("Paris") == 6
    assert vectors.find("paris") is None
    assert "KING" in vectors
    assert "paris" not in vectors
    np.testing.assert_array_equal(vectors["Queen"], vectors.matrix[1])


def test_an_unknown_word_is_named_with_a_near_one() -> None:
    with pytest.raises(InputError, match=r"'quen' is not among the 7 words of royal; did you mean queen\?"):
        royal().vector("quen")


def test_king_minus_man_plus_woman_is_queen_and_the_question_is_left_out() -> None:
    vectors = royal()
    best = vectors.neighbors("king - man + woman", top=7)
    assert best[0].word == "queen"
    assert {"king", "man", "woman"}.isdisjoint(neighbor.word for neighbor in best)
    assert len(best) == 4
    unit = vectors.matrix / np.linalg.norm(vectors.matrix, axis=1, keepdims=True)
    target = unit[0] - unit[2] + unit[3]
    assert best[0].cosine == pytest.approx(unit[1] @ target / np.linalg.norm(target), abs=1e-6)


def test_neighbours_are_those_of_a_plain_search() -> None:
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(500, 20)).astype(np.float32)
    vectors = WordVectors(words=tuple(f"w{n}" for n in range(500)), matrix=matrix)
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    order = [n for n in np.argsort(-(unit @ unit[7]), kind="stable") if n != 7]
    assert [neighbor.word for neighbor in vectors.neighbors("w7", top=5)] == [f"w{n}" for n in order[:5]]


def test_solve_answers_as_analogy_does() -> None:
    vectors = royal()
    assert vectors.words[int(vectors.solve_analogies(np.array([[2, 0, 3]]))[0])] == "queen"


def test_the_mean_of_a_text() -> None:
    vectors = royal()
    means = vectors.mean(["The king's Queen, and nobody", "", "nothing known"])
    np.testing.assert_allclose(means[0], vectors.matrix[:2].mean(0), atol=1e-6)
    assert not means[1:].any()


def test_a_zero_vector_is_no_trouble() -> None:
    vectors = WordVectors(words=("a", "b", "c"), matrix=np.array([[0, 0], [1, 0], [1, 1]], np.float32))
    assert vectors.neighbors("a")[0].cosine == 0
    assert vectors.cosine("a", "a") == 1


@pytest.mark.parametrize(
    ("query", "added", "subtracted"),
    [
        ("king", ["king"], []),
        ("king - man + woman", ["king", "woman"], ["man"]),
        (["king", "−", "man"], ["king"], ["man"]),
        ("- man + well-known", ["well-known"], ["man"]),
    ],
)
def test_expressions(query: str | list[str], added: list[str], subtracted: list[str]) -> None:
    assert parse_expression(query) == (added, subtracted)


@pytest.mark.parametrize("query", ["", "-", "king man", "king - - man", "king +"])
def test_expressions_that_are_none(query: str) -> None:
    with pytest.raises(InputError, match=r"king - man \+ woman|Two signs in a row"):
        parse_expression(query)


def test_words_of_a_text() -> None:
    assert split_vector_words("Don’t stop_me: 42 times, naïve café-au-lait!") == [
        "Don't",
        "stop",
        "me",
        "42",
        "times",
        "naïve",
        "café",
        "au",
        "lait",
    ]


def test_letters_keep_their_marks() -> None:
    assert split_vector_words("हिन्दी में cafe\u0301 au lait") == ["हिन्दी", "में", "café", "au", "lait"]
    assert split_vector_words("İstanbul’un".lower()) == ["i̇stanbul'un"]


def test_a_text_without_a_known_word_is_a_usual_one() -> None:
    words = WordVectors(words=("a", "b"), matrix=np.array([[2.0, 0.0], [0.0, 2.0]], np.float32))
    assert np.allclose(words.features(["nothing known", "b"]), [[4 / 3, 2 / 3], [0.0, 2.0]])  # as their places say
    counted = WordVectors(words=words.words, matrix=words.matrix, counts=np.array([3, 1]))
    assert np.allclose(counted.features([""], ["a"])[:, :4], [[1.5, 0.5, 2.0, 0.0]])
    assert not words.mean(["nothing known"]).any()


def test_what_does_not_fit_together_is_refused() -> None:
    with pytest.raises(InputError, match="Expected 2 vectors, one per word"):
        WordVectors(words=("a", "b"), matrix=np.ones((3, 2), np.float32))
    with pytest.raises(InputError, match="occurs twice"):
        WordVectors(words=("a", "a"), matrix=np.ones((2, 2), np.float32))
