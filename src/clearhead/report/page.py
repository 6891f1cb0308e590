"""One HTML file that tells a run: no script, no request, and every text in it escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.config import whole_file
from clearhead.errors import InputError
from clearhead.report import comparisons, inspected, pictures, results, words
from clearhead.report.curves import curves
from clearhead.report.headline import DEV_MARK, headline, in_order

if TYPE_CHECKING:
    from clearhead.data import Inspection
    from clearhead.tasks.evaluation import Evaluation

MOST_PASSPORT = 60_000  # characters; the model folder has all of it
MOST_COMMAND = 20_000
MOST_LINES = 100  # of settings
MOST_NOTES = 30
MOST_SEEDS = 100


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """All that a report can tell; what is empty is left out."""

    title: str
    command: str
    parts: dict[str, Evaluation]  # test and dev, or "rows" where somebody else's rows are measured
    inspection: Inspection | None = None
    log: Sequence[Mapping[str, Any]] = ()  # of steps, as in log.jsonl
    seeds: Sequence[Mapping[str, Any]] = ()  # {"seed": 0, "dev": 0.9, "test": 0.9}, the main metric
    settings: Mapping[str, Any] = field(default_factory=dict)
    passport: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()  # sentences said during the run
    cost: Mapping[str, Any] = field(default_factory=dict)
    sweep: Sequence[Mapping[str, Any]] = ()  # {"layer": "last", "pooling": "mean", "score": 0.9, "spread": 0.01}
    ladder: Mapping[str, Any] | None = None  # as in ladder.json


def report_html(data: ReportData) -> str:
    """The report as one page that needs nothing else."""
    parts = in_order(data.parts)
    seen = {"page": _frame(data, parts), **_data(data.inspection), **_measured(parts), **_run(data, parts)}
    sections = {name: title for name, title in SECTIONS.items() if _has(seen, name)}
    page: str = _environment().get_template("page.html").render(sections=sections, **seen)
    return page


def save_report(data: ReportData, path: Path) -> Path:
    """Write the report; the file is whole or not there."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it.")
    page = report_html(data)
    with whole_file(path) as file:
        file.write(page.encode())
    return path


SECTIONS = {  # what there is to tell, in its order: the name of its values, and its title
    "ladder": "Which method",
    "notes": "Said during the run",
    "data": "The data",
    "curves": "Learning",
    "metrics": "Metrics",
    "labels": "Labels",
    "confusion": "Confusion",
    "calibration": "Calibration",
    "coverage": "Coverage",
    "slices": "Slices",
    "seeds": "Seeds",
    "sweep": "Which layer",
    "cost": "Cost",
    "settings": "Settings",
    "command": "Command",
    "passport": "Passport",
}


def _has(seen: Mapping[str, Any], name: str) -> bool:
    return bool(seen[name])


def _frame(data: ReportData, parts: Mapping[str, Evaluation]) -> dict[str, Any]:
    return {
        "title": words.cut(data.title, 200),
        "style": _style(),
        "headline": headline(parts, data.inspection) if parts else None,
        "dev_mark": DEV_MARK,
    }


def _data(found: Inspection | None) -> dict[str, Any]:
    if found is None:
        return {"data": None}
    return {
        "data": {
            "found": found,
            "roles": inspected.roles(found.columns),
            "balance": inspected.balance(found),
            "alike": inspected.alike_rows(found),
            "estimate": _lines(found.estimate or {}),
            "histograms": [
                (what, lengths, pictures.histogram(what, lengths, what))
                for what, lengths in (("tokens", found.tokens), ("characters", found.characters))
                if lengths is not None
            ],
        }
    }


def _measured(parts: Mapping[str, Evaluation]) -> dict[str, Any]:
    """The values of the sections on quality; details are those of the first part."""
    names = ("metrics", "labels", "confusion", "calibration", "coverage", "slices")
    if not parts:
        return {"part": None, **dict.fromkeys(names)}
    part, one = next(iter(parts.items()))
    right = "rows exactly right" if one.kind == "multilabel" else "accuracy"
    pairs = results.confused(one)
    made: dict[str, Any] = {
        "part": {"name": part, "rows": _rows_of(part), "one": one, "right": right},
        "metrics": {"parts": parts, "rows": results.metric_rows(parts), "picture": pictures.whiskers(parts)},
        "labels": results.label_rows(one),
        "confusion": {"matrix": results.matrix(one), "pairs": pairs} if one.confusion is not None else None,
        "calibration": _calibration(one),
        "coverage": None,
        "slices": one.slices[: results.MOST_SLICES],
    }
    if one.coverage:
        made["coverage"] = {"picture": pictures.coverage(one.coverage, right), "points": results.covered(one.coverage)}
    return made


def _rows_of(part: str) -> str:
    """Which rows a section tells of; dev rows never without a warning."""
    return f"the {words.part_name(part)} rows" + (f" ({DEV_MARK})" if part == "dev" else "")


def _calibration(one: Evaluation) -> list[dict[str, Any]]:
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
            "picture": pictures.reliability(f"reliability-{when}", f"Reliability {when} scaling", bins, error),
        }
        for when, bins, error in (turns[:1] if found.temperature == 1 else turns)
    ]


def _run(data: ReportData, parts: Mapping[str, Evaluation]) -> dict[str, Any]:
    main = next((one.main for one in parts.values()), None)
    metric = None if main is None else words.metric_name(main)
    lines = results.seed_lines(data.seeds)
    return {
        "notes": [words.cut(note, 600) for note in data.notes[:MOST_NOTES]],
        "notes_left": max(len(data.notes) - MOST_NOTES, 0),
        "curves": curves(data.log, metric),
        "seeds": {"lines": lines, "each": data.seeds[:MOST_SEEDS], "metric": metric or "score"} if lines else None,
        "sweep": comparisons.sweep(data.sweep, main),
        "ladder": comparisons.ladder(data.ladder),
        "cost": _lines(data.cost),
        "settings": _lines(data.settings),
        "command": words.cut(data.command, MOST_COMMAND) if data.command.strip() else "",
        "passport": _passport(data.passport),
    }


def _lines(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = list(words.flat(values))
    left = len(found) - MOST_LINES
    return [*found[:MOST_LINES], *([("…", f"{left:,} more")] if left > 0 else [])]


def _passport(passport: Mapping[str, Any]) -> dict[str, Any] | None:
    if not passport:
        return None
    text = json.dumps(passport, indent=2, ensure_ascii=False, default=str)
    shown = words.lines(text[:MOST_PASSPORT])[:MOST_PASSPORT]  # escapes make it longer
    return {"text": shown, "cut": len(text) > MOST_PASSPORT or len(shown) == MOST_PASSPORT}


def _finished(value: Any) -> Any:
    """Every text that a template writes, except what was built as markup: nothing in it hides or turns around."""
    from markupsafe import Markup

    return value if isinstance(value, Markup) else words.lines(str(value))


@cache
def _style() -> Any:
    from importlib.resources import files

    from markupsafe import Markup

    return Markup((files("clearhead.report") / "template" / "page.css").read_text("utf-8"))  # noqa: S704


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("clearhead.report", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finished,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "figure": words.figure,
        "percent": words.percent,
        "count": words.count,
        "rows": words.rows,
        "cut": words.cut,
        "sentence": words.sentence,
        "metric": words.metric_name,
        "part": words.part_name,
        "duration": words.duration,
    }
    made.globals |= {"lower_is_better": words.LOWER_IS_BETTER}
    return made
