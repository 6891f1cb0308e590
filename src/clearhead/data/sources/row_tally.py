"""What one source had, counted while its rows stream by."""

from __future__ import annotations

from dataclasses import dataclass, field

from clearhead.data.examples import BadRows
from clearhead.data.sources.source import Source


@dataclass
class RowTally:
    """Rows that cannot be used, those without a label, and all that can be read."""

    source: Source
    bad: BadRows = field(default_factory=BadRows)
    unlabeled: BadRows = field(default_factory=BadRows)
    good: int = 0

    def exclude_unlabeled(self) -> None:
        """A row without a label cannot be used."""
        self.bad.merge(self.unlabeled)
        self.good -= self.unlabeled.total
