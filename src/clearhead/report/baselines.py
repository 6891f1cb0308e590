"""Cheap methods beside the trained model, on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clearhead.report.formatting import LOWER_IS_BETTER, interval_text, known, metric_name

MOST_ROWS = 60


def describe_baselines(found: Sequence[Mapping[str, Any]], part: tuple[str, Any] | None) -> dict[str, Any] | None:
    """Cheap methods beside the trained network, measured on the rows of its first part."""
    if not found or part is None:
        return None
    name, measured = part
    rows = [
        {
            **one,
            "between": interval_text(one["low"], one["high"]),
            "gap": one["difference"]["difference"],
            "gap_between": interval_text(one["difference"]["low"], one["difference"]["high"]),
        }
        for one in found[:MOST_ROWS]
    ]
    main = measured.metrics[measured.main]
    own = {"value": known(main.value), "between": interval_text(known(main.low), known(main.high))}
    lower = measured.main in LOWER_IS_BETTER
    return {"rows": rows, "own": own, "metric": metric_name(measured.main), "lower": lower, "part": name}
