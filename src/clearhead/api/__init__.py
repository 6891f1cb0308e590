"""Every public function, a few lines each: what the command line, notebooks and programs call.

A module is imported when one of its functions is first used; heavy libraries and whole jobs when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.api.deployment import bench, convert, export, models, quantize
    from clearhead.api.explanation import complexity, describe, explain, kind_of
    from clearhead.api.loading import create, has_tokenizer, load, load_tokenizers
    from clearhead.api.prediction import ask, evaluate, load_predictor, predict, predict_file, predict_text
    from clearhead.api.texts import embed, fill, generate, generate_stream, tokens, translate
    from clearhead.api.training import inspect, ladder, learn_tokenizer, pretrain, train
    from clearhead.api.word_vectors import contrast, load_words, word2vec, words
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "deployment": ("bench", "convert", "export", "models", "quantize"),
            "explanation": ("complexity", "describe", "explain", "kind_of"),
            "loading": ("create", "has_tokenizer", "load", "load_tokenizers"),
            "prediction": ("ask", "evaluate", "load_predictor", "predict", "predict_file", "predict_text"),
            "texts": ("embed", "fill", "generate", "generate_stream", "tokens", "translate"),
            "training": ("inspect", "ladder", "learn_tokenizer", "pretrain", "train"),
            "word_vectors": ("contrast", "load_words", "word2vec", "words"),
        },
    )

__all__ = [
    "ask",
    "bench",
    "complexity",
    "contrast",
    "convert",
    "create",
    "describe",
    "embed",
    "evaluate",
    "explain",
    "export",
    "fill",
    "generate",
    "generate_stream",
    "has_tokenizer",
    "inspect",
    "kind_of",
    "ladder",
    "learn_tokenizer",
    "load",
    "load_predictor",
    "load_tokenizers",
    "load_words",
    "models",
    "predict",
    "predict_file",
    "predict_text",
    "pretrain",
    "quantize",
    "tokens",
    "train",
    "translate",
    "word2vec",
    "words",
]
