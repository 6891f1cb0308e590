"""Annotations never change the visible text, whatever they overlap and whatever it contains."""

from __future__ import annotations

import re
from html import unescape

from hypothesis import given
from hypothesis import strategies as st

from clearhead.report.annotated_text import cut_excerpt, marked_text, name_important_words, shade_text
from clearhead.report.formatting import escape_lines
from clearhead.tasks.examples import LabeledSpan, WordImportance
from tests.report.samples import HOSTILE

TEXTS = st.one_of(st.text(max_size=60), st.text("<>&\"'ab \n", max_size=40), st.sampled_from(HOSTILE[:9]))
KINDS = st.sampled_from(["true", "predicted", "both"])
SPANS = st.lists(
    st.builds(LabeledSpan, start=st.integers(-3, 70), end=st.integers(-3, 70), label=st.text(max_size=12), kind=KINDS),
    max_size=8,
)


def visible_text(html: str) -> str:
    """Return the visible text, without tags and without text for screen readers only."""
    visible_html = re.sub(r'<span class="aside">[^<]*</span>', "", html)
    return unescape(re.sub(r"<[^<>]*>", "", visible_html))


def labeled_span(start: int, end: int, label: str = "PER", kind: str = "true") -> LabeledSpan:
    return LabeledSpan(start=start, end=end, label=label, kind=kind)  # type: ignore[arg-type]


@given(TEXTS, SPANS)
def test_the_visible_text_is_the_text(text: str, spans: list[LabeledSpan]) -> None:
    html = str(marked_text(text, spans))
    assert visible_text(html) == escape_lines(text)
    if not any(re.match(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", character) for character in text) and text.isascii():
        assert visible_text(html) == text
    assert html.count("<mark") == html.count("</mark>")
    assert set(re.findall(r"</?([a-z]+)", html)) <= {"mark", "span"}
    assert set(re.findall(r" ([a-z-]+)=\"", html)) <= {"class", "data-label", "aria-hidden"}


@given(TEXTS, SPANS)
def test_every_character_has_the_kinds_of_its_spans(text: str, spans: list[LabeledSpan]) -> None:
    html = str(marked_text(text, spans))
    kinds: list[str] = []
    for kind, inside, outside in re.findall(
        r'<mark class="is-(\w+)">([^<]*)</mark>|<span[^>]*>[^<]*</span>|([^<]+)', html
    ):
        kinds += [kind] * len(unescape(inside)) + [""] * len(unescape(outside))
    html_offset = 0
    valid_spans = [span for span in dict.fromkeys(spans) if 0 <= span.start < span.end <= len(text)]
    for offset, character in enumerate(text):
        covering_kinds = {span.kind for span in valid_spans if span.start <= offset < span.end}
        is_true, is_predicted = bool(covering_kinds & {"true", "both"}), bool(covering_kinds & {"predicted", "both"})
        expected = "both" if is_true and is_predicted else "true" if is_true else "answered" if is_predicted else ""
        width = len(escape_lines(character))
        assert set(kinds[html_offset : html_offset + width]) == {expected}
        html_offset += width


def test_overlapping_and_nested_spans_are_announced() -> None:
    text = "Anna of Green Gables"
    html = str(
        marked_text(
            text, [labeled_span(0, 4), labeled_span(0, 20, "WORK", "predicted"), labeled_span(8, 20, "LOC", "both")]
        )
    )
    spoken = re.findall(r'<span class="aside">([^<]*)</span>', html)
    assert spoken == ["[predicted WORK: ", "[true PER: ", "]", "[true and predicted LOC: ", "]", "]"]
    assert re.findall(r'data-label="(\w+)"', html) == ["PER", "LOC", "WORK"]
    assert '<mark class="is-both">Anna</mark>' in html
    assert '<mark class="is-answered"> of </mark>' in html


@given(st.text(min_size=1, max_size=200), SPANS, st.integers(4, 60))
def test_long_texts_are_cut_around_their_spans(text: str, spans: list[LabeledSpan], max_length: int) -> None:
    excerpt, shifted, start = cut_excerpt(text, spans, max_length)
    assert text[start:].startswith(excerpt)
    assert len(excerpt) == min(max_length, len(text))
    is_cut = len(text) > max_length
    valid_spans = [span for span in spans if 0 <= span.start < span.end <= len(text)]
    span_texts = {text[span.start : span.end] for span in valid_spans}
    assert all(
        excerpt[span.start : span.end] in span_texts for span in shifted if 0 <= span.start < span.end <= len(excerpt)
    )
    first = min(valid_spans, key=lambda span: span.start, default=None)
    if is_cut and first is not None and first.end - first.start <= max_length // 2:
        assert shifted


def test_labels_cannot_break_out() -> None:
    for label in HOSTILE:
        html = str(marked_text("some text", [labeled_span(0, 4, label)]))
        assert "<script" not in html
        assert "<img" not in html
        assert len(html) < 2000
        assert visible_text(html) == "some text"


WEIGHTS = st.floats(-1, 1, allow_nan=False)
WORDS = st.lists(
    st.builds(WordImportance, start=st.integers(-3, 70), end=st.integers(-3, 70), weight=WEIGHTS), max_size=6
)


@given(TEXTS, SPANS, WORDS)
def test_important_words_combine_with_spans(text: str, spans: list[LabeledSpan], words: list[WordImportance]) -> None:
    strongest = max((abs(word.weight) for word in words), default=0.0)
    html = str(marked_text(text, spans, words, strongest=strongest))
    assert visible_text(html) == escape_lines(text)
    label_pattern = re.compile(r'data-label="([^"]*)"')
    assert label_pattern.findall(html) == label_pattern.findall(str(marked_text(text, spans)))
    assert set(re.findall(r" ([a-z-]+)=\"", html)) <= {"class", "data-label", "aria-hidden", "title"}


def test_an_important_word_in_an_entity_has_both_lines() -> None:
    words = [
        WordImportance(start=0, end=4, weight=0.4),
        WordImportance(start=5, end=7, weight=-0.4),
        WordImportance(start=8, end=12, weight=0.001),
    ]
    html = str(
        marked_text("Anna in York", [labeled_span(0, 4), labeled_span(8, 12, "LOC", "predicted")], words, strongest=0.4)
    )
    assert '<mark class="is-true above for3" title="+0.400">Anna</mark>' in html
    assert '<mark class="above against3" title="−0.400">in</mark>' in html
    assert '<mark class="is-answered">York</mark>' in html


@given(TEXTS, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), WEIGHTS), max_size=8))
def test_shades_do_not_change_the_text(text: str, spans: list[tuple[int, int, float]]) -> None:
    words = [WordImportance(start=start, end=end, weight=weight) for start, end, weight in spans]
    strongest = max((abs(word.weight) for word in words), default=0.0)
    assert visible_text(str(shade_text(text, words, strongest=strongest))) == escape_lines(text)


def test_shades_show_strength_and_direction() -> None:
    words = [
        WordImportance(start=0, end=3, weight=0.5),
        WordImportance(start=4, end=7, weight=-0.1),
        WordImportance(start=8, end=11, weight=0.01),
    ]
    html = str(shade_text("one two six", words, strongest=0.5))
    assert '<mark class="for3" title="+0.500">one</mark>' in html
    assert '<mark class="against1" title="−0.100">two</mark>' in html
    assert "six</mark>" not in html
    named_words = name_important_words(
        "one, two six", None, [WordImportance(start=0, end=4, weight=0.5), words[1]], 0.5
    )
    assert named_words == [("for", ["“one” 0.500"]), ("against", ["“tw” 0.100"])]
    second_words = [WordImportance(start=0, end=3, weight=0.3, in_second_text=True)]
    assert name_important_words("first", "two", second_words, 0.3) == [("for", ["“two” 0.300"])]
