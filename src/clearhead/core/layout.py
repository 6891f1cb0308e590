"""How the tokens of a batch lie in memory: padded to a rectangle, or packed end to end.

Everything that looks at one token at a time (words, norms, feed-forward, the matrices around attention) runs on the
tokens as they lie. Only attention and convolution need the rectangle: they `spread` and `gather`.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Padded:
    """A rectangle (batch, length) with a mask; spreading and gathering do nothing."""

    def __init__(self, ids: Tensor, mask: Tensor | None) -> None:
        self.batch, self.length = ids.shape
        # None says that every token is real, so that no mask has to be looked at
        self.present = None if mask is None or bool(mask.all()) else mask
        self.places = torch.arange(self.length, device=ids.device)[None]  # (1, length)

    def spread(self, x: Tensor) -> Tensor:
        """Tokens as they lie to (batch, length, ...)."""
        return x

    def gather(self, x: Tensor) -> Tensor:
        """(batch, length, ...) back to tokens as they lie."""
        return x

    @property
    def token_places(self) -> Tensor:
        """Each token's position in its text, as the tokens lie."""
        return self.places

    def last(self) -> Tensor:
        """The position of each text's last real token."""  # (batch,)
        if self.present is None:
            return self.places.new_full((self.batch,), self.length - 1)
        return (self.places * self.present).argmax(1)


class Packed:
    """Tokens of all texts end to end, with their lengths: no padding is ever computed."""

    def __init__(self, lengths: Tensor) -> None:
        self.batch, self.length = len(lengths), int(lengths.max())
        self.places = torch.arange(self.length, device=lengths.device)[None]
        self.present: Tensor | None = self.places < lengths[:, None]  # (batch, length)
        self.lengths = lengths
        self.index = self.present.flatten().nonzero().squeeze(1)  # (tokens,)
        if len(self.index) == self.batch * self.length:
            self.present = None

    def spread(self, x: Tensor) -> Tensor:
        """(tokens, ...) to (batch, length, ...), zeros where no token is."""
        full = x.new_zeros((self.batch * self.length, *x.shape[1:]))
        return full.index_copy(0, self.index, x).unflatten(0, (self.batch, self.length))

    def gather(self, x: Tensor) -> Tensor:
        """(batch, length, ...) to (tokens, ...)."""
        return x.flatten(0, 1).index_select(0, self.index)

    @property
    def token_places(self) -> Tensor:
        """Each token's position in its text."""  # (tokens,)
        return self.places.expand(self.batch, -1).flatten()[self.index]

    def last(self) -> Tensor:
        """The position of each text's last token."""
        return self.lengths - 1


Layout = Padded | Packed
