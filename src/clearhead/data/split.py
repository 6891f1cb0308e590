"""Split rows into train, dev and test: stratified, seeded, and without leaks of equal texts."""

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

MIN_FOLD_TEXTS = 10  # distinct texts
BINS = 10  # numeric labels are stratified by decile


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
    """Assign `train`, `dev` or `test` to each row; depends on the seed and the texts, not on the order of rows."""
    # Rows with the same text hash or the same group (or connected by a chain of both) stay together. Each class keeps
    # its share in every part and has a row in train. Multi-label rows are stratified by their rarest label, numbers by
    # decile.
    import numpy as np

    text_hashes = np.asarray(hashes, np.uint64)
    if not (0 <= dev < 1 and 0 <= test < 1 and dev + test < 1):
        raise InputError(f"dev={dev} and test={test}: expected shares of rows with a sum below 1.")
    if len(text_hashes) == 0:
        raise InputError("There are no rows to split.")
    strata = _compute_strata(labels, len(text_hashes), kind)
    clusters = _cluster_rows(text_hashes, groups)
    count = int(clusters.max()) + 1
    sizes = np.bincount(clusters, minlength=count)
    keys = np.full(count, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(keys, clusters, text_hashes)
    cluster_strata = np.full(count, np.iinfo(np.int64).max, np.int64)  # conflicting labels: the first stratum
    np.minimum.at(cluster_strata, clusters, strata)
    order = np.lexsort((splitmix64(keys, seed), cluster_strata))
    parts = np.zeros(count, np.int8)
    bounds = np.flatnonzero(np.r_[True, cluster_strata[order][1:] != cluster_strata[order][:-1], True])
    totals = np.add.reduceat(sizes[order], bounds[:-1])
    test_counts = _apportion(totals, test, seed)
    dev_counts = _apportion(totals, dev, seed + 1)
    for stratum, (start, end) in enumerate(pairwise(bounds.tolist())):
        members = order[start:end]
        _fill_parts(parts, members, sizes[members], int(test_counts[stratum]), int(dev_counts[stratum]))
    always_train = order[bounds[1:] - 1]  # the last cluster of each stratum
    is_part_empty = any(
        target and not (parts == part).any() for part, target in ((2, test_counts.sum()), (1, dev_counts.sum()))
    )
    if is_part_empty or int(sizes.max()) > 1:
        _top_up(
            parts,
            order[np.argsort(splitmix64(keys[order], seed))],
            always_train,
            sizes,
            int(test_counts.sum()),
            int(dev_counts.sum()),
        )
    return np.array(["train", "dev", "test"])[parts[clusters]]


def fold_rows(
    labels: Any, hashes: Any, groups: Any = None, *, folds: int, seed: int = 0, kind: str = "classes"
) -> Array:
    """Assign a fold, from 0, to each row: classes are stratified and equal texts stay in the same fold.

    The number of folds is reduced if a fold would have fewer than `MIN_FOLD_TEXTS` distinct texts.
    """
    import numpy as np

    text_hashes = np.asarray(hashes, np.uint64)
    strata, clusters = _compute_strata(labels, len(text_hashes), kind), _cluster_rows(text_hashes, groups)
    count = int(clusters.max(initial=-1)) + 1
    if count < 2 or folds < 2:
        raise InputError(
            f"Expected at least 2 folds and 2 distinct texts, got {folds} folds and {count:,} distinct texts."
        )
    folds = min(folds, max(count // MIN_FOLD_TEXTS, 2))
    sizes = np.bincount(clusters, minlength=count)
    keys = np.full(count, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(keys, clusters, text_hashes)
    cluster_strata = np.full(count, np.iinfo(np.int64).max, np.int64)
    np.minimum.at(cluster_strata, clusters, strata)
    cluster_folds = np.zeros(count, np.int64)
    rows_per_fold = [0] * folds  # rows of each fold
    stratum_rows_per_fold, stratum = [0] * folds, -1
    for cluster in np.lexsort(
        (splitmix64(keys, seed), -sizes, cluster_strata)
    ).tolist():  # largest first, so that folds stay balanced
        if cluster_strata[cluster] != stratum:
            stratum_rows_per_fold, stratum = [0] * folds, int(cluster_strata[cluster])
        fold = min(
            range(folds), key=lambda candidate: (stratum_rows_per_fold[candidate], rows_per_fold[candidate], candidate)
        )
        cluster_folds[cluster] = fold
        stratum_rows_per_fold[fold] += int(sizes[cluster])
        rows_per_fold[fold] += int(sizes[cluster])
    return cluster_folds[clusters]


def _fill_parts(parts: Array, members: Array, sizes: Array, test: int, dev: int) -> None:
    """Assign the clusters of one stratum to test, then to dev, in order; the last cluster always stays in train."""
    if int(sizes.max()) == 1:
        room = max(len(members) - 1, 0)
        test = min(test, room)
        parts[members[:test]] = 2
        parts[members[test : min(test + dev, room)]] = 1
        return
    remaining = {2: test, 1: dev}
    for cluster, size in zip(members[:-1], sizes[:-1], strict=True):
        for part, room in remaining.items():
            if size <= room:
                parts[cluster] = part
                remaining[part] -= int(size)
                break


def _top_up(parts: Array, order: Array, always_train: Array, sizes: Array, test: int, dev: int) -> None:
    """Assign clusters that are too large for their stratum to a part that is still below its target."""
    import numpy as np

    is_free = np.ones(len(parts), np.bool_)
    is_free[always_train] = False
    for part, target in ((2, test), (1, dev)):
        missing = target - int(sizes[parts == part].sum())
        for cluster in order[is_free[order] & (parts[order] == 0)].tolist():
            size = int(sizes[cluster])
            if missing > 0 and size < 2 * missing:
                parts[cluster] = part
                missing -= size
        unassigned = np.flatnonzero(is_free & (parts == 0))
        if missing == target and target and len(unassigned):  # all are too large: use the smallest
            parts[unassigned[np.argmin(sizes[unassigned])]] = part


def _apportion(totals: Array, share: float, seed: int) -> Array:
    """Distribute the target number of rows over strata by the largest remainder method."""
    import numpy as np

    exact = totals * share
    floor = np.floor(exact + 1e-9).astype(np.int64)
    target = round(float(totals.sum()) * share)
    if share and totals.sum() > 2:
        target = max(target, 1)
    missing = max(int(target - floor.sum()), 0)
    ties = splitmix64(np.arange(len(totals), dtype=np.uint64), seed)
    can_hold_out = totals > 1  # the only row of a stratum stays in train
    order = np.lexsort((ties, -(exact - floor), ~can_hold_out))
    floor[order[:missing]] += 1
    return floor


def _compute_strata(labels: Any, row_count: int, kind: str) -> Array:
    import numpy as np

    if kind not in ("classes", "multilabel", "number"):
        raise InputError(f"kind={kind!r}: expected classes, multilabel or number.")
    if labels is None:
        return np.zeros(row_count, np.int64)
    values = np.asarray(labels)
    if len(values) != row_count:
        raise InputError(f"labels and texts must have the same length, got {len(values):,} and {row_count:,}.")
    if kind == "number":
        edges = np.quantile(values.astype(np.float64), np.linspace(0, 1, BINS + 1)[1:-1])
        return np.searchsorted(np.unique(edges), values, side="right").astype(np.int64)
    if kind == "classes":
        return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
    counts = values.sum(0)
    rarity = np.argsort(np.argsort(counts, kind="stable"), kind="stable")  # 0 is the rarest label
    ranks = np.where(values > 0, rarity, values.shape[1])  # rows without labels form their own stratum
    return ranks.min(1).astype(np.int64) if values.shape[1] else np.zeros(row_count, np.int64)


def _cluster_rows(hashes: Array, groups: Any) -> Array:
    """Number the clusters of rows that must stay together."""
    import numpy as np

    text_ids = np.unique(hashes, return_inverse=True)[1].reshape(-1)
    if groups is None:
        return text_ids
    if len(groups) != len(hashes):
        raise InputError(f"groups and texts must have the same length, got {len(groups):,} and {len(hashes):,}.")
    group_ids = np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    parent = list(range(int(text_ids.max()) + 1))
    first: dict[int, int] = {}
    for text, group in zip(text_ids.tolist(), group_ids.tolist(), strict=True):
        first_text = first.setdefault(group, text)
        text_root, other_root = _find_root(parent, text), _find_root(parent, first_text)
        parent[max(text_root, other_root)] = min(text_root, other_root)
    roots = np.array([_find_root(parent, index) for index in range(len(parent))])
    return np.unique(roots[text_ids], return_inverse=True)[1].reshape(-1)


def _find_root(parent: list[int], index: int) -> int:
    while parent[index] != index:
        parent[index] = parent[parent[index]]
        index = parent[index]
    return index


def sample_rows(row_count: int, max_rows: int, seed: int = 0) -> Array:
    """Sample the sorted indices of `max_rows` rows, deterministically by seed; return all if there are fewer."""
    import numpy as np

    sampled = np.argsort(splitmix64(np.arange(row_count, dtype=np.uint64), seed), kind="stable")[:max_rows]
    return np.sort(sampled)


def split_from_column(values: Iterable[Any]) -> Array:
    """Convert the cells of a split column (validation, val, ...) to `train`, `dev` or `test`."""
    import numpy as np

    cells = list(values)
    parts = [SPLIT_ALIASES.get(str(value).strip().casefold(), "") for value in cells]
    if unknown := sorted({to_printable(value, 30) for value, part in zip(cells, parts, strict=True) if not part}):
        raise InputError(
            f"The split column contains {', '.join(unknown[:10])}; expected train, dev (or validation) and test."
        )
    return np.array(parts, "<U5")


def splitmix64(values: Array | Sequence[int], seed: int) -> Array:
    """Hash integers to 64 bits with SplitMix64, which is the same on every machine and in every version."""
    import numpy as np

    with np.errstate(over="ignore"):
        state = np.asarray(values, np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))
