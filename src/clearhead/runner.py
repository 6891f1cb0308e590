"""The Runner protocol, which core and engine implement, and the optional `capabilities` of runners."""

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
    """Features beyond the Runner protocol; the core has all of them."""

    gradients: bool = False  # has torch parameters that can be trained and pruned: a `core.runner.CoreRunner`
    trace: bool = False  # `run` takes a recorder for all steps of attention
    head_scale: bool = False  # `run` scales the outputs of attention heads
    source_attention: bool = False  # an `AttentionRunner`, required by coverage penalties


class DecoderState(Protocol):
    """The state of a decoder between two steps."""

    def reorder(self, rows: Any) -> DecoderState:
        """Select and reorder rows of the batch, as in beam search."""
        ...


class Runner(Protocol):
    """Runs a model."""

    shape: ModelShape
    packed_tokens: int  # per call of `run_packed`: enough work for all CPU cores
    capabilities: Capabilities
    precision: Precision  # of matrix multiplications

    def weights(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return all learned tensors by name."""
        ...

    def run(self, batch: Batch, *, hidden: bool = True) -> Output:
        """Run a forward pass over a batch."""
        ...

    def encode(self, batch: Batch, *, layers: bool, pooled: bool, is_only_batch: bool = False) -> Output:
        """Compute hidden states of all layers or the last one, and pooled vectors; `is_only_batch`: no other runs."""
        ...

    def run_packed(self, ids: Any, segments: Any, lengths: Any) -> np.ndarray[Any, Any]:
        """Compute logits of concatenated texts: one row per text or per token, depending on the head."""
        ...

    def batches(self, lengths: np.ndarray[Any, Any], budget: int) -> Iterator[np.ndarray[Any, Any]]:
        """Group rows of similar length into efficient batches."""
        ...

    def map_jobs(self, work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of jobs in order; jobs may run in parallel."""
        ...

    def start(self, batch: Batch) -> DecoderState:
        """Return the state before the first token; an encoder-decoder model encodes the source first."""
        ...

    def step(
        self, state: Any, ids: Any, mask: Any = None, *, log: bool = False, last: bool = False
    ) -> tuple[np.ndarray[Any, Any], Any]:
        """Feed tokens (batch, new); return logits or log probabilities of all or the `last` ones, and the new state."""
        ...


class AttentionRunner(Runner, Protocol):
    """A runner whose steps also return attention weights (capability `source_attention`)."""

    def step_with_attention(
        self, state: Any, ids: Any, mask: Any = None
    ) -> tuple[np.ndarray[Any, Any], Any, np.ndarray[Any, Any]]:
        """Run a step and return the attention of each new token to the source, (batch, new, source)."""
        ...
