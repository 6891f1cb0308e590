"""The label names of a model folder, from config.json and the size of its output layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from clearhead.checkpoint import tensor_names
from clearhead.errors import ConfigError
from clearhead.families import Family
from clearhead.families.family import MAX_LABELS, name_table
from clearhead.files import INVALID_CHARS, to_printable


def read_labels(config: Mapping[str, Any], outputs: int | None = None) -> tuple[tuple[str, ...], str | None]:
    """Return the label names in order, and a warning if num_labels and id2label disagree.

    In that case transformers uses num_labels and the names LABEL_0, LABEL_1, ...; here the names of id2label are used
    if there are as many as `outputs` in the weights.
    """
    id2label, num_labels = config.get("id2label"), config.get("num_labels")
    has_num_labels = _is_count(num_labels)
    if id2label is None or (id2label == {} and has_num_labels):
        num_labels = config.get("num_labels", config.get("_num_labels", 2))
        if not _is_count(num_labels):
            raise ConfigError(f"config.json has num_labels {str(num_labels)[:40]!r}, expected 1 to {MAX_LABELS}.")
        return _make_numbered_labels(num_labels), None
    if not isinstance(id2label, dict) or not 0 < len(id2label) <= MAX_LABELS:
        raise ConfigError("config.json has an id2label that is not an object of label names.")
    disagreement = f"config.json has num_labels {num_labels} and {len(id2label):,} names in id2label"
    if _is_count(num_labels) and num_labels != len(id2label) and outputs != len(id2label):
        return _make_numbered_labels(num_labels), (
            f"{disagreement}. The names are outdated; LABEL_0, LABEL_1, ... are used, as in transformers."
        )
    labels_by_id = {str(key): str(value) for key, value in id2label.items()}
    if missing := [i for i in range(len(labels_by_id)) if str(i) not in labels_by_id]:
        raise ConfigError(
            f"config.json has an id2label with {len(labels_by_id)} labels, but without the id {missing[0]}."
        )
    labels = tuple(labels_by_id[str(i)] for i in range(len(labels_by_id)))
    if invalid := [label for label in labels if INVALID_CHARS.search(label)]:
        raise ConfigError(
            f"config.json has the label {to_printable(invalid[0], 40)!r}, which contains NUL or an unpaired surrogate."
        )
    if has_num_labels and num_labels != len(id2label):
        return (
            labels,
            f"{disagreement}. The names are used because the weights have as many outputs; transformers refuses this.",
        )
    return labels, None


def _is_count(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and not isinstance(number, bool) and 0 < number <= MAX_LABELS


def _make_numbered_labels(count: int) -> tuple[str, ...]:
    return tuple(f"LABEL_{i}" for i in range(count))


def count_outputs(family: Family, values: Mapping[str, Any], head: str | None, sizes: tensor_names.Sizes) -> int | None:
    """Return the number of outputs of the classification or tagging head in a file, or None if it has none."""
    if head not in ("classify", "tag"):
        return None
    head_names = family.plan_head(values, head, 2).names
    for stored_name, target in tensor_names.expand_table(name_table(head_names), 1).items():
        if stored_name in sizes and target.names in (("head.out.weight",), ("head.out.bias",)):
            output = tensor_names.TensorSlice(stored_name, transposed=target.transposed, flat=target.flat)
            size = output.slice_size(sizes[stored_name])
            return None if size is None else size[0]
    return None
