"""Inspection of reviews before aspect training: texts with spans, whose labels are polarities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clearhead.aspects.reviews import spans_source
from clearhead.data import Inspection, open_source
from clearhead.progress import Progress, no_progress
from clearhead.tasks.registry import TAG
from clearhead.train.inspection import open_rereadable, run_inspect

TWO_MODELS = "Training was not tried out: aspect trains two models, a tag and a pair."


def inspect_reviews(
    source: Any,
    *,
    dev: Any = None,
    test: Any = None,
    columns: Mapping[str, str | None],
    options: str | None = None,
    model: str | None = "default",
    progress: Progress = no_progress,
) -> Inspection:
    """Inspect reviews as the tag task sees them: a text with the span of each aspect."""
    opened = open_rereadable(source, progress)
    names = (columns.get("text"), columns.get("text_b"), columns.get("label"))
    spans = spans_source(opened, *names)
    others = [None if rows is None else spans_source(open_source(rows), *names) for rows in (dev, test)]
    kept = {part: name for part, name in columns.items() if part != "text_b"} if spans is opened else {}
    profile = run_inspect(
        spans, dev=others[0], test=others[1], columns=kept, task=TAG.name, options=options, model=model, estimate=False
    )
    notes = () if profile.estimate is None else profile.estimate["notes"]
    return replace(profile, estimate={"notes": [*notes, TWO_MODELS]})
