"""Ragged arrays: rows of different lengths in one flat array, such as words of texts or options of questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class RaggedArray:
    """Concatenated values of all rows, and the bounds of each row."""

    values: Array  # (items, ...)
    bounds: Array  # (rows + 1,)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __iter__(self) -> Iterator[Array]:
        return (self.row(index) for index in range(len(self)))

    def row(self, index: int) -> Array:
        """Return the values of one row."""
        return self.values[self.bounds[index] : self.bounds[index + 1]]

    @property
    def counts(self) -> Array:
        """(rows,) the number of values of each row."""
        counts: Array = self.bounds[1:] - self.bounds[:-1]
        return counts

    @property
    def row_indices(self) -> Array:
        """(items,) the row of each value."""
        import numpy as np

        return np.repeat(np.arange(len(self)), self.counts)

    def __getitem__(self, rows: Array | slice) -> RaggedArray:
        """Select rows in the given order."""
        import numpy as np

        selected = np.arange(len(self))[rows]
        return RaggedArray(
            values=self.values[self.value_indices(selected)], bounds=compute_bounds(self.counts[selected])
        )

    def value_indices(self, rows: Array) -> Array:
        """The indices of the values of the given rows."""
        import numpy as np

        counts = self.counts[rows]
        offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.asarray(np.repeat(self.bounds[:-1][rows], counts) + offsets)

    def to_padded(self, fill: float = 0.0) -> Array:
        """Pad the rows to the longest: (rows, longest, ...)."""
        import numpy as np

        counts = self.counts
        longest = int(counts.max()) if len(counts) else 0
        padded = np.full((len(self), longest, *self.values.shape[1:]), fill, self.values.dtype)
        padded[np.arange(longest) < counts[:, None]] = self.values
        return padded

    def tobytes(self) -> bytes:
        """Values and bounds as bytes, for comparison and hashing."""
        return self.values.tobytes() + self.bounds.tobytes()


def compute_bounds(counts: Any) -> Array:
    """Compute the bounds of consecutive rows from their lengths."""
    import numpy as np

    return np.concatenate([[0], np.cumsum(np.asarray(counts, np.int64))])


def to_ragged(rows: Iterable[Sequence[Any]], dtype: Any) -> RaggedArray:
    """Build a ragged array from rows."""
    import numpy as np

    row_list = list(rows)
    values = np.array([value for row in row_list for value in row], dtype)
    return RaggedArray(values=values, bounds=compute_bounds([len(row) for row in row_list]))


def concat_parts(parts: Sequence[Any]) -> Any:
    """Concatenate arrays, ragged arrays, or objects with a `join` method."""
    import numpy as np

    first = parts[0]
    if isinstance(first, RaggedArray):
        values = np.concatenate([part.values for part in parts])
        return RaggedArray(values=values, bounds=compute_bounds(np.concatenate([part.counts for part in parts])))
    if hasattr(first, "join"):
        return first.join(parts)
    return np.concatenate(parts)
