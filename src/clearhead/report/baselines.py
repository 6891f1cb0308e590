"""Compare simple baselines with the trained model on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clearhead.report.formatting import LOWER_IS_BETTER, finite_number, format_interval, metric_name

MAX_ROWS = 60


def describe_baselines(baselines: Sequence[Mapping[str, Any]], part: tuple[str, Any] | None) -> dict[str, Any] | None:
    """Return the template values of the baselines, measured on the first part, or None without baselines."""
    if not baselines or part is None:
        return None
    name, measured = part
    rows = [
        {
            **baseline,
            "between": format_interval(baseline["low"], baseline["high"]),
            "gap": baseline["difference"]["difference"],
            "gap_between": format_interval(baseline["difference"]["low"], baseline["difference"]["high"]),
        }
        for baseline in baselines[:MAX_ROWS]
    ]
    main = measured.metrics[measured.main]
    model_row = {
        "value": finite_number(main.value),
        "between": format_interval(finite_number(main.low), finite_number(main.high)),
    }
    lower = measured.main in LOWER_IS_BETTER
    return {"rows": rows, "model": model_row, "metric": metric_name(measured.main), "lower": lower, "part": name}
