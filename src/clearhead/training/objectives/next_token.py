"""An auxiliary next-token loss, as in the fine-tuning of the OpenAI Transformer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.tasks.packed import PackedBatch
from clearhead.training.objectives.objective import LinearExamples, NetworkOutput, Objective
from clearhead.training.objectives.pooling import average_by_row

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class WithNextToken(Objective):
    """An objective plus `weight` times the next-token loss on the same texts."""

    objective: Objective
    weight: float

    @property
    def needs_hidden(self) -> bool:
        """Tokens are predicted from every hidden state."""
        return True

    def loss(self, output: NetworkOutput, batch: PackedBatch) -> Tensor:
        """(rows,): that of the inner objective."""
        return self.objective.loss(output, batch)

    def auxiliary_loss(self, output: NetworkOutput, batch: PackedBatch) -> Tensor:
        """(rows,)."""
        if output.hidden is None or output.token_table is None:
            raise TypeError("The next-token loss needs hidden states and the token table.")
        lm_loss = self.weight * compute_next_token_loss(output.hidden, output.token_table, batch)
        inner_loss = self.objective.auxiliary_loss(output, batch)
        return lm_loss if inner_loss is None else inner_loss + lm_loss

    def constant_loss(self, targets: Array, row_weights: Array | None = None) -> float | None:
        """That of the inner objective."""
        return self.objective.constant_loss(targets, row_weights)

    @property
    def linear_examples(self) -> LinearExamples | None:
        """Those of the inner objective."""
        return self.objective.linear_examples


def compute_next_token_loss(hidden: Tensor, token_table: Tensor, batch: PackedBatch) -> Tensor:
    """-log p(token) given the tokens before it, averaged over the tokens of each row: (rows,)."""
    device = hidden.device
    ids, lengths = (torch.as_tensor(array, device=device) for array in (batch.ids, batch.lengths))
    is_predicted = torch.ones(len(ids), dtype=torch.bool, device=device)
    is_predicted[lengths.cumsum(0) - lengths] = False  # the first token of a window has no context
    token_rows = torch.as_tensor(batch.window_rows, device=device).repeat_interleave(lengths)
    is_context = is_predicted.roll(-1)
    losses = F.cross_entropy(F.linear(hidden[is_context], token_table).float(), ids[is_predicted], reduction="none")
    return average_by_row(losses, token_rows[is_predicted], batch.rows)
