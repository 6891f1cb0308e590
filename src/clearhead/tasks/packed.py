"""Rows as a network reads them: a table of token ids, and any of its rows packed end to end."""

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
    """A view of some rows of a token table: the same arrays, and which windows each row has."""

    ids: Array  # (tokens,)
    starts: Array  # (windows + 1,): where each window begins
    segment_starts: Array | None  # (windows,): tokens before the second segment; None: the model knows no segments
    first_windows: Array  # (rows,): the first window of each row
    row_windows: Array  # (rows,): how many windows it has
    targets: Any  # (rows,) class ids or numbers, or (rows, labels) of zeros and ones, or as the task has them
    row_numbers: Array  # (rows,): their numbers in the source, to name them
    table_rows: Array  # (rows,): their places in the table
    annotations: Any = None  # what the task must know of the tokens

    def __len__(self) -> int:
        return len(self.first_windows)

    @property
    def row_tokens(self) -> Array:
        """How many tokens each row has over all its windows."""
        tokens: Array = self.starts[self.first_windows + self.row_windows] - self.starts[self.first_windows]
        return tokens

    def select(self, places: Array) -> PackedDataset:
        """Some of the rows, in the order asked for."""
        return replace(
            self,
            first_windows=self.first_windows[places],
            row_windows=self.row_windows[places],
            targets=self.targets[places],
            row_numbers=self.row_numbers[places],
            table_rows=self.table_rows[places],
        )

    def windows(self, rows: Array) -> Array:
        """The windows of some rows, one row after the other."""
        import numpy as np

        counts = self.row_windows[rows]
        return np.asarray(np.repeat(self.first_windows[rows], counts) + concat_ranges(counts))

    def take(self, rows: Array) -> PackedBatch:
        """The windows of some rows, packed end to end."""
        import numpy as np

        owners = np.repeat(np.arange(len(rows)), self.row_windows[rows])
        part = self.pack_windows(self.windows(rows), owners, self.targets[rows])
        return part if self.annotations is None else replace(part, annotations=self.pack_annotations(rows))

    def pack_annotations(self, rows: Array) -> dict[str, Array]:
        """What the task knows of some rows, packed end to end."""
        import numpy as np

        tokens = self.row_tokens[rows]
        made: dict[str, Array] = self.annotations.pack(
            self.table_rows[rows], self.windows(rows), np.cumsum(tokens) - tokens
        )
        return made

    def pack_windows(self, windows: Array, owners: Array, targets: Array) -> PackedBatch:
        """Any windows, packed end to end."""
        import numpy as np

        lengths = self.starts[windows + 1] - self.starts[windows]
        place = concat_ranges(lengths)
        turned = None if self.segment_starts is None else place >= np.repeat(self.segment_starts[windows], lengths)
        return PackedBatch(
            ids=self.ids[np.repeat(self.starts[windows], lengths) + place].astype(np.int64),
            segments=None if turned is None else turned.astype(np.int64),
            lengths=lengths,
            window_rows=owners,
            targets=targets,
        )


@dataclass(frozen=True, kw_only=True)
class PackedBatch:
    """One batch: packed windows, and the row that each window belongs to."""

    ids: Array  # (tokens,)
    segments: Array | None
    lengths: Array  # (windows,)
    window_rows: Array  # (windows,): rows of this batch, counted from 0
    targets: Any  # (rows, ...)
    annotations: Mapping[str, Array] = field(default_factory=dict)  # what the task must know of the tokens
    target_ids: Array | None = None  # (target tokens,): what a decoder is given, end to end
    target_lengths: Array | None = None  # (rows,)

    @property
    def tokens(self) -> int:
        """How many tokens the network reads."""
        return len(self.ids) + (0 if self.target_ids is None else len(self.target_ids))

    @property
    def rows(self) -> int:
        """How many rows are in it."""
        return len(self.targets)


def pack_table(table: TokenTable, *, segments: bool, labelled: bool = True) -> PackedDataset:
    """A table as a network reads it: every row needs a token and, to learn from, a label."""
    import numpy as np

    if labelled and table.labels is None:
        raise InputError("These rows have no labels to learn from.")
    bounds = np.searchsorted(table.window_rows, np.arange(len(table) + 1))
    view = PackedDataset(
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
    if len(table) and int(view.row_tokens.min()) == 0:
        raise InputError(f"Row {int(table.rows[view.row_tokens.argmin()])} has no tokens.")
    return view


def concat_ranges(counts: Array) -> Array:
    """0, 1, 2, ... anew for each count."""
    import numpy as np

    starts = np.cumsum(counts) - counts
    return np.asarray(np.arange(int(counts.sum())) - np.repeat(starts, counts))
