"""Word vectors as features: trained, saved, and used without the vector file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.errors import InputError
from clearhead.features import word_vectors as module
from clearhead.predict.classic_folder import collect_classic_facts, format_classic_facts
from clearhead.words import WordVectors, save_vectors
from tests.tiny_models import NEGATIVE_WORDS, NEUTRAL_WORDS, POSITIVE_WORDS, make_sentiment_rows, write_csv


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """Vectors in which good and bad words are separated, and the others are noise."""
    generator = np.random.default_rng(0)
    words = (*NEUTRAL_WORDS, *POSITIVE_WORDS, *NEGATIVE_WORDS)
    matrix = generator.normal(size=(len(words), 8)).astype(np.float32) * 0.1
    matrix[len(NEUTRAL_WORDS) : len(NEUTRAL_WORDS) + len(POSITIVE_WORDS), 0] = 3
    matrix[len(NEUTRAL_WORDS) + len(POSITIVE_WORDS) :, 0] = -3
    return save_vectors(tmp_path / "vectors.txt", WordVectors(words=words, matrix=matrix))


def test_a_run_saves_the_vectors_it_needs(vectors: Path, tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", make_sentiment_rows(200))
    run = clearhead.train(rows, output=tmp_path / "run", method="features", model=str(vectors))
    assert run.metrics["accuracy"].value == 1.0
    assert any("100.0% of the words" in note for note in run.notes)
    assert {"words.json", "words.safetensors", "classic.json"} <= {path.name for path in run.folder.iterdir()}
    vectors.unlink()
    assert clearhead.evaluate(run.folder, rows).metrics["accuracy"].value == 1.0
    assert [prediction.label for prediction in clearhead.predict(run.folder, ["a good film", "a poor film"])] == [
        "good",
        "bad",
    ]
    assert clearhead.load_words(run.folder).width == 8


@pytest.mark.learns
def test_a_vector_folder_and_two_texts_per_row(vectors: Path, tmp_path: Path) -> None:
    folder = save_vectors(tmp_path / "folder", clearhead.load_words(vectors))
    rows = []
    for first, second in zip(make_sentiment_rows(200), make_sentiment_rows(200, seed=1), strict=True):
        label = "same" if first["label"] == second["label"] else "other"
        rows.append({"text": first["text"], "text_b": second["text"], "label": label})
    path = write_csv(tmp_path / "rows.csv", rows)
    run = clearhead.train(path, output=tmp_path / "run", method="features", model=str(folder), text_b="text_b")
    assert run.task == "pair"
    assert run.metrics["accuracy"].value > 0.8
    accuracy = clearhead.evaluate(run.folder, path, part="test").metrics["accuracy"].value
    assert accuracy == pytest.approx(run.metrics["accuracy"].value)


@pytest.mark.learns
def test_regression_on_word_vectors(vectors: Path, tmp_path: Path) -> None:
    rows = [row | {"label": 1.0 if row["label"] == "good" else -1.0} for row in make_sentiment_rows(150)]
    path = write_csv(tmp_path / "rows.csv", rows)
    run = clearhead.train(path, output=tmp_path / "run", method="features", model=str(vectors), task="regress")
    assert run.metrics["pearson"].value > 0.8
    assert len(clearhead.predict(run.folder, path)) == 150


def test_only_frequent_and_needed_vectors_are_saved(
    vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FREQUENT_WORDS", 2)
    rows = write_csv(
        tmp_path / "rows.csv", [row for row in make_sentiment_rows(100) if " of " not in f" {row['text']} "]
    )
    run = clearhead.train(rows, output=tmp_path / "run", method="features", model=str(vectors))
    kept_vectors = clearhead.load_words(run.folder)
    assert "of" not in kept_vectors
    assert {"the", "a", "good", "bad"} <= set(kept_vectors.words)
    assert any("keeps" in note for note in run.notes)


def test_impossible_uses_of_word_vectors_are_refused(vectors: Path, tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", make_sentiment_rows(60))
    with pytest.raises(InputError, match="have no layers"):
        clearhead.train(rows, output=tmp_path / "a", method="features", model=str(vectors), layer="last")
    with pytest.raises(InputError, match='cannot be fine-tuned; use method="features"'):
        clearhead.train(rows, output=tmp_path / "a", model=str(vectors))
    unrelated_vectors = save_vectors(
        tmp_path / "strange.txt", WordVectors(words=("x", "y"), matrix=np.ones((2, 3), np.float32))
    )
    with pytest.raises(InputError, match="contains no word of the training rows"):
        clearhead.train(rows, output=tmp_path / "b", method="features", model=str(unrelated_vectors))
    tags = tmp_path / "tags.conll"
    tags.write_text("".join("good B-X\nfilm O\n\n" for _ in range(40)))
    with pytest.raises(InputError, match="use a Transformer"):
        clearhead.train(tags, output=tmp_path / "c", method="features", model=str(vectors), task="tag")
    assert not any((tmp_path / name).exists() for name in "abc")  # the output folder can be used again


def test_a_folder_is_described(vectors: Path, tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", make_sentiment_rows(60))
    clearhead.train(rows, output=tmp_path / "run", method="features", model=str(vectors), report=False)
    facts = collect_classic_facts(tmp_path / "run")
    word_count = len(NEUTRAL_WORDS) + len(POSITIVE_WORDS) + len(NEGATIVE_WORDS)
    assert (facts["words"], facts["width"], facts["labels"]) == (word_count, 8, ["bad", "good"])
    assert facts["parameters"] > 8 * word_count
    assert ("word vectors", f"{word_count} of width 8") in format_classic_facts(tmp_path / "run")


def test_a_text_of_unknown_words_has_no_confident_prediction(vectors: Path, tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", make_sentiment_rows(200))
    clearhead.train(rows, output=tmp_path / "run", method="features", model=str(vectors), report=False)
    known_words, unknown = clearhead.predict(tmp_path / "run", ["a good film", "zzz qqq"])
    assert known_words.probability is not None
    assert unknown.probability is not None
    assert known_words.probability > 0.9 > unknown.probability
