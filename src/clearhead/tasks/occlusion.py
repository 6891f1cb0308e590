"""What may be left out of a row, and what is watched meanwhile, to find the words that an answer hangs on."""

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
    """Some words in a row, in the first or the second text."""

    start: int
    end: int
    in_second_text: bool = False


DecodeLogits = Callable[[Any], "Answers"]  # logits -> answers
OmittedSpans = Sequence[WordSpan | None]  # what each row was read without; None: it was whole


@dataclass(frozen=True, kw_only=True)
class OcclusionPlan:
    """How a row is taken apart."""

    runs: tuple[tuple[WordSpan, ...], ...]  # words that may be left out; neighbours of one run also together
    measure: Callable[[Any, OmittedSpans], Array]  # logits -> the one number of each row that is watched
    omit: Callable[[TextRow, WordSpan], TextRow | None]  # None: nothing would be left to ask
    target_name: str | None = None  # what the number speaks for; None: the answer


def split_words(text: str, begin: int = 0, *, second: bool = False) -> tuple[WordSpan, ...]:
    """The words of a text that stands at `begin`."""
    return tuple(WordSpan(start=begin + a, end=begin + b, in_second_text=second) for a, b in find_chunk_spans(text))


def remove_span(text: str, start: int, end: int) -> str:
    """A text with one piece and the space beside it left out."""
    before, after = text[:start], text[end:]
    if not before or before[-1].isspace():
        after = after.lstrip()
    return (before + after).strip()


def omit_words(row: TextRow, piece: WordSpan) -> TextRow | None:
    """One text or two with a piece of either left out."""
    left = remove_span((row.text_b or "") if piece.in_second_text else row.text, piece.start, piece.end)
    return None if not left else replace(row, text_b=left) if piece.in_second_text else replace(row, text=left)


def plan_text_occlusion(pick: SelectedRow, row: TextRow, read: DecodeLogits) -> OcclusionPlan | None:
    """One text or two: the probability of a label, or the number that is the answer."""
    if pick.output_index is None and pick.error is None:
        return None

    def value(logits: Any, left: OmittedSpans) -> Array:
        import numpy as np

        answers = read(logits)
        if answers.probs is None or pick.output_index is None:
            return np.asarray(answers.labels)
        probs = answers.probs[:, pick.output_index]
        return np.asarray(1 - probs if pick.is_negated else probs)

    runs = (split_words(row.text), split_words(row.text_b or "", second=True))
    return OcclusionPlan(runs=runs, measure=value, omit=omit_words)


def group_words(runs: Sequence[Sequence[WordSpan]], most: int) -> list[WordSpan]:
    """The words of all runs, or groups of neighbours where there are more than `most`."""
    size = max(-(-sum(map(len, runs)) // max(most, 1)), 1)
    while size > 1 and sum(-(-len(run) // size) for run in runs) > most > 1:
        size += 1  # several runs can need some groups more
    return [group for run in runs for group in _groups(run, size)]


def _groups(run: Sequence[WordSpan], size: int) -> Iterator[WordSpan]:
    for place in range(0, len(run), size):
        group = run[place : place + size]
        yield replace(group[0], end=group[-1].end)
