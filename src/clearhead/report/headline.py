"""The first thing a reader sees: what was measured, on which rows, how sure it is, and what to doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clearhead.report.formatting import (
    LOWER_IS_BETTER,
    count,
    cut,
    figure,
    interval_text,
    known,
    metric_name,
    part_name,
    rows,
)

if TYPE_CHECKING:
    from clearhead.data import Inspection
    from clearhead.tasks.evaluation import Evaluation

DEV_MARK = "used to choose the epoch and to fit thresholds and temperature"
FITTED_MARK = "used to fit thresholds and temperature"
WRITTEN_MARK = "used to choose the epoch"  # where texts are written, there is no threshold to fit
ORDER = ("test", "rows")  # what counts first; dev counts last
FEW = 100  # rows that make every figure rough


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The main figure and the sentences that keep it honest."""

    name: str  # of the metric
    value: str
    interval: str  # "0.880 to 0.940", or empty
    rows: str  # "400 test rows"
    tested: bool  # whether these rows chose nothing
    sentences: tuple[str, ...]


def dev_mark(kind: str, *, chose_epoch: bool = True) -> str:
    """What dev rows were used for; too few of them choose no epoch."""
    if not chose_epoch and kind != "texts":
        return FITTED_MARK
    return WRITTEN_MARK if kind == "texts" else DEV_MARK


def in_order(parts: Mapping[str, Evaluation]) -> dict[str, Evaluation]:
    """Test rows first, dev rows last."""
    first = [name for name in ORDER if name in parts]
    last = [name for name in parts if name == "dev"]
    others = [name for name in parts if name not in first and name not in last]
    return {name: parts[name] for name in (*first, *others, *last)}


def headline(parts: Mapping[str, Evaluation], inspection: Inspection | None) -> Headline:
    """What the first of the ordered parts says."""
    part, evaluation = next(iter(parts.items()))
    interval = evaluation.metrics[evaluation.main]
    between = interval_text(interval.low, interval.high)
    sentences = [] if part in ORDER else ["There is no test result: nothing was measured on test rows."]
    sentences.append(_measurement_sentence(part, evaluation, between))
    sentences += _doubt_sentences(part, evaluation, inspection)
    return Headline(
        name=metric_name(evaluation.main),
        value=figure(interval.value),
        interval=between,
        rows=f"{count(evaluation.rows)} {part_name(part)} row{'s' * (evaluation.rows != 1)}",
        tested=part in ORDER,
        sentences=tuple(sentences),
    )


def _measurement_sentence(part: str, evaluation: Evaluation, between: str) -> str:
    """Which metric, how much, on which rows, and how far it would move on others."""
    interval, name = evaluation.metrics[evaluation.main], metric_name(evaluation.main)
    which = {
        "test": f"{rows(evaluation.rows)} kept aside for the test, which the model did not learn from",
        "rows": f"the {rows(evaluation.rows)} given; whether the model learned from some of them is not known here",
        "dev": f"{rows(evaluation.rows)} of dev, which were {dev_mark(evaluation.kind)}: expect less on new rows",
    }.get(part, f"{rows(evaluation.rows)} of the part {cut(part, 30)!r}")
    if known(interval.value) is None:
        return f"{name} is not defined on these rows ({which})."
    doubt = f" On other rows like these it would mostly fall between {between.replace(' to ', ' and ')}"
    level = f" ({100 * interval.level:g}% interval)." if between else ""
    unsure = f"{doubt}{level}" if between else " No interval is known for it."
    lower = " (lower is better)" if evaluation.main in LOWER_IS_BETTER else ""
    return f"{name}{lower} is {figure(interval.value)}, measured on {which}.{unsure}"


def _doubt_sentences(part: str, evaluation: Evaluation, inspection: Inspection | None) -> list[str]:
    sentences = []
    if evaluation.main == "accuracy" and evaluation.label_scores and evaluation.rows:
        top = max(evaluation.label_scores, key=lambda score: score.rows)
        share = figure(top.rows / evaluation.rows)
        sentences.append(f"Always answering “{cut(top.label, 40)}” would reach {share} on the same rows.")
    if evaluation.rows < FEW:
        are = "is" if evaluation.rows == 1 else "are"
        sentences.append(f"{rows(evaluation.rows)} {are} few: look at the interval more than at the figure.")
    if evaluation.skipped:
        sentences.append(f"{rows(sum(evaluation.skipped.values()))} could not be used and are not in the figure.")
    if inspection is not None and part == "test" and inspection.leaks.groups:
        texts = inspection.leaks.groups
        stand = "text stands" if texts == 1 else "texts stand"
        sentences.append(f"{count(texts)} {stand} in more than one part of the data, so the figure may be too good.")
    return sentences
