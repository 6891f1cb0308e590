"""What a task is: one value with a few functions, used by train, evaluate, predict and whatever comes after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from clearhead.checkpoint.activation import Activation
from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.form import FORM, Form
from clearhead.data.labels import Kind, LabelSpace
from clearhead.data.source import Source
from clearhead.data.table import TokenTable, encode_table
from clearhead.tasks.encoded import Encoded
from clearhead.tasks.occlusion import Read, Watching, watch_text

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval, LabelScore
    from clearhead.tasks.examples import Pick, Picks

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How logits become answers: fitted on development rows, kept in the passport."""

    temperature: float = 1.0  # logits are divided by it; above 1 the model was too sure of itself
    thresholds: tuple[float, ...] = ()  # several labels a row: from which probability on each one is given
    abstain_below: float | None = None  # no answer where the model is less sure than this
    no_answer: float | None = None  # a question has none where "none" scores so much higher than the best one
    activation: Activation = "identity"  # a number is this of the single output


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What a model says of some rows."""

    labels: Any  # (rows,) classes, (rows, names) of 0 and 1, (rows,) numbers, or as the task has them
    probs: Any = None  # (rows, names)
    abstained: Array | None = None  # (rows,) True: not sure enough to answer
    more: Any = None  # what a task needs to put the answers into words

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Which columns were named; None: to be found."""

    text: str | None = None
    text_b: str | None = None
    label: str | None = None
    id: str | None = None
    split: str | None = None
    options: tuple[str, ...] = ()


class Counter(Protocol):
    """Counts labels as they come, and says in the end what they are."""

    total: int

    def add(self, value: Any) -> None: ...

    def space(self) -> LabelSpace: ...


@dataclass(frozen=True, kw_only=True)
class Details:
    """What a task adds to an evaluation."""

    confusion: tuple[tuple[int, ...], ...] | None = None  # [true][answered]
    label_scores: tuple[LabelScore, ...] = ()
    probs: Array | None = None  # (items, names): what calibration is measured on, ...
    truth: Array | None = None  # ... and what is right


def mean_windows(values: Array, data: Encoded) -> Array:
    """(rows, outputs): of a text that was read in windows, the mean of them."""
    import numpy as np

    if len(values) == len(data):
        return values
    owners = np.repeat(np.arange(len(data)), data.row_windows)
    total = np.zeros((len(data), values.shape[1]), np.float64)
    np.add.at(total, owners, values)
    return np.asarray((total / np.bincount(owners, minlength=len(data))[:, None]).astype(np.float32))


@dataclass(frozen=True, kw_only=True)
class Task:
    """A kind of question to ask of a text. logits are what `collect` makes, targets as the task's form has them."""

    name: str
    about: str  # one line for people
    head: str  # the head that an encoder gets for it
    second: bool | None  # a second text: needed, never, or as it comes
    kinds: tuple[Kind, ...]  # of labels that it can learn
    outputs: Callable[[LabelSpace], tuple[str, ...]]  # what the head's outputs are called
    objective: Callable[[LabelSpace], str]  # its loss, by name
    read: Callable[[Any, LabelSpace, Reading], Answers]
    fit: Callable[[Any, Any, LabelSpace], Reading]  # the best reading of development rows
    measure: Callable[[Answers, Any, LabelSpace, int], dict[str, Interval]]  # int: resamples, 0 for none
    confidence: Callable[[Answers], Array | None]  # how sure each answer is
    right: Callable[[Answers, Any], Array | None]  # whether each answer is, where that is yes or no
    main: Callable[[LabelSpace], str]  # the metric that epochs are compared by
    encode: Callable[..., TokenTable] = field(default=encode_table)
    methods: tuple[str, ...] = ("finetune", "head", "features", "tfidf", "majority")
    form: Form = FORM  # how its rows are read
    columns: Callable[[Source, Asked, bool], Columns] | None = None  # None: by `guess_columns`; bool: labelled
    counter: Callable[[], Counter] | None = None  # None: labels of one cell a row
    collect: Callable[[Array, Encoded], Any] = mean_windows  # outputs of windows, or of tokens, to answers of rows
    words: Callable[[Array, Encoded], Any] | None = None  # answers of words that are read, to answers of rows
    weights: Callable[[Encoded], Array | None] = lambda data: None  # how much each row counts in a step
    baseline: Callable[[Encoded], float] | None = None  # the loss of one who has not read the texts
    floor: Callable[[Encoded], float] | None = None  # the main metric of one who has not
    strata: Callable[[Any, LabelSpace], tuple[Any, str]] | None = None  # labels to split by, and their kind
    details: Callable[[Answers, Any, LabelSpace], Details] | None = None
    parts: Callable[[Answers, Any, LabelSpace, str], tuple[Callable[..., float], Any]] | None = None  # see `beside`
    picks: Callable[[Answers, Any, LabelSpace, Any], Picks] | None = None  # rows worth a look; None: by the kind
    watch: Callable[[Pick, TextRow, Read], Watching | None] = watch_text  # how a picked row is taken apart; None: not
    metrics: Callable[[LabelSpace], tuple[str, ...]] | None = None  # None: by the kind of labels
    unread: Callable[[TokenTable], tuple[str, Array]] | None = None  # places of rows of which something is not learned
    passes: int = 1  # how often a row is read: twice where two texts are read in both orders
    long: tuple[int | None, int] = (None, 0)  # at most so many tokens at once, and shared between windows
