"""The state of a decoder between two tokens: key-value buffers with room to grow, and which row each beam reads.

The beams of one source are adjacent rows. When a beam continues from another beam's tokens, no data is moved: the cache
indirection table names the row that holds each token of a hypothesis. Keys and values of a source are stored once,
however many beams attend to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from clearhead.batch import to_integer_array

Array = np.ndarray[Any, Any]
INITIAL_CAPACITY = 16  # tokens that fit into new buffers


class KeyValueBuffers:
    """Keys and values of every layer, (rows, heads, capacity, head_width) each; a written token never changes."""

    def __init__(self, arrays: Mapping[str, Array], used: int) -> None:
        self.arrays, self.used = dict(arrays), used
        self.bound: Any = None  # the session that is bound to them
        self._lock = Lock()

    @property
    def capacity(self) -> int:
        """Number of tokens that fit."""
        return int(next(iter(self.arrays.values())).shape[2])

    def reserve_next(self, length: int) -> KeyValueBuffers:
        """Return buffers for token number `length`: these, or a copy if they are full or already written there."""
        with self._lock:
            if self.used == length < self.capacity:
                self.used = length + 1
                return self
        return self.copy_rows(None, length, length + max(INITIAL_CAPACITY, length // 2), length + 1)

    def copy_rows(self, rows: Array | None, length: int, capacity: int, used: int | None = None) -> KeyValueBuffers:
        """Copy the first tokens of some rows, or of all rows."""
        copied = {}
        for name, old in self.arrays.items():
            count = len(old) if rows is None else len(rows)
            copied[name] = np.empty((count, old.shape[1], capacity, old.shape[3]), np.float32)
            copied[name][:, :, :length] = old[:, :, :length] if rows is None else old[rows, :, :length]
        return KeyValueBuffers(copied, length if used is None else used)

    def gather_words(self, rows: Array) -> dict[str, Array]:
        """Gather each token from the row that holds it; `rows` is (rows, length)."""
        positions = np.arange(rows.shape[1])
        return {
            name: np.ascontiguousarray(np.moveaxis(old[rows, :, positions], 1, 2)) for name, old in self.arrays.items()
        }


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """State of each row of a batch between two steps."""

    buffers: KeyValueBuffers
    cache_indirection: Array  # (rows, length): which row of its group holds each token
    beam_width: int  # adjacent rows (a group) with the same source
    memory: Mapping[str, Array]  # keys and values of the sources
    sources: Array  # (groups,): the source in each row of the memory
    present: Array  # (rows, length): which tokens are real
    positions: Array  # (rows, length): positions of the cached tokens

    @property
    def length(self) -> int:
        """Number of cached tokens, including padding."""
        return int(self.present.shape[1])

    @property
    def row_sources(self) -> Array:
        """The source of each row."""
        return np.repeat(self.sources, self.beam_width)

    def reorder(self, rows: Any) -> EngineState:
        """Select rows of the batch, as beam search does."""
        index = to_integer_array(rows, "rows")
        row_sources = self.row_sources[index]
        beam_width, previous = beams_per_source(row_sources), index // self.beam_width
        sources = row_sources[::beam_width]
        buffers, cache_indirection = self.buffers, self.cache_indirection[index]
        previous_groups = previous.reshape(-1, beam_width)
        if beam_width == self.beam_width and bool(
            (previous_groups == previous_groups[:, :1]).all()
        ):  # groups stay together
            if not np.array_equal(previous_groups[:, 0], np.arange(len(self.sources))):
                kept_rows = (previous_groups[:, :1] * beam_width + np.arange(beam_width)).reshape(-1)
                buffers = buffers.copy_rows(kept_rows, self.length, buffers.capacity)
        elif self.beam_width == 1:
            buffers = buffers.copy_rows(index, self.length, buffers.capacity)
            cache_indirection = identity_indirection(len(index), beam_width, self.length)
        else:
            source_rows = previous[:, None] * self.beam_width + cache_indirection
            buffers, cache_indirection = (
                KeyValueBuffers(buffers.gather_words(source_rows), self.length),
                identity_indirection(len(index), beam_width, self.length),
            )
        return replace(
            self,
            buffers=buffers,
            cache_indirection=cache_indirection,
            beam_width=beam_width,
            memory=self._memory(sources),
            sources=sources,
            present=self.present[index],
            positions=self.positions[index],
        )

    def _memory(self, sources: Array) -> Mapping[str, Array]:
        """Select the keys and values of these sources; without a copy if they are unchanged."""
        if not self.memory or np.array_equal(sources, self.sources):
            return self.memory
        first = {int(source): row for row, source in reversed(list(enumerate(self.sources)))}
        index = np.array([first[int(source)] for source in sources], np.int64)
        return {name: array[index] for name, array in self.memory.items()}

    def cache(self) -> dict[str, Array]:
        """Gather keys and values of exactly the cached tokens."""
        source_rows = (
            self.cache_indirection
            + (np.arange(len(self.cache_indirection)) // self.beam_width * self.beam_width)[:, None]
        )
        return self.buffers.gather_words(source_rows)

    def repeat_memory(self) -> dict[str, Array]:
        """Repeat the keys and values of the sources for each row."""
        return {name: np.repeat(array, self.beam_width, 0) for name, array in self.memory.items()}


def identity_indirection(rows: int, beam_width: int, length: int) -> Array:
    """Build the cache indirection in which every row holds its own tokens."""
    return np.repeat((np.arange(rows, dtype=np.int32) % beam_width)[:, None], length, 1)


def beams_per_source(row_sources: Array) -> int:
    """Number of adjacent rows per source; 1 if it differs between sources."""
    ends = np.flatnonzero(np.append(row_sources[1:] != row_sources[:-1], True)) + 1
    lengths = np.diff(ends, prepend=0)
    return int(lengths[0]) if bool((lengths == lengths[0]).all()) else 1
