"""The one-file report of a run."""

from __future__ import annotations

from clearhead.report.page import ReportData, report_html, save_report

__all__ = ["ReportData", "report_html", "save_report"]
