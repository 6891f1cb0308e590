"""Packed source and target texts for training encoder-decoder models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.tasks.packed import PackedBatch, concat_ranges

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class PackedTexts:
    """Concatenated token ids of texts."""

    ids: Array  # (tokens,)
    starts: Array  # (texts + 1,)

    @property
    def lengths(self) -> Array:
        """(texts,) the number of tokens of each text."""
        lengths: Array = self.starts[1:] - self.starts[:-1]
        return lengths

    def take(self, rows: Array) -> tuple[Array, Array]:
        """Concatenate the given texts; returns ids and lengths."""
        import numpy as np

        lengths = self.lengths[rows]
        return self.ids[np.repeat(self.starts[rows], lengths) + concat_ranges(lengths)].astype(np.int64), lengths


def pack_token_ids(texts: Sequence[Sequence[int]]) -> PackedTexts:
    """Pack the token ids of texts into one array."""
    import numpy as np

    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=starts[1:])
    ids = np.fromiter((token for text in texts for token in text), np.int32, count=int(starts[-1]))
    return PackedTexts(ids=ids, starts=starts)


@dataclass(frozen=True, kw_only=True)
class ParallelDataset:
    """Source and target texts; a batch is a pure function of its rows."""

    source: PackedTexts
    target: PackedTexts  # every text ends with the end-of-sequence token
    start_id: int  # first input token of the decoder
    row_numbers: Array  # (rows,): row numbers in the file, for messages

    def __len__(self) -> int:
        return len(self.row_numbers)

    @property
    def row_tokens(self) -> Array:
        """(rows,) source plus target tokens, for the token budget of a batch."""
        tokens: Array = self.source.lengths + self.target.lengths
        return tokens

    @property
    def row_words(self) -> Array:
        """(rows,) target tokens, the weight of a row in the loss."""
        return self.target.lengths

    def take(self, rows: Array) -> PackedBatch:
        """Pack rows into a batch for teacher forcing: the decoder inputs are the targets shifted by one."""
        import numpy as np

        ids, lengths = self.source.take(rows)
        target_ids, target_lengths = self.target.take(rows)
        shifted = np.empty_like(target_ids)
        shifted[1:] = target_ids[:-1]
        shifted[np.cumsum(target_lengths) - target_lengths] = self.start_id
        return PackedBatch(
            ids=ids,
            segments=None,
            lengths=lengths,
            window_rows=np.arange(len(rows)),
            targets=target_lengths,
            annotations={"words": target_ids, "word_rows": np.repeat(np.arange(len(rows)), target_lengths)},
            target_ids=shifted,
            target_lengths=target_lengths,
        )
