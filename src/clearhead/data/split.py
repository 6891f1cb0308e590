"""Train, dev and test: stratified, seeded, and nothing that is the same on two sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from clearhead.data.names import SPLIT_ALIASES
from clearhead.errors import InputError
from clearhead.files import to_printable

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MIN_FOLD_TEXTS = 10  # different texts in a fold
BINS = 10  # numbers are stratified by tenths of their range of ranks


def split_rows(
    labels: Any,
    hashes: Any,
    groups: Any = None,
    *,
    dev: float = 0.1,
    test: float = 0.1,
    seed: int = 0,
    kind: str = "classes",
) -> Array:
    """`train`, `dev` or `test` for each row; the order of the rows does not matter, the seed and the texts do."""
    # Rows of the same text hash, or of the same group, stay together, also over a chain of both. Each class keeps its
    # share on every side and has a row in train. Rows with several labels go by the rarest of them, numbers by tenths.
    import numpy as np

    marks = np.asarray(hashes, np.uint64)
    if not (0 <= dev < 1 and 0 <= test < 1 and dev + test < 1):
        raise InputError(f"dev={dev} and test={test}: expected shares of the rows, together less than 1.")
    if len(marks) == 0:
        raise InputError("there are no rows to split.")
    strata = _compute_strata(labels, len(marks), kind)
    clusters = _cluster_rows(marks, groups)
    count = int(clusters.max()) + 1
    sizes = np.bincount(clusters, minlength=count)
    keys = np.full(count, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(keys, clusters, marks)
    own = np.full(count, np.iinfo(np.int64).max, np.int64)  # texts with two labels go by the first of them
    np.minimum.at(own, clusters, strata)
    order = np.lexsort((splitmix64(keys, seed), own))
    parts = np.zeros(count, np.int8)
    bounds = np.flatnonzero(np.r_[True, own[order][1:] != own[order][:-1], True])
    totals = np.add.reduceat(sizes[order], bounds[:-1])
    tests = _apportion(totals, test, seed)
    devs = _apportion(totals, dev, seed + 1)
    for place, (start, end) in enumerate(pairwise(bounds.tolist())):
        inside = order[start:end]
        _fill_parts(parts, inside, sizes[inside], int(tests[place]), int(devs[place]))
    kept = order[bounds[1:] - 1]  # the last cluster of each class
    empty = any(wanted and not (parts == part).any() for part, wanted in ((2, tests.sum()), (1, devs.sum())))
    if empty or int(sizes.max()) > 1:
        _top_up(parts, order[np.argsort(splitmix64(keys[order], seed))], kept, sizes, int(tests.sum()), int(devs.sum()))
    return np.array(["train", "dev", "test"])[parts[clusters]]


def fold_rows(
    labels: Any, hashes: Any, groups: Any = None, *, folds: int, seed: int = 0, kind: str = "classes"
) -> Array:
    """The fold of each row, from 0: each class spread over all of them, and what is the same in one of them.

    There are fewer folds where each would hold less than a few different texts.
    """
    import numpy as np

    marks = np.asarray(hashes, np.uint64)
    strata, clusters = _compute_strata(labels, len(marks), kind), _cluster_rows(marks, groups)
    count = int(clusters.max(initial=-1)) + 1
    if count < 2 or folds < 2:
        raise InputError(f"{count:,} different texts cannot be cut into folds; there must be at least 2 of each.")
    folds = min(folds, max(count // MIN_FOLD_TEXTS, 2))
    sizes = np.bincount(clusters, minlength=count)
    keys = np.full(count, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(keys, clusters, marks)
    own = np.full(count, np.iinfo(np.int64).max, np.int64)
    np.minimum.at(own, clusters, strata)
    made = np.zeros(count, np.int64)
    full = [0] * folds  # rows of each fold
    here, stratum = [0] * folds, -1  # rows of each fold in this class
    for cluster in np.lexsort((splitmix64(keys, seed), -sizes, own)).tolist():  # large ones first, while all have room
        if own[cluster] != stratum:
            here, stratum = [0] * folds, int(own[cluster])
        fold = min(range(folds), key=lambda one: (here[one], full[one], one))
        made[cluster] = fold
        here[fold] += int(sizes[cluster])
        full[fold] += int(sizes[cluster])
    return made[clusters]


def _fill_parts(parts: Array, inside: Array, sizes: Array, test: int, dev: int) -> None:
    """Fill test, then dev, with the clusters of one class in their order; the last cluster is always trained on."""
    if int(sizes.max()) == 1:
        room = max(len(inside) - 1, 0)
        test = min(test, room)
        parts[inside[:test]] = 2
        parts[inside[test : min(test + dev, room)]] = 1
        return
    rooms = {2: test, 1: dev}
    for cluster, size in zip(inside[:-1], sizes[:-1], strict=True):
        for part, room in rooms.items():
            if size <= room:
                parts[cluster] = part
                rooms[part] -= int(size)
                break


def _top_up(parts: Array, order: Array, kept: Array, sizes: Array, test: int, dev: int) -> None:
    """Clusters too large for the room of their class go where they still bring a side nearer to its share."""
    import numpy as np

    free = np.ones(len(parts), np.bool_)
    free[kept] = False
    for part, wanted in ((2, test), (1, dev)):
        missing = wanted - int(sizes[parts == part].sum())
        for cluster in order[free[order] & (parts[order] == 0)].tolist():
            size = int(sizes[cluster])
            if missing > 0 and size < 2 * missing:
                parts[cluster] = part
                missing -= size
        left = np.flatnonzero(free & (parts == 0))
        if missing == wanted and wanted and len(left):  # all are far too large: the smallest is better than none
            parts[left[np.argmin(sizes[left])]] = part


def _apportion(totals: Array, share: float, seed: int) -> Array:
    """Whole rows for each class: rounded down, and the rest to the largest remainders, so that the sum is right."""
    import numpy as np

    exact = totals * share
    floor = np.floor(exact + 1e-9).astype(np.int64)
    wanted = round(float(totals.sum()) * share)
    if share and totals.sum() > 2:
        wanted = max(wanted, 1)
    missing = max(int(wanted - floor.sum()), 0)
    ties = splitmix64(np.arange(len(totals), dtype=np.uint64), seed)
    can = totals > 1  # a class of one row is trained on
    order = np.lexsort((ties, -(exact - floor), ~can))
    floor[order[:missing]] += 1
    return floor


def _compute_strata(labels: Any, rows: int, kind: str) -> Array:
    import numpy as np

    if kind not in ("classes", "multilabel", "number"):
        raise InputError(f"kind={kind!r}: expected classes, multilabel or number.")
    if labels is None:
        return np.zeros(rows, np.int64)
    values = np.asarray(labels)
    if len(values) != rows:
        raise InputError(f"{len(values):,} labels and {rows:,} texts cannot be split together.")
    if kind == "number":
        edges = np.quantile(values.astype(np.float64), np.linspace(0, 1, BINS + 1)[1:-1])
        return np.searchsorted(np.unique(edges), values, side="right").astype(np.int64)
    if kind == "classes":
        return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
    counts = values.sum(0)
    rarity = np.argsort(np.argsort(counts, kind="stable"), kind="stable")  # 0 is the rarest label
    ranks = np.where(values > 0, rarity, values.shape[1])  # rows without labels are a class of their own
    return ranks.min(1).astype(np.int64) if values.shape[1] else np.zeros(rows, np.int64)


def _cluster_rows(hashes: Array, groups: Any) -> Array:
    """The same number for rows that must stay together."""
    import numpy as np

    same = np.unique(hashes, return_inverse=True)[1].reshape(-1)
    if groups is None:
        return same
    if len(groups) != len(hashes):
        raise InputError(f"{len(groups):,} groups and {len(hashes):,} texts cannot be split together.")
    own = np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    parent = list(range(int(same.max()) + 1))
    first: dict[int, int] = {}
    for text, group in zip(same.tolist(), own.tolist(), strict=True):
        other = first.setdefault(group, text)
        left, right = _find_root(parent, text), _find_root(parent, other)
        parent[max(left, right)] = min(left, right)
    roots = np.array([_find_root(parent, place) for place in range(len(parent))])
    return np.unique(roots[same], return_inverse=True)[1].reshape(-1)


def _find_root(parent: list[int], place: int) -> int:
    while parent[place] != place:
        parent[place] = parent[parent[place]]
        place = parent[place]
    return place


def sample_rows(rows: int, most: int, seed: int = 0) -> Array:
    """The places of `most` of so many rows, in order: the same ones for the same seed; all where there are no more."""
    import numpy as np

    drawn = np.argsort(splitmix64(np.arange(rows, dtype=np.uint64), seed), kind="stable")[:most]
    return np.sort(drawn)


def split_from_column(values: Iterable[Any]) -> Array:
    """`train`, `dev` or `test` for each row, out of the words that people use for them."""
    import numpy as np

    listed = list(values)
    found = [SPLIT_ALIASES.get(str(value).strip().casefold(), "") for value in listed]
    if odd := sorted({to_printable(value, 30) for value, part in zip(listed, found, strict=True) if not part}):
        raise InputError(f"the split column says {', '.join(odd[:10])}, expected train, dev (or validation) and test.")
    return np.array(found, "<U5")


def splitmix64(values: Array | Sequence[int], seed: int) -> Array:
    """64 well-mixed bits for each value, the same on every machine and with every version (SplitMix64)."""
    import numpy as np

    with np.errstate(over="ignore"):
        mix = np.asarray(values, np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64)
        mix = (mix ^ (mix >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mix = (mix ^ (mix >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mix ^ (mix >> np.uint64(31))
