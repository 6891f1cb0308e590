"""What comparing methods gives: each of them measured on the same rows, and the recommended one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from clearhead.errors import InputError
from clearhead.html import short_repr, write_cell, write_row, write_table
from clearhead.ladder.methods import MethodResult, format_result_cells, summarize_recommendation


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """Methods side by side on the same rows, and the one to take."""

    folder: Path
    task: str
    metric: str  # that they are compared by
    part: str  # test, or dev where there is no test
    rows: int  # of that part
    rungs: tuple[MethodResult, ...]  # from the cheapest on
    margin: float  # how much worse than the best a cheaper method may be, in units of the metric
    recommended: str  # the method
    reason: str
    not_tried: tuple[str, ...]  # methods that are often the best, and were left out
    caveat: str | None  # what to know of them, and of methods that were shortened to fit the budget
    budget_seconds: float
    seconds: float
    report: Path | None = None

    def rung(self, method: str) -> MethodResult:
        """One rung by its method."""
        found = next((rung for rung in self.rungs if rung.method == method), None)
        if found is None:
            raise InputError(f"The ladder has no {method!r}; it has {', '.join(rung.method for rung in self.rungs)}.")
        return found

    def to_json(self) -> dict[str, Any]:
        """What `ladder --json` prints."""
        plain = asdict(self)
        plain |= {"folder": str(self.folder), "report": None if self.report is None else str(self.report)}
        plain["rungs"] = [asdict(rung) for rung in self.rungs]
        return plain

    def __repr__(self) -> str:
        found = summarize_recommendation(self.rungs, self.recommended, self.metric)
        return short_repr("Ladder", self.task, *found, f"{self.rows:,} {self.part} rows", f"folder {self.folder}")

    def _repr_html_(self) -> str:
        columns = ("method", self.metric, "95 % interval", "training", "one text", "size")
        head = [write_cell(escape(column), "col") for column in columns]
        rows = [
            write_row(
                (write_cell(escape(cell)) for cell in format_result_cells(rung)),
                style="font-weight:bold" if rung.method == self.recommended else None,
            )
            for rung in self.rungs
        ]
        caveat = "" if self.caveat is None else f"<p>{escape(self.caveat)}</p>"
        return f"<p>{escape(self.reason)}</p>{caveat}{write_table(rows, head)}"
