"""Names of labels, columns and files never change the markup of the page."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from clearhead.data import Finding
from clearhead.explain.svg import escape_invisible
from clearhead.report import ReportData, Section, report_html
from clearhead.report.sections import paragraph, table
from clearhead.tasks.examples import LabeledSpan
from tests.report.pages import Reader
from tests.report.samples import HOSTILE, class_evaluation, full_report, make_examples, make_inspection, make_log

TAGS = {
    "a",
    "article",
    "bdi",
    "body",
    "caption",
    "circle",
    "desc",
    "details",
    "div",
    "em",
    "figcaption",
    "figure",
    "h1",
    "h2",
    "h3",
    "head",
    "header",
    "html",
    "li",
    "line",
    "main",
    "mark",
    "meta",
    "nav",
    "ol",
    "p",
    "polygon",
    "polyline",
    "pre",
    "rect",
    "section",
    "small",
    "span",
    "strong",
    "style",
    "summary",
    "svg",
    "table",
    "tbody",
    "td",
    "text",
    "th",
    "thead",
    "title",
    "tr",
    "ul",
}
ATTRIBUTES = {
    "aria-describedby",
    "aria-hidden",
    "aria-label",
    "aria-labelledby",
    "charset",
    "class",
    "content",
    "cx",
    "cy",
    "data-label",
    "dir",
    "height",
    "href",
    "http-equiv",
    "id",
    "lang",
    "name",
    "points",
    "r",
    "role",
    "scope",
    "style",
    "tabindex",
    "text-anchor",
    "title",
    "transform",
    "viewbox",
    "width",
    "x",
    "x1",
    "x2",
    "y",
    "y1",
    "y2",
}


def hostile_report(word: str) -> ReportData:
    """Return a report in which every name is `word` or another hostile text."""
    labels = tuple(dict.fromkeys((word, *HOSTILE)))
    evaluation = class_evaluation(
        200,
        labels=labels,
        slices={word: [labels[n % len(labels)] for n in range(200)], "length in tokens": list(range(200))},
        skipped={word: 3},
        row_numbers=range(1, 201),
    )
    examples = make_examples(evaluation, word, word)
    spans = (
        LabeledSpan(start=0, end=2, label=word, kind="true"),
        LabeledSpan(start=1, end=4, label=word, kind="predicted"),
    )
    first = examples.worst[0]
    tagged = replace(first, selected=replace(first.selected, spans=spans, options=(word, word)))
    inspection = make_inspection(labels)
    hostile_inspection = replace(
        inspection,
        sources=(word, word + "b"),
        messages=(word,),
        columns=replace(inspection.columns, text=word, text_b=word, label=word, id=word, split=word, messages=(word,)),
        bad={word: 2},
        bad_rows=(word,),
        parts={word: 5, "test": 2},
        findings=[*inspection.findings, Finding("error", word)],
        exact=replace(inspection.exact, examples=(((word, 1), (word, 2)),)),
        estimate={word: word},
    )
    return ReportData(
        title=word,
        command=word,
        parts={"test": evaluation, word: evaluation},
        inspection=hostile_inspection,
        log=[*make_log(50), {"step": word, "loss": word}, {"step": 51, "loss": word, "epoch": word}],
        seeds=[{"seed": word, "dev": word, "test": 0.5}, {"seed": word, "test": 0.5}],
        settings={word: {word: [word, 1]}},
        passport={word: [word]},
        notes=(word,),
        cost={word: word},
        examples={"test": replace(examples, worst=(tagged, *examples.worst[1:])), word: examples},
        sections=[Section(id="guests", title=word, html=paragraph(word) + table((word,), [(word,)], label=word))],
    )


@pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
def test_no_markup_comes_from_data(word: str) -> None:
    page = Reader(report_html(hostile_report(word)))
    for tag, attributes in page.tags:
        assert tag in TAGS
        assert set(attributes) <= ATTRIBUTES
        for name, value in attributes.items():
            assert name in ("title", "data-label") or word not in str(value) or (name, value) == ("aria-label", word)
            if name == "href":
                assert re.fullmatch(r"#[a-z]+(-p\d-\d+(-\d+)?|-p\d)?", str(value))
            if name == "style":
                assert re.fullmatch(r"width:\d+\.\d%", str(value))
    visible_word = " ".join(escape_invisible(word[:150]).split())
    text = " ".join(page.text.split())
    # title twice, note, command, columns, settings, cost, passport, ...; JSON escapes quotes and symbols differently
    assert text.count(visible_word[:40]) >= 12


def test_the_page_makes_no_requests() -> None:
    page = report_html(full_report())
    assert "http:" not in page
    assert "https:" not in page
    assert "url(" not in page
    assert "@import" not in page
    policy = Reader(page).all("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
    assert str(policy).startswith("default-src 'none'; style-src 'unsafe-inline';")


@pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
def test_every_page_can_be_written_as_utf8(word: str) -> None:
    page = report_html(hostile_report(word))
    page.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", page)


@pytest.mark.parametrize("character", ["<", '"', "\u202e", "🧐", "x", " "])
def test_endless_names_do_not_make_an_endless_page(character: str) -> None:
    labels = tuple(f"{number}{character * 20_000}" for number in range(40))
    evaluation = class_evaluation(400, labels=labels, slices={labels[0]: [labels[n % 40] for n in range(400)]})
    data = replace(
        hostile_report(character * 20_000),
        parts={"test": evaluation, "dev": evaluation},
        settings={f"{n}{character * 1000}": character * 10_000 for n in range(1000)},
        notes=[character * 10_000] * 200,
        passport={"labels": list(labels)},
    )
    assert len(report_html(data).encode()) < 1_500_000


def test_lines_of_a_command_stay_lines() -> None:
    page = report_html(full_report(command="clearhead train \\\n  data.csv --label 'a b' | tee \"log\""))
    assert "clearhead train \\\n  data.csv --label 'a b' | tee \"log\"" in Reader(page).sections["command"]
