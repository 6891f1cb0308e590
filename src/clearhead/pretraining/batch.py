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
    positions: Array  # (targets,): positions of their tokens; of an encoder-decoder, in the decoder's text
    labels: Array  # (targets,): what is right there
    previous_ids: Array  # (targets,): the token before it in the text, -1 if none, for the bigram baseline
    pair_labels: Array | None = None  # (texts,): 0 if the second text belongs to the first, else 1
    target_ids: Array | None = None  # (target tokens,)
    target_lengths: Array | None = None
    targets_per_token: int = 1  # targets that a token can have: in ELMo two, and places count both

    @property
    def tokens(self) -> int:
        """How many tokens are read."""
        return len(self.ids) + (0 if self.target_ids is None else len(self.target_ids))

    def slice_texts(self, first: int, last: int) -> PretrainBatch:
        """Some of its texts."""
        begin, end = (int(self.lengths[:place].sum()) for place in (first, last))
        asked_begin, asked_end = self.targets_per_token * begin, self.targets_per_token * end
        target_ids = target_lengths = None
        if self.target_ids is not None and self.target_lengths is not None:
            asked_begin, asked_end = (int(self.target_lengths[:place].sum()) for place in (first, last))
            target_ids, target_lengths = self.target_ids[asked_begin:asked_end], self.target_lengths[first:last]
        asked = slice(*np.searchsorted(self.positions, (asked_begin, asked_end)))
        return PretrainBatch(
            ids=self.ids[begin:end],
            lengths=self.lengths[first:last],
            segments=None if self.segments is None else self.segments[begin:end],
            positions=self.positions[asked] - asked_begin,
            labels=self.labels[asked],
            previous_ids=self.previous_ids[asked],
            pair_labels=None if self.pair_labels is None else self.pair_labels[first:last],
            target_ids=target_ids,
            target_lengths=target_lengths,
            targets_per_token=self.targets_per_token,
        )

    def texts_of_rank(self, rank: int, ranks: int) -> PretrainBatch:
        """The texts of one of several processes that learn together: a step has the same, whatever their number."""
        bounds = [len(self.lengths) * one // ranks for one in (rank, rank + 1)]
        return self.slice_texts(*bounds)
