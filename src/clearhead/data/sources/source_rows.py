"""What one source had, counted while its rows stream by."""

from __future__ import annotations

from dataclasses import dataclass, field

from clearhead.data.examples import BadRows
from clearhead.data.sources.source import Source


@dataclass
class SourceRows:
    """Rows that cannot be used, those without a label, and all that can be read."""

    source: Source
    bad: BadRows = field(default_factory=BadRows)
    blank: BadRows = field(default_factory=BadRows)
    good: int = 0

    def leave_out_blank(self) -> None:
        """A row without a label cannot be used."""
        self.bad.merge(self.blank)
        self.good -= self.blank.total
