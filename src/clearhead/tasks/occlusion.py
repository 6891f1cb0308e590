"""Occlusion plans: which words may be omitted from a row, and which output measures their importance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clearhead.data.examples import TextRow
from clearhead.text.words import find_chunk_spans

if TYPE_CHECKING:
    import numpy as np

    from clearhead.tasks.examples import SelectedRow
    from clearhead.tasks.task import Answers

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class WordSpan:
    """One or more consecutive words of the first or second text."""

    start: int
    end: int
    in_second_text: bool = False


DecodeLogits = Callable[[Any], "Answers"]  # logits -> answers
OmittedSpans = Sequence[WordSpan | None]  # the span omitted from each row; None: nothing


@dataclass(frozen=True, kw_only=True)
class OcclusionPlan:
    """How word importance is computed for a row."""

    runs: tuple[tuple[WordSpan, ...], ...]  # words that may be omitted; neighbors in a run also together
    measure: Callable[[Any, OmittedSpans], Array]  # logits -> the measured number of each row
    omit: Callable[[TextRow, WordSpan], TextRow | None]  # None: the remaining row would be empty
    target_name: str | None = None  # what the number measures; None: the answer


def split_words(text: str, offset: int = 0, *, in_second_text: bool = False) -> tuple[WordSpan, ...]:
    """Split a text that starts at `offset` into words."""
    return tuple(
        WordSpan(start=offset + start, end=offset + end, in_second_text=in_second_text)
        for start, end in find_chunk_spans(text)
    )


def remove_span(text: str, start: int, end: int) -> str:
    """Remove a span and one adjacent space from a text."""
    before, after = text[:start], text[end:]
    if not before or before[-1].isspace():
        after = after.lstrip()
    return (before + after).strip()


def omit_words(row: TextRow, span: WordSpan) -> TextRow | None:
    """Remove a span from the first or second text of a row; None if that text would be empty."""
    shortened = remove_span((row.text_b or "") if span.in_second_text else row.text, span.start, span.end)
    return (
        None
        if not shortened
        else replace(row, text_b=shortened)
        if span.in_second_text
        else replace(row, text=shortened)
    )


def plan_text_occlusion(selected: SelectedRow, row: TextRow, decode: DecodeLogits) -> OcclusionPlan | None:
    """Plan the occlusion of one or two texts; measures the probability of a label, or the predicted number."""
    if selected.output_index is None and selected.error is None:
        return None

    def measure(logits: Any, omitted: OmittedSpans) -> Array:
        import numpy as np

        answers = decode(logits)
        if answers.probs is None or selected.output_index is None:
            return np.asarray(answers.labels)
        probs = answers.probs[:, selected.output_index]
        return np.asarray(1 - probs if selected.is_negated else probs)

    runs = (split_words(row.text), split_words(row.text_b or "", in_second_text=True))
    return OcclusionPlan(runs=runs, measure=measure, omit=omit_words)


def group_words(runs: Sequence[Sequence[WordSpan]], max_groups: int) -> list[WordSpan]:
    """Return all words, or groups of neighboring words if there are more than `max_groups`."""
    size = max(-(-sum(map(len, runs)) // max(max_groups, 1)), 1)
    while size > 1 and sum(-(-len(run) // size) for run in runs) > max_groups > 1:
        size += 1  # rounding up in each run can exceed the limit
    return [group for run in runs for group in _split_groups(run, size)]


def _split_groups(run: Sequence[WordSpan], size: int) -> Iterator[WordSpan]:
    for start in range(0, len(run), size):
        group = run[start : start + size]
        yield replace(group[0], end=group[-1].end)
