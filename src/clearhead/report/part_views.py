"""What the sections on quality tell of each part: test rows first, the others folded away."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clearhead.report import formatting, metric_pictures, metric_tables
from clearhead.report.example_cards import cases, cell_rows
from clearhead.report.headline import dev_mark

if TYPE_CHECKING:
    from clearhead.metrics import Slice
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.tasks.examples import PartExamples

MOST_PARTS = 3  # that are told in detail
LENGTH = "length in "  # how columns begin that say how long a text is
PER_PART = ("labels", "confusion", "worst", "suspicious", "calibration", "coverage", "slices", "lengths")


def part_views(parts: Mapping[str, Evaluation], examples: Mapping[str, PartExamples]) -> list[dict[str, Any]]:
    """One view a part: its name, and the values of every section."""
    listed = list(parts.items())[:MOST_PARTS]
    return [_view(part, evaluation, examples.get(part), f"p{index}") for index, (part, evaluation) in enumerate(listed)]


def _view(part: str, evaluation: Evaluation, examples: PartExamples | None, key: str) -> dict[str, Any]:
    metric = "rows exactly right" if evaluation.kind == "multilabel" else "accuracy"
    cards = cases(evaluation, examples, key)
    lengths = sorted((s for s in evaluation.slices if s.column.startswith(LENGTH)), key=_beginning)
    others = [s for s in evaluation.slices if not s.column.startswith(LENGTH)]
    return {
        "part": {
            "name": part,
            "rows": rows_of(part, evaluation.kind),
            "one": evaluation,
            "right": metric,
            "key": key,
        },
        "labels": metric_tables.label_rows(evaluation),
        "confusion": _confusion(evaluation, examples, key),
        "worst": cards if cards is not None and cards.worst else None,
        "suspicious": cards,
        "calibration": _calibration(evaluation, key),
        "coverage": _coverage(evaluation, metric, key),
        "slices": {"shown": others[: metric_tables.MOST_SLICES], "all": len(others)} if others else None,
        "lengths": lengths[: metric_tables.MOST_SLICES],
    }


def rows_of(part: str, kind: str) -> str:
    """Which rows a section tells of; dev rows never without a warning."""
    return f"the {formatting.part_name(part)} rows" + (f" ({dev_mark(kind)})" if part == "dev" else "")


def _beginning(slice_: Slice) -> tuple[str, float]:
    """Where a slice of numbers begins."""
    match = re.match(r"-?[\d.]+(?:e[+-]?\d+)?", slice_.name)
    return slice_.column, float(match[0]) if match else float("inf")


def _confusion(evaluation: Evaluation, examples: PartExamples | None, key: str) -> dict[str, Any] | None:
    rows = cell_rows(evaluation, examples, key)
    pairs = metric_tables.confused(evaluation)
    if evaluation.confusion is None and not pairs:
        return None
    matrix = metric_tables.matrix(evaluation)
    listed = rows if matrix is not None else {pair.cell: rows[pair.cell] for pair in pairs if pair.cell in rows}
    return {"matrix": matrix, "pairs": pairs, "rows": listed}


def _calibration(evaluation: Evaluation, key: str) -> list[dict[str, Any]]:
    """Before and after, or only one of them where the temperature changes nothing."""
    fitted = evaluation.calibration
    if fitted is None:
        return []
    turns = [
        ("before", fitted.bins_before, fitted.before),
        ("after", fitted.bins_after, fitted.after),
    ]
    return [
        {
            "when": when,
            "error": error,
            "bins": [bin_ for bin_ in bins if bin_.rows],
            "picture": metric_pictures.reliability(
                f"reliability-{when}-{key}", f"Reliability {when} scaling", bins, error
            ),
        }
        for when, bins, error in (turns[:1] if fitted.temperature == 1 else turns)
    ]


def _coverage(evaluation: Evaluation, label: str, key: str) -> dict[str, Any] | None:
    if not evaluation.coverage:
        return None
    picture = metric_pictures.coverage(f"coverage-{key}", evaluation.coverage, label)
    return {"picture": picture, "points": metric_tables.covered(evaluation.coverage)}
