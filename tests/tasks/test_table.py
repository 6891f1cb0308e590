"""The task registry: inference from columns and labels, unsuitable data, and all tasks are documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from clearhead.cli.train import train as verb
from clearhead.data import Columns, LabelSpace
from clearhead.errors import InputError
from clearhead.metrics.measure import CLASSIFY, REGRESS
from clearhead.metrics.measure import MULTILABEL as MULTILABEL_METRICS
from clearhead.tasks import TASKS, check_task, get_task, infer_task

REPO = Path(__file__).resolve().parents[2]
ONE = Columns(text="text", label="label")
TWO = Columns(text="text", text_b="other", label="label")
CLASSES = LabelSpace(names=("a", "b"))
MULTILABEL = LabelSpace(names=("a", "b"), kind="multilabel")
NUMBERS = LabelSpace(kind="number")


@pytest.mark.parametrize(
    ("columns", "space", "name"),
    [
        (ONE, CLASSES, "classify"),
        (ONE, MULTILABEL, "classify"),
        (TWO, CLASSES, "pair"),
        (TWO, MULTILABEL, "pair"),
        (ONE, NUMBERS, "regress"),
        (TWO, NUMBERS, "regress"),
    ],
)
def test_task_is_inferred_from_columns_and_labels(columns: Columns, space: LabelSpace, name: str) -> None:
    task = infer_task(columns, space)
    assert task.name == name
    check_task(task, columns, space)  # the data is suitable


@pytest.mark.parametrize(
    ("name", "columns", "space", "message"),
    [
        ("pair", ONE, CLASSES, "pair needs a second text; name its column with text_b="),
        ("classify", TWO, CLASSES, 'classify takes one text, got two; use task="pair"'),
        ("regress", ONE, CLASSES, "regress expects numbers, but column 'label' contains classes"),
        ("regress", ONE, MULTILABEL, "regress expects numbers, but column 'label' contains several labels per row"),
        ("classify", ONE, NUMBERS, "classify expects classes, but column 'label' contains numbers"),
        ("classify", ONE, LabelSpace(names=("a",)), "all rows have the label 'a'; there is nothing to learn"),
        ("classify", ONE, LabelSpace(kind="multilabel"), "no row has a label; there is nothing to learn"),
    ],
)
def test_unsuitable_data_is_refused_in_one_sentence(
    name: str, columns: Columns, space: LabelSpace, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        check_task(get_task(name), columns, space)


def test_a_single_optional_label_can_be_learned() -> None:
    check_task(get_task("classify"), ONE, LabelSpace(names=("urgent",), kind="multilabel"))


def test_an_unknown_task_is_refused_with_the_names_of_all_tasks() -> None:
    message = "Unknown task 'tagging'; expected one of classify, pair, regress, tag, span, choice"
    with pytest.raises(InputError, match=message):
        get_task("tagging")


@pytest.mark.parametrize("name", TASKS)
def test_the_docs_and_the_help_name_every_task(name: str) -> None:
    assert TASKS[name].name == name
    assert f"`{name}`" in (REPO / "docs" / "training.md").read_text()
    assert name in str(verb.__doc__)


@pytest.mark.parametrize(
    ("space", "metrics"), [(CLASSES, CLASSIFY), (MULTILABEL, MULTILABEL_METRICS), (NUMBERS, REGRESS)]
)
def test_the_main_metric_of_every_kind_is_measured(space: LabelSpace, metrics: dict[str, object]) -> None:
    for task in TASKS.values():
        if space.kind in task.rows.label_kinds:
            assert task.metrics.main(space) in metrics
            assert len(task.head.output_names(space)) == max(len(space), 1)
