"""Which columns an answer becomes in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clearhead.caller import setting
from clearhead.data import Columns
from clearhead.data.sources.source import Row, Source
from clearhead.errors import InputError
from clearhead.files import to_printable
from clearhead.predict.predictor import Predictor
from clearhead.predict.writers import ConllWriter, SquadWriter, Writer
from clearhead.tasks.answer import Answer, round_probability

GIVEN_PREFIX = "given_"  # before the name of a column that holds what is right, where the answer has the same name
PROBABILITY_PREFIX = "probability:"  # before the name of a label or an option
LABEL_COLUMNS = ("spans", "tags", "answer", "prediction")  # what answers and labels may both be called
ID_COLUMN = "id"  # what the number of a row without an id is called
FORMATS_BY_ID = ("squad",)  # forms in which answers stand by the id of their question
DROPPED_COLUMNS = {
    "squad": ("context", "answers", "is_impossible")
}  # they stand once a passage, and not once a question


CellBuilder = Callable[[Answer | None], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class OutputColumns:
    """Which columns an answer becomes."""

    names: tuple[str, ...]
    build_cells: CellBuilder
    select_values: Callable[[Mapping[str, Any]], dict[str, Any]] = dict  # what stays of a row's own values
    json_columns: tuple[str, ...] = ()  # columns whose lists are JSON in a cell, so that an empty one is not nothing
    needs_id: bool = False  # rows have no id, and get their number as one


@dataclass(frozen=True, kw_only=True)
class UniqueIds:
    """Sees to it that no row takes the place of an earlier one, where answers stand by the id of their row."""

    source: str
    column: str
    first_rows: dict[str, int] = field(default_factory=dict)  # the row of each key

    def add(self, row: Row) -> None:
        """One more row, or an error that names both."""
        value = row.values.get(self.column)
        key = "" if value is None else str(value)
        first = self.first_rows.setdefault(key, row.number)
        if first != row.number:
            said = f"rows {first:,} and {row.number:,} both have the {self.column} {to_printable(key, 40)!r}"
            raise InputError(f"{self.source}: {said}; give each question its own, or write .jsonl.")


def plan_output_columns(
    predictor: Predictor, source: Source, columns: Columns, names: Sequence[str], prefix: str, *, probabilities: bool
) -> OutputColumns:
    """The new columns, none of which may be there already."""
    codec = predictor.task.answers
    own = codec.columns(columns, tuple(names))
    listed = codec.probability_columns(predictor.space, columns) if probabilities else ()
    abstained = ("abstained",) if predictor.calibration.abstain_below is not None else ()
    tail = tuple(f"{PROBABILITY_PREFIX}{name}" for name in listed)
    added = (*tail, *abstained) if codec.has_nested_cells else (*abstained, *tail)
    cells = _make_cell_builder((*own, *added), prefix)
    new = tuple(name if name == ID_COLUMN else f"{prefix}{name}" for name in (*own, *added))
    if not codec.has_nested_cells:
        _check_new_names(new, names, source)
        return OutputColumns(names=new, build_cells=cells)
    label = columns.label if columns.label is not None else next((name for name in new if name in LABEL_COLUMNS), None)
    moved = {label: f"{GIVEN_PREFIX}{label}"} if label in new else {}
    dropped = DROPPED_COLUMNS.get(source.kind, ())

    def kept(values: Mapping[str, Any]) -> dict[str, Any]:
        return {moved.get(name, name): value for name, value in values.items() if name not in dropped}

    _check_new_names(new, [moved.get(name, name) for name in names], source)
    return OutputColumns(
        names=new,
        build_cells=cells,
        select_values=kept,
        json_columns=(*new, *moved.values()),
        needs_id=ID_COLUMN in new,
    )


def _make_cell_builder(names: Sequence[str], prefix: str) -> CellBuilder:
    """What fills the columns: nothing where there is no answer; a row with fewer options leaves the last ones empty."""
    wanted = [name for name in names if name != ID_COLUMN]
    listed = [name for name in names if name.startswith(PROBABILITY_PREFIX)]

    def cells(found: Answer | None) -> dict[str, Any]:
        values: dict[str, Any] = {}
        if found is not None:
            values = {**found.columns(), "abstained": found.abstained}
            if listed:
                values |= dict(zip(listed, map(round_probability, found.probabilities.values()), strict=False))
        return {f"{prefix}{name}": values.get(name) for name in wanted}

    return cells


def check_probabilities(predictor: Predictor, columns: Columns) -> None:
    """Refuse a column for each label where there are no labels, and name where the probabilities are instead."""
    codec = predictor.task.answers
    if not codec.probability_columns(predictor.space, columns):
        raise InputError(
            f"{predictor.reference} {codec.no_probabilities_reason}; leave {setting('probabilities')} out."
        )


def _check_new_names(new: Sequence[str], names: Sequence[str], source: Source) -> None:
    if taken := sorted(set(new) & set(names)):
        prefix = setting("prefix", "NAME")
        raise InputError(f"{source.name} has a column {taken[0]!r} already; name the new ones with {prefix}.")


def make_task_writer(form: str, source: Source, columns: Columns) -> tuple[OutputColumns, Writer]:
    """A writer with a form of its own, and what it needs of an answer."""
    if form == "conll":
        tags = OutputColumns(
            names=("prediction",), build_cells=lambda found: {"prediction": found.tags if found else None}
        )
        names = (*source.columns, "prediction")
        return tags, ConllWriter(names, source.delimiter or "\t", header=bool(source.has_header))
    named = columns.id

    def cells(found: Answer | None) -> dict[str, Any]:
        return {"answer": found.answer if found else ""}

    def kept(values: Mapping[str, Any]) -> dict[str, Any]:
        return {} if named is None else {"id": values.get(named)}

    return OutputColumns(
        names=("answer",), build_cells=cells, select_values=kept, needs_id=named is None
    ), SquadWriter()
