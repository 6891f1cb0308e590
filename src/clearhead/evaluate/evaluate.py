"""Measuring a model on labelled rows, beside another one if asked."""

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
    """All labelled rows with what a model says of them."""

    logits: Any
    targets: Any
    numbers: list[int]  # of the rows in the source
    hashes: list[int]  # of their texts
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
    """Every metric of the model's task on the rows of a source, or on the part of it that training held out."""
    if part is not None:
        source = _select_held_out(predictor, source, part)
    columns = predictor.resolve_columns(source, text, text_b, label, options=options)
    report_columns(predictor, source, columns)
    if columns.label is None:
        which = setting("label", "COLUMN")
        raise InputError(f"{source.name} has no label column to measure against; say which one with {which}.")
    for name in slices:
        if name not in source.columns:
            there = ", ".join(source.columns[:30])
            raise InputError(f"{source.name} has no column {name!r} for {setting('slices')}; it has {there}.")
    scored = _score_rows(predictor, source, columns, slices, progress, skip_bad_rows=skip_bad_rows)
    if part is not None:
        _check_held_out_rows(predictor, source, scored, part)
    made = evaluate_logits(
        predictor.task,
        predictor.space,
        scored.logits,
        scored.targets,
        predictor.calibration,
        numbers=scored.numbers,
        slices=scored.slices,
        skipped=dict(scored.bad.counts),
        truncated=scored.truncated,
        windowed=scored.windowed,
        seconds=round(scored.seconds, 3),
    )
    if against is None:
        return made
    if not _is_comparable(predictor, against):
        raise InputError(f"{against.reference} answers with other labels than {predictor.reference}.")
    if not source.is_rereadable:
        raise InputError(f"{source.name} can be read only once; put it in a file to compare two models on it.")
    beside = _resolve_compared_columns(against, source, columns, text, text_b, options)
    other = _score_rows(against, source, beside, (), no_progress, skip_bad_rows=skip_bad_rows)
    if other.numbers != scored.numbers:
        raise InputError(f"{source.name}: the two models cannot use the same rows; mend those that one cannot read.")
    return replace(made, against=_compare_answers(predictor, against, scored, other))


def _is_comparable(one: Predictor, two: Predictor) -> bool:
    """Whether two models answer the same question."""
    return one.task.metrics.are_comparable(one.space, two.space)


def _resolve_compared_columns(
    against: Predictor, source: Source, columns: Columns, text: str | None, text_b: str | None, options: str | None
) -> Columns:
    """The other model's texts, which may be other columns, and the same labels."""
    own = None if against.trained is None else against.trained.columns.get("text")
    first = text or (own if own in source.columns else columns.text)
    second = None if against.reads_pairs is False else text_b
    if against.reads_pairs is None and second is None and first == columns.text:
        second = columns.text_b  # nobody knows what it reads: the same as the model that it is compared with
    return against.resolve_columns(source, first, second, columns.label, options=options)


def _select_held_out(predictor: Predictor, source: Source, part: str) -> Source:
    """A source with the rows alone that a run did not train on."""
    wanted = read_split(predictor.folder, part)
    return replace(source, open=lambda: (row for row in source.rows() if row.number in wanted))


def _check_held_out_rows(predictor: Predictor, source: Source, scored: ScoredRows, part: str) -> None:
    """The rows that were held out, or others that happen to have their numbers?"""
    import numpy as np

    mark = None if predictor.trained is None else predictor.trained.data.get(part)
    digest = hash_rows(np.array(scored.hashes, np.uint64), scored.targets, predictor.space)
    if mark is None or digest != mark.sha256:
        held = f"{predictor.reference} held out of {'its training file' if mark is None else mark.name}"
        raise InputError(f"{source.name} does not have the {part} rows that {held}; it is another file, or it changed.")


def _score_rows(
    predictor: Predictor,
    source: Source,
    columns: Columns,
    slices: Sequence[str],
    progress: Progress,
    *,
    skip_bad_rows: bool,
) -> ScoredRows:

    begun = time.perf_counter()
    parts, targets, numbers, hashes, bad = [], [], [], [], BadRows()
    sliced: dict[str, list[Any]] = {name: [] for name in slices}
    characters: list[int] = []
    truncated = windowed = done = 0
    for chunk in answer_chunks(predictor, source, columns, labels=predictor.space):
        for one in chunk.bad:
            bad.add(one)
        parts += [chunk.logits] if chunk.usable else []
        targets += [row.label for row in chunk.usable]
        numbers += [row.number for row in chunk.usable]
        hashes += [hash_text(row.text, row.text_b) for row in chunk.usable]
        characters += [len(row.text) + len(row.text_b or "") for row in chunk.usable]
        truncated += int((chunk.truncated > 0).sum())
        windowed += int((chunk.windows > 1).sum())
        kept = {row.number for row in chunk.usable}
        for row in chunk.rows:
            if not isinstance(row, BadRow) and row.number in kept:
                for name in slices:
                    sliced[name].append(row.values.get(name))
        done += len(chunk.rows)
        progress("answering", done, None)
    if not skip_bad_rows:
        bad.raise_if_any(source, len(targets))
    if not targets:
        raise InputError(f"{source.name} holds no rows that can be used.")
    true = predictor.task.rows.encode_labels(targets, predictor.space)
    sliced["length in characters"] = characters
    if predictor.space.kind == "classes":
        sliced[columns.label or "label"] = [predictor.space.names[target] for target in true]
    return ScoredRows(
        logits=concat_parts(parts),
        targets=true,
        numbers=numbers,
        hashes=hashes,
        slices=sliced,
        bad=bad,
        truncated=truncated,
        windowed=windowed,
        seconds=time.perf_counter() - begun,
    )


def _compare_answers(
    predictor: Predictor, against: Predictor, ours: ScoredRows, theirs: ScoredRows
) -> dict[str, PairedResult]:
    """How much higher each metric is than the other model's, on the same rows."""
    one = predictor.task.decoding.decode(ours.logits, predictor.space, predictor.calibration)
    two = against.task.decoding.decode(theirs.logits, against.space, against.calibration)
    metrics, space = predictor.task.metrics, predictor.space
    if metrics.row_scores is not None:
        import numpy as np

        made = {}
        for name in metrics.names(space):
            (metric, a), (_, b) = (metrics.row_scores(answers, ours.targets, space, name) for answers in (one, two))
            made[name] = paired_test(metric, np.zeros(len(a)), a, b, n=2000)
        return made
    mine, other = one.labels, two.labels
    tests = metrics.paired_metrics(space) if metrics.paired_metrics is not None else {}
    return {name: paired_test(metric, ours.targets, mine, other, n=2000) for name, metric in tests.items()}


def save_evaluation_report(
    predictor: Predictor,
    source: Source,
    made: Evaluation,
    path: Path,
    command: str,
    columns: Columns,
    machine: Mapping[str, str] | None = None,
) -> Path:
    """One HTML page about an evaluation; `machine` is where the model was trained just now."""
    from clearhead.report.page import ReportData, save_report

    notes: tuple[str, ...] = ()
    examples, cost = {}, {"seconds": made.seconds}
    if not source.is_rereadable:
        notes = (f"{source.name} can be read only once, so that no rows of it are shown.",)
    elif made.picks is not None:
        examples = {"rows": show_examples(predictor, source, columns, made.picks)}
        cost |= measure_serving_cost(predictor, source, columns)
    data = ReportData(
        title=f"{Path(predictor.reference).name} on {source.name}",
        command=command,
        parts={"rows": made},
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
    """What a model says of the rows of a source, or of the part of it that training held out; nothing is measured."""
    held = source if part is None else _select_held_out(predictor, source, part)
    return _score_rows(predictor, held, predictor.resolve_columns(held), (), progress, skip_bad_rows=skip_bad_rows)
