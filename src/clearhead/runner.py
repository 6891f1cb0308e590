"""The Runner protocol: what core and engine both offer, so that nothing above can tell which it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from clearhead.batch import Batch, Output
from clearhead.shape import ModelShape

if TYPE_CHECKING:
    import numpy as np


class DecoderState(Protocol):
    """A decoder between two steps."""

    def reorder(self, rows: Any) -> DecoderState:
        """The same for other rows of the batch, as beam search asks for."""
        ...


class Runner(Protocol):
    """Runs a model of one shape."""

    shape: ModelShape

    def run(self, batch: Batch, *, hidden: bool = True) -> Output:
        """One pass over a batch."""
        ...

    def start(self, batch: Batch) -> DecoderState:
        """A decoder's state before its first word; for a pair, after reading the source."""
        ...

    def step(self, state: Any, ids: Any, mask: Any = None) -> tuple[np.ndarray[Any, Any], Any]:
        """Feed words (batch, new): logits of each, and the state after them."""
        ...
