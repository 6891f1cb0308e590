"""What is wrong with the parts of some rows: one that is empty, a label that is not learned, texts in two of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from clearhead.data.columns import format_column, format_columns
from clearhead.jobs.plan import RunPlan

if TYPE_CHECKING:
    from clearhead.jobs.prepare import PartRows
    from clearhead.jobs.profile import DatasetProfile


def find_empty_parts(parts: Mapping[str, PartRows], seen: DatasetProfile, plan: RunPlan) -> list[str]:
    """What rows that stay together leave out: a part without rows, a label that no training row has."""
    import numpy as np

    wanted = {"dev": plan.dev_share, "test": plan.test_share if seen.sources.keys() == {"train"} else 0.0}
    table = parts["train"].table
    splits = table.splits is not None
    repeated = not splits and table.groups is not None and len(np.unique(table.groups)) < len(table)
    together = f": rows with the same {format_column(str(seen.columns.id))} stay together" if repeated else ""
    said = [
        f"there are no {part} rows{together}."
        for part, share in wanted.items()
        if share and part not in parts and not splits
    ]
    if seen.space.kind == "classes":
        known = set(np.unique(parts["train"].targets).tolist())
        others = {int(place) for part, rows in parts.items() if part != "train" for place in np.unique(rows.targets)}
        missing = [name for place, name in enumerate(seen.space.names) if place in others - known]
        nowhere = [name for place, name in enumerate(seen.space.names) if place not in others | known]
        if missing:
            said.append(
                f"no training row has the label {format_columns(missing, 5)}, which is in other parts{together}."
            )
        if nowhere:
            said.append(
                f"no row that is used has the label {format_columns(nowhere, 5)}, so that it cannot be learned."
            )
    return said


def find_leaks(parts: Mapping[str, PartRows]) -> list[str]:
    """Texts that are trained on and measured on: possible only where the parts were given."""
    import numpy as np

    train = parts["train"]
    known = np.unique(train.table.hashes[train.indices])
    said = []
    for name, part in parts.items():
        leaked = int(np.isin(part.table.hashes[part.indices], known).sum()) if name != "train" else 0
        if leaked:
            said.append(f"{leaked:,} of {len(part):,} {name} rows have a text of the training rows: they flatter.")
    return said
