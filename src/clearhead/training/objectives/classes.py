"""Objectives with one target per row: a class, several labels, or a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.tasks.packed import PackedBatch
from clearhead.training.objectives.objective import LinearExamples, NetworkOutput, Objective
from clearhead.training.objectives.pooling import pool_windows

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """-log p(class), with label smoothing."""

    smoothing: float = 0.0

    def loss(self, output: NetworkOutput, batch: PackedBatch) -> Tensor:
        """(rows,)."""
        logits, targets = _pool_rows(output.logits, batch)
        return F.cross_entropy(logits, targets.long(), reduction="none", label_smoothing=self.smoothing)

    def constant_loss(self, targets: Array, row_weights: Array | None = None) -> float:
        """The entropy of the class frequencies."""
        return compute_label_entropy(targets, row_weights, self.smoothing)

    @property
    def linear_examples(self) -> LinearExamples:
        """Selects the rows and their classes."""
        return _select_row_examples


@dataclass(frozen=True)
class BinaryCrossEntropy(Objective):
    """The binary cross-entropy of each label, averaged over labels."""

    smoothing: float = 0.0

    def loss(self, output: NetworkOutput, batch: PackedBatch) -> Tensor:
        """(rows,)."""
        logits, targets = _pool_rows(output.logits, batch)
        smoothed_targets = targets.to(logits.dtype)
        smoothed_targets = smoothed_targets * (1 - self.smoothing) + self.smoothing / 2
        return F.binary_cross_entropy_with_logits(logits, smoothed_targets, reduction="none").mean(-1)

    def constant_loss(self, targets: Array, row_weights: Array | None = None) -> float:
        """The entropy of the label frequencies, averaged over labels."""
        import numpy as np

        normalized_weights = _normalize_weights(len(targets), row_weights)
        label_probs = (normalized_weights[:, None] * (targets * (1 - self.smoothing) + self.smoothing / 2)).sum(0)
        probs = np.clip(np.stack([label_probs, 1 - label_probs]), 1e-12, 1)
        return float(-(probs * np.log(probs)).sum(0).mean())

    @property
    def linear_examples(self) -> LinearExamples:
        """Selects the rows and their labels."""
        return _select_row_examples


@dataclass(frozen=True)
class SquaredError(Objective):
    """(output - target)^2."""

    def loss(self, output: NetworkOutput, batch: PackedBatch) -> Tensor:
        """(rows,)."""
        logits, targets = _pool_rows(output.logits, batch)
        return (logits.squeeze(-1) - targets.to(logits.dtype)).square()

    def constant_loss(self, targets: Array, row_weights: Array | None = None) -> float:
        """The variance of the targets."""
        normalized_weights = _normalize_weights(len(targets), row_weights)
        mean = float((normalized_weights * targets).sum())
        return float((normalized_weights * (targets - mean) ** 2).sum())

    @property
    def linear_examples(self) -> LinearExamples:
        """Selects the rows and their numbers."""
        return _select_row_examples


def compute_label_entropy(targets: Array, weights: Array | None = None, smoothing: float = 0.0) -> float:
    """The cross-entropy of always predicting the class frequencies."""
    import numpy as np

    normalized_weights = _normalize_weights(len(targets), weights)
    class_probs = np.bincount(targets.astype(np.int64), weights=normalized_weights).astype(np.float64)
    class_probs = class_probs * (1 - smoothing) + smoothing / len(class_probs)
    class_probs = class_probs[class_probs > 0]
    return float(-(class_probs * np.log(class_probs)).sum())


def _normalize_weights(row_count: int, weights: Array | None) -> Array:
    """Row weights that sum to 1; equal ones by default."""
    import numpy as np

    row_weights = np.ones(row_count) if weights is None else np.asarray(weights, np.float64)
    return np.asarray(row_weights / row_weights.sum())


def _pool_rows(logits: Tensor, batch: PackedBatch) -> tuple[Tensor, Tensor]:
    """The logits of each row, averaged over its windows, and the targets."""
    return _pool_row_outputs(logits, batch), torch.as_tensor(batch.targets, device=logits.device)


def _select_row_examples(outputs: Tensor, batch: PackedBatch) -> tuple[Tensor, Any]:
    return _pool_row_outputs(outputs, batch), batch.targets


def _pool_row_outputs(outputs: Tensor, batch: PackedBatch) -> Tensor:
    return pool_windows(outputs, torch.as_tensor(batch.window_rows, device=outputs.device), batch.rows)
