"""Rows as a network reads them: a table of token ids, and any of its rows packed end to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.data.table import TokenTable
from clearhead.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A view of a token table: the same arrays, and where each row's windows begin."""

    ids: Array  # (tokens,)
    starts: Array  # (windows + 1,): where each window begins
    turns: Array | None  # (windows,): tokens before the second segment; None: the model knows no segments
    row_starts: Array  # (rows + 1,): the first window of each row
    targets: Array  # (rows,) class ids or numbers, or (rows, labels) of zeros and ones

    def __len__(self) -> int:
        return len(self.row_starts) - 1

    @property
    def row_tokens(self) -> Array:
        """How many tokens each row has over all its windows."""
        ends = self.starts[self.row_starts]
        return ends[1:] - ends[:-1]

    @property
    def row_windows(self) -> Array:
        """How many windows each row has."""
        return self.row_starts[1:] - self.row_starts[:-1]

    def take(self, rows: Array) -> Part:
        """The windows of some rows, packed end to end."""
        import numpy as np

        counts = self.row_windows[rows]
        windows = np.repeat(self.row_starts[rows], counts) + within(counts)
        lengths = self.starts[windows + 1] - self.starts[windows]
        place = within(lengths)
        turned = None if self.turns is None else place >= np.repeat(self.turns[windows], lengths)
        return Part(
            ids=self.ids[np.repeat(self.starts[windows], lengths) + place].astype(np.int64),
            segments=None if turned is None else turned.astype(np.int64),
            lengths=lengths,
            owners=np.repeat(np.arange(len(rows)), counts),
            targets=self.targets[rows],
        )


@dataclass(frozen=True, kw_only=True)
class Part:
    """One batch: packed windows, and the row that each window belongs to."""

    ids: Array  # (tokens,)
    segments: Array | None
    lengths: Array  # (windows,)
    owners: Array  # (windows,): rows of this batch, counted from 0
    targets: Array  # (rows, ...)

    @property
    def rows(self) -> int:
        """How many rows are in it."""
        return len(self.targets)


def encoded(table: TokenTable, *, segments: bool) -> Encoded:
    """A table for training: every row needs a label and a token."""
    import numpy as np

    if table.labels is None:
        raise InputError("These rows have no labels to learn from.")
    row_starts = np.searchsorted(table.owners, np.arange(len(table) + 1))
    view = Encoded(
        ids=table.ids,
        starts=table.starts,
        turns=table.turns if segments else None,
        row_starts=row_starts,
        targets=table.labels,
    )
    if len(table) and int(view.row_tokens.min()) == 0:
        raise InputError(f"Row {int(table.rows[view.row_tokens.argmin()])} has no tokens.")
    return view


def within(counts: Array) -> Array:
    """0, 1, 2, ... anew for each count."""
    import numpy as np

    starts = np.cumsum(counts) - counts
    return np.asarray(np.arange(int(counts.sum())) - np.repeat(starts, counts))
