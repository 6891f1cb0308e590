"""What one source had, counted while its rows stream by."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from clearhead.data.examples import BadRows
from clearhead.data.source import Source


@dataclass
class SourceRows:
    """Rows that cannot be used, those without a label, and all that can be read."""

    source: Source
    bad: BadRows = field(default_factory=BadRows)
    blank: BadRows = field(default_factory=BadRows)
    blanks: Counter[str] = field(default_factory=Counter)  # by part
    good: int = 0

    def settle(self, *, several: bool) -> None:
        """A row without a label cannot be used, unless rows can have several: then none is an answer, too."""
        if several:
            self.blanks.clear()
        else:
            self.bad.merge(self.blank)
            self.good -= self.blank.total
