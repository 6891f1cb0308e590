"""Inspection of reviews before aspect training, as texts with polarity-labeled spans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clearhead.aspects.reviews import to_spans_source
from clearhead.data import Inspection, open_source
from clearhead.progress import Progress, no_progress
from clearhead.tasks.registry import TAG
from clearhead.train.inspection import open_rereadable, run_inspect

TWO_MODELS = "Training was not estimated: aspect trains two models, a tagger and a pair classifier."


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
    """Inspect reviews as rows of the tag task: a text with the span of each aspect."""
    opened = open_rereadable(source, progress)
    column_names = (columns.get("text"), columns.get("text_b"), columns.get("label"))
    spans = to_spans_source(opened, *column_names)
    held_out = [None if rows is None else to_spans_source(open_source(rows), *column_names) for rows in (dev, test)]
    tag_columns = {part: name for part, name in columns.items() if part != "text_b"} if spans is opened else {}
    profile = run_inspect(
        spans,
        dev=held_out[0],
        test=held_out[1],
        columns=tag_columns,
        task=TAG.name,
        options=options,
        model=model,
        estimate=False,
    )
    notes = () if profile.estimate is None else profile.estimate["notes"]
    return replace(profile, estimate={"notes": [*notes, TWO_MODELS]})
