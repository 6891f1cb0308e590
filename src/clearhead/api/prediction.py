"""The public verbs of a trained model: ask it, predict with it, measure it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.errors import InputError
from clearhead.progress import CountCallback, DoneCallback, from_counts, from_done

if TYPE_CHECKING:
    from clearhead.predict.files import PredictionSummary
    from clearhead.predict.predictor import Predictor
    from clearhead.tasks.answer import Prediction
    from clearhead.tasks.evaluation import Evaluation


def load_predictor(model: str | os.PathLike[str], **choices: Any) -> Predictor:
    """A trained folder, loaded once to evaluate or predict with it many times."""
    from clearhead.aspects.predictor import load_aspects
    from clearhead.jobs.kinds import local_kind
    from clearhead.predict.loading import load_predictor as loaded

    if local_kind(model) == "aspect model":
        if choices.get("precision") == "int8":
            raise InputError(f"{model} holds two models: quantise its folders find and judge, each by itself.")
        kept = {name: choices[name] for name in ("device", "abstain_below") if name in choices}
        return load_aspects(Path(model), **kept)
    return loaded(os.fspath(model), **choices)


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
    told: DoneCallback | None = None,
    command: str = "",
) -> Evaluation:
    """Measure a trained model on rows whose labels are known; with `against`, beside another model.

    The source is a file, a table, a list of dicts, or of a model of single texts a list of (text, label) pairs.
    `part` ("dev" or "test") takes those rows of the training file alone that the run held out.
    `input_format` (csv, tsv, jsonl or text) says how a file or a handle is written that does not tell it.
    """
    from clearhead.aspects.predictor import AspectScorer
    from clearhead.aspects.reviews import spans_source
    from clearhead.data import open_source
    from clearhead.evaluate.evaluate import run_evaluate, save_evaluation_report
    from clearhead.jobs.kinds import local_kind
    from clearhead.translate.evaluate import evaluate_translator, read_trained

    if isinstance(model, str | os.PathLike) and local_kind(model) == "translator":
        known = tuple(read_trained(Path(model)).columns.values())
        opened = open_source(source, format=input_format, expected=known)
        if against is not None or slices:
            both = f"{setting('against')} and {setting('slices')}"
            raise InputError(f"Translators are measured alone and by source length; leave {both} out.")
        return evaluate_translator(
            Path(model),
            opened,
            part=part,
            columns=(text, label),
            skip_bad_rows=skip_bad_rows,
            progress=from_done(told),
            report=None if report is None else Path(report),
            command=command,
        )[0]
    predictor = _predictor(model)
    opened = open_source(source, format=input_format, expected=predictor.column_names)
    if opened.kind == "pairs" and not predictor.reads_pairs and label is None and not predictor.task.rows.layout.roles:
        opened, text, label = replace(opened, kind="list"), "text", "text_b"  # rows are (text, label)
    if isinstance(predictor.scorer, AspectScorer):
        opened, text, text_b, label = spans_source(opened, text, text_b, label), None, None, None
    made = run_evaluate(
        predictor,
        opened,
        text=text,
        text_b=text_b,
        label=label,
        options=options,
        slices=slices,
        part=part,
        skip_bad_rows=skip_bad_rows,
        progress=from_done(told),
        against=None if against is None else _predictor(against),
    )
    if report is not None:
        columns = predictor.resolve_columns(opened, text, text_b, label)
        save_evaluation_report(predictor, opened, made, Path(report), command, columns)
    return made


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
    """What a trained model says of each row, as a list: of a file, a table, a Series, texts, pairs of texts or dicts.

    One text, one dict, or one tuple for a model of pairs is one row, and gives a list of one; a string is a text unless
    it names a file, or looks like the name of one.
    """
    from clearhead.data import open_source
    from clearhead.predict.column_roles import report_columns
    from clearhead.predict.stream import answer_rows

    predictor = _predictor(model)
    if isinstance(source, tuple) and len(source) == 2 and predictor.reads_pairs and all(map(_is_string, source)):
        source = [source]  # one pair, and not two texts
    opened = open_source(_rows(source), format=input_format, expected=predictor.column_names)
    columns = predictor.resolve_columns(opened, text, text_b, options=options, labeled=False)
    report_columns(predictor, opened, columns)
    return list(answer_rows(predictor, opened, columns, skip_bad_rows=skip_bad_rows))


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _rows(source: Any) -> Any:
    """One text and one row as a list of one; the rest as it is."""
    from clearhead.data.sources.paths import is_text

    if isinstance(source, str):
        if not source.strip():
            raise InputError("The text is empty; give a text, a file, rows or a table.")
        return [source] if is_text(source) else source
    if isinstance(source, Mapping) and any(isinstance(value, str) for value in source.values()):
        return [source]  # columns are lists
    return source


def predict_text(model: str | os.PathLike[str] | Predictor, *texts: str) -> Prediction:
    """The answer to one text, to a pair, to a question and its passage, or to a question and its options."""
    from clearhead.predict.one_text import answer_texts

    if not texts:
        raise InputError("There is no text to answer.")
    return answer_texts(_predictor(model), texts)


def ask(model: str | os.PathLike[str] | Predictor, question: str, passage: str, *, best: int = 5) -> Prediction:
    """The answer to a question out of a passage, as it stands there, with the `best` answers in `nbest`.

    An `answer` of "" means that the passage does not say. A long passage is read in windows.
    """
    from clearhead.predict.one_text import answer_question

    return answer_question(_predictor(model), question, passage, best)


def predict_file(
    model: str | os.PathLike[str] | Predictor,
    source: Any,
    output: str | os.PathLike[str] | IO[bytes],
    *,
    input_format: str | None = None,
    told: CountCallback | None = None,
    **choices: Any,
) -> PredictionSummary:
    """The same to a file with all input columns kept; it goes on where an interrupted run stopped."""
    from clearhead.data import open_source
    from clearhead.predict.files import predict_file as written

    place = Path(output) if isinstance(output, str | os.PathLike) else output
    predictor = _predictor(model)
    opened = open_source(source, format=input_format, expected=predictor.column_names)
    return written(predictor, opened, place, progress=from_counts(told), **choices)


def _predictor(model: str | os.PathLike[str] | Predictor) -> Predictor:
    return load_predictor(model) if isinstance(model, str | os.PathLike) else model


__all__ = ["ask", "evaluate", "load_predictor", "predict", "predict_file", "predict_text"]
