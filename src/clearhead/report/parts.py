"""What the sections on quality tell of each part: test rows first, the others folded away."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clearhead.report import pictures, results, words
from clearhead.report.cases import cases, cell_rows
from clearhead.report.headline import dev_mark

if TYPE_CHECKING:
    from clearhead.metrics import Slice
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.tasks.examples import Shown

MOST_PARTS = 3  # that are told in detail
LENGTH = "length in "  # how columns begin that say how long a text is
PER_PART = ("labels", "confusion", "worst", "suspicious", "calibration", "coverage", "slices", "lengths")


def part_views(parts: Mapping[str, Evaluation], examples: Mapping[str, Shown]) -> list[dict[str, Any]]:
    """One view a part: its name, and the values of every section."""
    listed = list(parts.items())[:MOST_PARTS]
    return [_view(part, one, examples.get(part), f"p{place}") for place, (part, one) in enumerate(listed)]


def _view(part: str, one: Evaluation, shown: Shown | None, key: str) -> dict[str, Any]:
    right = "rows exactly right" if one.kind == "multilabel" else "accuracy"
    found = cases(one, shown, key)
    lengths = sorted((s for s in one.slices if s.column.startswith(LENGTH)), key=_beginning)
    others = [s for s in one.slices if not s.column.startswith(LENGTH)]
    return {
        "part": {"name": part, "rows": rows_of(part, one.kind), "one": one, "right": right, "key": key},
        "labels": results.label_rows(one),
        "confusion": _confusion(one, shown, key),
        "worst": found if found is not None and found.worst else None,
        "suspicious": found,
        "calibration": _calibration(one, key),
        "coverage": _coverage(one, right, key),
        "slices": {"shown": others[: results.MOST_SLICES], "all": len(others)} if others else None,
        "lengths": lengths[: results.MOST_SLICES],
    }


def rows_of(part: str, kind: str) -> str:
    """Which rows a section tells of; dev rows never without a warning."""
    return f"the {words.part_name(part)} rows" + (f" ({dev_mark(kind)})" if part == "dev" else "")


def _beginning(one: Slice) -> tuple[str, float]:
    """Where a slice of numbers begins."""
    found = re.match(r"-?[\d.]+(?:e[+-]?\d+)?", one.name)
    return one.column, float(found[0]) if found else float("inf")


def _confusion(one: Evaluation, shown: Shown | None, key: str) -> dict[str, Any] | None:
    rows = cell_rows(one, shown, key)
    pairs = results.confused(one)
    if one.confusion is None and not pairs:
        return None
    matrix = results.matrix(one)
    listed = rows if matrix is not None else {pair.cell: rows[pair.cell] for pair in pairs if pair.cell in rows}
    return {"matrix": matrix, "pairs": pairs, "rows": listed}


def _calibration(one: Evaluation, key: str) -> list[dict[str, Any]]:
    """Before and after, or only one of them where the temperature changes nothing."""
    found = one.calibration
    if found is None:
        return []
    turns = [("before", found.bins_before, found.before), ("after", found.bins_after, found.after)]
    return [
        {
            "when": when,
            "error": error,
            "bins": [each for each in bins if each.rows],
            "picture": pictures.reliability(f"reliability-{when}-{key}", f"Reliability {when} scaling", bins, error),
        }
        for when, bins, error in (turns[:1] if found.temperature == 1 else turns)
    ]


def _coverage(one: Evaluation, right: str, key: str) -> dict[str, Any] | None:
    if not one.coverage:
        return None
    picture = pictures.coverage(f"coverage-{key}", one.coverage, right)
    return {"picture": picture, "points": results.covered(one.coverage)}
