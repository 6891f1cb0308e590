"""Translation: parallel data, training of a translator, and lines of text in and out.

`job` trains, `dataset` reads pairs of sentences, `translator` makes the model, `evaluate` counts BLEU and chrF, and
`stream` translates line by line and continues where it stopped; `generate` does the same for prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.translate.dataset import Pair
    from clearhead.translate.evaluate import evaluate_translator, known_pairs, read_trained, translations
    from clearhead.translate.files import TextsWritten
    from clearhead.translate.generate import Continuation, generate_pieces, generate_texts
    from clearhead.translate.job import TranslateJob
    from clearhead.translate.stream import Translation, translate_texts
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "dataset": ("Pair",),
            "evaluate": ("evaluate_translator", "known_pairs", "read_trained", "translations"),
            "files": ("TextsWritten",),
            "generate": ("Continuation", "generate_pieces", "generate_texts"),
            "job": ("TranslateJob",),
            "stream": ("Translation", "translate_texts"),
        },
    )

__all__ = [
    "Continuation",
    "Pair",
    "TextsWritten",
    "TranslateJob",
    "Translation",
    "evaluate_translator",
    "generate_pieces",
    "generate_texts",
    "known_pairs",
    "read_trained",
    "translate_texts",
    "translations",
]
