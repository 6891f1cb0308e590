"""Memory layout of a batch: padded to a rectangle, or packed end to end.

Everything that processes tokens independently (embeddings, norms, feed-forward networks, the projections around
attention) runs on either layout. Only attention and convolution need the rectangle: they call `pad` and `pack`.
"""

from __future__ import annotations

import torch
from torch import Tensor


class PaddedLayout:
    """A rectangle (batch, length) with a mask; `pad` and `pack` do nothing."""

    def __init__(self, ids: Tensor, mask: Tensor | None) -> None:
        self.batch, self.length = ids.shape
        # None if every token is real, so that attention needs no mask
        self.present = None if mask is None or bool(mask.all()) else mask
        self.positions = torch.arange(self.length, device=ids.device)[None]  # (1, length)

    def pad(self, x: Tensor) -> Tensor:
        """Convert tokens in this layout to (batch, length, ...)."""
        return x

    def pack(self, x: Tensor) -> Tensor:
        """Convert (batch, length, ...) to tokens in this layout."""
        return x

    def select(self, x: Tensor, positions: Tensor) -> Tensor:
        """Select tokens of each text by their positions (batch, n): (batch, n, ...)."""
        return x[torch.arange(self.batch, device=x.device)[:, None], positions]

    @property
    def token_positions(self) -> Tensor:
        """The position of each token in its text, in this layout."""
        return self.positions

    def first_positions(self) -> Tensor:
        """Positions of the first tokens."""  # (batch,)
        return self.positions.new_zeros(self.batch)

    def last_positions(self) -> Tensor:
        """Positions of the last real tokens."""
        if self.present is None:
            return self.positions.new_full((self.batch,), self.length - 1)
        return (self.positions * self.present).argmax(1)


class PackedLayout:
    """Tokens of all texts end to end, with the text lengths; padding is never computed."""

    def __init__(self, lengths: Tensor) -> None:
        self.batch, self.length = len(lengths), int(lengths.max())
        self.positions = torch.arange(self.length, device=lengths.device)[None]
        self.lengths = lengths
        present = self.positions < lengths[:, None]  # (batch, length)
        self.index = present.flatten().nonzero().squeeze(1)  # (tokens,)
        # None if all texts have the same length: the packed tokens already form a rectangle
        self.present = None if len(self.index) == self.batch * self.length else present

    def pad(self, x: Tensor) -> Tensor:
        """Convert (tokens, ...) to (batch, length, ...), with zeros as padding."""
        if self.present is None:
            return x.unflatten(0, (self.batch, self.length))
        full = x.new_zeros((self.batch * self.length, *x.shape[1:]))
        return full.index_copy(0, self.index, x).unflatten(0, (self.batch, self.length))

    def pack(self, x: Tensor) -> Tensor:
        """Convert (batch, length, ...) to (tokens, ...)."""
        tokens = x.flatten(0, 1)
        return tokens if self.present is None else tokens.index_select(0, self.index)

    def select(self, x: Tensor, positions: Tensor) -> Tensor:
        """Select tokens of each text by their positions (batch, n): (batch, n, ...)."""
        starts = self.lengths.cumsum(0) - self.lengths
        return x.index_select(0, (starts[:, None] + positions).flatten()).unflatten(0, positions.shape)

    @property
    def token_positions(self) -> Tensor:
        """The position of each token in its text."""  # (tokens,)
        return self.positions.expand(self.batch, -1).flatten()[self.index]

    def first_positions(self) -> Tensor:
        """Positions of the first tokens."""  # (batch,)
        return torch.zeros_like(self.lengths)

    def last_positions(self) -> Tensor:
        """Positions of the last tokens."""
        return self.lengths - 1


Layout = PaddedLayout | PackedLayout
