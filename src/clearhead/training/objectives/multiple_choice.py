"""The objective of multiple choice."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.tasks.packed import PackedBatch
from clearhead.training.objectives.objective import NetworkOutput, Objective
from clearhead.training.objectives.pooling import average_by_row


@dataclass(frozen=True)
class ChoiceCrossEntropy(Objective):
    """-log p(correct option), with a softmax over the options of each row, whose number may vary."""

    smoothing: float = 0.0

    def loss(self, output: NetworkOutput, batch: PackedBatch) -> Tensor:
        """(rows,)."""
        logits, device = output.logits, output.logits.device
        targets, options, rows = (
            torch.as_tensor(array, device=device)
            for array in (batch.targets, batch.annotations["options"], batch.annotations["option_rows"])
        )
        scores = average_by_row(logits[:, 0], options, len(rows))
        counts = torch.bincount(rows, minlength=batch.rows)
        columns = torch.arange(len(rows), device=device) - (counts.cumsum(0) - counts)[rows]
        row_logits = scores.new_full((batch.rows, int(counts.max())), -torch.inf).index_put((rows, columns), scores)
        log_probs = torch.log_softmax(row_logits, -1)
        target_losses = -log_probs.gather(1, targets.long()[:, None])[:, 0]
        if not self.smoothing:
            return target_losses
        uniform_losses = -log_probs.masked_fill(torch.isinf(row_logits), 0).sum(1) / counts
        return (1 - self.smoothing) * target_losses + self.smoothing * uniform_losses
