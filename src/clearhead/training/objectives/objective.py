"""The protocol of objectives, which compute the loss of every row of a packed batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from clearhead.tasks.packed import PackedBatch

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


# from the outputs of a batch to those that have a target, and the targets
LinearExamples = Callable[[Tensor, PackedBatch], tuple[Tensor, Any]]


@dataclass(frozen=True, kw_only=True)
class NetworkOutput:
    """The output of a network for a packed batch, with any head."""

    logits: Tensor  # float32, per window, token or target token: class logits, or an embedding
    hidden: Tensor | None = None  # (tokens, width): last layer, only if the objective needs it
    token_table: Tensor | None = None  # (vocabulary, width): input embeddings, to predict tokens from hidden states


class Objective(Protocol):
    """Computes one loss per row, so that gradient accumulation weighs all rows alike.

    For rows of several encoded texts (pairs, triplets), `logits` are the embeddings, one per window;
    `batch.window_rows` and the annotations of the batch map them to texts. Wrappers delegate what they do not change to
    an inner objective.
    """

    @property
    def needs_hidden(self) -> bool:
        """Whether the last layer must be computed at every token, even if the head reads only some of them."""
        return False

    def loss(self, output: NetworkOutput, batch: PackedBatch) -> Tensor:
        """The loss of each row, which is logged and comparable to `constant_loss`: (rows,)."""
        ...

    def auxiliary_loss(self, output: NetworkOutput, batch: PackedBatch) -> Tensor | None:  # noqa: ARG002
        """A loss that is minimized in addition but not logged: (rows,); None if there is none."""
        return None

    def constant_loss(self, targets: Array, row_weights: Array | None = None) -> float | None:  # noqa: ARG002
        """The mean loss of the best constant prediction; None if the task computes it."""
        return None

    @property
    def linear_examples(self) -> LinearExamples | None:
        """Selects what a linear model of the same targets is fitted on; None if there is no such model."""
        return None
