"""Tokenizers: loading, training, resource limits and saving.

Text is split into words only in `words`, and subword markers are recognized only in `subwords`. Tokenizers are imported
on first use, so that splitting words does not load the `tokenizers` library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.text.encoding import Encoding, TokenIds, select_tokens, split_into_windows, truncate
    from clearhead.text.files import write_atomic, write_json
    from clearhead.text.gpt_template import add_gpt_template
    from clearhead.text.loader import TokenizerPair, load_tokenizer
    from clearhead.text.subwords import (
        find_continuations,
        find_start_marker,
        make_whole_word_lookup,
        strip_subword_markers,
    )
    from clearhead.text.tokenizer import Tokenizer
    from clearhead.text.words import (
        Span,
        extend_over_punctuation,
        find_chunk_spans,
        find_compound_spans,
        find_word,
        find_word_spans,
        split_shingle_words,
        split_tfidf_words,
        split_vector_words,
    )
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "encoding": ("Encoding", "TokenIds", "select_tokens", "split_into_windows", "truncate"),
            "files": ("write_atomic", "write_json"),
            "gpt_template": ("add_gpt_template",),
            "loader": ("TokenizerPair", "load_tokenizer"),
            "subwords": ("find_continuations", "find_start_marker", "make_whole_word_lookup", "strip_subword_markers"),
            "tokenizer": ("Tokenizer",),
            "words": (
                "Span",
                "extend_over_punctuation",
                "find_chunk_spans",
                "find_compound_spans",
                "find_word",
                "find_word_spans",
                "split_shingle_words",
                "split_tfidf_words",
                "split_vector_words",
            ),
        },
    )

__all__ = [
    "Encoding",
    "Span",
    "TokenIds",
    "Tokenizer",
    "TokenizerPair",
    "add_gpt_template",
    "extend_over_punctuation",
    "find_chunk_spans",
    "find_compound_spans",
    "find_continuations",
    "find_start_marker",
    "find_word",
    "find_word_spans",
    "load_tokenizer",
    "make_whole_word_lookup",
    "select_tokens",
    "split_into_windows",
    "split_shingle_words",
    "split_tfidf_words",
    "split_vector_words",
    "strip_subword_markers",
    "truncate",
    "write_atomic",
    "write_json",
]
