"""torch layers without their default initialization: weights come from a file or from `initialization`."""

from __future__ import annotations

from torch import nn


class Linear(nn.Linear):
    """x W^T + b."""

    def reset_parameters(self) -> None:
        """Do nothing: `core.build` sets the weights."""


class EmbeddingTable(nn.Embedding):
    """A vector per token, segment, position or distance."""

    def reset_parameters(self) -> None:
        """Do nothing: `core.build` sets the weights."""


class LayerNorm(nn.LayerNorm):
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the features of one token."""

    def reset_parameters(self) -> None:
        """Do nothing: `core.build` sets the weights."""


class Conv1d(nn.Conv1d):
    """A weighted sum over neighboring tokens."""

    def reset_parameters(self) -> None:
        """Do nothing: `core.build` sets the weights."""
