"""Every public function, a few lines each: what the command line, notebooks and programs call.

Heavy libraries and whole jobs are imported when a function is called, not before.
"""

from __future__ import annotations

from clearhead.api.deployment import bench, convert, export, models, quantize
from clearhead.api.explanation import describe, explain, kind_of
from clearhead.api.prediction import ask, evaluate, load_predictor, predict, predict_file, predict_text
from clearhead.api.texts import embed, fill, generate, generate_stream, tokens, translate
from clearhead.api.training import inspect, ladder, pretrain, train
from clearhead.api.word_vectors import contrast, load_words, word2vec, words
from clearhead.explain.complexity import complexity
from clearhead.jobs.learn_tokenizer import learn_tokenizer
from clearhead.model.loading import create, has_tokenizer, load, load_tokenizers

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
