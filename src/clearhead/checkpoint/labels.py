"""The label names of a model folder: what config.json says of them, and what the weights do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from clearhead.checkpoint import names
from clearhead.errors import ConfigError
from clearhead.families import Family
from clearhead.families.family import MAX_LABELS, name_table
from clearhead.files import INVALID_CHARS, to_printable


def read_labels(config: Mapping[str, Any], outputs: int | None = None) -> tuple[tuple[str, ...], str | None]:
    """The label names in order, and a warning where num_labels and id2label disagree.

    transformers then counts by num_labels and calls the labels LABEL_0, LABEL_1, ...; names that fit the `outputs` of
    the weights are kept all the same.
    """
    named, number = config.get("id2label"), config.get("num_labels")
    counted = _is_count(number)
    if named is None or (named == {} and counted):
        number = config.get("num_labels", config.get("_num_labels", 2))
        if not _is_count(number):
            raise ConfigError(f"config.json has num_labels {str(number)[:40]!r}, expected 1 to {MAX_LABELS}.")
        return _numbered_labels(number), None
    if not isinstance(named, dict) or not 0 < len(named) <= MAX_LABELS:
        raise ConfigError("config.json has an id2label that is not a list of label names.")
    differ = f"config.json has num_labels {number} and {len(named):,} names in id2label"
    if _is_count(number) and number != len(named) and outputs != len(named):
        return _numbered_labels(number), (
            f"{differ}: the names are out of date, and the labels are called LABEL_0, LABEL_1, ..., as in transformers."
        )
    by_id = {str(key): str(value) for key, value in named.items()}
    if missing := [i for i in range(len(by_id)) if str(i) not in by_id]:
        raise ConfigError(f"config.json has an id2label of {len(by_id)} labels without number {missing[0]}.")
    names = tuple(by_id[str(i)] for i in range(len(by_id)))
    if wrong := [name for name in names if INVALID_CHARS.search(name)]:
        raise ConfigError(
            f"config.json has the label {to_printable(wrong[0], 40)!r}, which holds NUL or half a character."
        )
    if counted and number != len(named):
        return names, f"{differ}, as many as the weights have outputs: the names are used. transformers refuses this."
    return names, None


def _is_count(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and not isinstance(number, bool) and 0 < number <= MAX_LABELS


def _numbered_labels(count: int) -> tuple[str, ...]:
    return tuple(f"LABEL_{i}" for i in range(count))


def count_outputs(family: Family, values: Mapping[str, Any], head: str | None, sizes: names.Sizes) -> int | None:
    """How many labels the head in a file answers with; None: it has no such head."""
    if head not in ("classify", "tag"):
        return None
    for theirs, row in names.expand_table(name_table(family.plan_head(values, head, 2).names), 1).items():
        if theirs in sizes and row.ours in (("head.out.weight",), ("head.out.bias",)):
            size = names.TensorSlice(theirs, transposed=row.transposed, flat=row.flat).slice_size(sizes[theirs])
            return None if size is None else size[0]
    return None
