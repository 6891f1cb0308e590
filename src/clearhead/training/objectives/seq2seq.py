"""The objective of sequence-to-sequence models: the tokens of a target text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.tasks.packed import PackedBatch
from clearhead.training.objectives.classes import compute_label_entropy
from clearhead.training.objectives.objective import NetworkOutput, Objective
from clearhead.training.objectives.pooling import average_by_row

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Seq2SeqCrossEntropy(Objective):
    """-log p(token) given the correct tokens before it, averaged over the target tokens of each row."""

    smoothing: float = 0.0

    def loss(self, output: NetworkOutput, batch: PackedBatch) -> Tensor:
        """(rows,)."""
        device = output.logits.device
        words, rows = (torch.as_tensor(batch.annotations[name], device=device) for name in ("words", "word_rows"))
        losses = F.cross_entropy(output.logits, words.long(), reduction="none", label_smoothing=self.smoothing)
        return average_by_row(losses, rows, batch.rows)

    def constant_loss(self, targets: Array, row_weights: Array | None = None) -> float:
        """The entropy of the token frequencies; `targets` are the target tokens of all rows."""
        return compute_label_entropy(targets, row_weights, self.smoothing)
