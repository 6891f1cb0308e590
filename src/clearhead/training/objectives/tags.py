"""The objective of token classification: one tag per word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.tasks.packed import PackedBatch
from clearhead.training.objectives.objective import LinearExamples, NetworkOutput, Objective
from clearhead.training.objectives.pooling import average_by_row


@dataclass(frozen=True)
class TagCrossEntropy(Objective):
    """-log p(tag) at one token of each word, averaged over the words of each row."""

    smoothing: float = 0.0

    def loss(self, output: NetworkOutput, batch: PackedBatch) -> Tensor:
        """(rows,)."""
        logits, device = output.logits, output.logits.device
        word_tokens, is_tagged, word_rows = (
            torch.as_tensor(batch.annotations[name], device=device)
            for name in ("token_indices", "has_token", "token_rows")
        )
        targets = torch.as_tensor(batch.targets.values, device=device)
        losses = F.cross_entropy(
            logits[word_tokens], targets[is_tagged].long(), reduction="none", label_smoothing=self.smoothing
        )
        return average_by_row(losses, word_rows, batch.rows)

    @property
    def linear_examples(self) -> LinearExamples:
        """Selects the words that have a tag, and their tags."""
        return _select_tagged_words


def _select_tagged_words(outputs: Tensor, batch: PackedBatch) -> tuple[Tensor, Any]:
    return outputs[batch.annotations["token_indices"]], batch.targets.values[batch.annotations["has_token"]]
