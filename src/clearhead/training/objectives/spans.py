"""The first and the last token of an answer in a text."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.tasks.encoded import Part
from clearhead.training.objectives.objective import NetworkOutput, Objective
from clearhead.training.objectives.pooling import row_means


@dataclass(frozen=True)
class SpanEnds(Objective):
    """The mean over a row's windows of -log p(first token) - log p(last token), by two."""

    def loss(self, output: NetworkOutput, batch: Part) -> Tensor:
        """(rows,)."""
        logits, device = output.logits, output.logits.device
        owners, lengths = (torch.as_tensor(array, device=device) for array in (batch.owners, batch.lengths))
        first, last, right = (torch.as_tensor(batch.marks[name], device=device) for name in ("first", "last", "right"))
        positions = torch.arange(int(lengths.max()), device=device)[None]
        present = positions < lengths[:, None]
        table = logits.new_full((*present.shape, 2), -torch.inf)
        table[present] = logits
        may = (positions >= first[:, None]) & (positions < last[:, None])
        may |= positions == 0  # [CLS]: not in this window
        table = table.masked_fill(~may[..., None], -torch.inf).transpose(1, 2)  # (windows, 2, length)
        losses = -torch.log_softmax(table, -1).gather(2, right[..., None])[..., 0].mean(1)
        return row_means(losses, owners, batch.rows)
