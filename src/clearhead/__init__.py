"""Clearhead: from the text you have to a language model you understand, can trust and can afford to run."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # not from typing: importing the package imports nothing
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from clearhead.api import (
        ask,
        bench,
        complexity,
        contrast,
        convert,
        create,
        describe,
        embed,
        evaluate,
        explain,
        export,
        fill,
        generate,
        generate_stream,
        inspect,
        kind_of,
        ladder,
        learn_tokenizer,
        load,
        load_predictor,
        load_words,
        models,
        predict,
        predict_file,
        predict_text,
        pretrain,
        quantize,
        tokens,
        train,
        translate,
        word2vec,
    )
    from clearhead.api.word_vectors import words
    from clearhead.batch import Output
    from clearhead.data.inspect import Inspection
    from clearhead.decode.results import Generated
    from clearhead.decode.settings import Decoding
    from clearhead.deploy.bench import Bench
    from clearhead.deploy.quantize import Quantised
    from clearhead.embeddings.vector_files import Vectors
    from clearhead.errors import ClearheadError
    from clearhead.estimators import TextClassifier, TextEncoder, TextRegressor
    from clearhead.explain.complexity import Complexity
    from clearhead.explain.explanation import Explanation
    from clearhead.jobs.learn_tokenizer import Learned
    from clearhead.ladder.result import Ladder
    from clearhead.model import Guess, Model
    from clearhead.model.describe import Description
    from clearhead.model.embedding import TruncationWarning
    from clearhead.predict.files import Predicted
    from clearhead.predict.predictor import Predictor
    from clearhead.pretrain.result import Pretrained
    from clearhead.tasks.answer import Prediction
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.train.finish import Run
    from clearhead.translate.files import TextsWritten
    from clearhead.translate.generate import Continuation
    from clearhead.translate.stream import Translation
    from clearhead.words.answers import WordAnswers
    from clearhead.words.contrast import Contrast
    from clearhead.words.vectors import WordVectors

__version__ = "0.1.0"

# Names are looked up when they are first used, so that importing the package costs nothing.
_HOMES = {
    "Bench": "deploy.bench",
    "ClearheadError": "errors",
    "Complexity": "explain.complexity",
    "Continuation": "translate.generate",
    "Contrast": "words.contrast",
    "Decoding": "decode.settings",
    "Description": "model.describe",
    "Evaluation": "tasks.evaluation",
    "Explanation": "explain.explanation",
    "Generated": "decode.results",
    "Guess": "model.fill",
    "Inspection": "data.inspect",
    "Ladder": "ladder.result",
    "Learned": "jobs.learn_tokenizer",
    "Model": "model.model",
    "Output": "batch",
    "Predicted": "predict.files",
    "Prediction": "tasks.answer",
    "Predictor": "predict.predictor",
    "Pretrained": "pretrain.result",
    "Quantised": "deploy.quantize",
    "Run": "train.finish",
    "TextClassifier": "estimators",
    "TextEncoder": "estimators",
    "TextRegressor": "estimators",
    "TextsWritten": "translate.files",
    "Translation": "translate.stream",
    "TruncationWarning": "model.embedding",
    "Vectors": "embeddings.vector_files",
    "WordAnswers": "words.answers",
    "WordVectors": "words.vectors",
    "ask": "api",
    "bench": "api",
    "complexity": "api",
    "contrast": "api",
    "convert": "api",
    "create": "api",
    "describe": "api",
    "embed": "api",
    "evaluate": "api",
    "explain": "api",
    "export": "api",
    "fill": "api",
    "generate": "api",
    "generate_stream": "api",
    "inspect": "api",
    "kind_of": "api",
    "ladder": "api",
    "learn_tokenizer": "api",
    "load": "api",
    "load_predictor": "api",
    "load_words": "api",
    "models": "api",
    "predict": "api",
    "predict_file": "api",
    "predict_text": "api",
    "pretrain": "api",
    "quantize": "api",
    "tokens": "api",
    "train": "api",
    "translate": "api",
    "word2vec": "api",
    "words": "api",
}

__all__ = [
    "Bench",
    "ClearheadError",
    "Complexity",
    "Continuation",
    "Contrast",
    "Decoding",
    "Description",
    "Evaluation",
    "Explanation",
    "Generated",
    "Guess",
    "Inspection",
    "Ladder",
    "Learned",
    "Model",
    "Output",
    "Predicted",
    "Prediction",
    "Predictor",
    "Pretrained",
    "Quantised",
    "Run",
    "TextClassifier",
    "TextEncoder",
    "TextRegressor",
    "TextsWritten",
    "Translation",
    "TruncationWarning",
    "Vectors",
    "WordAnswers",
    "WordVectors",
    "__version__",
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
    "inspect",
    "kind_of",
    "ladder",
    "learn_tokenizer",
    "load",
    "load_predictor",
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


if not TYPE_CHECKING:
    ModuleType = type(sys)


class _PublicNames(ModuleType):
    """Keeps `clearhead.train` the verb once the package of the same name has been imported.

    Importing a submodule binds it as an attribute of its parent; without this, the second call of `clearhead.train`
    would meet the package `clearhead.train` instead of the function.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOMES and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _PublicNames


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'clearhead' has no attribute {name!r}")
    return getattr(import_module(f"clearhead.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
