"""How the tokens of a batch lie in memory: padded to a rectangle, or packed end to end.

Everything that looks at one token at a time (words, norms, feed-forward, the matrices around attention) runs on the
tokens as they lie. Only attention and convolution need the rectangle: they `spread` and `gather`.
"""

from __future__ import annotations

import torch
from torch import Tensor


class PaddedLayout:
    """A rectangle (batch, length) with a mask; spreading and gathering do nothing."""

    def __init__(self, ids: Tensor, mask: Tensor | None) -> None:
        self.batch, self.length = ids.shape
        # None says that every token is real, so that no mask has to be looked at
        self.present = None if mask is None or bool(mask.all()) else mask
        self.places = torch.arange(self.length, device=ids.device)[None]  # (1, length)

    def pad(self, x: Tensor) -> Tensor:
        """Tokens as they lie to (batch, length, ...)."""
        return x

    def gather(self, x: Tensor) -> Tensor:
        """(batch, length, ...) back to tokens as they lie."""
        return x

    def select(self, x: Tensor, places: Tensor) -> Tensor:
        """Some tokens of each text, places (batch, n): (batch, n, ...)."""
        return x[torch.arange(self.batch, device=x.device)[:, None], places]

    @property
    def token_positions(self) -> Tensor:
        """Each token's position in its text, as the tokens lie."""
        return self.places

    def first(self) -> Tensor:
        """The position of each text's first token."""  # (batch,)
        return self.places.new_zeros(self.batch)

    def last(self) -> Tensor:
        """The position of each text's last real token."""
        if self.present is None:
            return self.places.new_full((self.batch,), self.length - 1)
        return (self.places * self.present).argmax(1)


class PackedLayout:
    """Tokens of all texts end to end, with their lengths: no padding is ever computed."""

    def __init__(self, lengths: Tensor) -> None:
        self.batch, self.length = len(lengths), int(lengths.max())
        self.places = torch.arange(self.length, device=lengths.device)[None]
        self.lengths = lengths
        present = self.places < lengths[:, None]  # (batch, length)
        self.index = present.flatten().nonzero().squeeze(1)  # (tokens,)
        # None says that all texts are as long: their tokens are a rectangle as they lie
        self.present = None if len(self.index) == self.batch * self.length else present

    def pad(self, x: Tensor) -> Tensor:
        """(tokens, ...) to (batch, length, ...), zeros where no token is."""
        if self.present is None:
            return x.unflatten(0, (self.batch, self.length))
        full = x.new_zeros((self.batch * self.length, *x.shape[1:]))
        return full.index_copy(0, self.index, x).unflatten(0, (self.batch, self.length))

    def gather(self, x: Tensor) -> Tensor:
        """(batch, length, ...) to (tokens, ...)."""
        tokens = x.flatten(0, 1)
        return tokens if self.present is None else tokens.index_select(0, self.index)

    def select(self, x: Tensor, places: Tensor) -> Tensor:
        """Some tokens of each text, places (batch, n): (batch, n, ...)."""
        begins = self.lengths.cumsum(0) - self.lengths
        return x.index_select(0, (begins[:, None] + places).flatten()).unflatten(0, places.shape)

    @property
    def token_positions(self) -> Tensor:
        """Each token's position in its text."""  # (tokens,)
        return self.places.expand(self.batch, -1).flatten()[self.index]

    def first(self) -> Tensor:
        """The position of each text's first token."""  # (batch,)
        return torch.zeros_like(self.lengths)

    def last(self) -> Tensor:
        """The position of each text's last token."""
        return self.lengths - 1


Layout = PaddedLayout | PackedLayout
