"""Checks of the train, dev and test parts: empty parts, labels without training rows, and leaked texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from clearhead.data.columns import format_column, format_columns
from clearhead.jobs.plan import RunPlan

if TYPE_CHECKING:
    from clearhead.jobs.prepare import PartRows
    from clearhead.jobs.profile import DatasetProfile


def find_empty_parts(parts: Mapping[str, PartRows], profile: DatasetProfile, plan: RunPlan) -> list[str]:
    """Find parts without rows, and labels without training rows; grouped rows can cause both."""
    import numpy as np

    shares = {"dev": plan.dev_share, "test": plan.test_share if profile.sources.keys() == {"train"} else 0.0}
    table = parts["train"].table
    has_split_column = table.splits is not None
    has_groups = not has_split_column and table.groups is not None and len(np.unique(table.groups)) < len(table)
    reason = f": rows with the same {format_column(str(profile.columns.id))} stay together" if has_groups else ""
    problems = [
        f"there are no {part} rows{reason}."
        for part, share in shares.items()
        if share and part not in parts and not has_split_column
    ]
    if profile.space.kind == "classes":
        trained_labels = set(np.unique(parts["train"].targets).tolist())
        held_out_labels = {
            int(label_index)
            for part, rows in parts.items()
            if part != "train"
            for label_index in np.unique(rows.targets)
        }
        untrained = [
            name
            for label_index, name in enumerate(profile.space.names)
            if label_index in held_out_labels - trained_labels
        ]
        unused = [
            name
            for label_index, name in enumerate(profile.space.names)
            if label_index not in held_out_labels | trained_labels
        ]
        if untrained:
            problems.append(
                f"no training row has the label {format_columns(untrained, 5)}, which occurs in other parts{reason}."
            )
        if unused:
            problems.append(
                f"no training, dev or test row has the label {format_columns(unused, 5)}; it cannot be learned."
            )
    return problems


def find_leaks(parts: Mapping[str, PartRows]) -> list[str]:
    """Find held-out texts that also occur in the training rows; only possible for user-defined parts."""
    import numpy as np

    train = parts["train"]
    train_hashes = np.unique(train.table.hashes[train.indices])
    problems = []
    for name, part in parts.items():
        leaked_count = int(np.isin(part.table.hashes[part.indices], train_hashes).sum()) if name != "train" else 0
        if leaked_count:
            problems.append(
                f"{leaked_count:,} of {len(part):,} {name} rows also occur in the training set; "
                f"{name} scores are optimistic."
            )
    return problems
