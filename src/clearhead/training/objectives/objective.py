"""What an objective is: a value that gives every row of a packed batch a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from clearhead.tasks.packed import PackedBatch

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


LinearExamples = Callable[
    [Tensor, PackedBatch], tuple[Tensor, Any]
]  # outputs of a batch to those with a target, and targets


@dataclass(frozen=True, kw_only=True)
class NetworkOutput:
    """What a network computed for a packed batch, whatever its head is."""

    logits: Tensor  # 32-bit; of each window, token or target word: classes, or an embedding where the head gives one
    hidden: Tensor | None = None  # (tokens, width): the last layer, only where the objective needs it
    token_table: Tensor | None = None  # (vocabulary, width): the input embeddings that hidden states are compared with


class Objective(Protocol):
    """A loss per row, so that accumulated parts of a step weigh every row alike.

    Rows of several encoded texts (pairs, triplets) get their embeddings as `logits`, one per window;
    `batch.window_rows` and the batch's annotations say which text is which. A wrapper holds another objective and
    passes on what it does not change.
    """

    @property
    def needs_hidden(self) -> bool:
        """Whether the last layer must be computed at every token, also where the head reads only some of them."""
        return False

    def loss(self, output: NetworkOutput, batch: PackedBatch) -> Tensor:
        """The loss of each row, which is logged and compared with `constant_loss`: (rows,)."""
        ...

    def auxiliary_loss(self, output: NetworkOutput, batch: PackedBatch) -> Tensor | None:  # noqa: ARG002
        """What is minimized beside `loss` and not logged: (rows,); None: nothing."""
        return None

    def constant_loss(self, targets: Array, row_weights: Array | None = None) -> float | None:  # noqa: ARG002
        """The mean loss of the best constant answer; None: the task knows it."""
        return None

    @property
    def linear_examples(self) -> LinearExamples | None:
        """What a linear model of the same answers is fitted on; None: there is no such model."""
        return None
