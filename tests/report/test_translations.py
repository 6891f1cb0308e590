"""What the report tells of a translator: escaped, complete, and honest about what it does not have."""

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


def aligned(source: str, target: str) -> Alignment:
    sources, targets = tuple(source.split()), tuple(target.split())
    weights = np.full((len(targets), len(sources)), 0.1, np.float32)
    for place in range(min(weights.shape)):
        weights[place, place] = 0.7
    return Alignment(
        source_words=sources, target_words=targets, weights=weights, links=link_words(weights), layers=(0,), head=None
    )


def page(count: int = 40) -> str:
    references = [f"word{number} and two more" for number in range(count)]
    said = [one if number % 3 else f"{HOSTILE} else" for number, one in enumerate(references)]
    lengths = [2 + number % 10 for number in range(count)]
    scores = measure_translations(said, references, lengths, n=50)
    sample = TranslationSample(
        row=7,
        source=f"ein {HOSTILE} hund",
        reference=HOSTILE,
        translation="a \u202e dog",
        chrf=3.5,
        aligned=aligned(f"ein {HOSTILE}", "a \u202edog"),
    )
    told = PartTranslations(scores=scores, worst=(sample,), best=(sample,))
    one = Evaluation(task="translate", kind="texts", labels=(), rows=count, main="bleu", metrics=dict(scores.measures))
    facts = [PartFacts(name="train", file=HOSTILE, rows=900, words=(4000, 5000), tokens=(9000, 9000))]
    leaks = ["3 of the test sources are in the training rows"]
    sections = translation_sections({"test": told, "dev": told}, facts, leaks)
    return report_html(ReportData(title=HOSTILE, command="", parts={"test": one, "dev": one}, sections=sections))


def test_everything_is_told() -> None:
    read = Reader(page())
    assert list(read.sections) == [
        "headline",
        "texts",
        "metrics",
        "counted",
        "by-length",
        "worst-translations",
        "best-translations",
    ]
    assert read.said("headline").startswith("BLEU")
    assert "chrF++" in read.said("metrics")
    assert "used to select the epoch" in read.said("metrics")
    assert "thresholds" not in read.said("metrics")
    assert "tok:13a" in read.said("counted")
    assert "2 to 3" in read.said("by-length")
    assert "900" in read.said("texts")
    assert "3 of the test sources" in read.said("texts")
    assert "Results on the dev rows" in read.said("worst-translations")
    assert read.all("table", **{"class": "heat aligned"})
    assert len(read.all("td", **{"class": "r5"})) == 8  # two words, in two cards of two parts


def test_texts_stay_texts() -> None:
    made = page()
    read = Reader(made)
    assert not read.all("script")
    assert HOSTILE in read.said("worst-translations")
    assert "\u202e" not in made
    ids = [own["id"] for _, own in read.tags if own.get("id")]
    assert len(ids) == len(set(ids))


def test_long_texts_keep_their_links_alone() -> None:
    long = " ".join(f"w{number}" for number in range(80))
    assert "<table" not in alignment_table(aligned(long, "a b"))
    assert "a – w0" in alignment_table(aligned(long, "a b"))
    assert alignment_table(aligned("", "a")) == ""


def test_no_alignment_says_why() -> None:
    scores = measure_translations(["a"], ["b"], n=0)
    sample = TranslationSample(row=1, source="s", reference="b", translation="a", chrf=0.0)
    told = PartTranslations(scores=scores, worst=(sample,), unaligned="This model has no attention.")
    sections = {one.id: one.html for one in translation_sections({"rows": told})}
    assert sections.keys() == {"counted", "worst-translations"}
    assert "No alignments are shown: This model has no attention." in sections["worst-translations"]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_few_rows_are_no_trouble(count: int) -> None:
    Reader(page(count))
