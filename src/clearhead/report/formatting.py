"""Numbers and names as people read them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

from clearhead.explain.svg import escape_invisible, format_exponent, typeset_minus

UNKNOWN = "–"  # a figure that is not defined on these rows
LARGEST = 1e30  # beyond it a number is a fault, and no picture can show it
NAMES = {
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
    "subset_accuracy": "Rows exactly right",
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
COSTS = {  # what a run and a model take: the name for people, and how the figure is written
    "seconds": ("The whole run", "duration"),
    "training seconds": ("Learning alone", "duration"),
    "tokens per second": ("Tokens per second", "count"),
    "peak memory MB": ("Most memory", "megabytes"),
    "latency of one text ms": ("One text alone, median", "milliseconds"),
    "size on disk MB": ("The model on disk", "megabytes"),
}
LOWER_IS_BETTER = frozenset({"log_loss", "mse", "mae"})


def known(value: Any) -> float | None:
    """A number that can be shown, or None."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond all floats
        return None
    return number if abs(number) < LARGEST else None


def figure(value: Any) -> str:
    """A number with about three digits that matter; what is almost 1 is not called 1."""
    number = known(value)
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


def interval_text(low: Any, high: Any, unknown: str = "") -> str:
    """An interval as `0.880 to 0.940`; `unknown` where it has no ends."""
    return unknown if known(low) is None or known(high) is None else f"{figure(low)} to {figure(high)}"


def percent(value: Any) -> str:
    """A share as a percentage; neither nothing nor everything is said of what is only nearly so."""
    number = known(value)
    if number is None:
        return UNKNOWN
    text = f"{number:.1%}"
    if text == "0.0%" and number > 0:
        return "<0.1%"
    if text == "100.0%" and number < 1:
        return ">99.9%"
    return text.removesuffix(".0%") + "%" if text in ("0.0%", "100.0%") else text


def count(value: Any) -> str:
    """A whole number with its thousands set apart."""
    number = known(value)
    return UNKNOWN if number is None else f"{round(number):,}"


def rows(number: int) -> str:
    """1 row, 2 rows."""
    return f"{number:,} row{'s' * (number != 1)}"


def duration(seconds: Any) -> str:
    """Seconds as people say them."""
    number = known(seconds)
    if number is None:
        return UNKNOWN
    if number < 120:
        return f"{number:.2f} s" if number < 1 else f"{number:.1f} s" if number < 10 else f"{number:.0f} s"
    minutes = round(number / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def cost_name(name: str) -> str:
    """What a cost is called."""
    return COSTS.get(name, (name,))[0]


def cost(name: str, value: Any) -> Any:
    """A cost with its unit; what is not known by name stays as it is."""
    number = known(value)
    if name not in COSTS or number is None:
        return value
    kind = COSTS[name][1]
    if kind == "milliseconds":
        return f"{number:.1f} ms" if number < 10 else f"{number:,.0f} ms"
    if kind == "megabytes":
        return f"{number:.2f} MB" if number < 10 else f"{number:,.0f} MB"
    return duration(number) if kind == "duration" else count(number)


def cut(text: object, most: int) -> str:
    """The beginning of a text that may be very long; an empty one is said to be so."""
    plain = str(text)
    if not plain.strip():
        return "(empty)"
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "…"


def lines(text: str) -> str:
    """A text in which nothing hides and nothing turns its surroundings around; its lines stay lines."""
    return "\n".join(escape_invisible(line) for line in text.split("\n"))


def metric_name(name: str) -> str:
    """What a metric is called."""
    return NAMES.get(name) or cut(name.replace("_", " ").capitalize(), 30)


def part_name(part: str) -> str:
    """Which rows a part is, in the middle of a sentence: `400 test rows`, `400 given rows`."""
    return "given" if part == "rows" else cut(part, 30)


def sentence(text: str) -> str:
    """A remark with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def flat(values: Mapping[str, Any], before: str = "", depth: int = 4) -> Iterator[tuple[str, str]]:
    """Names and values of settings within settings, each on a line of its own."""
    for name, value in values.items():
        full_name = f"{before}{name}"
        if isinstance(value, Mapping) and value and depth:
            yield from flat(value, f"{full_name} · ", depth - 1)
        else:
            yield full_name, _plain(value)


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if abs(value) < 10_000 else f"{value:,}"
    if isinstance(value, float):
        return _short(value)
    if isinstance(value, list | tuple):
        listed = ", ".join(_plain(inner) for inner in value[:20]) or "none"
        return f"{listed} and {len(value) - 20:,} more" if len(value) > 20 else listed
    return str(value)


def _short(value: float) -> str:
    """A setting as it was given, not rounded to a metric's digits: 0.1, 5e-5, 1234.5."""
    if not math.isfinite(value):
        return UNKNOWN
    if value and not 0.001 <= abs(value) < 1e7:
        return format_exponent(value, 4)
    return f"{value:,.4f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:,.1f}".removesuffix(".0")
