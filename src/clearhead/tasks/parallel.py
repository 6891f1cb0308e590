"""Pairs of texts as a network reads them: both sides as token ids, any rows of them packed end to end."""

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
    """The texts of one language, end to end."""

    ids: Array  # (tokens,)
    starts: Array  # (texts + 1,)

    @property
    def lengths(self) -> Array:
        """Tokens of each text."""
        lengths: Array = self.starts[1:] - self.starts[:-1]
        return lengths

    def take(self, rows: Array) -> tuple[Array, Array]:
        """Some texts end to end, and their lengths."""
        import numpy as np

        lengths = self.lengths[rows]
        return self.ids[np.repeat(self.starts[rows], lengths) + concat_ranges(lengths)].astype(np.int64), lengths


def pack_token_ids(texts: Sequence[Sequence[int]]) -> PackedTexts:
    """Token ids of some texts as one array."""
    import numpy as np

    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=starts[1:])
    ids = np.fromiter((token for text in texts for token in text), np.int32, count=int(starts[-1]))
    return PackedTexts(ids=ids, starts=starts)


@dataclass(frozen=True, kw_only=True)
class ParallelDataset:
    """Rows of source and target, as the loop takes them: a batch is a pure function of its rows."""

    source: PackedTexts
    target: PackedTexts  # every text ends with the end symbol
    start_id: int  # the token that a decoder is given before the first word
    row_numbers: Array  # (rows,): their numbers in the file, to name them

    def __len__(self) -> int:
        return len(self.row_numbers)

    @property
    def row_tokens(self) -> Array:
        """What a row costs: the tokens of both sides."""
        tokens: Array = self.source.lengths + self.target.lengths
        return tokens

    @property
    def row_words(self) -> Array:
        """What a row counts: every word of the target counts alike."""
        return self.target.lengths

    def take(self, rows: Array) -> PackedBatch:
        """Teacher forcing: a decoder is given the right words shifted by one, and learns what follows each of them."""
        import numpy as np

        ids, lengths = self.source.take(rows)
        words, target_lengths = self.target.take(rows)
        shifted = np.empty_like(words)
        shifted[1:] = words[:-1]
        shifted[np.cumsum(target_lengths) - target_lengths] = self.start_id
        return PackedBatch(
            ids=ids,
            segments=None,
            lengths=lengths,
            window_rows=np.arange(len(rows)),
            targets=target_lengths,
            annotations={"words": words, "word_rows": np.repeat(np.arange(len(rows)), target_lengths)},
            target_ids=shifted,
            target_lengths=target_lengths,
        )
