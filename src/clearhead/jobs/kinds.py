"""The kind of model in a folder, on which verbs, jobs and servers dispatch; only small files are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from clearhead.checkpoint.config import detect_model_type, read_config
from clearhead.checkpoint.folder import read_checkpoint
from clearhead.checkpoint.labels import read_labels
from clearhead.checkpoint.passport import TrainingRecord, read_passport
from clearhead.checkpoint.sentence import SentenceModules, read_modules
from clearhead.checkpoint.weights import has_entry
from clearhead.classic.model import CARD_FILE as CLASSIC_CARD
from clearhead.errors import ClearheadError
from clearhead.families import family_of
from clearhead.families.family import HEAD_POOLING
from clearhead.shape import Pooling
from clearhead.tasks import TASKS, Task
from clearhead.words.files import CARD_FILE as WORDS_CARD
from clearhead.words.formats import is_vector_file

ModelKind = Literal[
    "classifier",  # labels for a text or a pair of texts
    "regressor",  # a number for a text or a pair of texts
    "tagger",  # a tag for each word
    "question answerer",  # an answer span in a passage
    "multiple choice model",  # the correct option
    "reranker",  # the relevance of a text for a query
    "aspect model",  # two models: one finds aspects, one classifies their sentiment
    "classic model",  # TF-IDF or the majority class, without a network
    "word vector model",  # a linear model on the mean of word vectors, without a network
    "translator",  # a translation model trained by clearhead
    "text-to-text model",  # an encoder-decoder trained elsewhere: T5, Marian
    "language model",  # the next word
    "masked language model",
    "encoder",  # vectors of texts
    "word vectors",  # static vectors, also a file in GloVe or word2vec format
]
KINDS: tuple[ModelKind, ...] = get_args(ModelKind)
PREDICTOR_KINDS: tuple[ModelKind, ...] = (  # predict labels of rows, and can be evaluated on labeled rows
    "classifier",
    "regressor",
    "tagger",
    "question answerer",
    "multiple choice model",
    "reranker",
    "aspect model",
    "classic model",
    "word vector model",
)
TRANSLATION_KINDS: tuple[ModelKind, ...] = (
    "translator",
    "text-to-text model",
)  # map texts to texts
WORD_VECTOR_KINDS: tuple[ModelKind, ...] = ("word vectors", "word vector model")

ASPECTS_FILE = "aspects.json"  # marks the folder of an aspect model
HEAD_KINDS: Mapping[str, ModelKind] = {
    "masked": "masked language model",
    "pretrain": "masked language model",
    "causal": "language model",
    "bilm": "language model",
    "seq2seq": "text-to-text model",
}


def kind_of(folder: str | os.PathLike[str]) -> ModelKind:
    """Detect what a folder, or a file of word vectors, contains; damaged and other folders are errors."""
    path = _expand_user(folder)
    if path.is_file() and is_vector_file(path):
        return "word vectors"
    if (path / ASPECTS_FILE).is_file():
        return "aspect model"
    has_words = (path / WORDS_CARD).is_file()
    if path.is_dir() and has_entry(path, CLASSIC_CARD) and not has_entry(path, "config.json"):
        return "word vector model" if has_words else "classic model"
    if has_words:
        return "word vectors"
    sentences = read_modules(path) if path.is_dir() else None
    encoder = path if sentences is None else sentences.encoder
    passport = read_passport(encoder) if path.is_dir() else None
    if passport is not None and passport.trained is not None:
        return _kind_of_trained(passport.trained)
    return _kind_of_config(encoder, sentences)


def has_vectors(reference: str | os.PathLike[str]) -> bool:
    """Whether a reference names a local file or folder with word vectors, with or without a linear model."""
    try:
        return kind_of(reference) in WORD_VECTOR_KINDS
    except (ClearheadError, OSError, ValueError):  # another folder, or not a valid path
        return False


def local_kind(reference: str | os.PathLike[str]) -> ModelKind | None:
    """Detect the kind of a local folder; None for an alias, a hub name or a file."""
    path = _expand_user(reference)
    try:
        exists = path.is_dir()
    except (OSError, ValueError):  # not a valid path
        return None
    return kind_of(path) if exists else None


def _expand_user(reference: str | os.PathLike[str]) -> Path:
    try:
        return Path(reference).expanduser()
    except RuntimeError:  # ~ of an unknown user
        return Path(reference)


def _kind_of_trained(trained: TrainingRecord) -> ModelKind:
    """Return the kind of a trained folder; unknown tasks are refused later, when they are looked up."""
    if trained.task == "translate":
        return "translator"
    task = TASKS.get(trained.task)
    return "classifier" if task is None else _kind_of_task(task)


def _kind_of_task(task: Task) -> ModelKind:
    return next(kind for kind in KINDS if kind == task.answers.model_kind)


def _kind_of_config(folder: Path, sentences: SentenceModules | None) -> ModelKind:
    """Detect the kind of a checkpoint without a passport from config.json and its modules."""
    config = read_config(folder)
    # a classifier with mean pooling keeps the sentence-transformers modules
    has_mean_head = config.get(HEAD_POOLING) is not None
    if sentences is not None and sentences.pooling.origin != Pooling().origin and not has_mean_head:
        return "encoder"
    head = _detect_head(folder, config)
    if head == "classify":
        return _kind_of_labels(config)
    task = next((task for task in TASKS.values() if task.head.kind == head), None)
    if task is not None:
        return _kind_of_task(task)
    return HEAD_KINDS.get(head or "", "encoder" if head is not None else _kind_without_head(config))


def _detect_head(folder: Path, config: Mapping[str, Any]) -> str | None:
    """Return the head that config.json names, or detect it from the tensor names."""
    if config.get(HEAD_POOLING) is None and "model_type" in config:
        family = family_of(detect_model_type(config, ()))
        architectures = config.get("architectures")
        name = architectures[0] if isinstance(architectures, list) and architectures else None
        if isinstance(name, str) and name in family.architectures:
            return family.architectures[name]
    return read_checkpoint(folder).head


def _kind_of_labels(config: Mapping[str, Any]) -> ModelKind:
    """Detect the kind of a classification head: one output ranks texts, unless problem_type is regression."""
    if config.get("problem_type") == "regression":
        return "regressor"
    names, _ = read_labels(config)
    return "reranker" if len(names) == 1 and config.get("problem_type") is None else "classifier"


def _kind_without_head(config: Mapping[str, Any]) -> ModelKind:
    """Detect the kind of a model without a head: with a decoder, it is a text-to-text model."""
    family = family_of(detect_model_type(config, ()))
    return "text-to-text model" if "seq2seq" in family.heads else "encoder"
