"""Write the report of a run: one standalone HTML file without scripts, in which every text is escaped.

`page` assembles the sections; each other module computes the values, tables and pictures of one section for the
templates. Other packages add their own sections as `Section` values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.report.annotated_text import marked_text
    from clearhead.report.bench_picture import speeds_picture
    from clearhead.report.page import ReportData, report_html, save_report
    from clearhead.report.pretraining import PretrainingFacts, pretraining_lead, pretraining_sections
    from clearhead.report.sections import Section
    from clearhead.report.translations import PartFacts, PartTranslations, TranslationSample, translation_sections
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "annotated_text": ("marked_text",),
            "bench_picture": ("speeds_picture",),
            "page": ("ReportData", "report_html", "save_report"),
            "pretraining": ("PretrainingFacts", "pretraining_lead", "pretraining_sections"),
            "sections": ("Section",),
            "translations": ("PartFacts", "PartTranslations", "TranslationSample", "translation_sections"),
        },
    )

__all__ = [
    "PartFacts",
    "PartTranslations",
    "PretrainingFacts",
    "ReportData",
    "Section",
    "TranslationSample",
    "marked_text",
    "pretraining_lead",
    "pretraining_sections",
    "report_html",
    "save_report",
    "speeds_picture",
    "translation_sections",
]
