"""Validate inputs of estimators: texts or pairs of texts, and their labels or numbers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, column_or_1d

from clearhead.data import BadRow, Columns, Row, check_row
from clearhead.data.labels import format_label, is_missing, is_valid_text
from clearhead.errors import InputError
from clearhead.files import to_printable
from clearhead.metrics.checks import Array

TEXT_COLUMNS = ("text", "text_b")
MAX_LISTED_ROWS = 5  # bad rows listed in an error
LabelFormat = Literal["one", "table", "lists"]  # one label per text, an indicator matrix, or lists of labels


class EstimatorError(InputError, ValueError):
    """Invalid input of an estimator; also a ValueError, as scikit-learn expects."""


def read_rows(X: Any) -> list[dict[str, Any]]:
    """Read texts or pairs of texts as rows; one error lists all bad rows."""
    if isinstance(X, str) or not (hasattr(X, "__len__") or hasattr(X, "__array__")):
        raise EstimatorError(f"X is a {type(X).__name__}; expected a list, array or Series of texts.")
    if hasattr(X, "toarray"):
        raise EstimatorError("X is a sparse matrix of numbers; expected a list, array or Series of texts.")
    row_cells = _read_cells(X)
    if not row_cells:
        raise EstimatorError("X has 0 sample(s), and at least one text is required.")
    width = len(row_cells[0])
    if width not in (1, 2) or any(len(cells) != width for cells in row_cells):
        raise EstimatorError("X must have one text per row, or two texts in every row.")
    rows = [dict(zip(TEXT_COLUMNS, cells, strict=False)) for cells in row_cells]
    columns = Columns(text="text", text_b="text_b" if width == 2 else None)
    checked = (check_row(Row(index, row), columns) for index, row in enumerate(rows))
    bad_rows = [row for row in checked if isinstance(row, BadRow)]
    if bad_rows:
        listed = "; ".join(f"X[{row.number}]: {row.reason}" for row in bad_rows[:MAX_LISTED_ROWS])
        more = f"; and {len(bad_rows) - MAX_LISTED_ROWS:,} more" if len(bad_rows) > MAX_LISTED_ROWS else ""
        raise EstimatorError(f"{len(bad_rows):,} of {len(rows):,} rows of X cannot be read: {listed}{more}.")
    return rows


def _read_cells(X: Any) -> list[tuple[Any, ...]]:
    """Return the cells of each row."""
    array = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X) if hasattr(X, "__array__") else None
    if array is not None:
        if array.ndim not in (1, 2):
            raise EstimatorError(f"X has shape {array.shape}; expected texts, or pairs of texts in two columns.")
        if array.dtype.kind not in "OUST":
            raise EstimatorError(f"X has dtype {array.dtype.name}; expected texts.")
        rows: Any = array.astype(object).tolist() if array.dtype.kind != "S" else array.astype(str).tolist()
    else:
        rows = list(X)
    return [tuple(row) if isinstance(row, list | tuple) else (row,) for row in rows]


def list_text_columns(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names of the text columns."""
    return tuple(name for name in TEXT_COLUMNS if name in rows[0])


def read_single_texts(X: Any) -> list[str]:
    """Read texts, and raise EstimatorError for pairs."""
    rows = read_rows(X)
    if "text_b" in rows[0]:
        raise EstimatorError("X has 2 features, expected 1: texts are embedded one column at a time.")
    return [row["text"] for row in rows]


def build_training_rows(estimator: object, X: Any, y: Any, others: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read X for training; check that it matches y and that there are no other arguments."""
    name = type(estimator).__name__
    if others:
        hint = (
            ' (use class_weight="balanced" to increase the weight of rare classes)' if "sample_weight" in others else ""
        )
        raise EstimatorError(f"{name}.fit accepts X and y; {to_printable(sorted(others)[0])} is not supported{hint}.")
    if y is None:
        raise EstimatorError(f"{name} requires y to be passed, but the target y is None.")
    rows = read_rows(X)
    check_consistent_length(rows, y)
    return rows


def encode_targets(y: Any) -> tuple[Array, list[list[int]], LabelFormat]:
    """Return the classes, the class indices of each row, and the format of the labels."""
    label_format: LabelFormat = "one"
    if _are_lists(y):
        label_format, label_lists = "lists", [list(labels) for labels in y]
        all_labels = [label for labels in label_lists for label in labels]
        if not all_labels:
            raise EstimatorError("y has no labels in any row, so there are no classes to learn.")
        classes = np.unique(np.asarray(all_labels))
        class_index = {label: index for index, label in enumerate(classes.tolist())}
        return (
            classes,
            [sorted({class_index[_to_python(label)] for label in labels}) for labels in label_lists],
            label_format,
        )
    table = y.toarray() if hasattr(y, "toarray") else y.to_numpy() if hasattr(y, "to_numpy") else y
    if np.asarray(table).dtype.kind == "f":
        assert_all_finite(np.asarray(table), input_name="y")
    elif isinstance(table, np.ndarray | list) and np.ndim(table) == 1:
        missing_rows = [
            class_index
            for class_index, label in enumerate(table)
            if not isinstance(label, str) and _is_missing_label(label)
        ]
        if missing_rows:
            raise EstimatorError(f"y[{missing_rows[0]}] is missing; every text needs a label.")
    kind = type_of_target(table, input_name="y", raise_unknown=True)
    if kind == "multilabel-indicator":
        flags = np.asarray(table)
        if not flags.any():
            raise EstimatorError("y has no labels in any row, so there are no classes to learn.")
        return np.arange(flags.shape[1]), [np.flatnonzero(row).tolist() for row in flags], "table"
    if kind in ("multiclass-multioutput", "continuous-multioutput"):
        raise EstimatorError(
            "y has several columns with values other than 0 and 1; expected one label per row, or an indicator matrix."
        )
    column = column_or_1d(table, warn=True)
    check_classification_targets(column)
    classes, class_indices = np.unique(column, return_inverse=True)
    if len(classes) < 2:
        raise EstimatorError(f"y has one class, {to_printable(classes[0], 40)}; at least two classes are required.")
    return classes, [[index] for index in class_indices.tolist()], label_format


def _are_lists(y: Any) -> bool:
    """Whether each row has a list of label names, as opposed to indicators of 0 and 1."""
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    if isinstance(y, np.ndarray):
        return y.ndim == 1 and y.dtype == object and bool(len(y)) and _are_lists(y.tolist())
    if (
        not isinstance(y, list | tuple)
        or not y
        or not all(isinstance(labels, list | tuple | set | frozenset) for labels in y)
    ):
        return False
    lengths = {len(labels) for labels in y}
    return len(lengths) > 1 or lengths == {0} or not all(label in (0, 1) for labels in y for label in labels)


def _is_missing_label(value: Any) -> bool:
    return is_missing(value) or type(value).__name__ in ("NAType", "NaTType")


def _to_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def name_classes(classes: Array) -> list[str]:
    """Name classes in the model folder by their spelling, or by number if spellings are not unique."""
    names = [format_label(_to_python(label)) for label in classes]
    are_usable = len(set(names)) == len(names) and not any(
        is_missing(name) or not is_valid_text(name) for name in names
    )
    return names if are_usable else [f"class {index}" for index in range(len(names))]


def draw_seed(random_state: Any) -> int:
    """Return an integer as the seed, or draw one from a generator."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def print_to_stderr(line: str) -> None:
    """Print a line of progress (verbose)."""
    sys.stderr.write(f"{line}\n")


def set_text_tags(tags: Any) -> Any:
    """Mark the input of an estimator as texts."""
    tags.input_tags.string = True
    tags.input_tags.one_d_array = True
    tags.input_tags.two_d_array = False
    return tags
