"""The core as a Runner: arrays in, arrays out, without gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clearhead.batch import Batch, Output, group_by_budget, to_integer_array
from clearhead.core import models, recurrent_network
from clearhead.core.attention import Kernel, Recorder, fused_attention
from clearhead.core.build import named_arrays
from clearhead.core.models import ForwardOutput, Network, TransformerState
from clearhead.core.recurrent_network import RecurrentNetwork, RecurrentState
from clearhead.errors import InputError
from clearhead.runner import Capabilities, Precision
from clearhead.shape import ModelShape

if TYPE_CHECKING:
    import numpy as np


@dataclass
class CoreState:
    """State of a decoder between two steps."""

    state: TransformerState | RecurrentState

    def reorder(self, rows: Any) -> CoreState:
        """Select rows of the batch, as beam search does."""
        index = torch.as_tensor(to_integer_array(rows, "rows"), device=self.state.device)
        return CoreState(self.state.reorder(index))


def check_device(device: str = "auto") -> torch.device:
    """Resolve a device name, and check that the device can be used."""
    name = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    try:
        resolved = torch.device(name)
        torch.empty(1, device=resolved)
        if resolved.type == "meta":
            raise RuntimeError("it stores no data")
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"Device {device!r} cannot be used: {str(error).splitlines()[0]}.") from None
    return resolved


class CoreRunner:
    """Runs a network on the CPU or a GPU."""

    packed_tokens = 4096
    capabilities = Capabilities(gradients=True, trace=True, head_scale=True, source_attention=True)
    precision: Precision = "float"

    def __init__(self, network: Network, device: str = "auto") -> None:
        self.device = check_device(device)
        self.network = network.to(self.device).eval()
        self.shape: ModelShape = network.shape
        recurrent = isinstance(network, RecurrentNetwork)
        self._start_decoding: Callable[..., Any] = (
            recurrent_network.start_decoding if recurrent else models.start_decoding
        )
        self._decode_step: Callable[..., Any] = recurrent_network.decode_step if recurrent else models.decode_step

    def weights(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return every learned tensor by name, with its current values."""
        return named_arrays(self.network)

    @torch.no_grad()
    def run(
        self,
        batch: Batch,
        *,
        hidden: bool = True,
        head_scale: dict[str, Any] | None = None,
        recorder: Recorder | None = None,
    ) -> Output:
        """Run one batch; with a recorder, attention takes the explicit path and every step is kept."""
        tensors = self._tensors(batch)
        scale_tensors = check_head_scale(head_scale, self.shape, self.device)
        was_training = self.network.training
        self.network.eval()  # results must not depend on dropout
        try:
            result: ForwardOutput = self.network(*tensors, kernel=recorder or fused_attention, head_scale=scale_tensors)
        finally:
            self.network.train(was_training)
        out = Output(
            last=_to_array(result.last),
            pooled=_to_array(result.pooled),
            logits=_to_array(result.logits),
            next_sentence=_to_array(result.next_sentence),
        )
        if hidden:
            out.hidden = [_to_array(state) for state in result.hidden]
            if result.target_hidden is not None:
                out.target_hidden = [_to_array(state) for state in result.target_hidden]
        return out

    @torch.no_grad()
    def run_packed(self, ids: Any, segments: Any, lengths: Any) -> Any:
        """Compute logits of packed texts, one row per text or per token depending on the head, without padding."""
        ids, segments, lengths = (
            None if part is None else torch.as_tensor(part, device=self.device) for part in (ids, segments, lengths)
        )
        was_training = self.network.training
        self.network.eval()
        try:
            return _to_array(self.network(ids, None, segments, lengths=lengths, all_tokens=False).logits)
        finally:
            self.network.train(was_training)

    def encode(self, batch: Batch, *, layers: bool, pooled: bool, is_only_batch: bool = False) -> Output:
        """Compute the hidden states of every layer or of the last one."""
        return self.run(batch, hidden=layers)

    def batches(self, lengths: np.ndarray[Any, Any], budget: int) -> Iterator[np.ndarray[Any, Any]]:
        """Group rows of similar length so that each padded batch stays within a token budget."""
        order = lengths.argsort(kind="stable")
        for group in group_by_budget(lengths[order].tolist(), budget):
            yield order[group.start : group.stop]

    def map_jobs(self, work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
        """Run one job after the other; torch parallelizes each one."""
        return map(work, jobs)

    def _tensors(self, batch: Batch) -> tuple[Tensor | None, ...]:
        parts = (batch.ids, batch.mask, batch.segments, batch.target_ids, batch.target_mask)
        return tuple(None if part is None else torch.as_tensor(part, device=self.device) for part in parts)

    @torch.no_grad()
    def start(self, batch: Batch) -> CoreState:
        """Create the state of a decoder before its first token."""
        ids, mask, *_ = self._tensors(batch)
        return CoreState(self._start_decoding(self.network, ids, mask))

    def step(
        self, state: CoreState, ids: Any, mask: Any = None, *, log: bool = False, last: bool = False
    ) -> tuple[np.ndarray[Any, Any], CoreState]:
        """Feed tokens (batch, new); return logits or log-probabilities, all or only the `last`, and the new state."""
        logits, new_state = self._step(state, ids, mask, fused_attention)
        selected = logits[:, -1:] if last else logits
        return _to_array(selected.float().log_softmax(-1) if log else selected), new_state

    def step_with_attention(
        self, state: CoreState, ids: Any, mask: Any = None
    ) -> tuple[np.ndarray[Any, Any], CoreState, np.ndarray[Any, Any]]:
        """Run `step`, and also return the mean attention of the last layer to the source: (batch, new, source)."""
        recorder = Recorder()
        logits, new_state = self._step(state, ids, mask, recorder)
        cross_steps = [steps for steps in recorder.steps if steps.part == "cross"]
        if not cross_steps:
            raise InputError(f"{self.shape.family} has no attention to a source.")
        return _to_array(logits), new_state, _to_array(cross_steps[-1].probs.mean(1))

    @torch.no_grad()
    def _step(self, state: CoreState, ids: Any, mask: Any, kernel: Kernel) -> tuple[Tensor, CoreState]:
        new = torch.as_tensor(to_integer_array(ids, "ids"), device=self.device)
        real = None if mask is None else torch.as_tensor(to_integer_array(mask, "mask"), device=self.device)
        top = self.shape.top
        if not top.causal:
            raise InputError(f"{self.shape.family} cannot generate token by token: its attention is not causal.")
        if new.ndim != 2 or new.numel() == 0 or int(new.min()) < 0 or int(new.max()) >= top.vocab_size:
            raise InputError(f"ids must be a (batch, new) array of token ids from 0 to {top.vocab_size - 1}.")
        if top.positions == "learned" and top.max_length is not None and isinstance(state.state, TransformerState):
            length = state.state.present.shape[1] + new.shape[1]
            if length > top.max_length:
                raise InputError(f"The model has {top.max_length} positions, and this step needs position {length}.")
        logits, new_state = self._decode_step(self.network, state.state, new, real, kernel)
        return logits, CoreState(new_state)


def has_cuda() -> bool:
    """Whether torch can use a GPU."""
    return torch.cuda.is_available()


def check_head_scale(
    head_scale: dict[str, Any] | None, shape: ModelShape, device: torch.device
) -> dict[str, Tensor] | None:
    """Convert head scales to tensors and check their shapes: {"encoder": (layers, heads), ...}."""
    if not head_scale:
        return None
    parts = (
        {"encoder": shape.stack}
        if shape.decoder is None
        else {
            "encoder": shape.stack,
            "decoder": shape.decoder,
            "cross": shape.decoder,
        }
    )
    scales = {}
    for part, values in head_scale.items():
        if part not in parts:
            raise InputError(f"head_scale: the model has no part {part!r}, expected one of: {', '.join(parts)}.")
        scale = torch.as_tensor(values, dtype=torch.float32, device=device)
        expected = (parts[part].layers, parts[part].heads)
        if tuple(scale.shape) != expected:
            raise InputError(f"head_scale of the {part} must have shape {expected}, got {tuple(scale.shape)}.")
        scales[part] = scale
    return scales


def _to_array(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.detach().float().cpu().numpy()
