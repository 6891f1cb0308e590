"""Examples as cards, and cells of the confusion as lists of rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from markupsafe import Markup

from clearhead.report.annotated_text import LEAST, excerpt_around, marked_text, named_words, shaded_text
from clearhead.report.formatting import cut, figure, percent

if TYPE_CHECKING:
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.tasks.examples import Example, PartExamples, SelectedRow

MOST_CELLS = 60
MOST_CASES = 12  # of a list
MOST_TEXT, MOST_IN_CELL = 1200, 160  # characters of a text


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row as a card."""

    id: str
    row: int
    truth: str
    answer: str
    sure: str  # "93.2%", "off by 1.20", or empty
    given: str  # the probability of the given label, or empty
    text: Markup
    text_b: Markup | None
    words: list[tuple[str, list[str]]]
    watched: str  # what the words speak for
    weak: bool  # taken apart, and no word matters much
    looked: bool  # whether it was taken apart
    doubtful: bool  # its label may be wrong
    cut: bool
    number: bool  # whether the answer is one
    options: tuple[str, ...]
    excerpt: str


@dataclass(frozen=True, kw_only=True)
class CellRows:
    """What is seen when a cell of the matrix is chosen."""

    id: str
    true: str
    answered: str
    right: bool
    count: int
    rows: tuple[Case, ...]


@dataclass(frozen=True, kw_only=True)
class Cases:
    """The worst and the most suspicious rows of a part."""

    worst: tuple[Case, ...]
    suspicious: tuple[Case, ...]
    others: tuple[Case, ...]  # suspicious ones that are not among the worst
    shown: PartExamples
    wrong: int
    doubtful: int


def cases(evaluation: Evaluation, examples: PartExamples | None, key: str) -> Cases | None:
    """The cards of a part; None when no rows were picked or read."""
    if examples is None or not (examples.worst or examples.suspicious):
        return None
    doubtful = {example.selected.row for example in examples.suspicious}
    worst = tuple(_case(example, evaluation, key, doubtful) for example in examples.worst[:MOST_CASES])
    above = {case.row: case for case in worst}
    suspicious = tuple(
        above.get(example.selected.row) or _case(example, evaluation, key, doubtful)
        for example in examples.suspicious[:MOST_CASES]
    )
    picks = evaluation.picks
    return Cases(
        worst=worst,
        suspicious=suspicious,
        others=tuple(case for case in suspicious if case.row not in above),
        shown=examples,
        wrong=len(worst) if picks is None else picks.error_count,
        doubtful=len(suspicious) if picks is None else picks.suspicious_count,
    )


def _case(example: Example, evaluation: Evaluation, key: str, doubtful: Collection[int], most: int = MOST_TEXT) -> Case:
    pick, words = example.selected, example.words or ()
    strongest = max((abs(word.weight) for word in words), default=0.0)
    if strongest < (LEAST if pick.error is None else LEAST * abs(pick.error)):
        strongest = 0.0
    second = [word for word in words if word.in_second_text]
    piece, marks, begin = excerpt_around(example.text, example.spans, most)
    first = [replace(word, start=word.start - begin, end=word.end - begin) for word in words if not word.in_second_text]
    shade = partial(marked_text, piece, marks) if example.spans else partial(shaded_text, piece)
    return Case(
        id=f"case-{key}-{pick.row}",
        row=pick.row,
        truth=pick.truth,
        answer=pick.answer,
        sure=_sure(pick),
        given="" if pick.label_probability is None else percent(pick.label_probability),
        text=shade(first, strongest=strongest),
        text_b=None if example.text_b is None else shaded_text(example.text_b[:most], second, strongest=strongest),
        words=named_words(example.text, example.text_b, words, strongest),
        watched=_watched_label(example, evaluation),
        weak=example.words is not None and strongest == 0,
        looked=example.words is not None,
        doubtful=pick.row in doubtful,
        cut=example.is_truncated or len(piece) < len(example.text) or len(example.text_b or "") > most,
        number=pick.error is not None,
        options=pick.options,
        excerpt=cut(example.text, 100),
    )


def _sure(pick: SelectedRow) -> str:
    """How far an answer is off, or how sure the model is of it."""
    if pick.error is not None:
        return f"off by {'+' if pick.error > 0 else ''}{figure(pick.error)}"
    return "" if pick.confidence is None else f"sure by {percent(pick.confidence)}"


def _watched_label(example: Example, evaluation: Evaluation) -> str:
    """What the words were measured by."""
    pick = example.selected
    if example.target_name is not None:
        return example.target_name
    if pick.output_index is None or pick.output_index >= len(evaluation.labels):
        return pick.answer
    name = evaluation.labels[pick.output_index]
    return f"not {name}" if pick.is_negated else name


def cell_rows(evaluation: Evaluation, examples: PartExamples | None, key: str) -> dict[tuple[int, int], CellRows]:
    """The rows of cells, by (true, answered)."""
    rows_by_cell = {}
    for shown_cell in () if examples is None else examples.cells[:MOST_CELLS]:
        cell = shown_cell.cell
        if shown_cell.examples and max(cell.true, cell.predicted) < len(evaluation.labels):
            rows_by_cell[cell.true, cell.predicted] = CellRows(
                id=f"cell-{key}-{cell.true}-{cell.predicted}",
                true=evaluation.labels[cell.true],
                answered=evaluation.labels[cell.predicted],
                right=cell.true == cell.predicted,
                count=cell.count,
                rows=tuple(_case(example, evaluation, key, (), MOST_IN_CELL) for example in shown_cell.examples),
            )
    return rows_by_cell
