"""Write the headline of a report: the main metric, its rows, its interval, and caveats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clearhead.report.formatting import (
    LOWER_IS_BETTER,
    finite_number,
    format_count,
    format_figure,
    format_interval,
    format_rows,
    metric_name,
    part_name,
    truncate,
)

if TYPE_CHECKING:
    from clearhead.data import Inspection
    from clearhead.tasks.evaluation import Evaluation

DEV_USE = "used to select the epoch and to fit thresholds and temperature"
CALIBRATION_USE = "used to fit thresholds and temperature"
EPOCH_USE = "used to select the epoch"  # generated texts have no thresholds
LEADING_PARTS = ("test", "rows")  # shown first; dev is shown last
FEW_ROWS = 100  # fewer rows get a warning


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The main metric with its caveats."""

    name: str  # of the metric
    value: str
    interval: str  # "0.880 to 0.940", or empty
    rows: str  # "400 test rows"
    is_test_result: bool  # whether nothing was selected on these rows
    sentences: tuple[str, ...]


def describe_dev_use(kind: str, *, chose_epoch: bool = True) -> str:
    """Describe what dev rows were used for; too few rows do not select an epoch."""
    if not chose_epoch and kind != "texts":
        return CALIBRATION_USE
    return EPOCH_USE if kind == "texts" else DEV_USE


def order_parts(parts: Mapping[str, Evaluation]) -> dict[str, Evaluation]:
    """Order parts: test rows first, dev rows last."""
    first = [name for name in LEADING_PARTS if name in parts]
    last = [name for name in parts if name == "dev"]
    others = [name for name in parts if name not in first and name not in last]
    return {name: parts[name] for name in (*first, *others, *last)}


def make_headline(parts: Mapping[str, Evaluation], inspection: Inspection | None) -> Headline:
    """Make the headline from the first of the ordered parts."""
    part, evaluation = next(iter(parts.items()))
    interval = evaluation.metrics[evaluation.main]
    between = format_interval(interval.low, interval.high)
    sentences = [] if part in LEADING_PARTS else ["There is no test result: the model was not evaluated on test rows."]
    sentences.append(_measurement_sentence(part, evaluation, between))
    sentences += _doubt_sentences(part, evaluation, inspection)
    return Headline(
        name=metric_name(evaluation.main),
        value=format_figure(interval.value),
        interval=between,
        rows=f"{format_count(evaluation.rows)} {part_name(part)} row{'s' * (evaluation.rows != 1)}",
        is_test_result=part in LEADING_PARTS,
        sentences=tuple(sentences),
    )


def _measurement_sentence(part: str, evaluation: Evaluation, between: str) -> str:
    """Describe the main metric, its rows and its interval."""
    interval, name = evaluation.metrics[evaluation.main], metric_name(evaluation.main)
    row_source = {
        "test": f"{format_rows(evaluation.rows)} held out for testing and not used in training",
        "rows": f"the {format_rows(evaluation.rows)} given; whether they overlap with the training rows is not known",
        "dev": f"{format_rows(evaluation.rows)} of dev, which were {describe_dev_use(evaluation.kind)}: "
        "expect lower quality on new rows",
    }.get(part, f"{format_rows(evaluation.rows)} of the part {truncate(part, 30)!r}")
    if finite_number(interval.value) is None:
        return f"{name} is not defined on these rows ({row_source})."
    expectation = f" On similar rows, expect a value between {between.replace(' to ', ' and ')}"
    level = f" ({100 * interval.level:g}% interval)." if between else ""
    uncertainty = f"{expectation}{level}" if between else " No confidence interval is available."
    lower = " (lower is better)" if evaluation.main in LOWER_IS_BETTER else ""
    return f"{name}{lower} is {format_figure(interval.value)}, measured on {row_source}.{uncertainty}"


def _doubt_sentences(part: str, evaluation: Evaluation, inspection: Inspection | None) -> list[str]:
    sentences = []
    if evaluation.main == "accuracy" and evaluation.label_scores and evaluation.rows:
        top = max(evaluation.label_scores, key=lambda score: score.rows)
        accuracy = format_figure(top.rows / evaluation.rows)
        sentences.append(f"Always predicting “{truncate(top.label, 40)}” reaches {accuracy} on the same rows.")
    if evaluation.rows < FEW_ROWS:
        verb = "is" if evaluation.rows == 1 else "are"
        sentences.append(f"{format_rows(evaluation.rows)} {verb} few: rely on the interval rather than on the value.")
    if evaluation.skipped:
        sentences.append(f"{format_rows(sum(evaluation.skipped.values()))} could not be used and are not included.")
    if inspection is not None and part == "test" and inspection.leaks.groups:
        texts = inspection.leaks.groups
        occurrence = "text occurs" if texts == 1 else "texts occur"
        sentences.append(
            f"{format_count(texts)} {occurrence} in more than one part of the data, so the value may be optimistic."
        )
    return sentences
