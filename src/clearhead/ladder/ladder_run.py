"""What the steps of a ladder share while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clearhead.data import Source
from clearhead.jobs.events import RunEvents
from clearhead.jobs.prepare import PartRows, PreparedData
from clearhead.ladder.budget import Budget


@dataclass(frozen=True, kw_only=True)
class LadderRun:
    """What is needed to train, measure and compare a method."""

    sources: Mapping[str, Source]
    prepared: PreparedData
    part: str  # the part that methods are compared on
    metric: str
    folder: Path
    command: str
    budget: Budget
    margin: float | None  # None: that of the metric
    missing_model_reason: str | None  # why no pretrained model is available
    allow_different_cpu: bool  # resume runs that were started on another CPU
    events: RunEvents

    @property
    def rows(self) -> PartRows:
        """Rows of the part that methods are compared on."""
        return self.prepared.parts[self.part]
