"""Format numbers, names and texts for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

from clearhead.explain.svg import escape_invisible, format_exponent, typeset_minus

UNKNOWN = "–"  # shown for undefined figures
MAX_FIGURE = 1e30  # larger numbers are treated as undefined; no picture can show them
METRIC_NAMES = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "f1": "F1",
    "f1_macro": "Macro F1",
    "f1_micro": "Micro F1",
    "f1_weighted": "Weighted F1",
    "f1_samples": "F1 by row",
    "matthews": "Matthews correlation",
    "precision": "Precision",
    "precision_micro": "Micro precision",
    "recall": "Recall",
    "recall_micro": "Micro recall",
    "subset_accuracy": "Subset accuracy",
    "roc_auc": "Area under ROC",
    "pr_auc": "Area under PR",
    "log_loss": "Log loss",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
    "mse": "Mean squared error",
    "mae": "Mean absolute error",
    "r2": "R²",
    "bleu": "BLEU",
    "chrf": "chrF",
    "chrf++": "chrF++",
}
COST_NAMES = {  # key -> (display name, unit)
    "seconds": ("Total time", "duration"),
    "fitting seconds": ("Fitting time", "duration"),
    "training seconds": ("Training time", "duration"),
    "tokens per second": ("Tokens per second", "count"),
    "peak memory MB": ("Peak memory", "megabytes"),
    "latency of one text ms": ("Latency of one text (median)", "milliseconds"),
    "size on disk MB": ("Model size on disk", "megabytes"),
}
LOWER_IS_BETTER = frozenset({"log_loss", "mse", "mae"})


def finite_number(value: Any) -> float | None:
    """Convert a value to a float, or return None if it is not a showable number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer that no float can hold
        return None
    return number if abs(number) < MAX_FIGURE else None


def format_figure(value: Any) -> str:
    """Format a number with about three significant digits; numbers just below 1 are not rounded to 1."""
    number = finite_number(value)
    if number is None:
        return UNKNOWN
    size = abs(number)
    if size == 0 or 0.001 <= size < 10:
        text = f"{number:.3f}"
        text = ">0.999" if text == "1.000" and number < 1 else text
    elif size < 0.001 or size >= 1e7:
        text = format_exponent(number)
    else:
        text = f"{number:,.{2 if size < 100 else 1 if size < 1000 else 0}f}"
    return typeset_minus(text)


def format_interval(low: Any, high: Any, unknown: str = "") -> str:
    """Format an interval as `0.880 to 0.940`, or return `unknown` without finite bounds."""
    return (
        unknown
        if finite_number(low) is None or finite_number(high) is None
        else f"{format_figure(low)} to {format_figure(high)}"
    )


def format_percent(value: Any) -> str:
    """Format a share as a percentage; shares near 0 or 1 are not rounded to 0% or 100%."""
    number = finite_number(value)
    if number is None:
        return UNKNOWN
    text = f"{number:.1%}"
    if text == "0.0%" and number > 0:
        return "<0.1%"
    if text == "100.0%" and number < 1:
        return ">99.9%"
    return text.removesuffix(".0%") + "%" if text in ("0.0%", "100.0%") else text


def format_count(value: Any) -> str:
    """Format an integer with thousands separators."""
    number = finite_number(value)
    return UNKNOWN if number is None else f"{round(number):,}"


def format_rows(number: int) -> str:
    """Format a number of rows: `1 row`, `2 rows`."""
    return f"{number:,} row{'s' * (number != 1)}"


def format_duration(seconds: Any) -> str:
    """Format a duration in seconds, minutes or hours."""
    number = finite_number(seconds)
    if number is None:
        return UNKNOWN
    if number < 120:
        return f"{number:.2f} s" if number < 1 else f"{number:.1f} s" if number < 10 else f"{number:.0f} s"
    minutes = round(number / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def cost_name(name: str) -> str:
    """Return the display name of a cost."""
    return COST_NAMES.get(name, (name,))[0]


def format_cost(name: str, value: Any) -> Any:
    """Format a cost with its unit; unknown costs are returned unchanged."""
    number = finite_number(value)
    if name not in COST_NAMES or number is None:
        return value
    kind = COST_NAMES[name][1]
    if kind == "milliseconds":
        return f"{number:.1f} ms" if number < 10 else f"{number:,.0f} ms"
    if kind == "megabytes":
        return f"{number:.2f} MB" if number < 10 else f"{number:,.0f} MB"
    return format_duration(number) if kind == "duration" else format_count(number)


def truncate(text: object, max_length: int) -> str:
    """Shorten a text to `max_length` characters; an empty text becomes `(empty)`."""
    string = str(text)
    if not string.strip():
        return "(empty)"
    return string if len(string) <= max_length else string[: max_length - 1].rstrip() + "…"


def escape_lines(text: str) -> str:
    """Escape invisible and bidirectional control characters, except line breaks."""
    return "\n".join(escape_invisible(line) for line in text.split("\n"))


def metric_name(name: str) -> str:
    """Return the display name of a metric."""
    return METRIC_NAMES.get(name) or truncate(name.replace("_", " ").capitalize(), 30)


def part_name(part: str) -> str:
    """Return the name of a part within a sentence: `400 test rows`, `400 given rows`."""
    return "given" if part == "rows" else truncate(part, 30)


def capitalize_first(text: str) -> str:
    """Capitalize the first letter."""
    return text[:1].upper() + text[1:]


def flatten_settings(values: Mapping[str, Any], before: str = "", depth: int = 4) -> Iterator[tuple[str, str]]:
    """Yield the names and formatted values of nested settings."""
    for name, value in values.items():
        full_name = f"{before}{name}"
        if isinstance(value, Mapping) and value and depth:
            yield from flatten_settings(value, f"{full_name} · ", depth - 1)
        else:
            yield full_name, _format_setting(value)


def _format_setting(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if abs(value) < 10_000 else f"{value:,}"
    if isinstance(value, float):
        return _format_float(value)
    if isinstance(value, list | tuple):
        listed = ", ".join(_format_setting(inner) for inner in value[:20]) or "none"
        return f"{listed} and {len(value) - 20:,} more" if len(value) > 20 else listed
    return str(value)


def _format_float(value: float) -> str:
    """Format a setting without rounding it like a metric: 0.1, 5e-5, 1234.5."""
    if not math.isfinite(value):
        return UNKNOWN
    if value and not 0.001 <= abs(value) < 1e7:
        return format_exponent(value, 4)
    return f"{value:,.4f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:,.1f}".removesuffix(".0")
