"""Columns of a prediction file."""

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

GIVEN_PREFIX = "given_"  # of the label column, if the answer has a column with the same name
PROBABILITY_PREFIX = "probability:"  # of the columns of labels and options
LABEL_COLUMNS = ("spans", "tags", "answer", "prediction")  # names that columns of answers and of labels may share
ID_COLUMN = "id"  # holds the row number if rows have no id
FORMATS_BY_ID = ("squad",)  # formats whose answers are keyed by the id of the question
DROPPED_COLUMNS = {"squad": ("context", "answers", "is_impossible")}  # stored once per passage, not per question


CellBuilder = Callable[[Answer | None], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class OutputColumns:
    """The new columns of a prediction file, and how an answer fills them."""

    names: tuple[str, ...]
    build_cells: CellBuilder
    select_values: Callable[[Mapping[str, Any]], dict[str, Any]] = dict  # of the input row
    json_columns: tuple[str, ...] = ()  # lists in these are JSON, so that an empty list differs from a missing one
    needs_id: bool = False  # rows have no id; their number is used


@dataclass(frozen=True, kw_only=True)
class UniqueIds:
    """Refuses repeated ids in formats that are keyed by id."""

    source: str
    column: str
    first_rows: dict[str, int] = field(default_factory=dict)  # row number by id

    def add(self, row: Row) -> None:
        """Add a row; a repeated id is an error that names both rows."""
        value = row.values.get(self.column)
        row_id = "" if value is None else str(value)
        first_row = self.first_rows.setdefault(row_id, row.number)
        if first_row != row.number:
            duplicate = (
                f"rows {first_row:,} and {row.number:,} both have the {self.column} {to_printable(row_id, 40)!r}"
            )
            raise InputError(f"{self.source}: {duplicate}; ids must be unique in this format, or write .jsonl.")


def plan_output_columns(
    predictor: Predictor, source: Source, columns: Columns, names: Sequence[str], prefix: str, *, probabilities: bool
) -> OutputColumns:
    """Plan the new columns; none may exist in the source."""
    codec = predictor.task.answers
    answer_columns = codec.columns(columns, tuple(names))
    labels = codec.probability_columns(predictor.space, columns) if probabilities else ()
    abstained_column = ("abstained",) if predictor.calibration.abstain_below is not None else ()
    probability_columns = tuple(f"{PROBABILITY_PREFIX}{name}" for name in labels)
    extra_columns = (
        (*probability_columns, *abstained_column)
        if codec.has_nested_cells
        else (*abstained_column, *probability_columns)
    )
    build_cells = _make_cell_builder((*answer_columns, *extra_columns), prefix)
    new_names = tuple(name if name == ID_COLUMN else f"{prefix}{name}" for name in (*answer_columns, *extra_columns))
    if not codec.has_nested_cells:
        _check_new_names(new_names, names, source)
        return OutputColumns(names=new_names, build_cells=build_cells)
    label = (
        columns.label
        if columns.label is not None
        else next((name for name in new_names if name in LABEL_COLUMNS), None)
    )
    renamed = {label: f"{GIVEN_PREFIX}{label}"} if label in new_names else {}
    dropped = DROPPED_COLUMNS.get(source.kind, ())

    def select_values(values: Mapping[str, Any]) -> dict[str, Any]:
        return {renamed.get(name, name): value for name, value in values.items() if name not in dropped}

    _check_new_names(new_names, [renamed.get(name, name) for name in names], source)
    return OutputColumns(
        names=new_names,
        build_cells=build_cells,
        select_values=select_values,
        json_columns=(*new_names, *renamed.values()),
        needs_id=ID_COLUMN in new_names,
    )


def _make_cell_builder(names: Sequence[str], prefix: str) -> CellBuilder:
    """Return a function that fills the columns; cells without an answer, or without an option, stay empty."""
    columns = [name for name in names if name != ID_COLUMN]
    probability_columns = [name for name in names if name.startswith(PROBABILITY_PREFIX)]

    def build_cells(answer: Answer | None) -> dict[str, Any]:
        values: dict[str, Any] = {}
        if answer is not None:
            values = {**answer.columns(), "abstained": answer.abstained}
            if probability_columns:
                values |= dict(
                    zip(probability_columns, map(round_probability, answer.probabilities.values()), strict=False)
                )
        return {f"{prefix}{name}": values.get(name) for name in columns}

    return build_cells


def check_probabilities(predictor: Predictor, columns: Columns) -> None:
    """Refuse probability columns for tasks without a fixed set of labels."""
    codec = predictor.task.answers
    if not codec.probability_columns(predictor.space, columns):
        raise InputError(f"{predictor.reference} {codec.no_probabilities_reason}; omit {setting('probabilities')}.")


def _check_new_names(new_names: Sequence[str], names: Sequence[str], source: Source) -> None:
    if existing := sorted(set(new_names) & set(names)):
        prefix = setting("prefix", "NAME")
        raise InputError(f"{source.name} already has a column {existing[0]!r}; prefix the new columns with {prefix}.")


def make_task_writer(format_name: str, source: Source, columns: Columns) -> tuple[OutputColumns, Writer]:
    """Make the writer of a format that only some tasks have, and plan its columns."""
    if format_name == "conll":
        tag_columns = OutputColumns(
            names=("prediction",), build_cells=lambda answer: {"prediction": answer.tags if answer else None}
        )
        names = (*source.columns, "prediction")
        return tag_columns, ConllWriter(names, source.delimiter or "\t", header=bool(source.has_header))
    id_column = columns.id

    def build_cells(answer: Answer | None) -> dict[str, Any]:
        return {"answer": answer.answer if answer else ""}

    def select_values(values: Mapping[str, Any]) -> dict[str, Any]:
        return {} if id_column is None else {"id": values.get(id_column)}

    return OutputColumns(
        names=("answer",), build_cells=build_cells, select_values=select_values, needs_id=id_column is None
    ), SquadWriter()
