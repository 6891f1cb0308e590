"""Word vectors as features: trained, saved, and used again without the file that they came from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.errors import InputError
from clearhead.features import word_vectors as wordfeatures
from clearhead.predict.classic_folder import collect_classic_facts, format_classic_facts
from clearhead.words import WordVectors, save_vectors
from tests.tiny_models import NEGATIVE_WORDS, NEUTRAL_WORDS, POSITIVE_WORDS, labelled, write_csv


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """Good and bad words lie apart; the rest is noise."""
    rng = np.random.default_rng(0)
    words = (*NEUTRAL_WORDS, *POSITIVE_WORDS, *NEGATIVE_WORDS)
    matrix = rng.normal(size=(len(words), 8)).astype(np.float32) * 0.1
    matrix[len(NEUTRAL_WORDS) : len(NEUTRAL_WORDS) + len(POSITIVE_WORDS), 0] = 3
    matrix[len(NEUTRAL_WORDS) + len(POSITIVE_WORDS) :, 0] = -3
    return save_vectors(tmp_path / "vectors.txt", WordVectors(words=words, matrix=matrix))


def test_a_run_keeps_what_it_needs(vectors: Path, tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", labelled(200))
    run = clearhead.train(rows, output=tmp_path / "run", method="features", model=str(vectors))
    assert run.metrics["accuracy"].value == 1.0
    assert any("100.0% of the words" in note for note in run.notes)
    assert {"words.json", "words.safetensors", "classic.json"} <= {path.name for path in run.folder.iterdir()}
    vectors.unlink()
    assert clearhead.evaluate(run.folder, rows).metrics["accuracy"].value == 1.0
    assert [one.label for one in clearhead.predict(run.folder, ["a good film", "a poor film"])] == ["good", "bad"]
    assert clearhead.load_words(run.folder).width == 8


@pytest.mark.learns
def test_a_folder_of_vectors_and_two_texts_a_row(vectors: Path, tmp_path: Path) -> None:
    folder = save_vectors(tmp_path / "folder", clearhead.load_words(vectors))
    rows = []
    for first, second in zip(labelled(200), labelled(200, seed=1), strict=True):
        same = "same" if first["label"] == second["label"] else "other"
        rows.append({"text": first["text"], "text_b": second["text"], "label": same})
    path = write_csv(tmp_path / "rows.csv", rows)
    run = clearhead.train(path, output=tmp_path / "run", method="features", model=str(folder), text_b="text_b")
    assert run.task == "pair"
    assert run.metrics["accuracy"].value > 0.8
    measured = clearhead.evaluate(run.folder, path, part="test").metrics["accuracy"].value
    assert measured == pytest.approx(run.metrics["accuracy"].value)


@pytest.mark.learns
def test_numbers_are_learned_too(vectors: Path, tmp_path: Path) -> None:
    rows = [row | {"label": 1.0 if row["label"] == "good" else -1.0} for row in labelled(150)]
    path = write_csv(tmp_path / "rows.csv", rows)
    run = clearhead.train(path, output=tmp_path / "run", method="features", model=str(vectors), task="regress")
    assert run.metrics["pearson"].value > 0.8
    assert len(clearhead.predict(run.folder, path)) == 150


def test_many_vectors_are_cut_to_the_first_and_the_needed(
    vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wordfeatures, "KEPT_FREQUENT", 2)
    rows = write_csv(tmp_path / "rows.csv", [row for row in labelled(100) if " of " not in f" {row['text']} "])
    run = clearhead.train(rows, output=tmp_path / "run", method="features", model=str(vectors))
    kept = clearhead.load_words(run.folder)
    assert "of" not in kept
    assert {"the", "a", "good", "bad"} <= set(kept.words)
    assert any("keeps" in note for note in run.notes)


def test_what_word_vectors_cannot_do_is_said(vectors: Path, tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", labelled(60))
    with pytest.raises(InputError, match="have no layers"):
        clearhead.train(rows, output=tmp_path / "a", method="features", model=str(vectors), layer="last")
    with pytest.raises(InputError, match='say method="features"'):
        clearhead.train(rows, output=tmp_path / "a", model=str(vectors))
    strange = save_vectors(tmp_path / "strange.txt", WordVectors(words=("x", "y"), matrix=np.ones((2, 3), np.float32)))
    with pytest.raises(InputError, match="knows no word"):
        clearhead.train(rows, output=tmp_path / "b", method="features", model=str(strange))
    tags = tmp_path / "tags.conll"
    tags.write_text("".join("good B-X\nfilm O\n\n" for _ in range(40)))
    with pytest.raises(InputError, match="take a Transformer"):
        clearhead.train(tags, output=tmp_path / "c", method="features", model=str(vectors), task="tag")
    assert not any((tmp_path / name).exists() for name in "abc")  # the same -o is free for a better command


def test_a_folder_is_described(vectors: Path, tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", labelled(60))
    clearhead.train(rows, output=tmp_path / "run", method="features", model=str(vectors), report=False)
    told = collect_classic_facts(tmp_path / "run")
    words = len(NEUTRAL_WORDS) + len(POSITIVE_WORDS) + len(NEGATIVE_WORDS)
    assert (told["words"], told["width"], told["labels"]) == (words, 8, ["bad", "good"])
    assert told["parameters"] > 8 * words
    assert ("word vectors", f"{words} of width 8") in format_classic_facts(tmp_path / "run")


def test_a_text_of_unknown_words_is_not_judged_with_certainty(vectors: Path, tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", labelled(200))
    clearhead.train(rows, output=tmp_path / "run", method="features", model=str(vectors), report=False)
    known, unknown = clearhead.predict(tmp_path / "run", ["a good film", "zzz qqq"])
    assert known.probability is not None
    assert unknown.probability is not None
    assert known.probability > 0.9 > unknown.probability
