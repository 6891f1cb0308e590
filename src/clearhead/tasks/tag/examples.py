"""Error examples of the tag task, and the occlusion of words around an error."""

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
    SpanKind,
    select_smallest,
)
from clearhead.tasks.occlusion import DecodeLogits, OcclusionPlan, OmittedSpans, WordSpan
from clearhead.tasks.ragged import RaggedArray
from clearhead.tasks.tag.decoding import extract_spans
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


MAX_NAME_LENGTH = 24  # characters of a quoted span


def select_tag_errors(
    answers: Answers, targets: RaggedArray, space: LabelSpace, row_numbers: Sequence[int] | Array
) -> RowSelection:
    """Select texts by their most confident wrong tag; span offsets count words."""
    import numpy as np

    predicted, probs = answers.labels, answers.probs.values
    tag_probs = probs[np.arange(len(probs)), predicted.values]
    error_confidence = np.where(predicted.values != targets.values, tag_probs, -1.0)
    row_confidence = np.full(len(targets), -1.0)
    np.maximum.at(row_confidence, targets.row_indices, error_confidence)
    error_rows = np.flatnonzero(row_confidence >= 0)

    def select(index: int) -> SelectedRow:
        true_spans, predicted_spans = (_get_row_spans(rows.row(index), space) for rows in (targets, predicted))
        start, end = targets.bounds[index : index + 2]
        first, last = _find_error_span(int(error_confidence[start:end].argmax()), true_spans, predicted_spans)
        return SelectedRow(
            row=int(row_numbers[index]),
            truth=_count_labels(true_spans),
            answer=_count_labels(predicted_spans),
            confidence=float(row_confidence[index]),
            spans=_label_spans(true_spans, predicted_spans),
            counts_words=True,
            word_range=(first, last),
            predicted_tags=tuple(int(tag) for tag in predicted.row(index)[first:last]),
        )

    suspicious = error_rows[row_confidence[error_rows] >= HIGH_CONFIDENCE]
    return RowSelection(
        worst=tuple(map(select, select_smallest(error_rows, -row_confidence[error_rows], MAX_WORST))),
        suspicious=tuple(map(select, select_smallest(suspicious, -row_confidence[suspicious], MAX_SUSPICIOUS))),
        error_count=len(error_rows),
        suspicious_count=len(suspicious),
    )


def _get_row_spans(row: Array, space: LabelSpace) -> set[tuple[int, int, str]]:
    return set(extract_spans([space.names[tag] for tag in row], space.scheme))


def _find_error_span(
    word: int, true_spans: set[tuple[int, int, str]], predicted_spans: set[tuple[int, int, str]]
) -> tuple[int, int]:
    """Find the words of the error: the predicted entity around a wrong tag, or the missed part of the true entity."""
    for first, last, _ in predicted_spans:
        if first <= word < last:
            return first, last
    first, last = next(((start, end) for start, end, _ in true_spans if start <= word < end), (word, word + 1))
    predicted_words = {position for start, end, _ in predicted_spans for position in range(start, end)}
    missed_start = max((position + 1 for position in predicted_words if first <= position < word), default=first)
    return missed_start, min((position for position in predicted_words if word < position < last), default=last)


def _count_labels(spans: set[tuple[int, int, str]]) -> str:
    counts = Counter(label for _, _, label in spans)
    return ", ".join(f"{count} {label}" for label, count in sorted(counts.items())) or "(none)"


def _label_spans(
    true_spans: set[tuple[int, int, str]], predicted_spans: set[tuple[int, int, str]]
) -> tuple[LabeledSpan, ...]:
    """Label the spans as true, predicted or both."""
    spans_by_kind: tuple[tuple[SpanKind, set[tuple[int, int, str]]], ...] = (
        ("both", true_spans & predicted_spans),
        ("true", true_spans - predicted_spans),
        ("predicted", predicted_spans - true_spans),
    )
    labeled = [
        LabeledSpan(start=start, end=end, label=label, kind=kind)
        for kind, spans in spans_by_kind
        for start, end, label in spans
    ]
    labeled.sort(key=lambda span: (span.start, span.end, span.kind))
    return tuple(labeled)


def plan_tag_occlusion(selected: SelectedRow, row: TextRow, decode: DecodeLogits) -> OcclusionPlan | None:
    """Plan the occlusion of words around the error; measures the probability of the wrong tags."""
    offsets = row.extra.offsets
    if selected.word_range is None or selected.word_range[1] > len(offsets):
        return None
    first, last = selected.word_range
    start, end = offsets[first][0], offsets[last - 1][1]

    def measure(logits: Any, omitted: OmittedSpans) -> Array:
        import numpy as np

        answers = decode(logits)
        tag_probs = np.empty(len(omitted))
        for index, span in enumerate(omitted):
            shift = 0 if span is None or span.start >= end else len(_find_words_inside(offsets, span))
            probs = answers.probs.row(index)[first - shift : last - shift]
            tag_probs[index] = probs[range(len(selected.predicted_tags)), selected.predicted_tags].prod()
        return tag_probs

    predicted = next(
        (span for span in selected.spans if (span.start, span.end) == selected.word_range and span.kind == "predicted"),
        None,
    )
    text = row.text[start:end]
    shortened = text if len(text) <= MAX_NAME_LENGTH else f"{text[: MAX_NAME_LENGTH - 1]}…"
    return OcclusionPlan(
        runs=tuple(
            tuple(WordSpan(start=word_start, end=word_end) for word_start, word_end in run)
            for run in (offsets[:first], offsets[last:])
        ),
        measure=measure,
        omit=_omit_tagged_words,
        target_name=f"“{shortened}” as {'nothing' if predicted is None else predicted.label}",
    )


def _find_words_inside(offsets: Sequence[tuple[int, int]], span: WordSpan) -> list[int]:
    """Return the indices of the words inside a span."""
    return [word for word, (start, end) in enumerate(offsets) if span.start <= start and end <= span.end]


def _omit_tagged_words(row: TextRow, span: WordSpan) -> TextRow | None:
    """Remove a span from a tagged text and shift the offsets of the other words."""
    words, omitted = row.extra, set(_find_words_inside(row.extra.offsets, span))
    end = span.end
    if span.start == 0 or row.text[span.start - 1].isspace():
        end += len(row.text[end:]) - len(row.text[end:].lstrip())
    joint = "" if any(map(str.isalnum, row.text[span.start : end])) else _get_joining_space(row.text, span.start, end)
    shift = end - span.start - len(joint)
    offsets = [
        (word_start, word_end) if word_end <= span.start else (word_start - shift, word_end - shift)
        for index, (word_start, word_end) in enumerate(words.offsets)
        if index not in omitted
    ]
    tokens = words.tokens and [word for index, word in enumerate(words.tokens) if index not in omitted]
    text = row.text[: span.start] + joint + row.text[end:]
    return replace(row, text=text, extra=replace(words, offsets=offsets, tokens=tokens))


def _get_joining_space(text: str, start: int, end: int) -> str:
    """Return a space if removing the punctuation between two words would join them."""
    joins_words = start > 0 and end < len(text) and text[start - 1].isalnum() and text[end].isalnum()
    return " " if joins_words else ""
