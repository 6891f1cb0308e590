"""Which tagged texts an error analysis shows, and which words of them are left out to see what matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.tasks.examples import (
    HIGH_CONFIDENCE,
    MAX_SUSPICIOUS,
    MAX_WORST,
    LabeledSpan,
    RowSelection,
    SelectedRow,
    select_smallest,
)
from clearhead.tasks.occlusion import DecodeLogits, OcclusionPlan, OmittedSpans, WordSpan
from clearhead.tasks.ragged import RaggedArray
from clearhead.tasks.tag.decoding import spans_of
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


MOST_NAME = 24  # letters of a piece of text that is named


def pick_tags(
    answers: Answers, targets: RaggedArray, space: LabelSpace, numbers: Sequence[int] | Array
) -> RowSelection:
    """Sentences with the tag that is most surely wrong; marks count words, until the text is read."""
    import numpy as np

    said, probs = answers.labels, answers.probs.values
    own = probs[np.arange(len(probs)), said.values]
    missed = np.where(said.values != targets.values, own, -1.0)
    strength = np.full(len(targets), -1.0)
    np.maximum.at(strength, targets.row_indices, missed)
    wrong = np.flatnonzero(strength >= 0)

    def pick(place: int) -> SelectedRow:
        true, told = (_spans(rows.row(place), space) for rows in (targets, said))
        begin, end = targets.bounds[place : place + 2]
        first, last = _mistaken(int(missed[begin:end].argmax()), true, told)
        return SelectedRow(
            row=int(numbers[place]),
            truth=_counted(true),
            answer=_counted(told),
            confidence=float(strength[place]),
            spans=_marks(true, told),
            counts_words=True,
            word_range=(first, last),
            predicted_tags=tuple(int(tag) for tag in said.row(place)[first:last]),
        )

    odd = wrong[strength[wrong] >= HIGH_CONFIDENCE]
    return RowSelection(
        worst=tuple(map(pick, select_smallest(wrong, -strength[wrong], MAX_WORST))),
        suspicious=tuple(map(pick, select_smallest(odd, -strength[odd], MAX_SUSPICIOUS))),
        error_count=len(wrong),
        suspicious_count=len(odd),
    )


def _spans(row: Array, space: LabelSpace) -> set[tuple[int, int, str]]:
    return set(spans_of([space.names[tag] for tag in row], space.scheme))


def _mistaken(word: int, true: set[tuple[int, int, str]], said: set[tuple[int, int, str]]) -> tuple[int, int]:
    """The words of the answered entity that a wrong tag is in, or those of the true one that were taken for nothing."""
    for first, last, _ in said:
        if first <= word < last:
            return first, last
    first, last = next(((a, b) for a, b, _ in true if a <= word < b), (word, word + 1))
    taken = {place for a, b, _ in said for place in range(a, b)}
    begin = max((place + 1 for place in taken if first <= place < word), default=first)
    return begin, min((place for place in taken if word < place < last), default=last)


def _counted(spans: set[tuple[int, int, str]]) -> str:
    counts = Counter(label for _, _, label in spans)
    return ", ".join(f"{count} {label}" for label, count in sorted(counts.items())) or "(none)"


def _marks(true: set[tuple[int, int, str]], said: set[tuple[int, int, str]]) -> tuple[LabeledSpan, ...]:
    """What only one of the two has, and what both have; of plain tags, which mark every word, the differences alone."""
    kinds = (("both", true & said), ("true", true - said), ("predicted", said - true))
    made = [LabeledSpan(start=a, end=b, label=label, kind=kind) for kind, some in kinds for a, b, label in some]  # type: ignore[arg-type]
    made.sort(key=lambda mark: (mark.start, mark.end, mark.kind))
    return tuple(made)


def watch_tags(pick: SelectedRow, row: TextRow, read: DecodeLogits) -> OcclusionPlan | None:
    """A tagged text: the probability of the mistaken tags, without words before and after them."""
    borders = row.extra.offsets
    if pick.word_range is None or pick.word_range[1] > len(borders):
        return None
    first, last = pick.word_range
    begin, end = borders[first][0], borders[last - 1][1]

    def value(logits: Any, left: OmittedSpans) -> Array:
        import numpy as np

        answers = read(logits)
        made = np.empty(len(left))
        for number, piece in enumerate(left):
            gone = 0 if piece is None or piece.start >= end else len(_inside(borders, piece))
            probs = answers.probs.row(number)[first - gone : last - gone]
            made[number] = probs[range(len(pick.predicted_tags)), pick.predicted_tags].prod()
        return made

    mark = next(
        (one for one in pick.spans if (one.start, one.end) == pick.word_range and one.kind == "predicted"), None
    )
    text = row.text[begin:end]
    short = text if len(text) <= MOST_NAME else f"{text[: MOST_NAME - 1]}…"
    return OcclusionPlan(
        runs=tuple(tuple(WordSpan(start=a, end=b) for a, b in some) for some in (borders[:first], borders[last:])),
        measure=value,
        omit=_without_tagged,
        target_name=f"“{short}” as {'nothing' if mark is None else mark.label}",
    )


def _inside(borders: Sequence[tuple[int, int]], piece: WordSpan) -> list[int]:
    """The words of a piece, by their numbers."""
    return [place for place, (start, end) in enumerate(borders) if piece.start <= start and end <= piece.end]


def _without_tagged(row: TextRow, piece: WordSpan) -> TextRow | None:
    """The text without some of its words; the others stand where they then stand."""
    words, gone = row.extra, set(_inside(row.extra.offsets, piece))
    end = piece.end
    if piece.start == 0 or row.text[piece.start - 1].isspace():
        end += len(row.text[end:]) - len(row.text[end:].lstrip())
    between = "" if any(map(str.isalnum, row.text[piece.start : end])) else _gap(row.text, piece.start, end)
    moved = end - piece.start - len(between)
    offsets = [
        (a, b) if b <= piece.start else (a - moved, b - moved)
        for place, (a, b) in enumerate(words.offsets)
        if place not in gone
    ]
    tokens = words.tokens and [word for place, word in enumerate(words.tokens) if place not in gone]
    text = row.text[: piece.start] + between + row.text[end:]
    return replace(row, text=text, extra=replace(words, offsets=offsets, tokens=tokens))


def _gap(text: str, start: int, end: int) -> str:
    """A space where two words would become one without the sign between them."""
    joins = start > 0 and end < len(text) and text[start - 1].isalnum() and text[end].isalnum()
    return " " if joins else ""
