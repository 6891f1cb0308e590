"""The estimators that learn: labels and numbers of texts, trained by `clearhead.train`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d

from clearhead.data import Columns, LabelSpace, open_source
from clearhead.data.labels import Kind
from clearhead.deprecation import rename_settings, rename_stored, renamed_fields
from clearhead.errors import InputError
from clearhead.estimators.inputs import (
    TEXT_COLUMNS,
    EstimatorError,
    build_training_rows,
    draw_seed,
    encode_targets,
    list_text_columns,
    name_classes,
    print_to_stderr,
    read_rows,
    set_text_tags,
)
from clearhead.estimators.model_handle import TrainedFolder
from clearhead.files import to_printable
from clearhead.jobs.events import RunEvents
from clearhead.metrics.checks import Array
from clearhead.predict.stream import answer_chunks
from clearhead.tasks import infer_task

if TYPE_CHECKING:
    from clearhead.predict.predictor import Predictor
    from clearhead.tasks.answer import Answer

RENAMED = {"rate": "learning_rate", "batch_rows": "batch_size", "strength": "C"}
FORMER_STATE = RENAMED | {  # of pickles written by version 0.1
    "kept_": "trained_folder_",
    "_form": "_label_format",
    "_order": "_class_order",
    "_absent": "_absent_logit",
}
CLASS_WEIGHTS = {None: "none", "none": "none", "balanced": "auto", "auto": "auto"}


@renamed_fields(**RENAMED)
class TextEstimator(BaseEstimator):  # type: ignore[misc]
    """What a classifier and a regressor share: training in a folder, and asking what came of it."""

    def __init__(
        self,
        *,
        model: str = "default",
        method: str = "finetune",
        epochs: int | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        layer: str | int | None = None,
        pooling: str | None = None,
        C: float | None = None,
        max_length: int | None = None,
        long: str | None = None,
        validation_fraction: float | None = None,
        settings: Mapping[str, Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
        device: str = "auto",
        threads: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.method = method
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.batch_tokens = batch_tokens
        self.layer = layer  # features: which layer, ...
        self.pooling = pooling  # ... and which tokens
        self.C = C  # inverse regularization strength of the linear model (methods features and tfidf)
        self.max_length = max_length
        self.long = long
        self.validation_fraction = validation_fraction  # rows held out to choose the epoch; None: all are trained on
        self.settings = settings  # any other choice of `train`, by its name
        self.folder = folder  # a new folder to keep the run in, with its report; None: a temporary one
        self.device = device
        self.threads = threads
        self.random_state = random_state
        self.verbose = verbose

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator."""
        super().set_params(**rename_settings(params, RENAMED))
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(rename_stored(state, FORMER_STATE))

    def __sklearn_tags__(self) -> Any:
        return set_text_tags(super().__sklearn_tags__())

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Copy the trained model to a new folder, for `clearhead.predict` and the command line."""
        check_is_fitted(self)
        place = Path(folder)
        try:
            place.mkdir(parents=True)
            self.trained_folder_.copy_to(place)
        except OSError as error:
            raise InputError(f"{to_printable(place)} cannot be written: {error.strerror or error}.") from None
        return place

    def _fit_rows(self, rows: list[dict[str, Any]], **choices: Any) -> None:
        """Train on rows with labels, and keep the model."""
        from clearhead.api import train

        kept = TrainedFolder(None if self.folder is None else Path(self.folder))
        names = ("model", "method", "epochs", "learning_rate", "batch_size", "batch_tokens", "layer", "pooling", "C")
        mine = {name: getattr(self, name) for name in (*names, "max_length", "long", "device", "threads")}
        self.run_ = train(
            rows,
            output=kept.folder,
            report=self.folder is not None,
            events=RunEvents(message=print_to_stderr) if self.verbose else None,
            # cross-validation compares models itself, and should not pay for it in every fit
            **{"baselines": False} | dict(self.settings or {}) | {k: v for k, v in mine.items() if v is not None},
            **dict[str, Any]((name, name) for name in TEXT_COLUMNS if name in rows[0]),
            label="label",
            seed=draw_seed(self.random_state),
            dev_share=self.validation_fraction or 0.0,
            test_share=0.0,
            **choices,
        )
        self.n_features_in_ = len(list_text_columns(rows))
        self.trained_folder_ = kept

    def _predict_answers(self, X: Any) -> list[Answer]:
        """The answer to each text; an estimator never abstains."""
        rows, columns = self._read_rows(X)
        return self._load_predictor().answer(rows, columns.text, columns.text_b)

    def _load_predictor(self) -> Predictor:
        predictor = self.trained_folder_.load_predictor(self.device)
        return replace(predictor, calibration=replace(predictor.calibration, abstain_below=None))

    def _read_rows(self, X: Any) -> tuple[list[dict[str, Any]], Columns]:
        """Texts as rows, if they are as many a row as in training."""
        check_is_fitted(self)
        rows = read_rows(X)
        sides = list_text_columns(rows)
        if len(sides) != self.n_features_in_:
            raise EstimatorError(
                f"X has {len(sides)} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input: one for texts, two for pairs."
            )
        return rows, Columns(text="text", text_b=sides[1] if len(sides) > 1 else None)


@renamed_fields(**RENAMED)
class TextClassifier(ClassifierMixin, TextEstimator):  # type: ignore[misc]
    """Learn labels of texts or pairs of texts: one each, or several as a table of 0 and 1 or as lists.

    The labels come back as they were given: strings, whole numbers or booleans in an array, in `classes_` too.
    """

    def __init__(
        self,
        *,
        model: str = "default",
        method: str = "finetune",
        epochs: int | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        class_weight: str | None = None,
        layer: str | int | None = None,
        pooling: str | None = None,
        C: float | None = None,
        max_length: int | None = None,
        long: str | None = None,
        validation_fraction: float | None = None,
        settings: Mapping[str, Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
        device: str = "auto",
        threads: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            model=model,
            method=method,
            epochs=epochs,
            learning_rate=learning_rate,
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            layer=layer,
            pooling=pooling,
            C=C,
            max_length=max_length,
            long=long,
            validation_fraction=validation_fraction,
            settings=settings,
            folder=folder,
            device=device,
            threads=threads,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight  # "balanced": rare classes count more

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any, **others: Any) -> Self:
        """Train on texts and their labels."""
        rows = build_training_rows(self, X, y, others)
        weight = CLASS_WEIGHTS.get(self.class_weight if isinstance(self.class_weight, str | None) else "?")
        if weight is None:
            raise EstimatorError(f"class_weight is {to_printable(self.class_weight)}; expected None or 'balanced'.")
        classes, found, form = encode_targets(y)
        names = name_classes(classes)
        for row, places in zip(rows, found, strict=True):
            row["label"] = names[places[0]] if form == "one" else [names[place] for place in places]
        kind: Kind = "classes" if form == "one" else "multilabel"
        task = infer_task(Columns(text="text", text_b=rows[0].get("text_b")), LabelSpace(kind=kind))
        self._fit_rows(rows, task=task.name, labels=kind, class_weight=weight)
        self.classes_ = classes
        self._label_format = form
        self._class_order = [names.index(name) for name in self.run_.labels]  # the model's labels, among the classes
        self._absent_logit = -float(np.log(len(rows) + 1))  # log odds of a label that no row had
        return self

    def predict(self, X: Any) -> Array:
        """The label of each text; where it can have several, a table of 0 and 1, or tuples where fit got lists."""
        answers = self._predict_answers(X)
        ids = self._load_predictor().space.ids
        if self._label_format == "one":
            return np.asarray(self.classes_[[self._class_order[ids[answer.label or ""]] for answer in answers]])
        table = np.zeros((len(answers), len(self.classes_)), int)
        for row, answer in zip(table, answers, strict=True):
            row[[self._class_order[ids[label]] for label in answer.labels or ()]] = 1
        if self._label_format == "table":
            return table
        made = np.empty(len(table), object)
        made[:] = [tuple(self.classes_[row == 1].tolist()) for row in table]
        return made

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, in the order of `classes_`."""
        probs = np.array([list(answer.probabilities.values()) for answer in self._predict_answers(X)])
        return self._align_columns(probs, float(1 / (1 + np.exp(-self._absent_logit))))

    def decision_function(self, X: Any) -> Array:
        """The logits behind the probabilities, in the order of `classes_`; of two classes, those of the second."""
        rows, columns = self._read_rows(X)
        predictor = self._load_predictor()
        chunks = answer_chunks(predictor, open_source(rows), columns)
        logits = np.concatenate([chunk.logits for chunk in chunks])
        made = self._align_columns(logits / predictor.calibration.temperature, self._absent_logit)
        return made[:, 1] - made[:, 0] if self._label_format == "one" and len(self.classes_) == 2 else made

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of texts whose labels are all right."""
        if getattr(self, "_label_format", "one") != "lists":
            return float(super().score(X, y, sample_weight))
        right = [set(said) == set(true) for said, true in zip(self.predict(X), y, strict=True)]
        return float(np.average(right, weights=sample_weight))

    def _align_columns(self, values: Array, absent: float) -> Array:
        """Columns of the model in the order of the classes."""
        made = np.full((len(values), len(self.classes_)), absent)
        made[:, self._class_order] = values
        return made


class TextRegressor(RegressorMixin, TextEstimator):  # type: ignore[misc]
    """Learn a number from texts or pairs of texts."""

    def fit(self, X: Any, y: Any, **others: Any) -> Self:
        """Train on texts and their numbers."""
        rows = build_training_rows(self, X, y, others)
        numbers = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=np.float64, input_name="y")
        for row, number in zip(rows, numbers.tolist(), strict=True):
            row["label"] = number
        space = LabelSpace(kind="number")
        self._fit_rows(rows, task=infer_task(Columns(text="text"), space).name, labels=space.kind)
        return self

    def predict(self, X: Any) -> Array:
        """A number for each text."""
        return np.array([answer.value for answer in self._predict_answers(X)], np.float64)
