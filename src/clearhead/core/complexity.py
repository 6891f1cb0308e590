"""Times one layer of each kind (attention, recurrence, convolution) over text lengths and widths.

The complexity table of the Transformer paper counts self-attention without the four projections around it. Both
variants are timed: attention alone, and attention with its projections as in a Transformer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.progress import Progress, no_progress

HEAD_WIDTH = 64  # as in the original Transformer; a width that is not a multiple of it has one head
MIN_SAMPLE_SECONDS = 0.003  # of one sample: shorter calls are repeated and averaged
MAX_CALLS = 64

TimedShape = tuple[str, int, int]  # layer, length, width


class AttentionLayer(nn.Module):
    """softmax(Q K^T / sqrt(d)) V without projections: n^2 d."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.heads = width // HEAD_WIDTH if width % HEAD_WIDTH == 0 else 1

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute attention in heads: (batch, length, width)."""
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x, x, x)


class ProjectedAttentionLayer(AttentionLayer):
    """Attention with the projections W_Q, W_K, W_V and W_O: n^2 d + n d^2."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__(width, kernel)
        self.inputs, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        projected: Tensor = self.out(self.mix(*self.inputs(x).chunk(3, -1)))
        return projected


class RecurrentLayer(nn.Module):
    """h' = tanh(W x + U h), the simplest recurrence: n d^2, one token after the other."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.cell = nn.RNN(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.cell(x)[0]
        return states


class ConvolutionLayer(nn.Module):
    """A convolution over k neighboring tokens: k n d^2."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        # "same" padding: an even kernel has one more token at the end
        self.sides = ((kernel - 1) // 2, kernel // 2)
        self.conv = nn.Conv1d(width, width, kernel)

    def forward(self, x: Tensor) -> Tensor:
        convolved: Tensor = self.conv(F.pad(x.transpose(1, 2), self.sides))
        return convolved.transpose(1, 2)


LAYERS: dict[str, type[AttentionLayer] | type[RecurrentLayer] | type[ConvolutionLayer]] = {
    "attention": AttentionLayer,
    "projected": ProjectedAttentionLayer,
    "recurrent": RecurrentLayer,
    "convolution": ConvolutionLayer,
}


@torch.no_grad()
def time_layers(
    lengths: Sequence[int],
    widths: Sequence[int],
    kernel: int,
    repeats: int,
    threads: int | None = None,
    progress: Progress = no_progress,
) -> tuple[dict[TimedShape, list[float]], int]:
    """Measure forward passes over one text in seconds, `repeats` times in turn; also return the thread count."""
    previous_threads = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        return _measure_seconds(lengths, widths, kernel, repeats, progress), torch.get_num_threads()
    finally:
        torch.set_num_threads(previous_threads)


def _measure_seconds(
    lengths: Sequence[int], widths: Sequence[int], kernel: int, repeats: int, progress: Progress
) -> dict[TimedShape, list[float]]:
    layers = {
        (name, width): layer_class(width, kernel).eval() for width in widths for name, layer_class in LAYERS.items()
    }
    shapes = [(name, length, width) for width in widths for length in lengths for name in LAYERS]
    total = len(shapes) * (repeats + 1)
    seconds: dict[TimedShape, list[float]] = {timed: [] for timed in shapes}
    calls: dict[TimedShape, int] = {}
    done = 0
    for round_index in range(repeats + 1):  # round 0 warms up and finds the number of calls per sample
        for timed in shapes:
            name, length, width = timed
            layer, x = layers[name, width], torch.randn(1, length, width)
            if round_index == 0:
                layer(x)
                calls[timed] = max(1, min(MAX_CALLS, math.ceil(MIN_SAMPLE_SECONDS / _time_calls(layer, x, 1))))
            else:
                seconds[timed].append(_time_calls(layer, x, calls[timed]))
            done += 1
            progress("timing layers", done, total)
    return seconds


def _time_calls(layer: nn.Module, x: Tensor, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        layer(x)
    return max(time.perf_counter() - start, 1e-9) / calls
