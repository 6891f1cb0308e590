"""The result of `ladder`: methods measured on the same rows, and the recommended one."""

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
    """Comparison of methods on the same rows, with a recommendation."""

    folder: Path
    task: str
    metric: str  # used for the comparison
    part: str  # test, or dev where there is no test
    rows: int  # of that part
    rungs: tuple[MethodResult, ...]  # results by method, from the cheapest up
    margin: float  # how much worse than the best the recommended method may be, in units of the metric
    recommended: str  # name of a method
    reason: str
    not_tried: tuple[str, ...]  # often best methods that were left out
    caveat: str | None  # note on these and on methods with reduced epochs
    budget_seconds: float
    seconds: float
    report: Path | None = None

    def rung(self, method: str) -> MethodResult:
        """Return the result of a method."""
        result = next((result for result in self.rungs if result.method == method), None)
        if result is None:
            raise InputError(
                f"The ladder has no result for {method!r}; it has {', '.join(result.method for result in self.rungs)}."
            )
        return result

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `ladder --json` prints."""
        fields = asdict(self)
        fields |= {"folder": str(self.folder), "report": None if self.report is None else str(self.report)}
        fields["rungs"] = [asdict(result) for result in self.rungs]
        return fields

    def __repr__(self) -> str:
        summary = summarize_recommendation(self.rungs, self.recommended, self.metric)
        return short_repr("Ladder", self.task, *summary, f"{self.rows:,} {self.part} rows", f"folder {self.folder}")

    def _repr_html_(self) -> str:
        columns = ("method", self.metric, "95 % interval", "training", "one text", "size")
        header = [write_cell(escape(column), "col") for column in columns]
        rows = [
            write_row(
                (write_cell(escape(cell)) for cell in format_result_cells(result)),
                style="font-weight:bold" if result.method == self.recommended else None,
            )
            for result in self.rungs
        ]
        caveat = "" if self.caveat is None else f"<p>{escape(self.caveat)}</p>"
        return f"<p>{escape(self.reason)}</p>{caveat}{write_table(rows, header)}"
