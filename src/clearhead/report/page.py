"""Render the report of a run as one HTML file without scripts or requests; every text is escaped."""

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
from clearhead.report.headline import DEV_USE, describe_dev_use, make_headline, order_parts
from clearhead.report.ladder import describe_ladder
from clearhead.report.learning_curves import draw_curves
from clearhead.report.part_views import PER_PART, part_views
from clearhead.report.sections import Section
from clearhead.report.sweep import describe_sweep

if TYPE_CHECKING:
    from clearhead.data import Inspection
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.tasks.examples import PartExamples

MAX_PASSPORT_CHARACTERS = 60_000  # the model folder has the full passport
MAX_COMMAND_CHARACTERS = 20_000
MAX_SETTINGS = 100  # lines of settings
MAX_NOTES = 30
MAX_SEEDS = 100


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """The contents of a report; empty sections are left out."""

    title: str
    command: str
    parts: dict[str, Evaluation]  # test and dev, or "rows" for rows of unknown origin
    inspection: Inspection | None = None
    log: Sequence[Mapping[str, Any]] = ()  # of steps, as in log.jsonl
    seeds: Sequence[Mapping[str, Any]] = ()  # {"seed": 0, "dev": 0.9, "test": 0.9}, the main metric
    settings: Mapping[str, Any] = field(default_factory=dict)
    passport: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()  # messages of the run
    cost: Mapping[str, Any] = field(default_factory=dict)
    sweep: Sequence[Mapping[str, Any]] = ()  # {"layer": "last", "pooling": "mean", "score": 0.9, "spread": 0.01}
    ladder: Mapping[str, Any] | None = None  # as in ladder.json
    baselines: Sequence[Mapping[str, Any]] = ()  # on the same rows, as in `Run.to_json()`
    examples: Mapping[str, PartExamples] = field(default_factory=dict)  # by part
    sections: Sequence[Section] = ()  # of other packages
    lead: str = ""  # result in one sentence, if no part was evaluated
    machine: Mapping[str, str] = field(default_factory=dict)  # precision, threads, CPU, libraries


def report_html(data: ReportData) -> str:
    """Render the report as a standalone page."""
    parts = order_parts(data.parts)
    views = part_views(parts, data.examples)
    values = {
        "page": _page_values(data, parts),
        **_data_values(data.inspection),
        **_metric_values(parts, views),
        **_run_values(data, parts),
    }
    present = {name: values.get(name) or [view for view in views if view.get(name)] for name in SECTIONS}
    extra_sections = {section.id: section for section in data.sections}
    if len(extra_sections) < len(data.sections) or extra_sections.keys() & {"headline", *SECTIONS}:
        raise InputError(
            f"Report sections must have unique ids that are not built in, got {', '.join(extra_sections)}."
        )
    sections = _order_sections({name: SECTIONS[name] for name in SECTIONS if present[name]}, data.sections)
    page: str = (
        _make_environment()
        .get_template("page.html")
        .render(sections=sections, extra_sections=extra_sections, views=views, per_part=PER_PART, **values)
    )
    return page


def _order_sections(titles: dict[str, str], extra_sections: Sequence[Section]) -> dict[str, str]:
    """Order the sections; an extra section precedes the section that its `before` names."""
    names = list(SECTIONS)
    ordered: dict[str, str] = {}
    for name in names:
        ordered |= {
            section.id: formatting.truncate(section.title, 60) for section in extra_sections if section.before == name
        }
        if name in titles:
            ordered[name] = titles[name]
    return ordered | {
        section.id: formatting.truncate(section.title, 60) for section in extra_sections if section.id not in ordered
    }


def save_report(data: ReportData, path: Path) -> Path:
    """Write the report atomically."""
    if path.is_dir():
        raise InputError(f"Report path {path} is a folder; pass a file name.")
    page = report_html(data)
    with atomic_file(path) as file:
        file.write(page.encode())
    return path


SECTIONS = {  # name of the template values -> title, in order
    "ladder": "Method comparison",
    "data": "Dataset",
    "curves": "Training",
    "metrics": "Metrics",
    "baselines": "Baselines",
    "labels": "Labels",
    "confusion": "Confusion matrix",
    "worst": "Worst predictions",
    "suspicious": "Suspicious labels",
    "calibration": "Calibration",
    "coverage": "Coverage",
    "slices": "Slices",
    "lengths": "Text lengths",
    "seeds": "Seeds",
    "sweep": "Layer selection",
    "cost": "Cost",
    "machine": "Machine",
    "settings": "Settings",
    "notes": "Notes",
    "command": "Command",
    "passport": "Passport",
}


def _page_values(data: ReportData, parts: Mapping[str, Evaluation]) -> dict[str, Any]:
    scored = [line for line in data.log if line.get("score") is not None]
    chose = not scored or any(line.get("best") for line in scored)
    return {
        "title": formatting.truncate(data.title, 200),
        "style": _read_style(),
        "headline": make_headline(parts, data.inspection) if parts else None,
        "lead": formatting.truncate(data.lead, 600) if data.lead else "No evaluation results.",
        "dev_use": describe_dev_use(next(iter(parts.values())).kind, chose_epoch=chose) if parts else DEV_USE,
    }


def _data_values(inspection: Inspection | None) -> dict[str, Any]:
    if inspection is None:
        return {"data": None}
    return {
        "data": {
            "inspection": inspection,
            "roles": dataset_tables.list_roles(inspection.columns),
            "label_bars": dataset_tables.list_label_bars(inspection),
            "duplicates": dataset_tables.list_duplicates(inspection),
            "estimate": _setting_lines(inspection.estimate or {}),
            "histograms": [
                (unit, lengths, metric_pictures.draw_histogram(unit, lengths, unit))
                for unit, lengths in (("tokens", inspection.tokens), ("characters", inspection.characters))
                if lengths is not None
            ],
        }
    }


def _metric_values(parts: Mapping[str, Evaluation], views: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not parts:
        return {"metrics": None}
    rows, picture = metric_tables.list_metrics(parts), metric_pictures.draw_intervals(parts)
    return {"metrics": {"parts": parts, "rows": rows, "picture": picture, "part": views[0]["part"]}}


def _run_values(data: ReportData, parts: Mapping[str, Evaluation]) -> dict[str, Any]:
    main = next((evaluation.main for evaluation in parts.values()), None)
    metric = None if main is None else formatting.metric_name(main)
    lines = metric_tables.summarize_seeds(data.seeds)
    return {
        "notes": [formatting.truncate(note, 600) for note in data.notes[:MAX_NOTES]],
        "notes_left": max(len(data.notes) - MAX_NOTES, 0),
        "curves": draw_curves(data.log, metric),
        "seeds": {"lines": lines, "runs": data.seeds[:MAX_SEEDS], "metric": metric or "score"} if lines else None,
        "sweep": describe_sweep(data.sweep, main),
        "ladder": describe_ladder(data.ladder),
        "baselines": describe_baselines(data.baselines, next(iter(parts.items()), None)),
        "cost": _setting_lines(
            {
                formatting.COST_NAMES.get(name, (name,))[0]: formatting.format_cost(name, data.cost[name])
                for name in data.cost
            }
        ),
        "machine": _setting_lines(data.machine),
        "settings": _setting_lines(data.settings),
        "command": formatting.truncate(data.command, MAX_COMMAND_CHARACTERS) if data.command.strip() else "",
        "passport": _passport_values(data.passport),
    }


def _setting_lines(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = list(formatting.flatten_settings(values))
    left = len(pairs) - MAX_SETTINGS
    return [*pairs[:MAX_SETTINGS], *([("…", f"{left:,} more")] if left > 0 else [])]


def _passport_values(passport: Mapping[str, Any]) -> dict[str, Any] | None:
    if not passport:
        return None
    text = json.dumps(passport, indent=2, ensure_ascii=False, default=str)
    visible_text = formatting.escape_lines(text[:MAX_PASSPORT_CHARACTERS])[
        :MAX_PASSPORT_CHARACTERS
    ]  # escapes make it longer
    return {
        "text": visible_text,
        "cut": len(text) > MAX_PASSPORT_CHARACTERS or len(visible_text) == MAX_PASSPORT_CHARACTERS,
    }


def _escape_output(value: Any) -> Any:
    """Escape invisible characters in every template output except markup."""
    from markupsafe import Markup

    return value if isinstance(value, Markup) else formatting.escape_lines(str(value))


@cache
def _read_style() -> Any:
    from importlib.resources import files

    from markupsafe import Markup

    return Markup((files("clearhead.report") / "template" / "page.css").read_text("utf-8"))  # noqa: S704


@cache
def _make_environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("clearhead.report", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_escape_output,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "figure": formatting.format_figure,
        "percent": formatting.format_percent,
        "count": formatting.format_count,
        "rows": formatting.format_rows,
        "cut": formatting.truncate,
        "sentence": formatting.capitalize_first,
        "metric": formatting.metric_name,
        "part": formatting.part_name,
        "duration": formatting.format_duration,
    }
    environment.globals |= {"lower_is_better": formatting.LOWER_IS_BETTER}
    return environment
