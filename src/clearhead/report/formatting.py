"""Numbers and names as people read them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any

from clearhead.explain.svg import exponent, typeset_minus, visible

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
        found = float(value)
    except OverflowError:  # a whole number beyond all floats
        return None
    return found if abs(found) < LARGEST else None


def figure(value: Any) -> str:
    """A number with about three digits that matter; what is almost 1 is not called 1."""
    found = known(value)
    if found is None:
        return UNKNOWN
    size = abs(found)
    if size == 0 or 0.001 <= size < 10:
        text = f"{found:.3f}"
        text = ">0.999" if text == "1.000" and found < 1 else text
    elif size < 0.001 or size >= 1e7:
        text = exponent(found)
    else:
        text = f"{found:,.{2 if size < 100 else 1 if size < 1000 else 0}f}"
    return typeset_minus(text)


def interval_text(low: Any, high: Any, unknown: str = "") -> str:
    """An interval as `0.880 to 0.940`; `unknown` where it has no ends."""
    return unknown if known(low) is None or known(high) is None else f"{figure(low)} to {figure(high)}"


def percent(value: Any) -> str:
    """A share as a percentage; neither nothing nor everything is said of what is only nearly so."""
    found = known(value)
    if found is None:
        return UNKNOWN
    text = f"{found:.1%}"
    if text == "0.0%" and found > 0:
        return "<0.1%"
    if text == "100.0%" and found < 1:
        return ">99.9%"
    return text.removesuffix(".0%") + "%" if text in ("0.0%", "100.0%") else text


def count(value: Any) -> str:
    """A whole number with its thousands set apart."""
    found = known(value)
    return UNKNOWN if found is None else f"{round(found):,}"


def rows(number: int) -> str:
    """1 row, 2 rows."""
    return f"{number:,} row{'s' * (number != 1)}"


def duration(seconds: Any) -> str:
    """Seconds as people say them."""
    found = known(seconds)
    if found is None:
        return UNKNOWN
    if found < 120:
        return f"{found:.2f} s" if found < 1 else f"{found:.1f} s" if found < 10 else f"{found:.0f} s"
    minutes = round(found / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def cost_name(name: str) -> str:
    """What a cost is called."""
    return COSTS.get(name, (name,))[0]


def cost(name: str, value: Any) -> Any:
    """A cost with its unit; what is not known by name stays as it is."""
    found = known(value)
    if name not in COSTS or found is None:
        return value
    kind = COSTS[name][1]
    if kind == "milliseconds":
        return f"{found:.1f} ms" if found < 10 else f"{found:,.0f} ms"
    if kind == "megabytes":
        return f"{found:.2f} MB" if found < 10 else f"{found:,.0f} MB"
    return duration(found) if kind == "duration" else count(found)


def cut(text: object, most: int) -> str:
    """The beginning of a text that may be very long; an empty one is said to be so."""
    plain = str(text)
    if not plain.strip():
        return "(empty)"
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "…"


def lines(text: str) -> str:
    """A text in which nothing hides and nothing turns its surroundings around; its lines stay lines."""
    return "\n".join(visible(line) for line in text.split("\n"))


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
        whole = f"{before}{name}"
        if isinstance(value, Mapping) and value and depth:
            yield from flat(value, f"{whole} · ", depth - 1)
        else:
            yield whole, _plain(value)


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
        shown = ", ".join(_plain(inner) for inner in value[:20]) or "none"
        return f"{shown} and {len(value) - 20:,} more" if len(value) > 20 else shown
    return str(value)


def _short(value: float) -> str:
    """A setting as it was given, not rounded to a metric's digits: 0.1, 5e-5, 1234.5."""
    if not math.isfinite(value):
        return UNKNOWN
    if value and not 0.001 <= abs(value) < 1e7:
        return exponent(value, 4)
    return f"{value:,.4f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:,.1f}".removesuffix(".0")
