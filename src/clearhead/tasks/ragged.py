"""Rows of different lengths in one flat array: the words of texts, the options of questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class RaggedArray:
    """Values of all rows end to end, and where each row begins."""

    values: Array  # (items, ...)
    bounds: Array  # (rows + 1,)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __iter__(self) -> Iterator[Array]:
        return (self.row(place) for place in range(len(self)))

    def row(self, place: int) -> Array:
        """The values of one row."""
        return self.values[self.bounds[place] : self.bounds[place + 1]]

    @property
    def counts(self) -> Array:
        """(rows,) how many values each row has."""
        counts: Array = self.bounds[1:] - self.bounds[:-1]
        return counts

    @property
    def row_indices(self) -> Array:
        """(items,) the row of each value."""
        import numpy as np

        return np.repeat(np.arange(len(self)), self.counts)

    def __getitem__(self, places: Array | slice) -> RaggedArray:
        """Some rows, in the order asked for."""
        import numpy as np

        chosen = np.arange(len(self))[places]
        return RaggedArray(values=self.values[self.value_indices(chosen)], bounds=compute_bounds(self.counts[chosen]))

    def value_indices(self, places: Array) -> Array:
        """Where the values of some rows lie."""
        import numpy as np

        counts = self.counts[places]
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.asarray(np.repeat(self.bounds[:-1][places], counts) + within)

    def to_padded(self, fill: float = 0.0) -> Array:
        """(rows, longest, ...): a rectangle, filled up."""
        import numpy as np

        counts = self.counts
        longest = int(counts.max()) if len(counts) else 0
        made = np.full((len(self), longest, *self.values.shape[1:]), fill, self.values.dtype)
        made[np.arange(longest) < counts[:, None]] = self.values
        return made

    def tobytes(self) -> bytes:
        """All of it, to tell two apart."""
        return self.values.tobytes() + self.bounds.tobytes()


def compute_bounds(counts: Any) -> Array:
    """Where rows of these lengths begin, and where the last one ends."""
    import numpy as np

    return np.concatenate([[0], np.cumsum(np.asarray(counts, np.int64))])


def to_ragged(rows: Iterable[Sequence[Any]], dtype: Any) -> RaggedArray:
    """Rows as one flat array."""
    import numpy as np

    listed = list(rows)
    values = np.array([value for row in listed for value in row], dtype)
    return RaggedArray(values=values, bounds=compute_bounds([len(row) for row in listed]))


def concat_parts(parts: Sequence[Any]) -> Any:
    """Parts one after the other: of arrays, of ragged ones, or of whatever knows how to `join`."""
    import numpy as np

    first = parts[0]
    if isinstance(first, RaggedArray):
        values = np.concatenate([part.values for part in parts])
        return RaggedArray(values=values, bounds=compute_bounds(np.concatenate([part.counts for part in parts])))
    if hasattr(first, "join"):
        return first.join(parts)
    return np.concatenate(parts)
