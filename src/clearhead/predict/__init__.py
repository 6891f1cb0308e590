"""Prediction with trained models, on Python values or on files.

`Predictor.answer` answers plain values; `stream` answers the rows of a source in chunks, `files` writes them to tables,
`scoring` computes logits, and `frozen_features` the vectors that linear models read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.predict.classic_folder import describe_classic
    from clearhead.predict.column_roles import report_columns
    from clearhead.predict.files import PredictionSummary, predict_file
    from clearhead.predict.frozen_features import (
        PairFeatures,
        compare_vectors,
        compute_pair_features,
        compute_table_features,
        compute_window_features,
        compute_word_arrays,
        compute_word_states,
        encode_texts_separately,
    )
    from clearhead.predict.latency import measure_disk_bytes, measure_disk_megabytes, measure_latency_ms
    from clearhead.predict.loading import load_predictor
    from clearhead.predict.one_text import answer_question, answer_texts
    from clearhead.predict.predictor import Predictor
    from clearhead.predict.resume_point import (
        ResumePoint,
        RowCounts,
        describe_file_state,
        partial_paths,
        read_resume_point,
    )
    from clearhead.predict.scoring import FeatureScorer, NetworkScorer, Scorer, Scores, compute_network_logits
    from clearhead.predict.stream import answer_chunks, answer_rows
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "classic_folder": ("describe_classic",),
            "column_roles": ("report_columns",),
            "files": ("PredictionSummary", "predict_file"),
            "latency": ("measure_disk_bytes", "measure_latency_ms", "measure_disk_megabytes"),
            "loading": ("load_predictor",),
            "one_text": ("answer_question", "answer_texts"),
            "predictor": ("Predictor",),
            "resume_point": (
                "ResumePoint",
                "RowCounts",
                "describe_file_state",
                "partial_paths",
                "read_resume_point",
            ),
            "frozen_features": (
                "PairFeatures",
                "compare_vectors",
                "compute_pair_features",
                "compute_table_features",
                "compute_window_features",
                "compute_word_arrays",
                "compute_word_states",
                "encode_texts_separately",
            ),
            "scoring": ("FeatureScorer", "NetworkScorer", "Scorer", "Scores", "compute_network_logits"),
            "stream": ("answer_chunks", "answer_rows"),
        },
    )

__all__ = [
    "FeatureScorer",
    "NetworkScorer",
    "PairFeatures",
    "PredictionSummary",
    "Predictor",
    "ResumePoint",
    "RowCounts",
    "Scorer",
    "Scores",
    "answer_chunks",
    "answer_question",
    "answer_rows",
    "answer_texts",
    "compare_vectors",
    "compute_network_logits",
    "compute_pair_features",
    "compute_table_features",
    "compute_window_features",
    "compute_word_arrays",
    "compute_word_states",
    "describe_classic",
    "describe_file_state",
    "encode_texts_separately",
    "load_predictor",
    "measure_disk_bytes",
    "measure_disk_megabytes",
    "measure_latency_ms",
    "partial_paths",
    "predict_file",
    "read_resume_point",
    "report_columns",
]
