"""WordSim, SimLex and analogies: exact scores on small vectors, and errors in other files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clearhead.errors import InputError
from clearhead.metrics.correlation import spearman
from clearhead.words.measure import measure_analogies, measure_similarity
from tests.words.planted import royal


def test_likeness_is_spearman_over_the_known_rows(tmp_path: Path) -> None:
    rows = [("king", "queen", 8.0), ("King", "apple", 1.0), ("man", "woman", 7.0), ("man", "unknown", 3.0)]
    rows += [("prince", "king", 9.0), ("woman", "queen", 5.5)]
    path = tmp_path / "pairs.tsv"
    path.write_text("# about\n" + "".join(f"{a}\t{b}\t{score}\n" for a, b, score in rows))
    scores = measure_similarity(royal(), path)
    known_rows = [row for row in rows if row[1] != "unknown"]
    cosines = [royal().cosine(a, b) for a, b, _ in known_rows]
    assert (scores.rows, scores.known) == (6, 5)
    assert scores.spearman.value == pytest.approx(spearman([row[2] for row in known_rows], cosines), abs=1e-6)
    assert scores.spearman.low <= scores.spearman.value <= scores.spearman.high


def test_simlex_has_its_score_in_a_column_of_its_own(tmp_path: Path) -> None:
    head = "word1\tword2\tPOS\tSimLex999\tconc(w1)\n"
    path = tmp_path / "simlex.txt"
    path.write_text(head + "king\tqueen\tN\t9\t1\nking\tapple\tN\t1\t1\nman\twoman\tN\t5\t1\n")
    assert measure_similarity(royal(), path).known == 3


def test_analogies_by_section(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text(": royal\nman king woman queen\nwoman queen man king\nman king woman apple\n: none\nx y z w\n")
    scores = measure_analogies(royal(), path)
    assert [(section.name, section.rows, section.known) for section in scores.sections] == [
        ("royal", 3, 3),
        ("none", 1, 0),
    ]
    assert scores.sections[0].accuracy is not None
    assert scores.sections[0].accuracy.value == pytest.approx(2 / 3)
    assert scores.sections[1].accuracy is None
    assert (scores.whole.rows, scores.whole.known) == (4, 3)
    assert scores.to_json()["sections"][1]["accuracy"] is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("king queen\n", "expected two words and a score"),
        ("king queen x\n", "expected two words"),
        ("king queen nan\n", "finite"),
        ("a b 1\n", "only 0 of its 1 rows are in the vocabulary of royal"),
        ("", "empty"),
    ],
)
def test_files_that_are_no_word_pairs(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.txt").write_text(content)
    with pytest.raises(InputError, match=message):
        measure_similarity(royal(), tmp_path / "pairs.txt")


@pytest.mark.parametrize(("content", "message"), [("a b c\n", "four words"), (": x\n", "no questions")])
def test_files_that_are_no_analogies(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "questions.txt").write_text(content)
    with pytest.raises(InputError, match=message):
        measure_analogies(royal(), tmp_path / "questions.txt")
    with pytest.raises(InputError, match="does not exist or is not a file"):
        measure_analogies(royal(), tmp_path / "nowhere.txt")


def test_solving_in_blocks_is_solving_one_by_one() -> None:
    vectors = royal()
    questions = np.array([[a, b, c] for a in range(4) for b in range(4) for c in range(4) if len({a, b, c}) == 3])
    single_answers = [int(vectors.solve_analogies(row[None])[0]) for row in questions]
    assert vectors.solve_analogies(questions).tolist() == single_answers
