"""Counts of usable, bad and unlabeled rows of a source."""

from __future__ import annotations

from dataclasses import dataclass, field

from clearhead.data.examples import BadRows
from clearhead.data.sources.source import Source


@dataclass
class RowTally:
    """Counts the usable, bad and unlabeled rows of a source."""

    source: Source
    bad: BadRows = field(default_factory=BadRows)
    unlabeled: BadRows = field(default_factory=BadRows)
    good: int = 0

    def exclude_unlabeled(self) -> None:
        """Count rows without a label as bad rows."""
        self.bad.merge(self.unlabeled)
        self.good -= self.unlabeled.total
