"""Render texts with true and predicted spans, and with words shaded by their importance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from markupsafe import Markup, escape

from clearhead.deprecation import renamed_parameters
from clearhead.report.formatting import escape_lines, format_figure, truncate
from clearhead.tasks.examples import LabeledSpan, WordImportance

MAX_SPANS = 200  # of one text
MAX_LABEL_CHARACTERS = 30  # of a span label
KIND_NAMES = {"true": "true", "predicted": "predicted", "both": "true and predicted"}
SHADE_LEVELS = (0.15, 0.4, 0.75)  # shares of the largest weight at which the shade darkens
MIN_WEIGHT = 0.02  # change of a probability below which words are not shaded
MAX_NAMED_WORDS = 4  # for and against the prediction
MAX_WORD_CHARACTERS = 40  # of a named word


@renamed_parameters(marks="spans")
def marked_text(
    text: str, spans: Sequence[LabeledSpan], words: Sequence[WordImportance] = (), *, strongest: float = 0.0
) -> Markup:
    """Render a text with spans that may overlap: it is cut at every span boundary.

    Only the text itself is visible; the style sheet draws labels, and screen readers read them. Important words have a
    line above them, spans have theirs below.
    """
    shown_spans = _select_spans(text, spans)
    important_words = [
        word for word in words if 0 <= word.start < word.end <= len(text) and _shade_level(word.weight, strongest)
    ]
    pairs = [(span.start, span.end) for span in shown_spans] + [(word.start, word.end) for word in important_words]
    borders = sorted({0, len(text), *(border for pair in pairs for border in pair)})
    segments = []
    for start, end in pairwise(borders):
        segments += [
            _screen_reader_text(f"[{KIND_NAMES[span.kind]} {_span_label(span)}: ")
            for span in shown_spans
            if span.start == start
        ]
        covering = [span for span in shown_spans if span.start <= start and end <= span.end]
        covering_word = next((word for word in important_words if word.start <= start and end <= word.end), None)
        segments.append(_render_segment(text[start:end], covering, covering_word, strongest))
        for span in reversed([span for span in shown_spans if span.end == end]):
            segments.append(_screen_reader_text("]"))
            segments.append(_label_chip(span))
    return Markup("").join(segments)


def cut_excerpt(text: str, spans: Sequence[LabeledSpan], max_length: int) -> tuple[str, list[LabeledSpan], int]:
    """Return the part of a long text around its first span, the spans in it, and its start offset.

    Spans that do not fit are left out.
    """
    if len(text) <= max_length:
        return text, list(spans), 0
    first = min((span.start for span in _select_spans(text, spans)), default=0)
    start = 0 if first < max_length // 2 else min(first - max_length // 4, len(text) - max_length)
    shifted = [replace(span, start=span.start - start, end=span.end - start) for span in spans]
    excerpt = text[start : start + max_length]
    return excerpt, _select_spans(excerpt, shifted), start


def _select_spans(text: str, spans: Sequence[LabeledSpan]) -> list[LabeledSpan]:
    """Select the spans inside the text, outer before inner."""
    inside = [span for span in spans if 0 <= span.start < span.end <= len(text)]
    return sorted(dict.fromkeys(inside), key=lambda span: (span.start, -span.end))[:MAX_SPANS]


def _render_segment(
    text: str, spans: Sequence[LabeledSpan], important_word: WordImportance | None, strongest: float
) -> Markup:
    escaped = escape(escape_lines(text))
    kinds = {span.kind for span in spans}
    is_true, is_predicted = bool(kinds & {"true", "both"}), bool(kinds & {"predicted", "both"})
    classes = ["is-both" if is_true and is_predicted else "is-true" if is_true else "is-answered"] if spans else []
    if important_word is None:
        return Markup('<mark class="{}">{}</mark>').format(classes[0], escaped) if classes else escaped
    direction, level, tooltip = _describe_importance(important_word, strongest)
    classes += ["above", f"{direction}{level}"]
    return Markup('<mark class="{}" title="{}">{}</mark>').format(" ".join(classes), tooltip, escaped)


def _span_label(span: LabeledSpan) -> str:
    return escape_lines(truncate(span.label, MAX_LABEL_CHARACTERS)) if span.label.strip() else "answer"


def _screen_reader_text(text: str) -> Markup:
    """Render text for screen readers only."""
    return Markup('<span class="aside">{}</span>').format(text)


def _label_chip(span: LabeledSpan) -> Markup:
    kind = "answered" if span.kind == "predicted" else span.kind
    return Markup('<span class="chip is-{}" data-label="{}" aria-hidden="true"></span>').format(kind, _span_label(span))


def shade_text(text: str, words: Sequence[WordImportance], *, strongest: float) -> Markup:
    """Render a text whose words are shaded by importance; `strongest` is the weight of the darkest shade."""
    segments, offset = [], 0
    for word in sorted(words, key=lambda word: word.start):
        if not offset <= word.start < word.end <= len(text) or not _shade_level(word.weight, strongest):
            continue
        direction, level, tooltip = _describe_importance(word, strongest)
        word_text = escape(escape_lines(text[word.start : word.end]))
        segments.append(escape(escape_lines(text[offset : word.start])))
        segments.append(Markup('<mark class="{}{}" title="{}">{}</mark>').format(direction, level, tooltip, word_text))
        offset = word.end
    return Markup("").join([*segments, escape(escape_lines(text[offset:]))])


def _describe_importance(word: WordImportance, strongest: float) -> tuple[str, int, str]:
    """Return the direction, the shade level and the tooltip of a word."""
    tooltip = f"{'+' if word.weight > 0 else '−'}{format_figure(abs(word.weight))}"
    return "for" if word.weight > 0 else "against", _shade_level(word.weight, strongest), tooltip


def _shade_level(weight: float, strongest: float) -> int:
    """Return the shade of a weight, from 0 (none) to 3 (darkest)."""
    return sum(abs(weight) >= level * strongest for level in SHADE_LEVELS) if strongest > 0 else 0


def name_important_words(
    text: str, text_b: str | None, words: Sequence[WordImportance], strongest: float
) -> list[tuple[str, list[str]]]:
    """List the most important words for and against the prediction, so that shades are not the only cue."""
    shaded = [word for word in words if _shade_level(word.weight, strongest)]
    ordered = sorted(shaded, key=lambda word: -abs(word.weight))
    named_words = []
    for direction, positive in (("for", True), ("against", False)):
        direction_words = [word for word in ordered if (word.weight > 0) is positive][:MAX_NAMED_WORDS]
        texts = [
            f"“{truncate(_spell_word(text, text_b, word), MAX_WORD_CHARACTERS)}” {format_figure(abs(word.weight))}"
            for word in direction_words
        ]
        if texts:
            named_words.append((direction, texts))
    return named_words


def _spell_word(text: str, text_b: str | None, word: WordImportance) -> str:
    spelled = ((text_b or "") if word.in_second_text else text)[word.start : word.end]
    return spelled.strip(" \n\t.,;:!?\"'()[]{}…“”") or spelled
