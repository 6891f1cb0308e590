"""The report of a run: one HTML file that needs nothing else, runs nothing, and escapes every text.

`page` puts the sections together; the other modules make the values, tables and pictures of one section each, which
the templates write. Other packages bring sections of their own as `Section` values.
"""

from __future__ import annotations

from clearhead.report.annotated_text import marked_text
from clearhead.report.page import ReportData, report_html, save_report
from clearhead.report.sections import Section

__all__ = ["ReportData", "Section", "marked_text", "report_html", "save_report"]
