"""A pre-training batch: the texts of one step, and the targets at some of their tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class PretrainBatch:
    """Packed texts without padding; a target is a position and the label there."""

    ids: Array  # (tokens,)
    lengths: Array  # (texts,)
    segments: Array | None = None  # (tokens,)
    positions: Array  # (targets,): their token positions; for an encoder-decoder, in the decoder's text
    labels: Array  # (targets,): the tokens to predict
    previous_ids: Array  # (targets,): the token before the label in the text or -1, for the bigram baseline
    pair_labels: Array | None = None  # (texts,): 0 if the second text belongs to the first, else 1
    target_ids: Array | None = None  # (target tokens,)
    target_lengths: Array | None = None
    targets_per_token: int = 1  # 2 for ELMo, whose positions count both directions

    @property
    def tokens(self) -> int:
        """Number of input tokens."""
        return len(self.ids) + (0 if self.target_ids is None else len(self.target_ids))

    def slice_texts(self, first: int, last: int) -> PretrainBatch:
        """Return the batch of the texts first ... last - 1."""
        token_start, token_end = (int(self.lengths[:index].sum()) for index in (first, last))
        target_start, target_end = self.targets_per_token * token_start, self.targets_per_token * token_end
        target_ids = target_lengths = None
        if self.target_ids is not None and self.target_lengths is not None:
            target_start, target_end = (int(self.target_lengths[:index].sum()) for index in (first, last))
            target_ids, target_lengths = self.target_ids[target_start:target_end], self.target_lengths[first:last]
        targets = slice(*np.searchsorted(self.positions, (target_start, target_end)))
        return PretrainBatch(
            ids=self.ids[token_start:token_end],
            lengths=self.lengths[first:last],
            segments=None if self.segments is None else self.segments[token_start:token_end],
            positions=self.positions[targets] - target_start,
            labels=self.labels[targets],
            previous_ids=self.previous_ids[targets],
            pair_labels=None if self.pair_labels is None else self.pair_labels[first:last],
            target_ids=target_ids,
            target_lengths=target_lengths,
            targets_per_token=self.targets_per_token,
        )

    def texts_of_rank(self, rank: int, rank_count: int) -> PretrainBatch:
        """Return the texts of one process in distributed training; all processes together get the whole batch."""
        bounds = [len(self.lengths) * index // rank_count for index in (rank, rank + 1)]
        return self.slice_texts(*bounds)
