"""Recurrent encoder and decoder, which process tokens one after the other.

Cells are torch's GRU and LSTM, which run over all tokens of a batch in one call. Only input feeding needs a loop in
Python: the attention output of one token is part of the input of the next, so steps are sequential. Without it, the
decoder also reads all target tokens in one call, and every kind of attention, including additive attention, is computed
for all of them at once. Padding is packed away, so that a text's result does not depend on its batch.
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

CellState = tuple[Tensor, ...]  # state of a layer: hidden state (batch, width), and for an LSTM also the cell


class GRU(nn.GRU):
    """r, z = sigmoid(W x + U h); n = tanh(W x + r (U h)); h' = (1 - z) n + z h."""

    def reset_parameters(self) -> None:
        """Do nothing: `core.build` sets the weights."""

    def step(self, x: Tensor, state: CellState) -> CellState:
        """Process one token."""
        return (torch.gru_cell(x, state[0], *self.all_weights[0]),)

    def run_sequence(self, x: Tensor, state: CellState | None) -> tuple[Tensor, CellState]:
        """Process all tokens: return states (batch, length, width) and the final state."""
        out, after = self(x, None if state is None else state[0][None])
        return out, (concat_directions(after),)


class LSTM(nn.LSTM):
    """i, f, o = sigmoid(W x + U h); g = tanh(W x + U h); c' = f c + i g; h' = o tanh(c')."""

    def reset_parameters(self) -> None:
        """Do nothing: `core.build` sets the weights."""

    def step(self, x: Tensor, state: CellState) -> CellState:
        """Process one token."""
        return torch.lstm_cell(x, state, *self.all_weights[0])

    def run_sequence(self, x: Tensor, state: CellState | None) -> tuple[Tensor, CellState]:
        """Process all tokens: return states (batch, length, width) and the final state."""
        out, after = self(x, None if state is None else tuple(part[None] for part in state))
        return out, tuple(concat_directions(part) for part in after)


CELLS: dict[str, type[GRU] | type[LSTM]] = {"gru": GRU, "lstm": LSTM}


def concat_directions(states: Tensor) -> Tensor:
    """Concatenate the directions: (directions, batch, half) to (batch, width)."""
    return states.transpose(0, 1).flatten(1)


class LeftAlignedRows:
    """Moves real tokens to the front of each row, as packed sequences require, and back."""

    def __init__(self, present: Tensor | None) -> None:
        real = None if present is None else present.bool()
        self.lengths = None if real is None else real.sum(1)
        self.order = None
        if real is not None and bool((real[:, 1:] > real[:, :-1]).any()):  # padding before a real token
            self.order = real.byte().argsort(dim=1, descending=True, stable=True)[..., None]

    def align(self, x: Tensor) -> Tensor:
        """Move the real tokens of (batch, length, width) to the front."""
        return x if self.order is None else x.gather(1, self.order.expand_as(x))

    def restore(self, x: Tensor) -> Tensor:
        """Restore the original order."""
        return x if self.order is None else x.gather(1, self.order.argsort(1).expand_as(x))

    def run(self, layer: GRU | LSTM, x: Tensor, state: CellState | None = None) -> tuple[Tensor, CellState]:
        """Run one layer over rows of any length; return its states and each row's state after its last real token."""
        with torch.autocast("cpu", enabled=False):  # torch fails on CPUs without a 16-bit LSTM kernel
            return self._run(layer, x, state)

    def _run(self, layer: GRU | LSTM, x: Tensor, state: CellState | None) -> tuple[Tensor, CellState]:
        if self.lengths is None:
            return layer.run_sequence(x, state)
        lengths = self.lengths.clamp(min=1)  # a row of only padding reads one token, which is undone below
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, after = layer.run_sequence(packed, state)  # type: ignore[arg-type]
        states, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])  # type: ignore[arg-type]
        before = tuple(torch.zeros_like(part) for part in after) if state is None else state
        return states, _select_rows(self.lengths > 0, after, before)


def _select_rows(mask: Tensor, after: CellState, before: CellState) -> CellState:
    """Use the state `after` where the mask is true, else the state `before`."""
    return tuple(torch.where(mask[:, None], new, old) for new, old in zip(after, before, strict=True))


class RecurrentStack(nn.Module):
    """Base of encoder and decoder: embeddings and recurrent layers with dropout between them."""

    def __init__(self, shape: Shape, recurrence: Recurrence) -> None:
        super().__init__()
        self.shape = shape
        self.embed = Embedding(shape)
        self.positions = NoPositions(shape)  # the recurrence itself encodes the order
        input_size = shape.token_width + (shape.width if recurrence.input_feeding else 0)
        hidden_size = shape.width // 2 if recurrence.bidirectional else shape.width
        self.layers = nn.ModuleList(
            CELLS[recurrence.cell](
                shape.width if layer else input_size,
                hidden_size,
                batch_first=True,
                bidirectional=recurrence.bidirectional,
            )
            for layer in range(shape.layers)
        )
        self.dropout = nn.Dropout(shape.dropouts.between_layers)

    def embed_tokens(self, ids: Tensor, layout: Layout) -> Tensor:
        """Embed tokens as a rectangle: (batch, length, token_width)."""
        return layout.pad(self.embed(ids, None, layout.token_positions, layout, self.positions))


class RecurrentEncoder(RecurrentStack):
    """Encodes the source, in one or both directions."""

    def forward(self, ids: Tensor, layout: Layout) -> tuple[list[Tensor], list[CellState]]:
        """Compute the padded hidden states of the embeddings and of each layer, and the final state of each layer."""
        rows = LeftAlignedRows(layout.present)
        embeddings = self.embed_tokens(ids, layout)
        hidden, final_states, x = [embeddings], [], rows.align(embeddings)
        for index, layer in enumerate(self.layers):
            x, final_state = rows.run(layer, self.dropout(x) if index else x)  # type: ignore[arg-type]
            hidden.append(rows.restore(x))
            final_states.append(final_state)
        return hidden, final_states


@dataclass(frozen=True)
class DecoderCells:
    """State of a decoder between two tokens: the state of each layer, and the attention output of the last token."""

    layers: tuple[CellState, ...]
    attentional: Tensor  # (batch, width): attention output; zeros before the first token

    def reorder(self, rows: Tensor) -> DecoderCells:
        """Select rows of the batch, as beam search does."""
        return DecoderCells(tuple(tuple(part[rows] for part in state) for state in self.layers), self.attentional[rows])


class RecurrentDecoder(RecurrentStack):
    """Predicts the target: reads a token, updates the layers, and attends to the source."""

    def __init__(self, shape: Shape, recurrence: Recurrence) -> None:
        super().__init__(shape, recurrence)
        width = shape.width
        self.bridge = nn.ModuleList(Linear(width, width) for _ in range(shape.layers))
        cell_bridges = shape.layers if recurrence.cell == "lstm" else 0
        self.bridge_cell = nn.ModuleList(Linear(width, width) for _ in range(cell_bridges))
        self.align = build_attention(width, recurrence)
        self.has_dot_products = recurrence.score in ("dot", "general")
        self.run_layers = self.run_stepwise if recurrence.input_feeding else self.run_parallel

    def init_cells(self, final_states: Sequence[CellState]) -> DecoderCells:
        """The bridge: compute the initial state of each layer from the final state of the encoder layer beside it.

        h = tanh(W [forward; backward] + b), and the cell of an LSTM is W [forward cell; backward cell] + b. Layers are
        aligned from the top; if the encoder has fewer, its lowest layer initializes all remaining ones.
        """
        surplus = len(final_states) - self.shape.layers
        layers = []
        for index, bridge in enumerate(self.bridge):
            final_state = final_states[max(0, index + surplus)]
            lstm_cell = (
                (self.bridge_cell[index](final_state[1]).to(final_state[1].dtype),) if len(final_state) > 1 else ()
            )
            layers.append((bridge(final_state[0]).tanh().to(final_state[0].dtype), *lstm_cell))
        return DecoderCells(tuple(layers), torch.zeros_like(layers[0][0]))

    def forward(
        self, ids: Tensor, layout: Layout, source: AttentionSource, cells: DecoderCells, *, needs_state: bool
    ) -> tuple[list[Tensor], AttentionOutput, DecoderCells]:
        """Compute the hidden states of the embeddings and of each layer, the attention output, and the new state.

        Without `needs_state`, the new state is not used, so padding at the end need not be packed away.
        """
        rows = LeftAlignedRows(layout.present)
        embeddings = self.embed_tokens(ids, layout)
        if not needs_state:
            rows.lengths = None
        hidden, attended, after = self.run_layers(rows.align(embeddings), rows, source, cells)
        if rows.order is not None:
            restored = (None if part is None else rows.restore(part) for part in vars(attended).values())
            attended = AttentionOutput(*restored)  # type: ignore[arg-type]
        return [embeddings, *map(rows.restore, hidden)], attended, after

    def run_parallel(
        self, x: Tensor, rows: LeftAlignedRows, source: AttentionSource, cells: DecoderCells
    ) -> tuple[list[Tensor], AttentionOutput, DecoderCells]:
        """Run layer by layer over all tokens, then compute attention for all of them in one product."""
        hidden, after = [], []
        for index, layer in enumerate(self.layers):
            x, state = rows.run(layer, self.dropout(x) if index else x, cells.layers[index])  # type: ignore[arg-type]
            hidden.append(x)
            after.append(state)
        attended = self.align(x, source)
        return hidden, attended, DecoderCells(tuple(after), cells.attentional)

    def run_stepwise(
        self, x: Tensor, rows: LeftAlignedRows, source: AttentionSource, cells: DecoderCells
    ) -> tuple[list[Tensor], AttentionOutput, DecoderCells]:
        """Input feeding: run token by token, each concatenated with the attention output of the previous token."""
        states: list[list[Tensor]] = [[] for _ in self.layers]
        steps: list[AttentionOutput] = []
        layer_states, attentional = list(cells.layers), cells.attentional
        for position in range(x.shape[1]):
            real = None if rows.lengths is None else rows.lengths > position
            below = torch.cat([x[:, position], attentional], -1)
            for index, layer in enumerate(self.layers):
                state = layer.step(self.dropout(below) if index else below, layer_states[index])  # type: ignore[operator]
                below = state[0]
                layer_states[index] = state if real is None else _select_rows(real, state, layer_states[index])
                states[index].append(below)
            step: AttentionOutput = self.align(below[:, None], source)
            steps.append(step)
            attentional = (
                step.attentional[:, 0]
                if real is None
                else torch.where(real[:, None], step.attentional[:, 0], attentional)
            )
        parts = ("attentional", "queries", "scores", "probs", "context")
        joined = AttentionOutput(*(torch.cat([getattr(step, part) for step in steps], 1) for part in parts))
        return (
            [torch.stack(layer_steps, 1) for layer_steps in states],
            joined,
            DecoderCells(tuple(layer_states), attentional),
        )
