"""torch's own layers without their first draw: weights are given by a file or drawn as the family's paper says."""

from __future__ import annotations

from torch import nn


class Linear(nn.Linear):
    """x W^T + b."""

    def reset_parameters(self) -> None:
        """Nothing: see `core.build`."""


class EmbeddingTable(nn.Embedding):
    """A row per token, segment, position or distance."""

    def reset_parameters(self) -> None:
        """Nothing: see `core.build`."""


class LayerNorm(nn.LayerNorm):
    """(x - mean) / sqrt(variance + eps) * weight + bias, over one token's numbers."""

    def reset_parameters(self) -> None:
        """Nothing: see `core.build`."""


class Conv1d(nn.Conv1d):
    """A weighted sum over neighbours."""

    def reset_parameters(self) -> None:
        """Nothing: see `core.build`."""
