"""Labels keep the user's names, in an order that does not depend on the rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import LabelSpace, read_labels
from clearhead.errors import InputError


@pytest.mark.parametrize(
    ("values", "kind", "names"),
    [
        (["spam", "ham", "spam"], "classes", ("ham", "spam")),
        (["10", "2", "1"], "classes", ("1", "2", "10")),
        ([10, 2, 1], "classes", ("1", "2", "10")),
        ([True, False], "classes", ("false", "true")),
        (["yes", "No", "yes "], "classes", ("No", "yes", "yes ")),
        ([1.0, 0.0, None], "classes", ("0", "1")),
        (["label10", "label9"], "classes", ("label9", "label10")),
        (["1.0", "2.0"], "classes", ("1.0", "2.0")),
        ([["a", "b"], [], ["c"]], "multilabel", ("a", "b", "c")),
        (['["a", "b"]', "[]", "['c']"], "multilabel", ("a", "b", "c")),
        (["a;b", "b;c", "a;c", "a"], "multilabel", ("a", "b", "c")),
        (["a|b", "b|c", "a|c", "a"], "multilabel", ("a", "b", "c")),
        (["Sci;Tech", "Sport", "Sci;Tech"], "classes", ("Sci;Tech", "Sport")),
        ([0.1 * i for i in range(30)], "number", ()),
        (["3,5", "2,1", "1,9", "2,2", "0,4"], "number", ()),
        (list(range(500)), "number", ()),
        ([i % 77 for i in range(10_000)], "classes", tuple(map(str, range(77)))),
    ],
)
def test_kinds(values: list[Any], kind: str, names: tuple[str, ...]) -> None:
    space = read_labels(values)
    assert (space.kind, space.names) == (kind, names)
    assert space == read_labels(reversed(values))


def test_what_is_said_wins() -> None:
    assert read_labels(["a,b", "b"], separator=",").names == ("a", "b")
    assert read_labels(["1", "2"], kind="number").kind == "number"
    assert read_labels(["a", "b"], kind="multilabel") == LabelSpace(names=("a", "b"), kind="multilabel")
    assert read_labels(["0.5", "1.5", "2.5", "3.5", "4.5"], kind="classes").kind == "classes"
    with pytest.raises(InputError, match="expected one of"):
        read_labels([], kind="colours")  # type: ignore[arg-type]


def test_encoding() -> None:
    classes = read_labels(["b", "a"])
    assert [classes.encode("a"), classes.encode("b")] == [0, 1]
    with pytest.raises(InputError, match="label 'c' is not one of a, b"):
        classes.encode("c")
    several = read_labels(["a;b", "b;c", "a;c", "a"])
    assert several.encode("c; a") == (0, 2)
    assert several.encode("") == ()
    assert several.encode(["b"]) == (1,)
    with pytest.raises(InputError, match="'d'"):
        several.encode("a;d")
    number = LabelSpace(kind="number")
    assert number.encode("3.5") == 3.5
    for value in ("x", "nan", "inf", "1_000", True, None, "9" * 99):
        with pytest.raises(InputError, match="not a number"):
            number.encode(value)


def test_a_column_of_texts_holds_no_labels() -> None:
    with pytest.raises(InputError, match="more than 50,000 distinct values"):
        read_labels(f"text {i}" for i in range(60_000))


@given(st.lists(st.text(min_size=1) | st.integers() | st.booleans()))
def test_every_label_finds_its_place(values: list[Any]) -> None:
    space = read_labels(values)
    assert space == read_labels(sorted(values, key=repr))
    for value in values:
        if not (isinstance(value, str) and not value.strip()) and space.kind == "classes":
            index = space.encode(value)
            assert isinstance(index, int)
            assert space.names[index] == (value if isinstance(value, str) else str(value).lower())
