"""Packed inputs of a network: views of a token table, and batches of concatenated windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from clearhead.data.table import TokenTable
from clearhead.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class PackedDataset:
    """A view of rows of a token table that shares its arrays."""

    ids: Array  # (tokens,)
    starts: Array  # (windows + 1,): where each window starts in `ids`
    segment_starts: Array | None  # (windows,): tokens before the second segment; None: a model without segments
    first_windows: Array  # (rows,): the first window of each row
    row_windows: Array  # (rows,): number of windows of each row
    targets: Any  # (rows,) class ids or numbers, (rows, labels) of 0 and 1, or the form of the task
    row_numbers: Array  # (rows,): row numbers in the source, for messages
    table_rows: Array  # (rows,): row indices in the table
    annotations: Any = None  # token annotations of the task

    def __len__(self) -> int:
        return len(self.first_windows)

    @property
    def row_tokens(self) -> Array:
        """(rows,) the number of tokens of each row in all its windows."""
        tokens: Array = self.starts[self.first_windows + self.row_windows] - self.starts[self.first_windows]
        return tokens

    def select(self, rows: Array) -> PackedDataset:
        """Select rows in the given order."""
        return replace(
            self,
            first_windows=self.first_windows[rows],
            row_windows=self.row_windows[rows],
            targets=self.targets[rows],
            row_numbers=self.row_numbers[rows],
            table_rows=self.table_rows[rows],
        )

    def windows(self, rows: Array) -> Array:
        """The window indices of the given rows, row by row."""
        import numpy as np

        counts = self.row_windows[rows]
        return np.asarray(np.repeat(self.first_windows[rows], counts) + concat_ranges(counts))

    def take(self, rows: Array) -> PackedBatch:
        """Pack the windows of the given rows into a batch."""
        import numpy as np

        window_rows = np.repeat(np.arange(len(rows)), self.row_windows[rows])
        batch = self.pack_windows(self.windows(rows), window_rows, self.targets[rows])
        return batch if self.annotations is None else replace(batch, annotations=self.pack_annotations(rows))

    def pack_annotations(self, rows: Array) -> dict[str, Array]:
        """Pack the token annotations of the given rows."""
        import numpy as np

        tokens = self.row_tokens[rows]
        packed: dict[str, Array] = self.annotations.pack(
            self.table_rows[rows], self.windows(rows), np.cumsum(tokens) - tokens
        )
        return packed

    def pack_windows(self, windows: Array, window_rows: Array, targets: Array) -> PackedBatch:
        """Pack windows into a batch."""
        import numpy as np

        lengths = self.starts[windows + 1] - self.starts[windows]
        offsets = concat_ranges(lengths)
        is_second = None if self.segment_starts is None else offsets >= np.repeat(self.segment_starts[windows], lengths)
        return PackedBatch(
            ids=self.ids[np.repeat(self.starts[windows], lengths) + offsets].astype(np.int64),
            segments=None if is_second is None else is_second.astype(np.int64),
            lengths=lengths,
            window_rows=window_rows,
            targets=targets,
        )


@dataclass(frozen=True, kw_only=True)
class PackedBatch:
    """A batch of concatenated windows, and the row that each window belongs to."""

    ids: Array  # (tokens,)
    segments: Array | None
    lengths: Array  # (windows,)
    window_rows: Array  # (windows,): row of each window, counted within the batch
    targets: Any  # (rows, ...)
    annotations: Mapping[str, Array] = field(default_factory=dict)  # token annotations of the task
    target_ids: Array | None = None  # (target tokens,): concatenated inputs of a decoder
    target_lengths: Array | None = None  # (rows,)

    @property
    def tokens(self) -> int:
        """The number of input tokens, including those of the decoder."""
        return len(self.ids) + (0 if self.target_ids is None else len(self.target_ids))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.targets)


def pack_table(table: TokenTable, *, segments: bool, labeled: bool = True) -> PackedDataset:
    """Pack a token table; every row needs at least one token, and a label unless `labeled` is False."""
    import numpy as np

    if labeled and table.labels is None:
        raise InputError("These rows have no labels to train on.")
    bounds = np.searchsorted(table.window_rows, np.arange(len(table) + 1))
    dataset = PackedDataset(
        ids=table.ids,
        starts=table.starts,
        segment_starts=table.segment_starts if segments else None,
        first_windows=bounds[:-1],
        row_windows=bounds[1:] - bounds[:-1],
        targets=table.labels if table.labels is not None else np.zeros(len(table), np.int32),
        row_numbers=table.rows,
        table_rows=np.arange(len(table)),
        annotations=table.annotations,
    )
    if len(table) and int(dataset.row_tokens.min()) == 0:
        raise InputError(f"Row {int(table.rows[dataset.row_tokens.argmin()])} has no tokens.")
    return dataset


def concat_ranges(counts: Array) -> Array:
    """Concatenate the ranges 0, 1, ..., count - 1."""
    import numpy as np

    starts = np.cumsum(counts) - counts
    return np.asarray(np.arange(int(counts.sum())) - np.repeat(starts, counts))
