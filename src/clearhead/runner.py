"""The Runner protocol: what core and engine both offer, and what only some runners can do, as `capabilities`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from clearhead.batch import Batch, Output
from clearhead.shape import ModelShape

if TYPE_CHECKING:
    import numpy as np

Precision = Literal["float", "int8"]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a runner can do beyond the Runner protocol; the core can do all of it."""

    gradients: bool = False  # runs torch parameters, which can be trained and pruned: it is a `core.runner.CoreRunner`
    trace: bool = False  # `run` takes a recorder that keeps every step of every attention
    head_scale: bool = False  # `run` multiplies heads by numbers
    source_attention: bool = False  # it is an `AttentionRunner`, as a coverage penalty needs


class DecoderState(Protocol):
    """A decoder between two steps."""

    def reorder(self, rows: Any) -> DecoderState:
        """The same for other rows of the batch, as beam search asks for."""
        ...


class Runner(Protocol):
    """Runs a model of one shape."""

    shape: ModelShape
    packed_tokens: int  # of one call of `run_packed`: enough work for every core
    capabilities: Capabilities
    precision: Precision  # in which matrices are multiplied

    def weights(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Every learned tensor by name."""
        ...

    def run(self, batch: Batch, *, hidden: bool = True) -> Output:
        """One pass over a batch."""
        ...

    def encode(self, batch: Batch, *, layers: bool, pooled: bool, alone: bool = False) -> Output:
        """Hidden states of every layer or of the last, and the pooler's vector; `alone`: nothing runs beside."""
        ...

    def run_packed(self, ids: Any, segments: Any, lengths: Any) -> np.ndarray[Any, Any]:
        """Logits of texts laid end to end, one row per text or per token, as the head reads."""
        ...

    def batches(self, lengths: np.ndarray[Any, Any], budget: int) -> Iterator[np.ndarray[Any, Any]]:
        """Rows that are best run together, by their lengths."""
        ...

    def map_jobs(self, work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
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


class AttentionRunner(Runner, Protocol):
    """A runner whose steps also return attention: one with the capability `source_attention`."""

    def step_with_attention(
        self, state: Any, ids: Any, mask: Any = None
    ) -> tuple[np.ndarray[Any, Any], Any, np.ndarray[Any, Any]]:
        """A step, and the attention of each new word to the source: (batch, new, source)."""
        ...
