"""ELMo: two language models over the same words, one that reads forward and one that reads backward.

Unlike a stacked bidirectional LSTM the two never see each other: a layer of the one reads the layer below of the same
one, so that the state of a word never knows the word that it has to guess. What they share are the word vectors and the
matrix to the vocabulary. The hidden state of a layer is [forward; backward]; layer 0 is the word vectors twice.
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
    """One layer of each direction."""

    def __init__(self, each: int, how: Recurrence) -> None:
        super().__init__()
        self.forth = CELLS[how.cell](each, each, batch_first=True)
        self.back = CELLS[how.cell](each, each, batch_first=True)


class BidirectionalStack(nn.Module):
    """Words, and layers of cells in both directions, with what a layer reads added to what it says."""

    def __init__(self, shape: Shape, how: Recurrence) -> None:
        super().__init__()
        self.shape = shape
        self.embed = Embedding(shape)
        self.positions = NoPositions(shape)  # the order of reading says where a word stands
        self.layers = nn.ModuleList(DirectionPair(shape.token_width, how) for _ in range(shape.layers))
        self.dropout = nn.Dropout(shape.dropouts.between_layers)
        self.residual = how.residual

    def forward(self, ids: Tensor, layout: Layout) -> list[Tensor]:
        """[forward; backward] of the words and of each layer, as the tokens lie."""
        rows = LeftAlignedRows(layout.present)
        words = rows.front(layout.pad(self.embed(ids, None, layout.token_positions, layout, self.positions)))
        turn = _reversal_index(rows.lengths, words)
        # padding stands behind the words in either direction, and what is read last changes nothing before it
        forth, back = words, words.gather(1, turn)
        hidden = [torch.cat([words, words], -1)]
        for number, layer in enumerate(self.layers):
            forth = self._read(layer.forth, forth, number)
            back = self._read(layer.back, back, number)
            hidden.append(torch.cat([forth, back.gather(1, turn)], -1))
        return [layout.gather(rows.back(state)) for state in hidden]

    def _read(self, cell: Any, x: Tensor, number: int) -> Tensor:
        with torch.autocast("cpu", enabled=False):  # few CPUs have an LSTM in 16 bits, and torch fails on the others
            out, _ = cell(self.dropout(x) if number else x)
        return out + x if number and self.residual else out


def _reversal_index(lengths: Tensor | None, words: Tensor) -> Tensor:
    """Where each word of a row comes from when the row is read from its end; padding stays behind: a turn undoes it."""
    batch, length, width = words.shape
    places = torch.arange(length, device=words.device)[None].expand(batch, -1)
    ends = places.new_full((batch, 1), length) if lengths is None else lengths[:, None]
    turned = torch.where(places < ends, ends - 1 - places, places)
    return turned[..., None].expand(-1, -1, width)


class BidirectionalHead(Head):
    """The word after each word by the forward state, and the word before it by the backward one, by one matrix."""

    def __init__(self, shape: HeadShape, width: int) -> None:
        super().__init__(shape, width // 2)

    def forward(self, hidden: Tensor, layout: Layout, pooled: Tensor | None) -> Tensor:
        """(batch, length, 2, vocabulary)."""
        return super().forward(hidden.unflatten(-1, (2, -1)), layout, pooled)


class ElmoNetwork(Network):
    """Both directions, and a head over both or over their states side by side."""

    stack: BidirectionalStack  # type: ignore[assignment]

    def __init__(self, shape: ModelShape) -> None:
        nn.Module.__init__(self)
        if shape.stack.recurrent is None or shape.decoder is not None:
            raise InputError(f"{shape.family} is not a recurrent network without a decoder.")
        self.shape = shape
        self.stack = BidirectionalStack(shape.stack, shape.stack.recurrent)
        self.decoder = self.pooler = self.second = None
        made = None if shape.head is None else BidirectionalHead if shape.head.kind == "bilm" else Head
        self.head = None if shape.head is None or made is None else made(shape.head, shape.stack.width)
        self.tie()

    def encode(self, ids: Tensor, layout: Layout, segments: Tensor | None = None, **look: Any) -> list[Tensor]:
        """Hidden states of the words and of each layer."""
        if look.get("head_scale") is not None:
            raise InputError(f"{self.shape.family} has no attention heads that could be scaled.")
        return self.stack(ids, layout)

    def picked(self, layout: Layout) -> Tensor | None:
        """None: a state is reached only through all those before it."""
        return None

    def attentions(self, part: str) -> list[Attention]:
        """None."""
        return []
