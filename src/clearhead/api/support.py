"""What the command line needs besides the public functions; names are imported when they are first used."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearhead.checkpoint.inventory import format_bytes
    from clearhead.data.sources.paths import is_text
    from clearhead.data.sources.texts import is_text_source
    from clearhead.explain.complexity import LENGTHS, TIMES_TITLE, WIDTHS
    from clearhead.explain.growth_picture import check_picture
    from clearhead.files import describe_os_error, format_path, read_json, to_printable
    from clearhead.html import format_interval, format_number
    from clearhead.jobs.events import RunEvents
    from clearhead.jobs.kinds import has_vectors, local_kind
    from clearhead.jobs.plan import parse_set
    from clearhead.ladder.methods import format_result_cells
    from clearhead.model import Model
    from clearhead.model.embedding import TruncationWarning
    from clearhead.predict.predictor import Predictor
    from clearhead.progress import CountCallback, Progress
    from clearhead.tasks.answer import FoundSpan, Prediction
    from clearhead.training.interrupt import TrainingInterrupted, on_stop_request
    from clearhead.training.loop import TrainingStep
    from clearhead.words import WordVectors
    from clearhead.words.answers import WordAnswers
    from clearhead.words.measure import AnalogyScores

_HOMES = {
    "LENGTHS": "explain.complexity",
    "TIMES_TITLE": "explain.complexity",
    "RunEvents": "jobs.events",
    "TrainingInterrupted": "training.interrupt",
    "TruncationWarning": "model.embedding",
    "WIDTHS": "explain.complexity",
    "format_interval": "html",
    "check_picture": "explain.growth_picture",
    "is_text_source": "data.sources.texts",
    "format_number": "html",
    "has_vectors": "jobs.kinds",
    "is_text": "data.sources.paths",
    "local_kind": "jobs.kinds",
    "format_path": "files",
    "on_stop_request": "training.interrupt",
    "parse_set": "jobs.plan",
    "pluralize": "html",
    "read_json": "files",
    "format_bytes": "checkpoint.inventory",
    "describe_os_error": "files",
    "format_result_cells": "ladder.methods",
    "to_printable": "files",
}


def disk_bytes(reference: str | os.PathLike[str]) -> int | None:
    """Size of the files that are needed to use a model; None if its folder is unknown."""
    from clearhead.embeddings.vector_files import find_model_folder
    from clearhead.predict.latency import measure_disk_bytes as size_of

    folder = find_model_folder(os.fspath(reference))
    return None if folder is None else size_of(folder)


def exported_facts(folder: Path) -> dict[str, Any]:
    """The facts about the graph in an exported folder."""
    from clearhead.engine.export import EXPORT_FILE
    from clearhead.files import read_json

    return read_json(folder / EXPORT_FILE)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'clearhead.api.support' has no attribute {name!r}")
    return getattr(import_module(f"clearhead.{_HOMES[name]}"), name)


__all__ = [
    "LENGTHS",
    "TIMES_TITLE",
    "WIDTHS",
    "AnalogyScores",
    "CountCallback",
    "FoundSpan",
    "Model",
    "Prediction",
    "Predictor",
    "Progress",
    "RunEvents",
    "TrainingInterrupted",
    "TrainingStep",
    "TruncationWarning",
    "WordAnswers",
    "WordVectors",
    "check_picture",
    "describe_os_error",
    "disk_bytes",
    "exported_facts",
    "format_bytes",
    "format_interval",
    "format_number",
    "format_path",
    "format_result_cells",
    "has_vectors",
    "is_text",
    "is_text_source",
    "local_kind",
    "on_stop_request",
    "parse_set",
    "read_json",
    "to_printable",
]
