"""The core as a Runner: arrays in, arrays out, nothing learned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clearhead.batch import Batch, Output, as_ids, group_by_budget
from clearhead.core import models, recurrent_network
from clearhead.core.attention import Kernel, Recorder, fused_attention
from clearhead.core.build import named_arrays
from clearhead.core.models import Network, NetworkOutput, TransformerState
from clearhead.core.recurrent_network import RecurrentNetwork, RecurrentState
from clearhead.errors import InputError
from clearhead.runner import Capabilities, Precision
from clearhead.shape import ModelShape

if TYPE_CHECKING:
    import numpy as np


@dataclass
class CoreState:
    """A decoder between two steps."""

    state: TransformerState | RecurrentState

    def reorder(self, rows: Any) -> CoreState:
        """The same for other rows of the batch."""
        index = torch.as_tensor(as_ids(rows, "rows"), device=self.state.device)
        return CoreState(self.state.reorder(index))


def check_device(device: str = "auto") -> torch.device:
    """The device of a name, or one sentence where there is none."""
    name = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    try:
        made = torch.device(name)
        torch.empty(1, device=made)
        if made.type == "meta":
            raise RuntimeError("it holds no numbers")
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"The device {device!r} cannot be used: {str(error).splitlines()[0]}.") from None
    return made


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
        self._begin: Callable[..., Any] = recurrent_network.start_decoding if recurrent else models.start_decoding
        self._next: Callable[..., Any] = recurrent_network.decode_step if recurrent else models.decode_step

    def weights(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Every learned tensor by name, as it is now."""
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
        """One pass over a batch; a recorder takes the explicit path and keeps every step."""
        tensors = self._tensors(batch)
        numbers = check_head_scale(head_scale, self.shape, self.device)
        learning = self.network.training
        self.network.eval()  # an answer is never a matter of dropout
        try:
            result: NetworkOutput = self.network(*tensors, kernel=recorder or fused_attention, head_scale=numbers)
        finally:
            self.network.train(learning)
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
        """Logits of texts laid end to end, one row per text or per token, as the head reads: no padding is computed."""
        ids, segments, lengths = (
            None if part is None else torch.as_tensor(part, device=self.device) for part in (ids, segments, lengths)
        )
        learning = self.network.training
        self.network.eval()
        try:
            return _to_array(self.network(ids, None, segments, lengths=lengths, whole=False).logits)
        finally:
            self.network.train(learning)

    def encode(self, batch: Batch, *, layers: bool, pooled: bool, alone: bool = False) -> Output:
        """Hidden states of every layer or of the last."""
        return self.run(batch, hidden=layers)

    def batches(self, lengths: np.ndarray[Any, Any], budget: int) -> Iterator[np.ndarray[Any, Any]]:
        """Rows of like length whose rectangle stays within a budget of tokens."""
        order = lengths.argsort(kind="stable")
        for group in group_by_budget(lengths[order].tolist(), budget):
            yield order[group.start : group.stop]

    def map_jobs(self, work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
        """One job after the other: torch shares each among the cores."""
        return map(work, jobs)

    def _tensors(self, batch: Batch) -> tuple[Tensor | None, ...]:
        parts = (batch.ids, batch.mask, batch.segments, batch.target_ids, batch.target_mask)
        return tuple(None if part is None else torch.as_tensor(part, device=self.device) for part in parts)

    @torch.no_grad()
    def start(self, batch: Batch) -> CoreState:
        """A decoder's state before its first word."""
        ids, mask, *_ = self._tensors(batch)
        return CoreState(self._begin(self.network, ids, mask))

    def step(
        self, state: CoreState, ids: Any, mask: Any = None, *, log: bool = False, last: bool = False
    ) -> tuple[np.ndarray[Any, Any], CoreState]:
        """Feed words (batch, new): logits of each or of the `last`, or log probabilities, and the state after them."""
        logits, after = self._step(state, ids, mask, fused_attention)
        found = logits[:, -1:] if last else logits
        return _to_array(found.float().log_softmax(-1) if log else found), after

    def step_with_attention(
        self, state: CoreState, ids: Any, mask: Any = None
    ) -> tuple[np.ndarray[Any, Any], CoreState, np.ndarray[Any, Any]]:
        """The same, and where each word looked: (batch, new, source), the mean of the last layer's heads."""
        recorder = Recorder()
        logits, after = self._step(state, ids, mask, recorder)
        crossed = [steps for steps in recorder.steps if steps.part == "cross"]
        if not crossed:
            raise InputError(f"{self.shape.family} has no source that its words could look at.")
        return _to_array(logits), after, _to_array(crossed[-1].probs.mean(1))

    @torch.no_grad()
    def _step(self, state: CoreState, ids: Any, mask: Any, kernel: Kernel) -> tuple[Tensor, CoreState]:
        new = torch.as_tensor(as_ids(ids, "ids"), device=self.device)
        real = None if mask is None else torch.as_tensor(as_ids(mask, "mask"), device=self.device)
        top = self.shape.top
        if not top.causal:
            raise InputError(f"{self.shape.family} does not decode word by word: its words see those after them.")
        if new.ndim != 2 or new.numel() == 0 or int(new.min()) < 0 or int(new.max()) >= top.vocab_size:
            raise InputError(f"ids must be (batch, new) tokens from 0 to {top.vocab_size - 1}.")
        if top.positions == "learned" and top.max_length is not None and isinstance(state.state, TransformerState):
            longest = state.state.present.shape[1] + new.shape[1]
            if longest > top.max_length:
                raise InputError(
                    f"The model can number {top.max_length} tokens, and this step would be number {longest}."
                )
        logits, after = self._next(self.network, state.state, new, real, kernel)
        return logits, CoreState(after)


def has_cuda() -> bool:
    """Whether torch has a GPU to run on."""
    return torch.cuda.is_available()


def check_head_scale(given: dict[str, Any] | None, shape: ModelShape, device: torch.device) -> dict[str, Tensor] | None:
    """Numbers per layer and head, checked against the model: {"encoder": (layers, heads), ...}."""
    if not given:
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
    made = {}
    for part, numbers in given.items():
        if part not in parts:
            raise InputError(f"There is no part {part!r} to scale heads of; this model has {', '.join(parts)}.")
        scale = torch.as_tensor(numbers, dtype=torch.float32, device=device)
        expected = (parts[part].layers, parts[part].heads)
        if tuple(scale.shape) != expected:
            raise InputError(f"head_scale of the {part} must be {expected} numbers, and it is {tuple(scale.shape)}.")
        made[part] = scale
    return made


def _to_array(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.detach().float().cpu().numpy()
