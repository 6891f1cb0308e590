"""A trained folder in use: rows in, answers out, as values or as files.

`Predictor.answer` answers plain values; `stream` answers the rows of a source in chunks, and `files` writes them to
tables; `scoring` turns texts into logits or features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.predict.classic_folder import describe_classic
    from clearhead.predict.column_roles import report_columns
    from clearhead.predict.files import Counts, Predicted, file_state, partial_files, predict_file
    from clearhead.predict.latency import disk_bytes, latency_ms, megabytes
    from clearhead.predict.loading import load_predictor
    from clearhead.predict.one_text import answer_question, answer_texts
    from clearhead.predict.predictor import Predictor
    from clearhead.predict.scoring import (
        FeatureScorer,
        NetworkScorer,
        PairFeatures,
        Scorer,
        Scores,
        compare_vectors,
        network_logits,
        pair_features,
        separate_texts,
        table_features,
        window_features,
        window_words,
        word_features,
    )
    from clearhead.predict.stream import answer_chunks, answer_rows
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "classic_folder": ("describe_classic",),
            "column_roles": ("report_columns",),
            "files": ("Counts", "Predicted", "file_state", "partial_files", "predict_file"),
            "latency": ("disk_bytes", "latency_ms", "megabytes"),
            "loading": ("load_predictor",),
            "one_text": ("answer_question", "answer_texts"),
            "predictor": ("Predictor",),
            "scoring": (
                "FeatureScorer",
                "NetworkScorer",
                "PairFeatures",
                "Scorer",
                "Scores",
                "compare_vectors",
                "network_logits",
                "pair_features",
                "separate_texts",
                "table_features",
                "window_features",
                "window_words",
                "word_features",
            ),
            "stream": ("answer_chunks", "answer_rows"),
        },
    )

__all__ = [
    "Counts",
    "FeatureScorer",
    "NetworkScorer",
    "PairFeatures",
    "Predicted",
    "Predictor",
    "Scorer",
    "Scores",
    "answer_chunks",
    "answer_question",
    "answer_rows",
    "answer_texts",
    "compare_vectors",
    "describe_classic",
    "disk_bytes",
    "file_state",
    "latency_ms",
    "load_predictor",
    "megabytes",
    "network_logits",
    "pair_features",
    "partial_files",
    "predict_file",
    "report_columns",
    "separate_texts",
    "table_features",
    "window_features",
    "window_words",
    "word_features",
]
