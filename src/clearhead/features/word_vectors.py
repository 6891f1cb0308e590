"""Word vectors as features: a linear model on mean word vectors, saved together with the vectors it needs."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.passport import Passport, TrainingRecord, write_passport
from clearhead.classic import ClassicModel, fit_linear, save_classic
from clearhead.errors import InputError
from clearhead.files import to_printable
from clearhead.jobs.method import FittedMethod
from clearhead.jobs.prepare import PartRows
from clearhead.text.words import split_vector_words
from clearhead.words import WordVectors, load_vectors
from clearhead.words.files import write_vectors

if TYPE_CHECKING:
    import numpy as np

    from clearhead.jobs.method import FitInputs, FittedMethod

    Array = np.ndarray[Any, Any]

CHUNK_TEXTS = 1000  # texts per chunk
# first words of a vector file, its most frequent ones, that a model keeps for new texts
MAX_FREQUENT_WORDS = 100_000


def fit_word_vectors(inputs: FitInputs) -> FittedMethod:
    """Fit a linear model on the mean word vector of each text."""

    plan, prepared = inputs.plan, inputs.prepared
    if prepared.task.head.collect_words is not None:
        raise InputError(
            f"{prepared.task.name} needs words in context, which word vectors do not have; use a Transformer."
        )
    if plan.layer is not None or plan.pooling is not None or plan.layers is not None:
        raise InputError(
            f"{to_printable(plan.model)} contains word vectors, which have no layers; omit layer and pooling."
        )
    train = prepared.parts["train"]
    vectors, notes = select_vectors(load_vectors(plan.model), train)
    linear = fit_linear(
        compute_part_features(vectors, train, inputs),
        train.targets,
        prepared.space,
        strength=plan.C,
        class_weight=inputs.settings.class_weight,
        seed=inputs.settings.seed,
        progress=inputs.stage_progress("fitting the linear model"),
    )
    classic = ClassicModel(method="linear", linear=linear)

    def save(folder: Path, trained: TrainingRecord) -> None:
        from clearhead import __version__

        write_vectors(folder, vectors)
        save_classic(folder, classic)
        write_passport(folder, Passport(clearhead=__version__, labels=trained.labels, trained=trained))

    if not linear.converged:
        notes = (*notes, "The logistic regression did not converge; try another value of C.")
    return FittedMethod(
        logits=lambda part: classic.logits(features=compute_part_features(vectors, part, inputs)),
        save=save,
        notes=notes,
    )


def select_vectors(vectors: WordVectors, train: PartRows) -> tuple[WordVectors, tuple[str, ...]]:
    """Select the vectors that a model keeps: those of words in the training rows, and the most frequent ones."""
    needed_rows: set[int] = set()
    word_count = known_count = 0
    for first, second in train.texts():
        for text in (first, second or ""):
            rows = vectors.text_rows(text)
            word_count, known_count = word_count + len(split_vector_words(text)), known_count + len(rows)
            needed_rows.update(rows)
    if not needed_rows:
        raise InputError(f"{vectors.name} contains no word of the training rows; use vectors of their language.")
    coverage = min(known_count / max(word_count, 1), 1.0)  # a word may match with two parts
    coverage_note = f"word vectors: {vectors.name} covers {coverage:.1%} of the words in the training rows."
    if len(vectors) <= MAX_FREQUENT_WORDS:
        return vectors, (*vectors.notes, coverage_note)
    kept_rows = sorted(needed_rows | set(range(MAX_FREQUENT_WORDS)))
    selection_note = (
        f"The model keeps {len(kept_rows):,} of {len(vectors):,} vectors: "
        "the most frequent ones and those of the training rows."
    )
    return vectors.select(kept_rows), (*vectors.notes, coverage_note, selection_note)


def compute_part_features(vectors: WordVectors, part: PartRows, inputs: FitInputs) -> Array:
    """Compute the features of a part, whose texts are read again: (rows, features)."""
    import numpy as np

    texts, chunk_features = part.texts(), []
    rows_done = 0
    while chunk := list(islice(texts, CHUNK_TEXTS)):
        second_texts = None if part.columns.text_b is None else [second or "" for _, second in chunk]
        chunk_features.append(vectors.features([first for first, _ in chunk], second_texts))
        rows_done += len(chunk)
        inputs.events.progress("features", rows_done, len(part))
    return np.concatenate(chunk_features)
