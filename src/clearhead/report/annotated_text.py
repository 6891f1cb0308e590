"""Texts with marks in them: spans and entities, true and predicted, and words shaded by how much they mattered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from markupsafe import Markup, escape

from clearhead.report.formatting import cut, figure, lines
from clearhead.tasks.examples import LabeledSpan, WordImportance

MOST_MARKS = 200  # in one text
MOST_LABEL = 30  # letters of a label
KINDS = {"true": "true", "predicted": "answered", "both": "true and answered"}
LEVELS = (0.15, 0.4, 0.75)  # shares of the strongest word at which the shade becomes deeper
LEAST = 0.02  # of a probability; what changes less is not shaded
MOST_NAMED = 4  # words that are named on either side
MOST_WORD = 40  # letters of them


def marked_text(
    text: str, marks: Sequence[LabeledSpan], words: Sequence[WordImportance] = (), *, strongest: float = 0.0
) -> Markup:
    """A text with its marks, whatever they overlap: cut at every border, so that each piece has all that cover it.

    What is seen is the text itself and nothing else; labels are drawn by the style sheet, and told to those who listen.
    Words that mattered have a line above them, for marks have theirs below.
    """
    clipped = _clip_marks(text, marks)
    strong = [word for word in words if 0 <= word.start < word.end <= len(text) and _level(word.weight, strongest)]
    pairs = [(mark.start, mark.end) for mark in clipped] + [(word.start, word.end) for word in strong]
    borders = sorted({0, len(text), *(border for pair in pairs for border in pair)})
    pieces = []
    for begin, end in pairwise(borders):
        pieces += [_aside(f"[{KINDS[mark.kind]} {_label(mark)}: ") for mark in clipped if mark.start == begin]
        over = [mark for mark in clipped if mark.start <= begin and end <= mark.end]
        above = next((word for word in strong if word.start <= begin and end <= word.end), None)
        pieces.append(_piece(text[begin:end], over, above, strongest))
        for mark in reversed([mark for mark in clipped if mark.end == end]):
            pieces.append(_aside("]"))
            pieces.append(_chip(mark))
    return Markup("").join(pieces)


def excerpt_around(text: str, marks: Sequence[LabeledSpan], most: int) -> tuple[str, list[LabeledSpan], int]:
    """A text that is short enough, or the part of it in which its marks begin, and where that begins.

    Marks that do not fit are left out.
    """
    if len(text) <= most:
        return text, list(marks), 0
    first = min((mark.start for mark in _clip_marks(text, marks)), default=0)
    begin = 0 if first < most // 2 else min(first - most // 4, len(text) - most)
    moved = [replace(mark, start=mark.start - begin, end=mark.end - begin) for mark in marks]
    piece = text[begin : begin + most]
    return piece, _clip_marks(piece, moved), begin


def _clip_marks(text: str, marks: Sequence[LabeledSpan]) -> list[LabeledSpan]:
    """Marks that lie in the text, the outer before the inner."""
    inside = [mark for mark in marks if 0 <= mark.start < mark.end <= len(text)]
    return sorted(dict.fromkeys(inside), key=lambda mark: (mark.start, -mark.end))[:MOST_MARKS]


def _piece(text: str, over: Sequence[LabeledSpan], above: WordImportance | None, strongest: float) -> Markup:
    plain = escape(lines(text))
    kinds = {mark.kind for mark in over}
    true, answered = bool(kinds & {"true", "both"}), bool(kinds & {"predicted", "both"})
    classes = ["is-both" if true and answered else "is-true" if true else "is-answered"] if over else []
    if above is None:
        return Markup('<mark class="{}">{}</mark>').format(classes[0], plain) if classes else plain
    side, level, tooltip = _strength(above, strongest)
    classes += ["above", f"{side}{level}"]
    return Markup('<mark class="{}" title="{}">{}</mark>').format(" ".join(classes), tooltip, plain)


def _label(mark: LabeledSpan) -> str:
    return lines(cut(mark.label, MOST_LABEL)) if mark.label.strip() else "answer"


def _aside(text: str) -> Markup:
    """Told to a screen reader, and not seen."""
    return Markup('<span class="aside">{}</span>').format(text)


def _chip(mark: LabeledSpan) -> Markup:
    kind = "answered" if mark.kind == "predicted" else mark.kind
    return Markup('<span class="chip is-{}" data-label="{}" aria-hidden="true"></span>').format(kind, _label(mark))


def shaded_text(text: str, words: Sequence[WordImportance], *, strongest: float) -> Markup:
    """A text whose words are shaded by how much they mattered; `strongest` has the deepest shade."""
    pieces, at = [], 0
    for word in sorted(words, key=lambda word: word.start):
        if not at <= word.start < word.end <= len(text) or not _level(word.weight, strongest):
            continue
        side, level, tooltip = _strength(word, strongest)
        piece = escape(lines(text[word.start : word.end]))
        pieces.append(escape(lines(text[at : word.start])))
        pieces.append(Markup('<mark class="{}{}" title="{}">{}</mark>').format(side, level, tooltip, piece))
        at = word.end
    return Markup("").join([*pieces, escape(lines(text[at:]))])


def _strength(word: WordImportance, strongest: float) -> tuple[str, int, str]:
    """Which way a word speaks, how deep its shade is, and its figure."""
    tooltip = f"{'+' if word.weight > 0 else '−'}{figure(abs(word.weight))}"
    return "for" if word.weight > 0 else "against", _level(word.weight, strongest), tooltip


def _level(weight: float, strongest: float) -> int:
    """0 to 3."""
    return sum(abs(weight) >= share * strongest for share in LEVELS) if strongest > 0 else 0


def named_words(
    text: str, text_b: str | None, words: Sequence[WordImportance], strongest: float
) -> list[tuple[str, list[str]]]:
    """The words that mattered most, in words: for those who cannot see shades, and for all others."""
    shaded = [word for word in words if _level(word.weight, strongest)]
    ordered = sorted(shaded, key=lambda word: -abs(word.weight))
    sides = []
    for side, positive in (("for", True), ("against", False)):
        side_words = [word for word in ordered if (word.weight > 0) is positive][:MOST_NAMED]
        texts = [
            f"“{cut(_spell_word(text, text_b, word), MOST_WORD)}” {figure(abs(word.weight))}" for word in side_words
        ]
        if texts:
            sides.append((side, texts))
    return sides


def _spell_word(text: str, text_b: str | None, word: WordImportance) -> str:
    spelled = ((text_b or "") if word.in_second_text else text)[word.start : word.end]
    return spelled.strip(" \n\t.,;:!?\"'()[]{}…“”") or spelled
