"""The Runner protocol: what core and engine both offer, so that nothing above can tell which it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    packed_tokens: int  # of one call of `packed`: enough work for every core

    def run(self, batch: Batch, *, hidden: bool = True) -> Output:
        """One pass over a batch."""
        ...

    def encode(self, batch: Batch, *, layers: bool, pooled: bool, alone: bool = False) -> Output:
        """Hidden states of every layer or of the last, and the pooler's vector; `alone`: nothing runs beside."""
        ...

    def packed(self, ids: Any, segments: Any, lengths: Any) -> np.ndarray[Any, Any]:
        """Logits of texts laid end to end, one row per text or per token, as the head reads."""
        ...

    def batches(self, lengths: np.ndarray[Any, Any], budget: int) -> Iterator[np.ndarray[Any, Any]]:
        """Rows that are best run together, by their lengths."""
        ...

    def each(self, work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
        """The results of some jobs in their order, perhaps several at a time."""
        ...

    def start(self, batch: Batch) -> DecoderState:
        """A decoder's state before its first word; for a pair, after reading the source."""
        ...

    def step(
        self, state: Any, ids: Any, mask: Any = None, *, log: bool = False, last: bool = False
    ) -> tuple[np.ndarray[Any, Any], Any]:
        """Feed words (batch, new): logits of each or of the `last`, or log probabilities, and the state after them."""
        ...
