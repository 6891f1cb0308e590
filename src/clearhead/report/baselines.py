"""Cheap methods beside the trained model, on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clearhead.report.formatting import LOWER_IS_BETTER, interval_text, known, metric_name

MOST_ROWS = 60


def describe_baselines(baselines: Sequence[Mapping[str, Any]], part: tuple[str, Any] | None) -> dict[str, Any] | None:
    """Cheap methods beside the trained network, measured on the rows of its first part."""
    if not baselines or part is None:
        return None
    name, measured = part
    rows = [
        {
            **baseline,
            "between": interval_text(baseline["low"], baseline["high"]),
            "gap": baseline["difference"]["difference"],
            "gap_between": interval_text(baseline["difference"]["low"], baseline["difference"]["high"]),
        }
        for baseline in baselines[:MOST_ROWS]
    ]
    main = measured.metrics[measured.main]
    model_row = {"value": known(main.value), "between": interval_text(known(main.low), known(main.high))}
    lower = measured.main in LOWER_IS_BETTER
    return {"rows": rows, "own": model_row, "metric": metric_name(measured.main), "lower": lower, "part": name}
