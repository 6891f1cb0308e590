"""Every public verb, a few lines each: what the command line, notebooks and programs call.

Heavy libraries and whole jobs are imported when a verb is called, not before.
"""

from __future__ import annotations

from clearhead.api.deployment import bench, convert, export, models, quantize
from clearhead.api.prediction import ask, evaluate, load_predictor, predict, predict_file, predict_text
from clearhead.api.training import inspect, ladder, pretrain, train
from clearhead.api.words import contrast, load_words, word2vec
from clearhead.model.loading import create, has_tokenizer, load, load_tokenizers

__all__ = [
    "ask",
    "bench",
    "contrast",
    "convert",
    "create",
    "evaluate",
    "export",
    "has_tokenizer",
    "inspect",
    "ladder",
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
    "train",
    "word2vec",
]
