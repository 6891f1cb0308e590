"""Translation: parallel data, training of a translation model, and translation of texts line by line.

`job` trains, `dataset` reads sentence pairs, `translator` creates the model, `evaluate` computes BLEU and chrF, and
`stream` translates line by line and resumes interrupted outputs; `generate` does the same for prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.translate.dataset import Pair
    from clearhead.translate.evaluate import (
        evaluate_translator,
        read_reference_pairs,
        read_training_record,
        translate_sources,
    )
    from clearhead.translate.files import OutputSummary
    from clearhead.translate.generate import Continuation, generate_texts, stream_continuation
    from clearhead.translate.job import TranslateJob
    from clearhead.translate.stream import Translation, translate_texts
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "dataset": ("Pair",),
            "evaluate": ("evaluate_translator", "read_reference_pairs", "read_training_record", "translate_sources"),
            "files": ("OutputSummary",),
            "generate": ("Continuation", "stream_continuation", "generate_texts"),
            "job": ("TranslateJob",),
            "stream": ("Translation", "translate_texts"),
        },
    )

__all__ = [
    "Continuation",
    "OutputSummary",
    "Pair",
    "TranslateJob",
    "Translation",
    "evaluate_translator",
    "generate_texts",
    "read_reference_pairs",
    "read_training_record",
    "stream_continuation",
    "translate_sources",
    "translate_texts",
]
