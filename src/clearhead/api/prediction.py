"""Public functions for trained models: predict, ask and evaluate."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.deprecation import renamed_parameters
from clearhead.errors import InputError
from clearhead.progress import CountCallback, DoneCallback, from_counts, from_done

if TYPE_CHECKING:
    from clearhead.predict.files import PredictionSummary
    from clearhead.predict.predictor import Predictor
    from clearhead.tasks.answer import Prediction
    from clearhead.tasks.evaluation import Evaluation


def load_predictor(model: str | os.PathLike[str], **choices: Any) -> Predictor:
    """Load a trained model once, to predict or evaluate with it many times."""
    from clearhead.aspects.predictor import load_aspects
    from clearhead.jobs.kinds import local_kind
    from clearhead.predict.loading import load_predictor as load_single_predictor

    if local_kind(model) == "aspect model":
        if choices.get("precision") == "int8":
            raise InputError(f"{model} contains two models; quantize its subfolders find and judge separately.")
        options = {name: choices[name] for name in ("device", "abstain_below") if name in choices}
        return load_aspects(Path(model), **options)
    return load_single_predictor(os.fspath(model), **choices)


@renamed_parameters(told="progress")
def evaluate(
    model: str | os.PathLike[str] | Predictor,
    source: Any,
    *,
    text: str | None = None,
    text_b: str | None = None,
    label: str | None = None,
    options: str | None = None,
    slices: Sequence[str] = (),
    part: str | None = None,
    against: str | os.PathLike[str] | Predictor | None = None,
    report: str | os.PathLike[str] | None = None,
    skip_bad_rows: bool = False,
    input_format: str | None = None,
    progress: DoneCallback | None = None,
    command: str = "",
) -> Evaluation:
    """Measure a trained model on labeled rows; with `against`, compare it with another model on the same rows.

    The source is a file, a table, a list of dicts, or for models of single texts a list of (text, label) pairs.
    `part` ("dev" or "test") selects the rows of the training file that the run held out. `input_format` is csv, tsv,
    jsonl or text, for files and handles whose name does not show it.
    """
    from clearhead.aspects.predictor import AspectScorer
    from clearhead.aspects.reviews import to_spans_source
    from clearhead.data import open_source
    from clearhead.evaluate.evaluate import run_evaluate, save_evaluation_report
    from clearhead.jobs.kinds import local_kind
    from clearhead.translate.evaluate import evaluate_translator, read_training_record

    if isinstance(model, str | os.PathLike) and local_kind(model) == "translator":
        column_names = tuple(read_training_record(Path(model)).columns.values())
        opened = open_source(source, format=input_format, expected=column_names)
        if against is not None or slices:
            rejected = f"{setting('against')} and {setting('slices')}"
            raise InputError(f"{rejected} are not available for translators, which are measured by source length.")
        return evaluate_translator(
            Path(model),
            opened,
            part=part,
            columns=(text, label),
            skip_bad_rows=skip_bad_rows,
            progress=from_done(progress),
            report=None if report is None else Path(report),
            command=command,
        )[0]
    predictor = _predictor(model)
    opened = open_source(source, format=input_format, expected=predictor.column_names)
    if opened.kind == "pairs" and not predictor.reads_pairs and label is None and not predictor.task.rows.layout.roles:
        opened, text, label = replace(opened, kind="list"), "text", "text_b"  # rows are (text, label)
    if isinstance(predictor.scorer, AspectScorer):
        opened, text, text_b, label = to_spans_source(opened, text, text_b, label), None, None, None
    evaluation = run_evaluate(
        predictor,
        opened,
        text=text,
        text_b=text_b,
        label=label,
        options=options,
        slices=slices,
        part=part,
        skip_bad_rows=skip_bad_rows,
        progress=from_done(progress),
        against=None if against is None else _predictor(against),
    )
    if report is not None:
        columns = predictor.resolve_columns(opened, text, text_b, label)
        save_evaluation_report(predictor, opened, evaluation, Path(report), command, columns)
    return evaluation


def predict(
    model: str | os.PathLike[str] | Predictor,
    source: Any,
    *,
    text: str | None = None,
    text_b: str | None = None,
    options: str | None = None,
    skip_bad_rows: bool = False,
    input_format: str | None = None,
) -> list[Prediction]:
    """Predict each row of a file, a table, a Series, or a list of texts, pairs of texts or dicts.

    A single text or dict, or a tuple for models of pairs, is one row and gives a list with one answer. A string is a
    text unless it is, or looks like, a file name.
    """
    from clearhead.data import open_source
    from clearhead.predict.column_roles import report_columns
    from clearhead.predict.stream import answer_rows

    predictor = _predictor(model)
    if isinstance(source, tuple) and len(source) == 2 and predictor.reads_pairs and all(map(_is_string, source)):
        source = [source]  # one pair, not two texts
    opened = open_source(_rows(source), format=input_format, expected=predictor.column_names)
    columns = predictor.resolve_columns(opened, text, text_b, options=options, labeled=False)
    report_columns(predictor, opened, columns)
    return list(answer_rows(predictor, opened, columns, skip_bad_rows=skip_bad_rows))


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _rows(source: Any) -> Any:
    """A list with one row for a single text or dict; other sources unchanged."""
    from clearhead.data.sources.paths import is_text

    if isinstance(source, str):
        if not source.strip():
            raise InputError("The text is empty; pass a text, a file, rows or a table.")
        return [source] if is_text(source) else source
    if isinstance(source, Mapping) and any(isinstance(value, str) for value in source.values()):
        return [source]  # a dict of columns has lists
    return source


def predict_text(model: str | os.PathLike[str] | Predictor, *texts: str) -> Prediction:
    """Predict one text, a pair of texts, a question with its passage, or a question with its options."""
    from clearhead.predict.one_text import answer_texts

    if not texts:
        raise InputError("No text given.")
    return answer_texts(_predictor(model), texts)


@renamed_parameters(best="top")
def ask(model: str | os.PathLike[str] | Predictor, question: str, passage: str, *, top: int = 5) -> Prediction:
    """Extract the answer to a question from a passage, with the `top` answers in `nbest`.

    An `answer` of "" means that the passage does not answer the question. A long passage is read in windows.
    """
    from clearhead.predict.one_text import answer_question

    return answer_question(_predictor(model), question, passage, top)


@renamed_parameters(told="progress")
def predict_file(
    model: str | os.PathLike[str] | Predictor,
    source: Any,
    output: str | os.PathLike[str] | IO[bytes],
    *,
    input_format: str | None = None,
    progress: CountCallback | None = None,
    **choices: Any,
) -> PredictionSummary:
    """Predict each row into a file that keeps all input columns; the same call resumes an interrupted file."""
    from clearhead.data import open_source
    from clearhead.predict.files import predict_file as write_predictions

    target = Path(output) if isinstance(output, str | os.PathLike) else output
    predictor = _predictor(model)
    opened = open_source(source, format=input_format, expected=predictor.column_names)
    return write_predictions(predictor, opened, target, progress=from_counts(progress), **choices)


def _predictor(model: str | os.PathLike[str] | Predictor) -> Predictor:
    return load_predictor(model) if isinstance(model, str | os.PathLike) else model


__all__ = ["ask", "evaluate", "load_predictor", "predict", "predict_file", "predict_text"]
