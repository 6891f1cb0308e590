"""Vocabulary training: count words, resolve options, and train with the `tokenizers` library."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.text.vocabulary.options import VocabularyOptions, VocabularyPlan, resolve_vocabulary_plan
    from clearhead.text.vocabulary.trainer import (
        Alphabet,
        VocabularyTooSmallError,
        build_preprocessor,
        count_words,
        train_vocabulary,
    )
    from clearhead.text.vocabulary.word_counts import ChunkCounter
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "options": ("VocabularyOptions", "VocabularyPlan", "resolve_vocabulary_plan"),
            "trainer": ("Alphabet", "VocabularyTooSmallError", "build_preprocessor", "count_words", "train_vocabulary"),
            "word_counts": ("ChunkCounter",),
        },
    )

__all__ = [
    "Alphabet",
    "ChunkCounter",
    "VocabularyOptions",
    "VocabularyPlan",
    "VocabularyTooSmallError",
    "build_preprocessor",
    "count_words",
    "resolve_vocabulary_plan",
    "train_vocabulary",
]
