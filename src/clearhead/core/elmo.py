"""ELMo: a forward and a backward language model over the same tokens.

Unlike in a stacked bidirectional LSTM, the directions are independent: each layer reads the layer below of its own
direction only, so that the state of a token never contains the token that it has to predict. The directions share the
embeddings and the output matrix. The hidden state of a layer is [forward; backward]; layer 0 is the embeddings twice.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from clearhead.core.attention import Attention
from clearhead.core.head import Head
from clearhead.core.layout import Layout
from clearhead.core.models import Network
from clearhead.core.positions import NoPositions
from clearhead.core.recurrent import CELLS, LeftAlignedRows
from clearhead.core.stack import Embedding
from clearhead.errors import InputError
from clearhead.shape import HeadShape, ModelShape, Recurrence, Shape


class DirectionPair(nn.Module):
    """One layer in both directions."""

    def __init__(self, width: int, recurrence: Recurrence) -> None:
        super().__init__()
        self.forth = CELLS[recurrence.cell](width, width, batch_first=True)
        self.back = CELLS[recurrence.cell](width, width, batch_first=True)


class BidirectionalStack(nn.Module):
    """Embeddings and independent recurrent layers in both directions, with optional residual connections."""

    def __init__(self, shape: Shape, recurrence: Recurrence) -> None:
        super().__init__()
        self.shape = shape
        self.embed = Embedding(shape)
        self.positions = NoPositions(shape)  # the recurrence itself encodes the order
        self.layers = nn.ModuleList(DirectionPair(shape.token_width, recurrence) for _ in range(shape.layers))
        self.dropout = nn.Dropout(shape.dropouts.between_layers)
        self.residual = recurrence.residual

    def forward(self, ids: Tensor, layout: Layout) -> list[Tensor]:
        """Compute [forward; backward] of the embeddings and of each layer, in the given layout."""
        rows = LeftAlignedRows(layout.present)
        embeddings = rows.align(layout.pad(self.embed(ids, None, layout.token_positions, layout, self.positions)))
        reversal = _reversal_index(rows.lengths, embeddings)
        # padding comes last in both directions, so it cannot change the states of real tokens
        forth, back = embeddings, embeddings.gather(1, reversal)
        hidden = [torch.cat([embeddings, embeddings], -1)]
        for index, layer in enumerate(self.layers):
            forth = self._run_layer(layer.forth, forth, index)
            back = self._run_layer(layer.back, back, index)
            hidden.append(torch.cat([forth, back.gather(1, reversal)], -1))
        return [layout.pack(rows.restore(state)) for state in hidden]

    def _run_layer(self, cell: Any, x: Tensor, index: int) -> Tensor:
        with torch.autocast("cpu", enabled=False):  # torch fails on CPUs without a 16-bit LSTM kernel
            out, _ = cell(self.dropout(x) if index else x)
        return out + x if index and self.residual else out


def _reversal_index(lengths: Tensor | None, embeddings: Tensor) -> Tensor:
    """Compute the index that reverses the real tokens of each row and leaves padding last; it is its own inverse."""
    batch, length, width = embeddings.shape
    positions = torch.arange(length, device=embeddings.device)[None].expand(batch, -1)
    ends = positions.new_full((batch, 1), length) if lengths is None else lengths[:, None]
    reversed_positions = torch.where(positions < ends, ends - 1 - positions, positions)
    return reversed_positions[..., None].expand(-1, -1, width)


class BidirectionalHead(Head):
    """Predicts the next token from the forward state and the previous one from the backward state."""

    def __init__(self, shape: HeadShape, width: int) -> None:
        super().__init__(shape, width // 2)

    def forward(self, hidden: Tensor, layout: Layout, pooled: Tensor | None) -> Tensor:
        """Compute logits (batch, length, 2, vocabulary)."""
        return super().forward(hidden.unflatten(-1, (2, -1)), layout, pooled)


class ElmoNetwork(Network):
    """ELMo with a bidirectional language-model head, or a task head on the concatenated states."""

    stack: BidirectionalStack  # type: ignore[assignment]

    def __init__(self, shape: ModelShape) -> None:
        nn.Module.__init__(self)
        if shape.stack.recurrent is None or shape.decoder is not None:
            raise InputError(f"{shape.family} is not a recurrent network without a decoder.")
        self.shape = shape
        self.stack = BidirectionalStack(shape.stack, shape.stack.recurrent)
        self.decoder = self.pooler = self.second = None
        head_class = None if shape.head is None else BidirectionalHead if shape.head.kind == "bilm" else Head
        self.head = None if shape.head is None or head_class is None else head_class(shape.head, shape.stack.width)
        self.tie()

    def encode(self, ids: Tensor, layout: Layout, segments: Tensor | None = None, **options: Any) -> list[Tensor]:
        """Compute the hidden states of the embeddings and of each layer."""
        if options.get("head_scale") is not None:
            raise InputError(f"{self.shape.family} has no attention heads to scale.")
        return self.stack(ids, layout)

    def head_positions(self, layout: Layout) -> Tensor | None:
        """None: a recurrent state depends on all previous ones, so no computation can be saved."""
        return None

    def attentions(self, part: str) -> list[Attention]:
        """None: the network has no attention."""
        return []
