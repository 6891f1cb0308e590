"""One HTML file that tells a run: no script, no request, and every text in it escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError
from clearhead.files import atomic_file
from clearhead.report import dataset_tables, formatting, metric_pictures, metric_tables
from clearhead.report.baselines import describe_baselines
from clearhead.report.headline import DEV_MARK, dev_mark, headline, in_order
from clearhead.report.ladder import describe_ladder
from clearhead.report.learning_curves import curves
from clearhead.report.part_views import PER_PART, part_views
from clearhead.report.sections import Section
from clearhead.report.sweep import describe_sweep

if TYPE_CHECKING:
    from clearhead.data import Inspection
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.tasks.examples import PartExamples

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
    baselines: Sequence[Mapping[str, Any]] = ()  # cheap methods on the same rows, as in `Run.to_json()`
    examples: Mapping[str, PartExamples] = field(default_factory=dict)  # rows to look at, by part
    sections: Sequence[Section] = ()  # what others have to tell: a ladder, a sweep
    lead: str = ""  # the result in a sentence, where no part was measured
    machine: Mapping[str, str] = field(default_factory=dict)  # precision, threads, CPU, libraries


def report_html(data: ReportData) -> str:
    """The report as one page that needs nothing else."""
    parts = in_order(data.parts)
    views = part_views(parts, data.examples)
    values = {"page": _frame(data, parts), **_data(data.inspection), **_metrics(parts, views), **_run(data, parts)}
    present = {name: values.get(name) or [view for view in views if view.get(name)] for name in SECTIONS}
    extra_sections = {section.id: section for section in data.sections}
    if len(extra_sections) < len(data.sections) or extra_sections.keys() & {"headline", *SECTIONS}:
        raise InputError(f"Sections of a report need names of their own; there are {', '.join(extra_sections)}.")
    sections = _in_place({name: SECTIONS[name] for name in SECTIONS if present[name]}, data.sections)
    page: str = (
        _environment()
        .get_template("page.html")
        .render(sections=sections, own=extra_sections, views=views, per_part=PER_PART, **values)
    )
    return page


def _in_place(titles: dict[str, str], more: Sequence[Section]) -> dict[str, str]:
    """The sections in their order; one that others brought stands before the one it names, or what comes after that."""
    names = list(SECTIONS)
    ordered: dict[str, str] = {}
    for name in names:
        ordered |= {section.id: formatting.cut(section.title, 60) for section in more if section.before == name}
        if name in titles:
            ordered[name] = titles[name]
    return ordered | {section.id: formatting.cut(section.title, 60) for section in more if section.id not in ordered}


def save_report(data: ReportData, path: Path) -> Path:
    """Write the report; the file is whole or not there."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it.")
    page = report_html(data)
    with atomic_file(path) as file:
        file.write(page.encode())
    return path


SECTIONS = {  # what there is to tell, in its order: the name of its values, and its title
    "ladder": "Which method",
    "data": "The data",
    "curves": "Learning",
    "metrics": "Metrics",
    "baselines": "Baselines",
    "labels": "Labels",
    "confusion": "Confusion",
    "worst": "Worst answers",
    "suspicious": "Suspicious labels",
    "calibration": "Calibration",
    "coverage": "Coverage",
    "slices": "Slices",
    "lengths": "Lengths",
    "seeds": "Seeds",
    "sweep": "Which layer",
    "cost": "Cost",
    "machine": "Machine",
    "settings": "Settings",
    "notes": "Said during the run",
    "command": "Command",
    "passport": "Passport",
}


def _frame(data: ReportData, parts: Mapping[str, Evaluation]) -> dict[str, Any]:
    scored = [line for line in data.log if line.get("score") is not None]
    chose = not scored or any(line.get("best") for line in scored)
    return {
        "title": formatting.cut(data.title, 200),
        "style": _style(),
        "headline": headline(parts, data.inspection) if parts else None,
        "lead": formatting.cut(data.lead, 600) if data.lead else "Nothing was measured in this report.",
        "dev_mark": dev_mark(next(iter(parts.values())).kind, chose_epoch=chose) if parts else DEV_MARK,
    }


def _data(inspection: Inspection | None) -> dict[str, Any]:
    if inspection is None:
        return {"data": None}
    return {
        "data": {
            "found": inspection,
            "roles": dataset_tables.roles(inspection.columns),
            "balance": dataset_tables.balance(inspection),
            "alike": dataset_tables.alike_rows(inspection),
            "estimate": _lines(inspection.estimate or {}),
            "histograms": [
                (what, lengths, metric_pictures.histogram(what, lengths, what))
                for what, lengths in (("tokens", inspection.tokens), ("characters", inspection.characters))
                if lengths is not None
            ],
        }
    }


def _metrics(parts: Mapping[str, Evaluation], views: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not parts:
        return {"metrics": None}
    rows, picture = metric_tables.metric_rows(parts), metric_pictures.whiskers(parts)
    return {"metrics": {"parts": parts, "rows": rows, "picture": picture, "part": views[0]["part"]}}


def _run(data: ReportData, parts: Mapping[str, Evaluation]) -> dict[str, Any]:
    main = next((evaluation.main for evaluation in parts.values()), None)
    metric = None if main is None else formatting.metric_name(main)
    lines = metric_tables.seed_lines(data.seeds)
    return {
        "notes": [formatting.cut(note, 600) for note in data.notes[:MOST_NOTES]],
        "notes_left": max(len(data.notes) - MOST_NOTES, 0),
        "curves": curves(data.log, metric),
        "seeds": {"lines": lines, "each": data.seeds[:MOST_SEEDS], "metric": metric or "score"} if lines else None,
        "sweep": describe_sweep(data.sweep, main),
        "ladder": describe_ladder(data.ladder),
        "baselines": describe_baselines(data.baselines, next(iter(parts.items()), None)),
        "cost": _lines(
            {formatting.COSTS.get(name, (name,))[0]: formatting.cost(name, data.cost[name]) for name in data.cost}
        ),
        "machine": _lines(data.machine),
        "settings": _lines(data.settings),
        "command": formatting.cut(data.command, MOST_COMMAND) if data.command.strip() else "",
        "passport": _passport(data.passport),
    }


def _lines(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = list(formatting.flat(values))
    left = len(pairs) - MOST_LINES
    return [*pairs[:MOST_LINES], *([("…", f"{left:,} more")] if left > 0 else [])]


def _passport(passport: Mapping[str, Any]) -> dict[str, Any] | None:
    if not passport:
        return None
    text = json.dumps(passport, indent=2, ensure_ascii=False, default=str)
    visible_text = formatting.lines(text[:MOST_PASSPORT])[:MOST_PASSPORT]  # escapes make it longer
    return {"text": visible_text, "cut": len(text) > MOST_PASSPORT or len(visible_text) == MOST_PASSPORT}


def _finished(value: Any) -> Any:
    """Every text that a template writes, except what was built as markup: nothing in it hides or turns around."""
    from markupsafe import Markup

    return value if isinstance(value, Markup) else formatting.lines(str(value))


@cache
def _style() -> Any:
    from importlib.resources import files

    from markupsafe import Markup

    return Markup((files("clearhead.report") / "template" / "page.css").read_text("utf-8"))  # noqa: S704


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("clearhead.report", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finished,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "figure": formatting.figure,
        "percent": formatting.percent,
        "count": formatting.count,
        "rows": formatting.rows,
        "cut": formatting.cut,
        "sentence": formatting.sentence,
        "metric": formatting.metric_name,
        "part": formatting.part_name,
        "duration": formatting.duration,
    }
    environment.globals |= {"lower_is_better": formatting.LOWER_IS_BETTER}
    return environment
