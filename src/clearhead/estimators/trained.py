"""A classifier and a regressor for texts, trained by `clearhead.train`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d

from clearhead.api.training import train
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
    """Base class of TextClassifier and TextRegressor: parameters, training and prediction."""

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
        self.layer = layer  # layer of the features (method features)
        self.pooling = pooling  # pooling of their tokens
        self.C = C  # inverse regularization strength of the linear model (methods features and tfidf)
        self.max_length = max_length
        self.long = long
        self.validation_fraction = validation_fraction  # rows held out to choose the epoch; None: train on all rows
        self.settings = settings  # other settings of `train`
        self.folder = folder  # a new folder for the run and its report; None: a temporary folder
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
        """Copy the trained model to a new folder, for use with `clearhead.predict` and the command line."""
        check_is_fitted(self)
        target = Path(folder)
        try:
            target.mkdir(parents=True)
            self.trained_folder_.copy_to(target)
        except OSError as error:
            raise InputError(f"{to_printable(target)} cannot be written: {error.strerror or error}.") from None
        return target

    def _fit_rows(self, rows: list[dict[str, Any]], **choices: Any) -> None:
        """Train on labeled rows."""
        trained_folder = TrainedFolder(None if self.folder is None else Path(self.folder))
        parameter_names = (
            "model",
            "method",
            "epochs",
            "learning_rate",
            "batch_size",
            "batch_tokens",
            "layer",
            "pooling",
            "C",
        )
        parameters = {
            name: getattr(self, name) for name in (*parameter_names, "max_length", "long", "device", "threads")
        }
        self.run_ = train(
            rows,
            output=trained_folder.folder,
            report=self.folder is not None,
            events=RunEvents(message=print_to_stderr) if self.verbose else None,
            # cross-validation compares models itself, so each fit skips the baselines
            **{"baselines": False}
            | dict(self.settings or {})
            | {name: choice for name, choice in parameters.items() if choice is not None},
            **dict[str, Any]((name, name) for name in TEXT_COLUMNS if name in rows[0]),
            label="label",
            seed=draw_seed(self.random_state),
            dev_share=self.validation_fraction or 0.0,
            test_share=0.0,
            **choices,
        )
        self.n_features_in_ = len(list_text_columns(rows))
        self.trained_folder_ = trained_folder

    def _predict_answers(self, X: Any) -> list[Answer]:
        """Predict the answer for each text, without abstaining."""
        rows, columns = self._read_rows(X)
        return self._load_predictor().answer(rows, columns.text, columns.text_b)

    def _load_predictor(self) -> Predictor:
        predictor = self.trained_folder_.load_predictor(self.device)
        return replace(predictor, calibration=replace(predictor.calibration, abstain_below=None))

    def _read_rows(self, X: Any) -> tuple[list[dict[str, Any]], Columns]:
        """Read X, and check that it has as many text columns as in training."""
        check_is_fitted(self)
        rows = read_rows(X)
        text_columns = list_text_columns(rows)
        if len(text_columns) != self.n_features_in_:
            raise EstimatorError(
                f"X has {len(text_columns)} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input: one for texts, two for pairs."
            )
        return rows, Columns(text="text", text_b=text_columns[1] if len(text_columns) > 1 else None)


@renamed_fields(**RENAMED)
class TextClassifier(ClassifierMixin, TextEstimator):  # type: ignore[misc]
    """Classify texts or pairs of texts, with one label each, or several as an indicator matrix or as lists.

    Predicted labels and `classes_` have the type of the labels in training: strings, integers or booleans.
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
        self.class_weight = class_weight  # "balanced": rare classes get more weight

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
        classes, class_indices, label_format = encode_targets(y)
        names = name_classes(classes)
        for row, indices in zip(rows, class_indices, strict=True):
            row["label"] = names[indices[0]] if label_format == "one" else [names[index] for index in indices]
        kind: Kind = "classes" if label_format == "one" else "multilabel"
        task = infer_task(Columns(text="text", text_b=rows[0].get("text_b")), LabelSpace(kind=kind))
        self._fit_rows(rows, task=task.name, labels=kind, class_weight=weight)
        self.classes_ = classes
        self._label_format = label_format
        self._class_order = [
            names.index(name) for name in self.run_.labels
        ]  # index in `classes_` of each label of the model
        self._absent_logit = -float(np.log(len(rows) + 1))  # log odds of a class without training rows
        return self

    def predict(self, X: Any) -> Array:
        """Predict labels: an array, an indicator matrix for several labels, or tuples if `fit` received lists."""
        answers = self._predict_answers(X)
        ids = self._load_predictor().space.ids
        if self._label_format == "one":
            return np.asarray(self.classes_[[self._class_order[ids[answer.label or ""]] for answer in answers]])
        table = np.zeros((len(answers), len(self.classes_)), int)
        for row, answer in zip(table, answers, strict=True):
            row[[self._class_order[ids[label]] for label in answer.labels or ()]] = 1
        if self._label_format == "table":
            return table
        label_tuples = np.empty(len(table), object)
        label_tuples[:] = [tuple(self.classes_[row == 1].tolist()) for row in table]
        return label_tuples

    def predict_proba(self, X: Any) -> Array:
        """Predict probabilities, in the order of `classes_`."""
        probs = np.array([list(answer.probabilities.values()) for answer in self._predict_answers(X)])
        return self._align_columns(probs, float(1 / (1 + np.exp(-self._absent_logit))))

    def decision_function(self, X: Any) -> Array:
        """Compute calibrated logits in the order of `classes_`; for two classes, the difference to the first."""
        rows, columns = self._read_rows(X)
        predictor = self._load_predictor()
        chunks = answer_chunks(predictor, open_source(rows), columns)
        logits = np.concatenate([chunk.logits for chunk in chunks])
        scores = self._align_columns(logits / predictor.calibration.temperature, self._absent_logit)
        return scores[:, 1] - scores[:, 0] if self._label_format == "one" and len(self.classes_) == 2 else scores

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy; for several labels, the fraction of texts with exactly the correct set."""
        if getattr(self, "_label_format", "one") != "lists":
            return float(super().score(X, y, sample_weight))
        is_correct = [set(predicted) == set(expected) for predicted, expected in zip(self.predict(X), y, strict=True)]
        return float(np.average(is_correct, weights=sample_weight))

    def _align_columns(self, values: Array, missing: float) -> Array:
        """Reorder columns of the model to `classes_`; classes unknown to the model get `missing`."""
        table = np.full((len(values), len(self.classes_)), missing)
        table[:, self._class_order] = values
        return table


class TextRegressor(RegressorMixin, TextEstimator):  # type: ignore[misc]
    """Predict a number for texts or pairs of texts."""

    def fit(self, X: Any, y: Any, **others: Any) -> Self:
        """Train on texts and their target values."""
        rows = build_training_rows(self, X, y, others)
        numbers = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=np.float64, input_name="y")
        for row, number in zip(rows, numbers.tolist(), strict=True):
            row["label"] = number
        space = LabelSpace(kind="number")
        self._fit_rows(rows, task=infer_task(Columns(text="text"), space).name, labels=space.kind)
        return self

    def predict(self, X: Any) -> Array:
        """Predict a number for each text."""
        return np.array([answer.value for answer in self._predict_answers(X)], np.float64)
