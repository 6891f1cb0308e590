"""Context-free word vectors: one vector for each word, read, learned, asked and measured; numpy only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.words.answers import WordAnswers, answer_words, check_question
    from clearhead.words.contrast import Contrast, contrast_model, contrast_vectors, word_table
    from clearhead.words.corpus import file_sentences
    from clearhead.words.files import check_limit, is_file_name, load_vectors, save_vectors, write_vectors
    from clearhead.words.formats import is_vector_file
    from clearhead.words.learn import LearnedWords, learn_words
    from clearhead.words.measure import Analogies
    from clearhead.words.steps import WordSettings
    from clearhead.words.vectors import Neighbour, WordVectors
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "answers": ("WordAnswers", "answer_words", "check_question"),
            "contrast": ("Contrast", "contrast_model", "contrast_vectors", "word_table"),
            "corpus": ("file_sentences",),
            "files": ("check_limit", "is_file_name", "load_vectors", "save_vectors", "write_vectors"),
            "formats": ("is_vector_file",),
            "learn": ("LearnedWords", "learn_words"),
            "measure": ("Analogies",),
            "steps": ("WordSettings",),
            "vectors": ("Neighbour", "WordVectors"),
        },
    )

__all__ = [
    "Analogies",
    "Contrast",
    "LearnedWords",
    "Neighbour",
    "WordAnswers",
    "WordSettings",
    "WordVectors",
    "answer_words",
    "check_limit",
    "check_question",
    "contrast_model",
    "contrast_vectors",
    "file_sentences",
    "is_file_name",
    "is_vector_file",
    "learn_words",
    "load_vectors",
    "save_vectors",
    "word_table",
    "write_vectors",
]
