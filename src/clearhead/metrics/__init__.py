"""Measuring answers, and how far a measure can be trusted; numpy only."""

from __future__ import annotations

from clearhead.metrics.calibration import (
    Bin,
    adaptive_calibration_error,
    apply_temperature,
    confidences,
    expected_calibration_error,
    fit_temperature,
    maximum_calibration_error,
    reliability,
)
from clearhead.metrics.classification import (
    LabelScore,
    accuracy,
    balanced_accuracy,
    confusion,
    f1,
    label_table,
    matthews,
    precision,
    recall,
    share,
    subset_accuracy,
)
from clearhead.metrics.correlation import kendall, mae, mse, pearson, r2, spearman
from clearhead.metrics.intervals import Interval, bootstrap, bootstraps, wilson
from clearhead.metrics.measure import Measure, lines, measure, to_json
from clearhead.metrics.paired import McNemar, Paired, mcnemar, paired_test
from clearhead.metrics.probability import average_precision, brier, log_loss, roc_auc
from clearhead.metrics.slices import Slice, slice_table
from clearhead.metrics.thresholds import (
    Answered,
    Coverage,
    Threshold,
    best_threshold,
    best_thresholds,
    coverage_curve,
    threshold_for,
)

__all__ = [
    "Answered",
    "Bin",
    "Coverage",
    "Interval",
    "LabelScore",
    "McNemar",
    "Measure",
    "Paired",
    "Slice",
    "Threshold",
    "accuracy",
    "adaptive_calibration_error",
    "apply_temperature",
    "average_precision",
    "balanced_accuracy",
    "best_threshold",
    "best_thresholds",
    "bootstrap",
    "bootstraps",
    "brier",
    "confidences",
    "confusion",
    "coverage_curve",
    "expected_calibration_error",
    "f1",
    "fit_temperature",
    "kendall",
    "label_table",
    "lines",
    "log_loss",
    "mae",
    "matthews",
    "maximum_calibration_error",
    "mcnemar",
    "measure",
    "mse",
    "paired_test",
    "pearson",
    "precision",
    "r2",
    "recall",
    "reliability",
    "roc_auc",
    "share",
    "slice_table",
    "spearman",
    "subset_accuracy",
    "threshold_for",
    "to_json",
    "wilson",
]
