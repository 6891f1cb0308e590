"""Clearhead: from the text you have to a language model you understand, can trust and can afford to run."""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing: importing the package imports nothing
if TYPE_CHECKING:
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
    from clearhead.decode.results import GeneratedText
    from clearhead.decode.settings import Decoding
    from clearhead.deploy.bench import Bench
    from clearhead.deploy.quantize import Quantized
    from clearhead.embeddings.vector_files import Vectors
    from clearhead.errors import ClearheadError
    from clearhead.estimators import TextClassifier, TextEncoder, TextRegressor
    from clearhead.explain.complexity import Complexity
    from clearhead.explain.explanation import Explanation
    from clearhead.jobs.learn_tokenizer import LearnedTokenizer
    from clearhead.ladder.result import Ladder
    from clearhead.model import Guess, Model
    from clearhead.model.describe import Description
    from clearhead.model.embedding import TruncationWarning
    from clearhead.predict.files import PredictionSummary
    from clearhead.predict.predictor import Predictor
    from clearhead.pretrain.result import PretrainResult
    from clearhead.tasks.answer import Prediction
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.train.finish import Run
    from clearhead.translate.files import OutputSummary
    from clearhead.translate.generate import Continuation
    from clearhead.translate.stream import Translation
    from clearhead.words.answers import WordAnswers
    from clearhead.words.contrast import Contrast
    from clearhead.words.vectors import WordVectors
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "api": (
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
            ),
            "batch": ("Output",),
            "data.inspect": ("Inspection",),
            "decode.results": ("GeneratedText",),
            "decode.settings": ("Decoding",),
            "deploy.bench": ("Bench",),
            "deploy.quantize": ("Quantized",),
            "embeddings.vector_files": ("Vectors",),
            "errors": ("ClearheadError",),
            "estimators": ("TextClassifier", "TextEncoder", "TextRegressor"),
            "explain.complexity": ("Complexity",),
            "explain.explanation": ("Explanation",),
            "jobs.learn_tokenizer": ("LearnedTokenizer",),
            "ladder.result": ("Ladder",),
            "model.describe": ("Description",),
            "model.embedding": ("TruncationWarning",),
            "model.fill": ("Guess",),
            "model.model": ("Model",),
            "predict.files": ("PredictionSummary",),
            "predict.predictor": ("Predictor",),
            "pretrain.result": ("PretrainResult",),
            "tasks.answer": ("Prediction",),
            "tasks.evaluation": ("Evaluation",),
            "train.finish": ("Run",),
            "translate.files": ("OutputSummary",),
            "translate.generate": ("Continuation",),
            "translate.stream": ("Translation",),
            "words.answers": ("WordAnswers",),
            "words.contrast": ("Contrast",),
            "words.vectors": ("WordVectors",),
        },
        former={
            "Generated": "GeneratedText",
            "Learned": "LearnedTokenizer",
            "Predicted": "PredictionSummary",
            "Pretrained": "PretrainResult",
            "Quantised": "Quantized",
            "TextsWritten": "OutputSummary",
        },
    )

__version__ = "0.2.0"

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
    "GeneratedText",
    "Guess",
    "Inspection",
    "Ladder",
    "LearnedTokenizer",
    "Model",
    "Output",
    "OutputSummary",
    "Prediction",
    "PredictionSummary",
    "Predictor",
    "PretrainResult",
    "Quantized",
    "Run",
    "TextClassifier",
    "TextEncoder",
    "TextRegressor",
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
