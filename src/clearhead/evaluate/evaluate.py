"""Evaluation of a model on labeled rows, optionally compared with another model."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.data import BadRow, Columns, Source, hash_text
from clearhead.data.examples import BadRows
from clearhead.errors import InputError
from clearhead.evaluate.examples import show_examples
from clearhead.jobs.prepare import hash_rows
from clearhead.jobs.run_folder import read_split
from clearhead.metrics import PairedResult, paired_test
from clearhead.predict.column_roles import report_columns
from clearhead.predict.latency import measure_serving_cost
from clearhead.predict.predictor import Predictor
from clearhead.predict.stream import answer_chunks
from clearhead.progress import Progress, no_progress
from clearhead.tasks.evaluation import Evaluation, evaluate_logits
from clearhead.tasks.ragged import concat_parts

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class ScoredRows:
    """Labeled rows with the logits of a model."""

    logits: Any
    targets: Any
    row_numbers: list[int]  # in the source
    hashes: list[int]  # of the texts
    slices: dict[str, list[Any]]
    bad: BadRows
    truncated: int
    windowed: int
    seconds: float


def run_evaluate(
    predictor: Predictor,
    source: Source,
    *,
    text: str | None = None,
    text_b: str | None = None,
    label: str | None = None,
    options: str | None = None,
    slices: Sequence[str] = (),
    part: str | None = None,
    against: Predictor | None = None,
    skip_bad_rows: bool = False,
    progress: Progress = no_progress,
) -> Evaluation:
    """Compute all metrics of the model's task on the rows of a source, or on the part that training held out."""
    if part is not None:
        source = _select_held_out(predictor, source, part)
    columns = predictor.resolve_columns(source, text, text_b, label, options=options)
    report_columns(predictor, source, columns)
    if columns.label is None:
        option = setting("label", "COLUMN")
        raise InputError(f"{source.name} has no label column; name it with {option}.")
    for name in slices:
        if name not in source.columns:
            available = ", ".join(source.columns[:30])
            raise InputError(
                f"{source.name} has no column {name!r} for {setting('slices')}; its columns are {available}."
            )
    scored = _score_rows(predictor, source, columns, slices, progress, skip_bad_rows=skip_bad_rows)
    if part is not None:
        _check_held_out_rows(predictor, source, scored, part)
    result = evaluate_logits(
        predictor.task,
        predictor.space,
        scored.logits,
        scored.targets,
        predictor.calibration,
        row_numbers=scored.row_numbers,
        slices=scored.slices,
        skipped=dict(scored.bad.counts),
        truncated=scored.truncated,
        windowed=scored.windowed,
        seconds=round(scored.seconds, 3),
    )
    if against is None:
        return result
    if not _is_comparable(predictor, against):
        names = f"{against.reference} predicts other labels than {predictor.reference}"
        raise InputError(f"{names}; compare models with the same labels.")
    if not source.is_rereadable:
        raise InputError(f"{source.name} can be read only once; write it to a file to compare two models.")
    other_columns = _resolve_compared_columns(against, source, columns, text, text_b, options)
    other_scored = _score_rows(against, source, other_columns, (), no_progress, skip_bad_rows=skip_bad_rows)
    if other_scored.row_numbers != scored.row_numbers:
        raise InputError(f"{source.name}: some rows are usable for only one of the two models; fix or remove them.")
    return replace(result, against=_compare_answers(predictor, against, scored, other_scored))


def _is_comparable(predictor: Predictor, against: Predictor) -> bool:
    """Whether two models have comparable labels."""
    return predictor.task.metrics.are_comparable(predictor.space, against.space)


def _resolve_compared_columns(
    against: Predictor, source: Source, columns: Columns, text: str | None, text_b: str | None, options: str | None
) -> Columns:
    """Resolve the other model's text columns, which may differ, and the same label column."""
    trained_text = None if against.trained is None else against.trained.columns.get("text")
    first_column = text or (trained_text if trained_text in source.columns else columns.text)
    second_column = None if against.reads_pairs is False else text_b
    if against.reads_pairs is None and second_column is None and first_column == columns.text:
        second_column = columns.text_b  # unknown for this model, so it reads the same columns
    return against.resolve_columns(source, first_column, second_column, columns.label, options=options)


def _select_held_out(predictor: Predictor, source: Source, part: str) -> Source:
    """Restrict a source to the rows that training held out."""
    row_numbers = read_split(predictor.folder, part)
    return replace(source, open=lambda: (row for row in source.rows() if row.number in row_numbers))


def _check_held_out_rows(predictor: Predictor, source: Source, scored: ScoredRows, part: str) -> None:
    """Refuse rows that have the numbers of the held-out rows, but other texts or labels."""
    import numpy as np

    fingerprint = None if predictor.trained is None else predictor.trained.data.get(part)
    digest = hash_rows(np.array(scored.hashes, np.uint64), scored.targets, predictor.space)
    if fingerprint is None or digest != fingerprint.sha256:
        origin = f"{predictor.reference} held out of {'its training file' if fingerprint is None else fingerprint.name}"
        raise InputError(
            f"{source.name} does not have the {part} rows that {origin}; the file is a different one or has changed."
        )


def _score_rows(
    predictor: Predictor,
    source: Source,
    columns: Columns,
    slices: Sequence[str],
    progress: Progress,
    *,
    skip_bad_rows: bool,
) -> ScoredRows:

    started = time.perf_counter()
    logits, targets, row_numbers, hashes, bad_rows = [], [], [], [], BadRows()
    slice_values: dict[str, list[Any]] = {name: [] for name in slices}
    characters: list[int] = []
    truncated = windowed = processed = 0
    for chunk in answer_chunks(predictor, source, columns, labels=predictor.space):
        for bad_row in chunk.bad:
            bad_rows.add(bad_row)
        logits += [chunk.logits] if chunk.usable else []
        targets += [row.label for row in chunk.usable]
        row_numbers += [row.number for row in chunk.usable]
        hashes += [hash_text(row.text, row.text_b) for row in chunk.usable]
        characters += [len(row.text) + len(row.text_b or "") for row in chunk.usable]
        truncated += int((chunk.truncated > 0).sum())
        windowed += int((chunk.windows > 1).sum())
        usable_numbers = {row.number for row in chunk.usable}
        for row in chunk.rows:
            if not isinstance(row, BadRow) and row.number in usable_numbers:
                for name in slices:
                    slice_values[name].append(row.values.get(name))
        processed += len(chunk.rows)
        progress("predicting", processed, None)
    if not skip_bad_rows:
        bad_rows.raise_if_any(source, len(targets))
    if not targets:
        raise InputError(f"{source.name} has no usable rows.")
    label_ids = predictor.task.rows.encode_labels(targets, predictor.space)
    slice_values["length in characters"] = characters
    if predictor.space.kind == "classes":
        slice_values[columns.label or "label"] = [predictor.space.names[target] for target in label_ids]
    return ScoredRows(
        logits=concat_parts(logits),
        targets=label_ids,
        row_numbers=row_numbers,
        hashes=hashes,
        slices=slice_values,
        bad=bad_rows,
        truncated=truncated,
        windowed=windowed,
        seconds=time.perf_counter() - started,
    )


def _compare_answers(
    predictor: Predictor, against: Predictor, scored: ScoredRows, other_scored: ScoredRows
) -> dict[str, PairedResult]:
    """Compare each metric of two models on the same rows."""
    answers = predictor.task.decoding.decode(scored.logits, predictor.space, predictor.calibration)
    other_answers = against.task.decoding.decode(other_scored.logits, against.space, against.calibration)
    metrics, space = predictor.task.metrics, predictor.space
    if metrics.row_scores is not None:
        import numpy as np

        results = {}
        for name in metrics.names(space):
            (metric, scores_a), (_, scores_b) = (
                metrics.row_scores(model_answers, scored.targets, space, name)
                for model_answers in (answers, other_answers)
            )
            results[name] = paired_test(metric, np.zeros(len(scores_a)), scores_a, scores_b, n=2000)
        return results
    predicted, other_predicted = answers.labels, other_answers.labels
    tests = metrics.paired_metrics(space) if metrics.paired_metrics is not None else {}
    return {
        name: paired_test(metric, scored.targets, predicted, other_predicted, n=2000) for name, metric in tests.items()
    }


def save_evaluation_report(
    predictor: Predictor,
    source: Source,
    evaluated: Evaluation,
    path: Path,
    command: str,
    columns: Columns,
    machine: Mapping[str, str] | None = None,
) -> Path:
    """Write an HTML report of an evaluation; `machine` describes the machine if the model was trained just now."""
    from clearhead.report.page import ReportData, save_report

    notes: tuple[str, ...] = ()
    examples, cost = {}, {"seconds": evaluated.seconds}
    if not source.is_rereadable:
        notes = (f"{source.name} can be read only once; the report shows no rows.",)
    elif evaluated.picks is not None:
        examples = {"rows": show_examples(predictor, source, columns, evaluated.picks)}
        cost |= measure_serving_cost(predictor, source, columns)
    data = ReportData(
        title=f"{Path(predictor.reference).name} on {source.name}",
        command=command,
        parts={"rows": evaluated},
        passport={} if predictor.trained is None else asdict(predictor.trained),
        notes=notes,
        examples=examples,
        cost=cost,
        machine=machine or {},
    )
    return save_report(data, path)


def score_part(
    predictor: Predictor,
    source: Source,
    part: str | None,
    *,
    skip_bad_rows: bool,
    progress: Progress = no_progress,
) -> ScoredRows:
    """Compute the logits of the rows of a source, or of the part that training held out, without metrics."""
    part_source = source if part is None else _select_held_out(predictor, source, part)
    return _score_rows(
        predictor, part_source, predictor.resolve_columns(part_source), (), progress, skip_bad_rows=skip_bad_rows
    )
