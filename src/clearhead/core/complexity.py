"""One layer of each kind that a text can be read with, and the time it takes over lengths and widths.

The lecture's table counts self-attention without the four matrices around it, so that is one of the layers; the same
with them, as a Transformer has it, is another.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.progress import Progress, no_progress

HEAD_WIDTH = 64  # as in the 2017 Transformer; a width that is no multiple of it is one head
MIN_SAMPLE_SECONDS = 0.003  # of one sample: shorter calls are repeated and shared out
MAX_CALLS = 64

TimedShape = tuple[str, int, int]  # layer, length, width


class AttentionLayer(nn.Module):
    """softmax(Q K^T / sqrt(d)) V of words that are queries, keys and values as they are: n^2 d."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.heads = width // HEAD_WIDTH if width % HEAD_WIDTH == 0 else 1

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """All heads side by side: (batch, length, width)."""
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x, x, x)


class ProjectedAttentionLayer(AttentionLayer):
    """The same between W_Q, W_K, W_V and W_O: n^2 d + n d^2."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__(width, kernel)
        self.inputs, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.out(self.mix(*self.inputs(x).chunk(3, -1)))
        return mixed


class RecurrentLayer(nn.Module):
    """h' = tanh(W x + U h), the plainest recurrence: n d^2, one word after the other."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.cell = nn.RNN(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.cell(x)[0]
        return states


class ConvolutionLayer(nn.Module):
    """A weighted sum over k neighbours: k n d^2."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        # as "same" pads: nothing, or one word more at the end of an even kernel
        self.sides = ((kernel - 1) // 2, kernel // 2)
        self.conv = nn.Conv1d(width, width, kernel)

    def forward(self, x: Tensor) -> Tensor:
        summed: Tensor = self.conv(F.pad(x.transpose(1, 2), self.sides))
        return summed.transpose(1, 2)


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
    """Seconds of a forward pass over one text, `repeats` times each in turns, and how many threads worked."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        return _measure_seconds(lengths, widths, kernel, repeats, progress), torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


def _measure_seconds(
    lengths: Sequence[int], widths: Sequence[int], kernel: int, repeats: int, progress: Progress
) -> dict[TimedShape, list[float]]:
    built = {(name, width): kind(width, kernel).eval() for width in widths for name, kind in LAYERS.items()}
    cells = [(name, length, width) for width in widths for length in lengths for name in LAYERS]
    total = len(cells) * (repeats + 1)
    seconds: dict[TimedShape, list[float]] = {cell: [] for cell in cells}
    calls: dict[TimedShape, int] = {}
    done = 0
    for turn in range(repeats + 1):  # the first turn warms up, and finds how many calls make a sample
        for cell in cells:
            name, length, width = cell
            layer, x = built[name, width], torch.randn(1, length, width)
            if turn == 0:
                layer(x)
                calls[cell] = max(1, min(MAX_CALLS, math.ceil(MIN_SAMPLE_SECONDS / _time_calls(layer, x, 1))))
            else:
                seconds[cell].append(_time_calls(layer, x, calls[cell]))
            done += 1
            progress("timing layers", done, total)
    return seconds


def _time_calls(layer: nn.Module, x: Tensor, calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        layer(x)
    return max(time.perf_counter() - begin, 1e-9) / calls
