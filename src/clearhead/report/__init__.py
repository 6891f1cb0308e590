"""The one-file report of a run."""

from __future__ import annotations

from clearhead.report.annotated_text import marked_text
from clearhead.report.page import ReportData, report_html, save_report
from clearhead.report.sections import Section

__all__ = ["ReportData", "Section", "marked_text", "report_html", "save_report"]
