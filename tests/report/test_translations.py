"""The report of a translation model is complete, escaped, and states what is missing."""

from __future__ import annotations

import numpy as np
import pytest

from clearhead.metrics.translation import measure_translations
from clearhead.model.alignment import Alignment, link_words
from clearhead.report.page import ReportData, report_html
from clearhead.report.translations import (
    PartFacts,
    PartTranslations,
    TranslationSample,
    alignment_table,
    translation_sections,
)
from clearhead.tasks.evaluation import Evaluation
from tests.report.pages import Reader

HOSTILE = '<script>alert("x")</script>'


def make_alignment(source: str, target: str) -> Alignment:
    sources, targets = tuple(source.split()), tuple(target.split())
    weights = np.full((len(targets), len(sources)), 0.1, np.float32)
    for word_index in range(min(weights.shape)):
        weights[word_index, word_index] = 0.7
    return Alignment(
        source_words=sources, target_words=targets, weights=weights, links=link_words(weights), layers=(0,), head=None
    )


def make_page(count: int = 40) -> str:
    references = [f"word{number} and two more" for number in range(count)]
    translations = [reference if number % 3 else f"{HOSTILE} else" for number, reference in enumerate(references)]
    lengths = [2 + number % 10 for number in range(count)]
    scores = measure_translations(translations, references, lengths, n=50)
    sample = TranslationSample(
        row=7,
        source=f"ein {HOSTILE} hund",
        reference=HOSTILE,
        translation="a \u202e dog",
        chrf=3.5,
        aligned=make_alignment(f"ein {HOSTILE}", "a \u202edog"),
    )
    part_translations = PartTranslations(scores=scores, worst=(sample,), best=(sample,))
    reference = Evaluation(
        task="translate", kind="texts", labels=(), rows=count, main="bleu", metrics=dict(scores.measures)
    )
    facts = [PartFacts(name="train", file=HOSTILE, rows=900, words=(4000, 5000), tokens=(9000, 9000))]
    leaks = ["3 of the test sources are in the training rows"]
    sections = translation_sections({"test": part_translations, "dev": part_translations}, facts, leaks)
    return report_html(
        ReportData(title=HOSTILE, command="", parts={"test": reference, "dev": reference}, sections=sections)
    )


def test_every_section_is_present() -> None:
    page = Reader(make_page())
    assert list(page.sections) == [
        "headline",
        "texts",
        "metrics",
        "counted",
        "by-length",
        "worst-translations",
        "best-translations",
    ]
    assert page.section_text("headline").startswith("BLEU")
    assert "chrF++" in page.section_text("metrics")
    assert "used to select the epoch" in page.section_text("metrics")
    assert "thresholds" not in page.section_text("metrics")
    assert "tok:13a" in page.section_text("counted")
    assert "2 to 3" in page.section_text("by-length")
    assert "900" in page.section_text("texts")
    assert "3 of the test sources" in page.section_text("texts")
    assert "Results on the dev rows" in page.section_text("worst-translations")
    assert page.all("table", **{"class": "heat aligned"})
    assert len(page.all("td", **{"class": "r5"})) == 8  # two words, in two cards of two parts


def test_texts_stay_texts() -> None:
    html = make_page()
    page = Reader(html)
    assert not page.all("script")
    assert HOSTILE in page.section_text("worst-translations")
    assert "\u202e" not in html
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))


def test_long_texts_list_their_links_only() -> None:
    long = " ".join(f"w{number}" for number in range(80))
    assert "<table" not in alignment_table(make_alignment(long, "a b"))
    assert "a – w0" in alignment_table(make_alignment(long, "a b"))
    assert alignment_table(make_alignment("", "a")) == ""


def test_no_alignment_says_why() -> None:
    scores = measure_translations(["a"], ["b"], n=0)
    sample = TranslationSample(row=1, source="s", reference="b", translation="a", chrf=0.0)
    part_translations = PartTranslations(scores=scores, worst=(sample,), unaligned="This model has no attention.")
    sections = {section.id: section.html for section in translation_sections({"rows": part_translations})}
    assert sections.keys() == {"counted", "worst-translations"}
    assert "No alignments are shown: This model has no attention." in sections["worst-translations"]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_few_rows_are_supported(count: int) -> None:
    Reader(make_page(count))
