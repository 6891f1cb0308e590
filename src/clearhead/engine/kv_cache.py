"""A decoder between two words: keys and values in arrays with room to grow, and who may read which of them.

Beams of one source stand side by side. When a beam goes on from its neighbour's words, nothing is moved: a table says
in whose rows a hypothesis finds each of its words. What was read of a source is there once, however many beams ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from clearhead.batch import as_ids

Array = np.ndarray[Any, Any]
INITIAL_CAPACITY = 16  # words of a new store


class KeyValueBuffers:
    """Keys and values of every layer, (rows, heads, room, head_width) each; words are written once and stay."""

    def __init__(self, arrays: Mapping[str, Array], used: int) -> None:
        self.arrays, self.used = dict(arrays), used
        self.bound: Any = None  # how a session reads and writes them
        self._lock = Lock()

    @property
    def capacity(self) -> int:
        """How many words have a place."""
        return int(next(iter(self.arrays.values())).shape[2])

    def reserve_next(self, length: int) -> KeyValueBuffers:
        """A store in which word number `length` may be written: this one, unless it is full or another went on here."""
        with self._lock:
            if self.used == length < self.capacity:
                self.used = length + 1
                return self
        return self.copy_rows(None, length, length + max(INITIAL_CAPACITY, length // 2), length + 1)

    def copy_rows(self, rows: Array | None, length: int, room: int, used: int | None = None) -> KeyValueBuffers:
        """The first words of some rows, or of all, in arrays of their own."""
        made = {}
        for name, old in self.arrays.items():
            count = len(old) if rows is None else len(rows)
            made[name] = np.empty((count, old.shape[1], room, old.shape[3]), np.float32)
            made[name][:, :, :length] = old[:, :, :length] if rows is None else old[rows, :, :length]
        return KeyValueBuffers(made, length if used is None else used)

    def gathered(self, rows: Array) -> dict[str, Array]:
        """Each word from the row that holds it; `rows` is (rows, length)."""
        places = np.arange(rows.shape[1])
        return {
            name: np.ascontiguousarray(np.moveaxis(old[rows, :, places], 1, 2)) for name, old in self.arrays.items()
        }


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """Where each row of a batch stands."""

    store: KeyValueBuffers
    holders: Array  # (rows, length): which row of its group holds a word
    group: int  # rows side by side that answer one source
    memory: Mapping[str, Array]  # what was read of the sources
    sources: Array  # (groups,): which source each row of the memory is
    present: Array  # (rows, length): which words are real
    places: Array  # (rows, length): their numbers

    @property
    def length(self) -> int:
        """Words so far, padding with them."""
        return int(self.present.shape[1])

    @property
    def row_sources(self) -> Array:
        """The source that each row answers."""
        return np.repeat(self.sources, self.group)

    def reorder(self, rows: Any) -> EngineState:
        """The same for other rows of the batch."""
        index = as_ids(rows, "rows")
        owners = self.row_sources[index]
        group, before = beams_per_source(owners), index // self.group
        sources = owners[::group]
        store, holders = self.store, self.holders[index]
        whole = before.reshape(-1, group)
        if group == self.group and bool((whole == whole[:, :1]).all()):  # groups stay together
            if not np.array_equal(whole[:, 0], np.arange(len(self.sources))):
                kept = (whole[:, :1] * group + np.arange(group)).reshape(-1)
                store = store.copy_rows(kept, self.length, store.capacity)
        elif self.group == 1:
            store = store.copy_rows(index, self.length, store.capacity)
            holders = identity_indirection(len(index), group, self.length)
        else:
            absolute = before[:, None] * self.group + holders
            store, holders = (
                KeyValueBuffers(store.gathered(absolute), self.length),
                identity_indirection(len(index), group, self.length),
            )
        return replace(
            self,
            store=store,
            holders=holders,
            group=group,
            memory=self._memory(sources),
            sources=sources,
            present=self.present[index],
            places=self.places[index],
        )

    def _memory(self, sources: Array) -> Mapping[str, Array]:
        """What was read of these sources; it stays where it is while they do."""
        if not self.memory or np.array_equal(sources, self.sources):
            return self.memory
        first = {int(source): place for place, source in reversed(list(enumerate(self.sources)))}
        index = np.array([first[int(source)] for source in sources], np.int64)
        return {name: one[index] for name, one in self.memory.items()}

    def cache(self) -> dict[str, Array]:
        """Keys and values in arrays of exactly the words so far."""
        absolute = self.holders + (np.arange(len(self.holders)) // self.group * self.group)[:, None]
        return self.store.gathered(absolute)

    def repeat_memory(self) -> dict[str, Array]:
        """What was read, once for each row."""
        return {name: np.repeat(one, self.group, 0) for name, one in self.memory.items()}


def identity_indirection(rows: int, group: int, length: int) -> Array:
    """Every row holds its own words."""
    return np.repeat((np.arange(rows, dtype=np.int32) % group)[:, None], length, 1)


def beams_per_source(owners: Array) -> int:
    """How many rows side by side answer each source; 1 where that differs."""
    ends = np.flatnonzero(np.append(owners[1:] != owners[:-1], True)) + 1
    lengths = np.diff(ends, prepend=0)
    return int(lengths[0]) if bool((lengths == lengths[0]).all()) else 1
