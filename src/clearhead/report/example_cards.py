"""Show examples as cards, and confusion matrix cells as lists of rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from markupsafe import Markup

from clearhead.report.annotated_text import MIN_WEIGHT, cut_excerpt, marked_text, name_important_words, shade_text
from clearhead.report.formatting import format_figure, format_percent, truncate

if TYPE_CHECKING:
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.tasks.examples import Example, PartExamples, SelectedRow

MAX_CELLS = 60
MAX_CARDS = 12  # of one list
MAX_TEXT_CHARACTERS, MAX_CELL_TEXT_CHARACTERS = 1200, 160  # of a text, on a card and in a cell


@dataclass(frozen=True, kw_only=True)
class ExampleCard:
    """One row, shown as a card."""

    id: str
    row: int
    truth: str
    answer: str
    confidence: str  # "confidence 93.2%", "error +1.20", or empty
    label_probability: str  # formatted, or empty
    text: Markup
    text_b: Markup | None
    words: list[tuple[str, list[str]]]
    explained_label: str  # label that the word weights refer to
    has_weak_words: bool  # occluded, but no word has a notable weight
    is_explained: bool  # whether word weights were computed
    is_doubtful: bool  # whether its label may be wrong
    is_cut: bool
    is_number: bool  # whether the label is a number
    options: tuple[str, ...]
    excerpt: str


@dataclass(frozen=True, kw_only=True)
class CellRows:
    """The rows shown when a cell of the confusion matrix is selected."""

    id: str
    true: str
    answered: str
    is_correct: bool
    count: int
    rows: tuple[ExampleCard, ...]


@dataclass(frozen=True, kw_only=True)
class ExampleCards:
    """The worst predictions and the suspicious labels of a part."""

    worst: tuple[ExampleCard, ...]
    suspicious: tuple[ExampleCard, ...]
    others: tuple[ExampleCard, ...]  # suspicious rows that are not among the worst
    examples: PartExamples
    error_count: int
    suspicious_count: int


def make_cards(evaluation: Evaluation, examples: PartExamples | None, key: str) -> ExampleCards | None:
    """Make the cards of a part, or return None without selected rows."""
    if examples is None or not (examples.worst or examples.suspicious):
        return None
    doubtful = {example.selected.row for example in examples.suspicious}
    worst = tuple(_make_card(example, evaluation, key, doubtful) for example in examples.worst[:MAX_CARDS])
    above = {case.row: case for case in worst}
    suspicious = tuple(
        above.get(example.selected.row) or _make_card(example, evaluation, key, doubtful)
        for example in examples.suspicious[:MAX_CARDS]
    )
    picks = evaluation.picks
    return ExampleCards(
        worst=worst,
        suspicious=suspicious,
        others=tuple(case for case in suspicious if case.row not in above),
        examples=examples,
        error_count=len(worst) if picks is None else picks.error_count,
        suspicious_count=len(suspicious) if picks is None else picks.suspicious_count,
    )


def _make_card(
    example: Example, evaluation: Evaluation, key: str, doubtful: Collection[int], max_length: int = MAX_TEXT_CHARACTERS
) -> ExampleCard:
    pick, words = example.selected, example.words or ()
    strongest = max((abs(word.weight) for word in words), default=0.0)
    if strongest < (MIN_WEIGHT if pick.error is None else MIN_WEIGHT * abs(pick.error)):
        strongest = 0.0
    second = [word for word in words if word.in_second_text]
    excerpt, spans, start = cut_excerpt(example.text, example.spans, max_length)
    first = [replace(word, start=word.start - start, end=word.end - start) for word in words if not word.in_second_text]
    shade = partial(marked_text, excerpt, spans) if example.spans else partial(shade_text, excerpt)
    return ExampleCard(
        id=f"case-{key}-{pick.row}",
        row=pick.row,
        truth=pick.truth,
        answer=pick.answer,
        confidence=_describe_confidence(pick),
        label_probability="" if pick.label_probability is None else format_percent(pick.label_probability),
        text=shade(first, strongest=strongest),
        text_b=None if example.text_b is None else shade_text(example.text_b[:max_length], second, strongest=strongest),
        words=name_important_words(example.text, example.text_b, words, strongest),
        explained_label=_explained_label(example, evaluation),
        has_weak_words=example.words is not None and strongest == 0,
        is_explained=example.words is not None,
        is_doubtful=pick.row in doubtful,
        is_cut=example.is_truncated or len(excerpt) < len(example.text) or len(example.text_b or "") > max_length,
        is_number=pick.error is not None,
        options=pick.options,
        excerpt=truncate(example.text, 100),
    )


def _describe_confidence(pick: SelectedRow) -> str:
    """Describe the error of a number, or the confidence of the model."""
    if pick.error is not None:
        return f"error {'+' if pick.error > 0 else ''}{format_figure(pick.error)}"
    return "" if pick.confidence is None else f"confidence {format_percent(pick.confidence)}"


def _explained_label(example: Example, evaluation: Evaluation) -> str:
    """Return the label that the word weights refer to."""
    pick = example.selected
    if example.target_name is not None:
        return example.target_name
    if pick.output_index is None or pick.output_index >= len(evaluation.labels):
        return pick.answer
    name = evaluation.labels[pick.output_index]
    return f"not {name}" if pick.is_negated else name


def list_cell_rows(evaluation: Evaluation, examples: PartExamples | None, key: str) -> dict[tuple[int, int], CellRows]:
    """Return the shown rows of each confusion matrix cell, by (true, predicted) label index."""
    rows_by_cell = {}
    for shown_cell in () if examples is None else examples.cells[:MAX_CELLS]:
        cell = shown_cell.cell
        if shown_cell.examples and max(cell.true, cell.predicted) < len(evaluation.labels):
            rows_by_cell[cell.true, cell.predicted] = CellRows(
                id=f"cell-{key}-{cell.true}-{cell.predicted}",
                true=evaluation.labels[cell.true],
                answered=evaluation.labels[cell.predicted],
                is_correct=cell.true == cell.predicted,
                count=cell.count,
                rows=tuple(
                    _make_card(example, evaluation, key, (), MAX_CELL_TEXT_CHARACTERS)
                    for example in shown_cell.examples
                ),
            )
    return rows_by_cell
