"""Render texts with true and predicted spans, and with words shaded by their importance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from markupsafe import Markup, escape

from clearhead.report.formatting import escape_lines, format_figure, truncate
from clearhead.tasks.examples import LabeledSpan, WordImportance

MAX_SPANS = 200  # of one text
MAX_LABEL_CHARACTERS = 30  # of a span label
KIND_NAMES = {"true": "true", "predicted": "predicted", "both": "true and predicted"}
SHADE_LEVELS = (0.15, 0.4, 0.75)  # shares of the largest weight at which the shade darkens
MIN_WEIGHT = 0.02  # change of a probability below which words are not shaded
MAX_NAMED_WORDS = 4  # for and against the prediction
MAX_WORD_CHARACTERS = 40  # of a named word


def marked_text(
    text: str, marks: Sequence[LabeledSpan], words: Sequence[WordImportance] = (), *, strongest: float = 0.0
) -> Markup:
    """Render a text with spans that may overlap: it is cut at every span boundary.

    Only the text itself is visible; the style sheet draws labels, and screen readers read them. Important words have a
    line above them, spans have theirs below.
    """
    clipped = _select_spans(text, marks)
    strong = [
        word for word in words if 0 <= word.start < word.end <= len(text) and _shade_level(word.weight, strongest)
    ]
    pairs = [(mark.start, mark.end) for mark in clipped] + [(word.start, word.end) for word in strong]
    borders = sorted({0, len(text), *(border for pair in pairs for border in pair)})
    pieces = []
    for begin, end in pairwise(borders):
        pieces += [
            _screen_reader_text(f"[{KIND_NAMES[mark.kind]} {_span_label(mark)}: ")
            for mark in clipped
            if mark.start == begin
        ]
        over = [mark for mark in clipped if mark.start <= begin and end <= mark.end]
        above = next((word for word in strong if word.start <= begin and end <= word.end), None)
        pieces.append(_render_segment(text[begin:end], over, above, strongest))
        for mark in reversed([mark for mark in clipped if mark.end == end]):
            pieces.append(_screen_reader_text("]"))
            pieces.append(_label_chip(mark))
    return Markup("").join(pieces)


def cut_excerpt(text: str, marks: Sequence[LabeledSpan], most: int) -> tuple[str, list[LabeledSpan], int]:
    """Return the part of a long text around its first span, the spans in it, and its start offset.

    Spans that do not fit are left out.
    """
    if len(text) <= most:
        return text, list(marks), 0
    first = min((mark.start for mark in _select_spans(text, marks)), default=0)
    begin = 0 if first < most // 2 else min(first - most // 4, len(text) - most)
    moved = [replace(mark, start=mark.start - begin, end=mark.end - begin) for mark in marks]
    piece = text[begin : begin + most]
    return piece, _select_spans(piece, moved), begin


def _select_spans(text: str, marks: Sequence[LabeledSpan]) -> list[LabeledSpan]:
    """Select the spans inside the text, outer before inner."""
    inside = [mark for mark in marks if 0 <= mark.start < mark.end <= len(text)]
    return sorted(dict.fromkeys(inside), key=lambda mark: (mark.start, -mark.end))[:MAX_SPANS]


def _render_segment(text: str, over: Sequence[LabeledSpan], above: WordImportance | None, strongest: float) -> Markup:
    plain = escape(escape_lines(text))
    kinds = {mark.kind for mark in over}
    true, answered = bool(kinds & {"true", "both"}), bool(kinds & {"predicted", "both"})
    classes = ["is-both" if true and answered else "is-true" if true else "is-answered"] if over else []
    if above is None:
        return Markup('<mark class="{}">{}</mark>').format(classes[0], plain) if classes else plain
    side, level, tooltip = _describe_importance(above, strongest)
    classes += ["above", f"{side}{level}"]
    return Markup('<mark class="{}" title="{}">{}</mark>').format(" ".join(classes), tooltip, plain)


def _span_label(mark: LabeledSpan) -> str:
    return escape_lines(truncate(mark.label, MAX_LABEL_CHARACTERS)) if mark.label.strip() else "answer"


def _screen_reader_text(text: str) -> Markup:
    """Render text for screen readers only."""
    return Markup('<span class="aside">{}</span>').format(text)


def _label_chip(mark: LabeledSpan) -> Markup:
    kind = "answered" if mark.kind == "predicted" else mark.kind
    return Markup('<span class="chip is-{}" data-label="{}" aria-hidden="true"></span>').format(kind, _span_label(mark))


def shade_text(text: str, words: Sequence[WordImportance], *, strongest: float) -> Markup:
    """Render a text whose words are shaded by importance; `strongest` is the weight of the darkest shade."""
    pieces, at = [], 0
    for word in sorted(words, key=lambda word: word.start):
        if not at <= word.start < word.end <= len(text) or not _shade_level(word.weight, strongest):
            continue
        side, level, tooltip = _describe_importance(word, strongest)
        piece = escape(escape_lines(text[word.start : word.end]))
        pieces.append(escape(escape_lines(text[at : word.start])))
        pieces.append(Markup('<mark class="{}{}" title="{}">{}</mark>').format(side, level, tooltip, piece))
        at = word.end
    return Markup("").join([*pieces, escape(escape_lines(text[at:]))])


def _describe_importance(word: WordImportance, strongest: float) -> tuple[str, int, str]:
    """Return the direction, the shade level and the tooltip of a word."""
    tooltip = f"{'+' if word.weight > 0 else '−'}{format_figure(abs(word.weight))}"
    return "for" if word.weight > 0 else "against", _shade_level(word.weight, strongest), tooltip


def _shade_level(weight: float, strongest: float) -> int:
    """Return the shade of a weight, from 0 (none) to 3 (darkest)."""
    return sum(abs(weight) >= share * strongest for share in SHADE_LEVELS) if strongest > 0 else 0


def name_important_words(
    text: str, text_b: str | None, words: Sequence[WordImportance], strongest: float
) -> list[tuple[str, list[str]]]:
    """List the most important words for and against the prediction, so that shades are not the only cue."""
    shaded = [word for word in words if _shade_level(word.weight, strongest)]
    ordered = sorted(shaded, key=lambda word: -abs(word.weight))
    sides = []
    for side, positive in (("for", True), ("against", False)):
        side_words = [word for word in ordered if (word.weight > 0) is positive][:MAX_NAMED_WORDS]
        texts = [
            f"“{truncate(_spell_word(text, text_b, word), MAX_WORD_CHARACTERS)}” {format_figure(abs(word.weight))}"
            for word in side_words
        ]
        if texts:
            sides.append((side, texts))
    return sides


def _spell_word(text: str, text_b: str | None, word: WordImportance) -> str:
    spelled = ((text_b or "") if word.in_second_text else text)[word.start : word.end]
    return spelled.strip(" \n\t.,;:!?\"'()[]{}…“”") or spelled
