"""What a task is: a value of a few parts, used by train, evaluate, predict and whatever comes after them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.activation import Activation
from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.data.row_codec import RowCodec
from clearhead.tasks.answer import AnswerCodec
from clearhead.tasks.encoded import Encoded
from clearhead.tasks.occlusion import Read, Watching, watch_text

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval, LabelScore
    from clearhead.tasks.examples import Pick, Picks

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Temperature and thresholds: fitted on development rows, kept in the passport."""

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
class TaskHead:
    """The head that an encoder gets for a task, and how its outputs become scores of rows."""

    kind: str
    outputs: Callable[[LabelSpace], tuple[str, ...]]  # what they are called
    collect: Callable[[Array, Encoded], Any] = mean_windows  # outputs of windows, or of tokens, to scores of rows
    words: Callable[[Array, Encoded], Any] | None = None  # outputs of words that are read, to scores of rows
    named: bool = True  # the outputs are the labels, in a checkpoint's config.json too
    # the labels of a checkpoint that clearhead did not train, by their names and its config.json; None: another task's
    space: Callable[[tuple[str, ...], Mapping[str, Any]], LabelSpace | None] = lambda names, config: None


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How scores become answers."""

    read: Callable[[Any, LabelSpace, Calibration], Answers]
    fit: Callable[[Any, Any, LabelSpace], Calibration]  # on development rows
    confidence: Callable[[Answers], Array | None]  # how sure each answer is
    thresholded: Callable[[LabelSpace], bool] = lambda space: False  # whether a fitted threshold decides the answer


Scores = Callable[["Answers", Any, LabelSpace, str], "tuple[Callable[..., float], Any]"]


@dataclass(frozen=True, kw_only=True)
class TaskMetrics:
    """How answers are measured and compared."""

    measure: Callable[[Answers, Any, LabelSpace, int], dict[str, Interval]]  # int: resamples, 0 for none
    main: Callable[[LabelSpace], str]  # the metric that epochs are compared by
    names: Callable[[LabelSpace], tuple[str, ...]]  # all that `measure` has
    right: Callable[[Answers, Any], Array | None]  # whether each answer is, where that is yes or no
    details: Callable[[Answers, Any, LabelSpace], Details] = lambda answers, targets, space: Details()
    # two models on the same rows: a metric of (rows, scores) by its name, and the scores of each row; None: `compared`
    row_scores: Scores | None = None
    compared: Callable[[LabelSpace], Mapping[str, Callable[..., float]]] | None = None  # metrics of targets and answers
    comparable: Callable[[LabelSpace, LabelSpace], bool] = lambda one, two: one == two  # of two models
    baseline: Callable[[Encoded], float] | None = None  # the loss of one who has not read the texts
    floor: Callable[[Encoded], float] | None = None  # the main metric of one who has not


@dataclass(frozen=True, kw_only=True)
class ErrorExamples:
    """Which rows an error analysis picks, and how a picked row is taken apart."""

    picks: Callable[[Answers, Any, LabelSpace, Any], Picks]
    watch: Callable[[Pick, TextRow, Read], Watching | None] = watch_text  # None: not at all


@dataclass(frozen=True, kw_only=True)
class Task:
    """A kind of question to ask of a text: what training, evaluation, prediction and reports know of it."""

    name: str
    about: str  # one line for people
    rows: RowCodec  # from the rows of a source to tokens and targets
    head: TaskHead  # from an encoder's states to scores of rows
    objective: Callable[[LabelSpace], str]  # its loss, by name
    decode: Decoding  # from scores to answers
    answers: AnswerCodec  # from answers to values and files
    metrics: TaskMetrics
    examples: ErrorExamples
    methods: tuple[str, ...] = ("finetune", "head", "features", "tfidf", "majority")
