"""The parts of a task: row codec, head, objective, decoding, answers, metrics and error examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.activation import Activation
from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.data.row_codec import RowCodec
from clearhead.tasks.answer import AnswerCodec
from clearhead.tasks.occlusion import DecodeLogits, OcclusionPlan, plan_text_occlusion
from clearhead.tasks.packed import PackedDataset

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval, LabelScore
    from clearhead.tasks.examples import RowSelection, SelectedRow

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Temperature and thresholds, fitted on the dev set and stored in the passport."""

    temperature: float = 1.0  # logits are divided by it; above 1 if the model was overconfident
    thresholds: tuple[float, ...] = ()  # multilabel only: minimum probability of each label
    abstain_below: float | None = None  # abstain from answers with less confidence
    no_answer: float | None = None  # no answer if its score exceeds that of the best answer by more than this
    activation: Activation = "identity"  # regression only: applied to the single output


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The decoded predictions for a batch of rows."""

    labels: Any  # (rows,) class ids, (rows, labels) of 0 and 1, (rows,) numbers, or the form of the task
    probs: Any = None  # (rows, labels)
    abstained: Array | None = None  # (rows,) whether the confidence is below the threshold
    extra: Any = None  # whatever else the task needs to build `Answer` values

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True)
class MetricDetails:
    """Task-specific details of an evaluation."""

    confusion: tuple[tuple[int, ...], ...] | None = None  # [true][predicted]
    label_scores: tuple[LabelScore, ...] = ()
    probs: Array | None = None  # (predictions, labels), for measuring calibration
    truth: Array | None = None  # the true label of each row of `probs`


def average_windows(values: Array, data: PackedDataset) -> Array:
    """Average the outputs of a row's windows; (rows, outputs)."""
    import numpy as np

    if len(values) == len(data):
        return values
    window_rows = np.repeat(np.arange(len(data)), data.row_windows)
    total = np.zeros((len(data), values.shape[1]), np.float64)
    np.add.at(total, window_rows, values)
    return np.asarray((total / np.bincount(window_rows, minlength=len(data))[:, None]).astype(np.float32))


@dataclass(frozen=True, kw_only=True)
class TaskHead:
    """The head that a task puts on an encoder, and how its outputs become scores of rows."""

    kind: str
    output_names: Callable[[LabelSpace], tuple[str, ...]]
    # outputs of windows or tokens -> scores of rows
    collect: Callable[[Array, PackedDataset], Any] = average_windows
    # outputs of the first token of each word -> scores of rows
    collect_words: Callable[[Array, PackedDataset], Any] | None = None
    outputs_are_labels: bool = True  # the label names are also in the checkpoint's config.json
    # labels of a checkpoint without a passport, from its output names and config.json; None: not this task
    infer_labels: Callable[[tuple[str, ...], Mapping[str, Any]], LabelSpace | None] = lambda names, config: None


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How scores become answers."""

    decode: Callable[[Any, LabelSpace, Calibration], Answers]
    fit: Callable[[Any, Any, LabelSpace], Calibration]  # on the dev set
    confidence: Callable[[Answers], Array | None]  # (rows,) or None if the task has no probabilities
    has_thresholds: Callable[[LabelSpace], bool] = lambda space: False  # whether answers depend on fitted thresholds


RowScores = Callable[["Answers", Any, LabelSpace, str], "tuple[Callable[..., float], Any]"]


@dataclass(frozen=True, kw_only=True)
class TaskMetrics:
    """How answers are measured and how two models are compared."""

    measure: Callable[[Answers, Any, LabelSpace, int], dict[str, Interval]]  # int: resamples, 0 for no intervals
    main: Callable[[LabelSpace], str]  # the metric that selects the best epoch
    names: Callable[[LabelSpace], tuple[str, ...]]  # all metrics that `measure` returns
    is_correct: Callable[[Answers, Any], Array | None]  # (rows,) or None if answers are not simply right or wrong
    details: Callable[[Answers, Any, LabelSpace], MetricDetails] = lambda answers, targets, space: MetricDetails()
    # for paired comparisons: a metric of (rows, scores) by name, and the scores of each row; None: `paired_metrics`
    row_scores: RowScores | None = None
    # for paired comparisons: metrics of (targets, labels)
    paired_metrics: Callable[[LabelSpace], Mapping[str, Callable[..., float]]] | None = None
    are_comparable: Callable[[LabelSpace, LabelSpace], bool] = lambda ours, theirs: ours == theirs
    chance_loss: Callable[[PackedDataset], float] | None = None  # loss of a model that ignores its input
    chance_score: Callable[[PackedDataset], float] | None = None  # main metric of a model that ignores its input


@dataclass(frozen=True, kw_only=True)
class ErrorExamples:
    """Which rows the error analysis selects, and how word importance is computed for them."""

    select: Callable[[Answers, Any, LabelSpace, Any], RowSelection]
    # None: word importance is not computed for the row
    plan_occlusion: Callable[[SelectedRow, TextRow, DecodeLogits], OcclusionPlan | None] = plan_text_occlusion


@dataclass(frozen=True, kw_only=True)
class Task:
    """A kind of prediction: everything that training, evaluation, prediction and reports need to know about it."""

    name: str
    description: str
    rows: RowCodec  # rows of a source -> tokens and targets
    head: TaskHead  # encoder states -> scores of rows
    objective: Callable[[LabelSpace], str]  # name of the training objective
    decoding: Decoding  # scores -> answers
    answers: AnswerCodec  # answers -> values and files
    metrics: TaskMetrics
    examples: ErrorExamples
    methods: tuple[str, ...] = ("finetune", "head", "features", "tfidf", "majority")
