"""The objective of extractive question answering: the first and last token of the answer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.tasks.packed import PackedBatch
from clearhead.training.objectives.objective import NetworkOutput, Objective
from clearhead.training.objectives.pooling import average_by_row


@dataclass(frozen=True)
class SpanCrossEntropy(Objective):
    """(-log p(first token) - log p(last token)) / 2, averaged over the windows of each row."""

    def loss(self, output: NetworkOutput, batch: PackedBatch) -> Tensor:
        """(rows,)."""
        logits, device = output.logits, output.logits.device
        window_rows, lengths = (torch.as_tensor(array, device=device) for array in (batch.window_rows, batch.lengths))
        first, last, targets = (
            torch.as_tensor(batch.annotations[name], device=device)
            for name in ("passage_start", "passage_end", "answer")
        )
        positions = torch.arange(int(lengths.max()), device=device)[None]
        is_token = positions < lengths[:, None]
        window_logits = logits.new_full((*is_token.shape, 2), -torch.inf)
        window_logits[is_token] = logits
        is_allowed = (positions >= first[:, None]) & (positions < last[:, None])
        is_allowed |= positions == 0  # [CLS]: no answer in this window
        window_logits = window_logits.masked_fill(~is_allowed[..., None], -torch.inf)
        log_probs = torch.log_softmax(window_logits.transpose(1, 2), -1)  # (windows, 2, length)
        losses = -log_probs.gather(2, targets[..., None])[..., 0].mean(1)
        return average_by_row(losses, window_rows, batch.rows)
