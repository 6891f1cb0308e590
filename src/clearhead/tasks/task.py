"""What a task is: one value with a few functions, used by train, evaluate, predict and whatever comes after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import Kind, LabelSpace
from clearhead.data.table import TokenTable, encode_table

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How logits become answers: fitted on development rows, kept in the passport."""

    temperature: float = 1.0  # logits are divided by it; above 1 the model was too sure of itself
    thresholds: tuple[float, ...] = ()  # several labels a row: from which probability on each one is given
    abstain_below: float | None = None  # no answer where the model is less sure than this


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What a model says of some rows."""

    labels: Array  # (rows,) classes, (rows, names) of 0 and 1, or (rows,) numbers
    probs: Array | None = None  # (rows, names)
    abstained: Array | None = None  # (rows,) True: not sure enough to answer

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A kind of question to ask of a text. logits are (rows, outputs), targets as `Examples.labels` has them."""

    name: str
    about: str  # one line for people
    head: str  # the head that an encoder gets for it
    second: bool | None  # a second text: needed, never, or as it comes
    kinds: tuple[Kind, ...]  # of labels that it can learn
    outputs: Callable[[LabelSpace], tuple[str, ...]]  # what the head's outputs are called
    objective: Callable[[LabelSpace], str]  # its loss, by name
    read: Callable[[Array, LabelSpace, Reading], Answers]
    fit: Callable[[Array, Array, LabelSpace], Reading]  # the best reading of development rows
    measure: Callable[[Answers, Array, LabelSpace, int], dict[str, Interval]]  # int: resamples, 0 for none
    confidence: Callable[[Answers], Array | None]  # how sure each answer is
    right: Callable[[Answers, Array], Array | None]  # whether each answer is, where that is yes or no
    main: Callable[[LabelSpace], str]  # the metric that epochs are compared by
    encode: Callable[..., TokenTable] = field(default=encode_table)
