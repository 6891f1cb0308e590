"""The recurrent ancestor: an encoder reads one word after the other, and a decoder writes one after the other.

Cells are torch's own GRU and LSTM, which run over all words of a batch in one call. Only input feeding needs a loop in
Python: what attention made of one word is read with the next, so no step can begin before the last one has ended.
Without it the decoder reads all its words in one call too, and every kind of attention, the additive one as well, is
computed for all of them at once. Padding is packed away, so that no neighbour in the batch changes an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from clearhead.core.layers import Linear
from clearhead.core.layout import Layout
from clearhead.core.positions import NoPositions
from clearhead.core.recurrent_attention import AttentionOutput, AttentionSource, build_attention
from clearhead.core.stack import Embedding
from clearhead.shape import Recurrence, Shape

CellState = tuple[Tensor, ...]  # what a layer remembers: its state (batch, width), and an LSTM's cell beside it


class GRU(nn.GRU):
    """r, z = sigmoid(W x + U h); n = tanh(W x + r (U h)); h' = (1 - z) n + z h."""

    def reset_parameters(self) -> None:
        """Nothing: see `core.build`."""

    def step(self, x: Tensor, memory: CellState) -> CellState:
        """Read one word."""
        return (torch.gru_cell(x, memory[0], *self.all_weights[0]),)

    def run(self, x: Tensor, memory: CellState | None) -> tuple[Tensor, CellState]:
        """Read all words: states (batch, length, width), and what is remembered after the last."""
        out, after = self(x, None if memory is None else memory[0][None])
        return out, (concat_directions(after),)


class LSTM(nn.LSTM):
    """i, f, o = sigmoid(W x + U h); g = tanh(W x + U h); c' = f c + i g; h' = o tanh(c')."""

    def reset_parameters(self) -> None:
        """Nothing: see `core.build`."""

    def step(self, x: Tensor, memory: CellState) -> CellState:
        """Read one word."""
        return torch.lstm_cell(x, memory, *self.all_weights[0])

    def run(self, x: Tensor, memory: CellState | None) -> tuple[Tensor, CellState]:
        """Read all words: states (batch, length, width), and what is remembered after the last."""
        out, after = self(x, None if memory is None else tuple(part[None] for part in memory))
        return out, tuple(concat_directions(part) for part in after)


CELLS: dict[str, type[GRU] | type[LSTM]] = {"gru": GRU, "lstm": LSTM}


def concat_directions(states: Tensor) -> Tensor:
    """(directions, batch, half) to (batch, width)."""
    return states.transpose(0, 1).flatten(1)


class LeftAlignedRows:
    """Real words at the front of each row, as cells have to read them, and back to where they lay."""

    def __init__(self, present: Tensor | None) -> None:
        real = None if present is None else present.bool()
        self.lengths = None if real is None else real.sum(1)
        self.order = None
        if real is not None and bool((real[:, 1:] > real[:, :-1]).any()):  # padding before a word
            self.order = real.byte().argsort(dim=1, descending=True, stable=True)[..., None]

    def front(self, x: Tensor) -> Tensor:
        """(batch, length, width) with the real words first."""
        return x if self.order is None else x.gather(1, self.order.expand_as(x))

    def back(self, x: Tensor) -> Tensor:
        """As the words lay."""
        return x if self.order is None else x.gather(1, self.order.argsort(1).expand_as(x))

    def read(self, layer: GRU | LSTM, x: Tensor, memory: CellState | None = None) -> tuple[Tensor, CellState]:
        """One layer over rows of any length: what is remembered is what it knew after each row's last real word."""
        with torch.autocast("cpu", enabled=False):  # few CPUs have an LSTM in 16 bits, and torch fails on the others
            return self._read(layer, x, memory)

    def _read(self, layer: GRU | LSTM, x: Tensor, memory: CellState | None) -> tuple[Tensor, CellState]:
        if self.lengths is None:
            return layer.run(x, memory)
        lengths = self.lengths.clamp(min=1)  # a row of padding alone reads one word of it, and forgets it again below
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, after = layer.run(packed, memory)  # type: ignore[arg-type]
        states, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])  # type: ignore[arg-type]
        before = tuple(torch.zeros_like(part) for part in after) if memory is None else memory
        return states, _select_rows(self.lengths > 0, after, before)


def _select_rows(rows: Tensor, after: CellState, before: CellState) -> CellState:
    return tuple(torch.where(rows[:, None], new, old) for new, old in zip(after, before, strict=True))


class RecurrentStack(nn.Module):
    """What encoder and decoder share: words, and layers of cells with dropout between them."""

    def __init__(self, shape: Shape, how: Recurrence) -> None:
        super().__init__()
        self.shape = shape
        self.embed = Embedding(shape)
        self.positions = NoPositions(shape)  # the order of reading says where a word stands
        first = shape.token_width + (shape.width if how.input_feeding else 0)
        each = shape.width // 2 if how.bidirectional else shape.width
        self.layers = nn.ModuleList(
            CELLS[how.cell](shape.width if layer else first, each, batch_first=True, bidirectional=how.bidirectional)
            for layer in range(shape.layers)
        )
        self.dropout = nn.Dropout(shape.dropouts.between_layers)

    def embed_tokens(self, ids: Tensor, layout: Layout) -> Tensor:
        """Word vectors as a rectangle: (batch, length, word_width)."""
        return layout.pad(self.embed(ids, None, layout.token_positions, layout, self.positions))


class RecurrentEncoder(RecurrentStack):
    """Reads the source, perhaps from both ends."""

    def forward(self, ids: Tensor, layout: Layout) -> tuple[list[Tensor], list[CellState]]:
        """Hidden states of the words and of each layer as rectangles, and what each layer remembers at the end."""
        rows = LeftAlignedRows(layout.present)
        words = self.embed_tokens(ids, layout)
        hidden, ends, x = [words], [], rows.front(words)
        for number, layer in enumerate(self.layers):
            x, end = rows.read(layer, self.dropout(x) if number else x)  # type: ignore[arg-type]
            hidden.append(rows.back(x))
            ends.append(end)
        return hidden, ends


@dataclass(frozen=True)
class DecoderCells:
    """A decoder between two words: what each layer remembers, and what attention made of the last word."""

    layers: tuple[CellState, ...]
    attentional: Tensor  # (batch, width); zeros before the first word

    def reorder(self, rows: Tensor) -> DecoderCells:
        """The same for other rows of the batch."""
        return DecoderCells(
            tuple(tuple(part[rows] for part in memory) for memory in self.layers), self.attentional[rows]
        )


class RecurrentDecoder(RecurrentStack):
    """Writes the target: each word is read, the layers go on, attention looks back at the source."""

    def __init__(self, shape: Shape, how: Recurrence) -> None:
        super().__init__(shape, how)
        width = shape.width
        self.bridge = nn.ModuleList(Linear(width, width) for _ in range(shape.layers))
        cells = shape.layers if how.cell == "lstm" else 0
        self.bridge_cell = nn.ModuleList(Linear(width, width) for _ in range(cells))
        self.align = build_attention(width, how)
        self.has_dot_products = how.score in ("dot", "general")
        self.run = self.run_stepwise if how.input_feeding else self.run_parallel

    def begin(self, ends: Sequence[CellState]) -> DecoderCells:
        """The bridge: each layer begins with what the encoder's layer beside it knew at the end.

        h = tanh(W [forward end; backward end] + b), and the cell of an LSTM is W [both cells] + b. Layers are counted
        from the top; where the encoder has fewer, its lowest serves the rest.
        """
        lower = len(ends) - self.shape.layers
        layers = []
        for number, bridge in enumerate(self.bridge):
            end = ends[max(0, number + lower)]
            cells = (self.bridge_cell[number](end[1]).to(end[1].dtype),) if len(end) > 1 else ()
            layers.append((bridge(end[0]).tanh().to(end[0].dtype), *cells))
        return DecoderCells(tuple(layers), torch.zeros_like(layers[0][0]))

    def forward(
        self, ids: Tensor, layout: Layout, source: AttentionSource, written: DecoderCells, *, going_on: bool
    ) -> tuple[list[Tensor], AttentionOutput, DecoderCells]:
        """Hidden states of the words and of each layer, what attention made of them, and the decoder after them.

        Not `going_on`: nobody asks for the decoder after the last word, so padding at the end need not be packed away.
        """
        rows = LeftAlignedRows(layout.present)
        words = self.embed_tokens(ids, layout)
        if not going_on:
            rows.lengths = None
        hidden, aligned, after = self.run(rows.front(words), rows, source, written)
        if rows.order is not None:
            aligned = AttentionOutput(*(None if part is None else rows.back(part) for part in vars(aligned).values()))  # type: ignore[arg-type]
        return [words, *map(rows.back, hidden)], aligned, after

    def run_parallel(
        self, x: Tensor, rows: LeftAlignedRows, source: AttentionSource, written: DecoderCells
    ) -> tuple[list[Tensor], AttentionOutput, DecoderCells]:
        """Layer by layer over all words, then attention for all of them in one product."""
        hidden, after = [], []
        for number, layer in enumerate(self.layers):
            x, memory = rows.read(layer, self.dropout(x) if number else x, written.layers[number])  # type: ignore[arg-type]
            hidden.append(x)
            after.append(memory)
        aligned = self.align(x, source)
        return hidden, aligned, DecoderCells(tuple(after), written.attentional)

    def run_stepwise(
        self, x: Tensor, rows: LeftAlignedRows, source: AttentionSource, written: DecoderCells
    ) -> tuple[list[Tensor], AttentionOutput, DecoderCells]:
        """Input feeding: word by word, each read together with what attention made of the one before."""
        states: list[list[Tensor]] = [[] for _ in self.layers]
        steps: list[AttentionOutput] = []
        memories, said = list(written.layers), written.attentional
        for place in range(x.shape[1]):
            real = None if rows.lengths is None else rows.lengths > place
            below = torch.cat([x[:, place], said], -1)
            for number, layer in enumerate(self.layers):
                memory = layer.step(self.dropout(below) if number else below, memories[number])  # type: ignore[operator]
                below = memory[0]
                memories[number] = memory if real is None else _select_rows(real, memory, memories[number])
                states[number].append(below)
            step: AttentionOutput = self.align(below[:, None], source)
            steps.append(step)
            said = step.attentional[:, 0] if real is None else torch.where(real[:, None], step.attentional[:, 0], said)
        parts = ("attentional", "queries", "scores", "probs", "context")
        whole = AttentionOutput(*(torch.cat([getattr(step, part) for step in steps], 1) for part in parts))
        return [torch.stack(one, 1) for one in states], whole, DecoderCells(tuple(memories), said)
