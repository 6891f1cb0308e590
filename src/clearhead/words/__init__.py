"""Static word vectors, one per word: reading, training, queries and evaluation, with numpy only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.words.answers import WordAnswers, answer_words, check_question
    from clearhead.words.contrast import Contrast, contrast_model, contrast_vectors, extract_word_table
    from clearhead.words.corpus import read_file_sentences
    from clearhead.words.files import check_limit, is_file_name, load_vectors, save_vectors, write_vectors
    from clearhead.words.formats import is_vector_file
    from clearhead.words.learn import LearnedWords, learn_words
    from clearhead.words.measure import AnalogyScores
    from clearhead.words.steps import WordSettings
    from clearhead.words.vectors import Neighbor, WordVectors
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "answers": ("WordAnswers", "answer_words", "check_question"),
            "contrast": ("Contrast", "contrast_model", "contrast_vectors", "extract_word_table"),
            "corpus": ("read_file_sentences",),
            "files": ("check_limit", "is_file_name", "load_vectors", "save_vectors", "write_vectors"),
            "formats": ("is_vector_file",),
            "learn": ("LearnedWords", "learn_words"),
            "measure": ("AnalogyScores",),
            "steps": ("WordSettings",),
            "vectors": ("Neighbor", "WordVectors"),
        },
    )

__all__ = [
    "AnalogyScores",
    "Contrast",
    "LearnedWords",
    "Neighbor",
    "WordAnswers",
    "WordSettings",
    "WordVectors",
    "answer_words",
    "check_limit",
    "check_question",
    "contrast_model",
    "contrast_vectors",
    "extract_word_table",
    "is_file_name",
    "is_vector_file",
    "learn_words",
    "load_vectors",
    "read_file_sentences",
    "save_vectors",
    "write_vectors",
]
