"""Compute the template values of the quality sections per part: test rows first, the others collapsed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clearhead.report import formatting, metric_pictures, metric_tables
from clearhead.report.example_cards import list_cell_rows, make_cards
from clearhead.report.headline import describe_dev_use

if TYPE_CHECKING:
    from clearhead.metrics import Slice
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.tasks.examples import PartExamples

MAX_PARTS = 3  # shown in detail
LENGTH_PREFIX = "length in "  # prefix of columns with text lengths
PER_PART = ("labels", "confusion", "worst", "suspicious", "calibration", "coverage", "slices", "lengths")


def part_views(parts: Mapping[str, Evaluation], examples: Mapping[str, PartExamples]) -> list[dict[str, Any]]:
    """Return the values of every section for each part."""
    listed = list(parts.items())[:MAX_PARTS]
    return [
        _part_view(part, evaluation, examples.get(part), f"p{index}") for index, (part, evaluation) in enumerate(listed)
    ]


def _part_view(part: str, evaluation: Evaluation, examples: PartExamples | None, key: str) -> dict[str, Any]:
    metric = "subset accuracy" if evaluation.kind == "multilabel" else "accuracy"
    cards = make_cards(evaluation, examples, key)
    lengths = sorted((s for s in evaluation.slices if s.column.startswith(LENGTH_PREFIX)), key=_slice_start)
    others = [s for s in evaluation.slices if not s.column.startswith(LENGTH_PREFIX)]
    return {
        "part": {
            "name": part,
            "rows": describe_rows(part, evaluation.kind),
            "evaluation": evaluation,
            "accuracy_name": metric,
            "key": key,
        },
        "labels": metric_tables.select_labels(evaluation),
        "confusion": _confusion(evaluation, examples, key),
        "worst": cards if cards is not None and cards.worst else None,
        "suspicious": cards,
        "calibration": _calibration(evaluation, key),
        "coverage": _coverage(evaluation, metric, key),
        "slices": {"shown": others[: metric_tables.MAX_SLICES], "all": len(others)} if others else None,
        "lengths": lengths[: metric_tables.MAX_SLICES],
    }


def describe_rows(part: str, kind: str) -> str:
    """Name the rows of a section; dev rows always come with their use."""
    return f"the {formatting.part_name(part)} rows" + (f" ({describe_dev_use(kind)})" if part == "dev" else "")


def _slice_start(slice_: Slice) -> tuple[str, float]:
    """Return the sort key of a numeric slice: column and lower bound."""
    match = re.match(r"-?[\d.]+(?:e[+-]?\d+)?", slice_.name)
    return slice_.column, float(match[0]) if match else float("inf")


def _confusion(evaluation: Evaluation, examples: PartExamples | None, key: str) -> dict[str, Any] | None:
    rows = list_cell_rows(evaluation, examples, key)
    pairs = metric_tables.find_confused_pairs(evaluation)
    if evaluation.confusion is None and not pairs:
        return None
    matrix = metric_tables.shade_matrix(evaluation)
    listed = rows if matrix is not None else {pair.cell: rows[pair.cell] for pair in pairs if pair.cell in rows}
    return {"matrix": matrix, "pairs": pairs, "rows": listed}


def _calibration(evaluation: Evaluation, key: str) -> list[dict[str, Any]]:
    """Return reliability before and after scaling, or only before if the temperature is 1."""
    fitted = evaluation.calibration
    if fitted is None:
        return []
    stages = [
        ("before", fitted.bins_before, fitted.before),
        ("after", fitted.bins_after, fitted.after),
    ]
    return [
        {
            "when": when,
            "error": error,
            "bins": [bin_ for bin_ in bins if bin_.rows],
            "picture": metric_pictures.draw_reliability(
                f"reliability-{when}-{key}", f"Reliability {when} scaling", bins, error
            ),
        }
        for when, bins, error in (stages[:1] if fitted.temperature == 1 else stages)
    ]


def _coverage(evaluation: Evaluation, label: str, key: str) -> dict[str, Any] | None:
    if not evaluation.coverage:
        return None
    picture = metric_pictures.draw_coverage(f"coverage-{key}", evaluation.coverage, label)
    return {"picture": picture, "points": metric_tables.select_coverage_points(evaluation.coverage)}
