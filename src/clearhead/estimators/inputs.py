"""What estimators take: texts or pairs of texts, and labels or numbers for them; anything else is refused."""

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
MAX_LISTED_ROWS = 5  # bad texts that an error shows
LabelFormat = Literal["one", "table", "lists"]  # how labels were given: one a text, columns of 0 and 1, or lists


class EstimatorError(InputError, ValueError):
    """A value handed to an estimator does not fit; a ValueError too, as scikit-learn's own are."""


def read_rows(X: Any) -> list[dict[str, Any]]:
    """Texts, or pairs of them, as rows; one error names all that cannot be read."""
    if isinstance(X, str) or not (hasattr(X, "__len__") or hasattr(X, "__array__")):
        raise EstimatorError(f"X is a {type(X).__name__}; expected a list, array or Series of texts.")
    if hasattr(X, "toarray"):
        raise EstimatorError("X is a sparse matrix of numbers; expected a list, array or Series of texts.")
    cells = _read_cells(X)
    if not cells:
        raise EstimatorError("X has 0 sample(s), and at least one text is required.")
    width = len(cells[0])
    if width not in (1, 2) or any(len(cell) != width for cell in cells):
        raise EstimatorError("X must have one text a row, or two in every row; expected texts or pairs of texts.")
    rows = [dict(zip(TEXT_COLUMNS, cell, strict=False)) for cell in cells]
    columns = Columns(text="text", text_b="text_b" if width == 2 else None)
    checked = (check_row(Row(place, row), columns) for place, row in enumerate(rows))
    bad = [row for row in checked if isinstance(row, BadRow)]
    if bad:
        listed = "; ".join(f"X[{row.number}]: {row.reason}" for row in bad[:MAX_LISTED_ROWS])
        more = f"; and {len(bad) - MAX_LISTED_ROWS:,} more" if len(bad) > MAX_LISTED_ROWS else ""
        raise EstimatorError(f"{len(bad):,} of {len(rows):,} rows of X cannot be read: {listed}{more}.")
    return rows


def _read_cells(X: Any) -> list[tuple[Any, ...]]:
    """The values of each row: one or several."""
    whole = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X) if hasattr(X, "__array__") else None
    if whole is not None:
        if whole.ndim not in (1, 2):
            raise EstimatorError(f"X is of shape {whole.shape}; expected texts, or pairs of texts in two columns.")
        if whole.dtype.kind not in "OUST":
            raise EstimatorError(f"X holds {whole.dtype.name} values; expected texts.")
        given: Any = whole.astype(object).tolist() if whole.dtype.kind != "S" else whole.astype(str).tolist()
    else:
        given = list(X)
    return [tuple(one) if isinstance(one, list | tuple) else (one,) for one in given]


def list_text_columns(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The columns that hold texts."""
    return tuple(name for name in TEXT_COLUMNS if name in rows[0])


def read_single_texts(X: Any) -> list[str]:
    """Texts that are no pairs."""
    rows = read_rows(X)
    if "text_b" in rows[0]:
        raise EstimatorError("X has 2 features; vectors are made of texts, not of pairs: take one column at a time.")
    return [row["text"] for row in rows]


def build_training_rows(estimator: object, X: Any, y: Any, others: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows to train on, if X and y go together and nothing else was given."""
    name = type(estimator).__name__
    if others:
        hint = ' (class_weight="balanced" makes rare classes count more)' if "sample_weight" in others else ""
        raise EstimatorError(f"{name}.fit takes X and y; {to_printable(sorted(others)[0])} is not supported{hint}.")
    if y is None:
        raise EstimatorError(f"{name} requires y to be passed, but the target y is None.")
    rows = read_rows(X)
    check_consistent_length(rows, y)
    return rows


def encode_targets(y: Any) -> tuple[Array, list[list[int]], LabelFormat]:
    """The classes, the places of each row's labels among them, and how they were given."""
    form: LabelFormat = "one"
    if _are_lists(y):
        form, listed = "lists", [list(labels) for labels in y]
        flat = [label for labels in listed for label in labels]
        if not flat:
            raise EstimatorError("y has no label in any row, so that there are no classes to learn.")
        classes = np.unique(np.asarray(flat))
        place = {label: number for number, label in enumerate(classes.tolist())}
        return classes, [sorted({place[_to_python(label)] for label in labels}) for labels in listed], form
    table = y.toarray() if hasattr(y, "toarray") else y.to_numpy() if hasattr(y, "to_numpy") else y
    if np.asarray(table).dtype.kind == "f":
        assert_all_finite(np.asarray(table), input_name="y")
    elif isinstance(table, np.ndarray | list) and np.ndim(table) == 1:
        gone = [place for place, label in enumerate(table) if not isinstance(label, str) and _is_missing_label(label)]
        if gone:
            raise EstimatorError(f"y[{gone[0]}] is missing; every text needs a label.")
    kind = type_of_target(table, input_name="y", raise_unknown=True)
    if kind == "multilabel-indicator":
        flags = np.asarray(table)
        if not flags.any():
            raise EstimatorError("y has no label in any row, so that there are no classes to learn.")
        return np.arange(flags.shape[1]), [np.flatnonzero(row).tolist() for row in flags], "table"
    if kind in ("multiclass-multioutput", "continuous-multioutput"):
        raise EstimatorError(
            "y has several columns that are not 0 and 1; expected one label a row, or a table of 0 and 1."
        )
    flat_y = column_or_1d(table, warn=True)
    check_classification_targets(flat_y)
    classes, found = np.unique(flat_y, return_inverse=True)
    if len(classes) < 2:
        raise EstimatorError(
            f"y has one class, {to_printable(classes[0], 40)}; at least two classes are needed to learn from."
        )
    return classes, [[number] for number in found.tolist()], form


def _are_lists(y: Any) -> bool:
    """Whether labels are lists of names for each row, and not columns of 0 and 1."""
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    if isinstance(y, np.ndarray):
        return y.ndim == 1 and y.dtype == object and bool(len(y)) and _are_lists(y.tolist())
    if (
        not isinstance(y, list | tuple)
        or not y
        or not all(isinstance(one, list | tuple | set | frozenset) for one in y)
    ):
        return False
    lengths = {len(one) for one in y}
    return len(lengths) > 1 or lengths == {0} or not all(label in (0, 1) for one in y for label in one)


def _is_missing_label(value: Any) -> bool:
    return is_missing(value) or type(value).__name__ in ("NAType", "NaTType")


def _to_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def name_classes(classes: Array) -> list[str]:
    """What a model folder calls the classes: as they are spelled, or by number where that would not tell them apart."""
    names = [format_label(_to_python(one)) for one in classes]
    fine = len(set(names)) == len(names) and not any(is_missing(name) or not is_valid_text(name) for name in names)
    return names if fine else [f"class {place}" for place in range(len(names))]


def draw_seed(random_state: Any) -> int:
    """A seed for `train`: the number itself, or one drawn from the generator."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def print_to_stderr(line: str) -> None:
    """Progress for `verbose`."""
    sys.stderr.write(f"{line}\n")


def set_text_tags(tags: Any) -> Any:
    """The tags of an estimator that reads texts."""
    tags.input_tags.string = True
    tags.input_tags.one_d_array = True
    tags.input_tags.two_d_array = False
    return tags
