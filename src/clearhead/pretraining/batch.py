"""A batch of pre-training: the texts of one step as a network reads them, and the targets at some of their tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class PretrainBatch:
    """Texts end to end, without padding; a target is a position and the right token there."""

    ids: Array  # (tokens,)
    lengths: Array  # (texts,)
    segments: Array | None = None  # (tokens,)
    places: Array  # (targets,): positions of their tokens; of an encoder-decoder, in the decoder's text
    words: Array  # (targets,): what is right there
    before: Array  # (targets,): the token before it in the text, -1 if none, for the bigram baseline
    pairs: Array | None = None  # (texts,): 0 if the second text belongs to the first, else 1
    target_ids: Array | None = None  # (target tokens,)
    target_lengths: Array | None = None
    ways: int = 1  # targets that a token can have: in ELMo two, and places count both

    @property
    def tokens(self) -> int:
        """How many tokens are read."""
        return len(self.ids) + (0 if self.target_ids is None else len(self.target_ids))

    def part(self, first: int, last: int) -> PretrainBatch:
        """Some of its texts."""
        begin, end = (int(self.lengths[:place].sum()) for place in (first, last))
        asked_begin, asked_end = self.ways * begin, self.ways * end
        target_ids = target_lengths = None
        if self.target_ids is not None and self.target_lengths is not None:
            asked_begin, asked_end = (int(self.target_lengths[:place].sum()) for place in (first, last))
            target_ids, target_lengths = self.target_ids[asked_begin:asked_end], self.target_lengths[first:last]
        asked = slice(*np.searchsorted(self.places, (asked_begin, asked_end)))
        return PretrainBatch(
            ids=self.ids[begin:end],
            lengths=self.lengths[first:last],
            segments=None if self.segments is None else self.segments[begin:end],
            places=self.places[asked] - asked_begin,
            words=self.words[asked],
            before=self.before[asked],
            pairs=None if self.pairs is None else self.pairs[first:last],
            target_ids=target_ids,
            target_lengths=target_lengths,
            ways=self.ways,
        )

    def share(self, rank: int, ranks: int) -> PretrainBatch:
        """The texts of one of several processes that learn together: a step has the same, whatever their number."""
        bounds = [len(self.lengths) * one // ranks for one in (rank, rank + 1)]
        return self.part(*bounds)
