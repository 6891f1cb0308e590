"""Read and write model folders in the Hugging Face layout."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead import tensors
from clearhead.checkpoint import tensor_names
from clearhead.checkpoint.config import build_config, detect_model_type, read_config
from clearhead.checkpoint.labels import count_outputs, read_labels
from clearhead.checkpoint.mean_head import drop_mean_head_tensors, list_mean_head_tensors
from clearhead.checkpoint.weights import (
    FloatConverter,
    MappedTensors,
    StoredTensor,
    check_values,
    list_tensors,
    write_tensors,
)
from clearhead.errors import CheckpointError, ConfigError, TensorError, UnsafeError
from clearhead.families import FAMILIES, Family, family_of
from clearhead.families.family import HEAD_POOLING, name_table
from clearhead.files import write_json
from clearhead.shape import ModelShape

if TYPE_CHECKING:
    import numpy as np

AUTO = "auto"
MAX_SHARD_BYTES = 4 << 30
READER_THREADS = 4
MAX_NEW_PARAMETERS = 1 << 24  # of a new head, unless the checkpoint has more parameters
TASK_HEADS = {"classify", "tag", "span", "choice"}


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The contents of a model folder: shape, labels and the location of each tensor; no weights are loaded yet."""

    folder: Path
    config: Mapping[str, Any]
    family: Family
    head: str | None
    shape: ModelShape
    labels: tuple[str, ...]
    match: tensor_names.TensorMatch
    stored: Mapping[str, StoredTensor]
    new_tensors: tuple[str, ...]  # tensors of a new head, which are not in the file
    notes: tuple[str, ...]  # one line each, for the user
    warnings: tuple[str, ...] = ()  # sentences for the log
    has_mean_head: bool = False  # saved with a mean-pooling head, whose weights are in module folders

    def iter_arrays(
        self, to_float: FloatConverter | None = None, *, writable: bool = True, names: Collection[str] | None = None
    ) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
        """Yield all tensors, or those in `names`, as memory-mapped float32 arrays; NaN and infinity are errors."""
        mapped = MappedTensors(self.stored, to_float, writable=writable)

        def read_checked(source: str) -> np.ndarray[Any, Any]:
            array = mapped.array(source)
            check_values(array, source)
            return array

        slices = {
            name: tensor_slice for name, tensor_slice in self.match.slices.items() if names is None or name in names
        }
        sources = list(dict.fromkeys(tensor_slice.source for tensor_slice in slices.values()))
        with ThreadPoolExecutor(READER_THREADS) as readers:  # reading, converting and checking release the GIL
            arrays = dict(zip(sources, readers.map(read_checked, sources), strict=True))
        for name, tensor_slice in slices.items():
            yield name, tensor_slice.read_from(arrays[tensor_slice.source])


def read_checkpoint(
    folder: Path,
    head: str | None = AUTO,
    labels: tuple[str, ...] | None = None,
    pooling: str | None = None,
    *,
    keep_head: bool = False,
) -> Checkpoint:
    """Read a model folder with the head that it was saved with, another head, or none.

    `pooling` selects the pooling of a classification head (None: as saved, or the family's default). With `keep_head`,
    it only applies to a new head; a saved head that fits is not changed.
    """
    config = read_config(folder)
    stored = list_tensors(folder)
    family = family_of(detect_model_type(config, stored))
    sizes = {name: tensor.size for name, tensor in stored.items()}
    config = family.infer_config(config, _StoredTensors(stored))
    has_mean_head = config.get(HEAD_POOLING) is not None
    values = family.read_config(config)
    saved_head = _detect_head(family, config, values, frozenset(sizes))
    saved_labels, disagreement = read_labels(config, count_outputs(family, values, saved_head, sizes))
    has_label_warning = disagreement is not None and labels is None and saved_head in ("classify", "tag")
    labels = saved_labels if labels is None else labels
    target_head = saved_head if head == AUTO else head
    has_new_labels = target_head in ("classify", "tag") and len(labels) != len(saved_labels)
    fits_saved_head = target_head == saved_head and not has_new_labels
    keeps_pooling = keep_head and (fits_saved_head or pooling not in family.poolings)
    if target_head == "classify" and pooling is not None and not keeps_pooling:
        pooled_config = family.set_pooling(config, pooling)
        fits_saved_head = fits_saved_head and family.read_config(pooled_config) == values
        config, values = pooled_config, family.read_config(pooled_config)
    if target_head == "classify" and fits_saved_head and values.get(HEAD_POOLING) == "mean":
        stored |= list_mean_head_tensors(folder)
        sizes = {name: tensor.size for name, tensor in stored.items()}
    plan = family.plan_head(values, target_head, len(labels))
    shape = family.model_shape(config, target_head, len(labels))
    if {target_head, saved_head} <= TASK_HEADS and not fits_saved_head:
        # heads of several tasks have the same tensor names: ignore the saved head of another task
        head_names = tensor_names.expand_table(name_table(plan.names), 1)
        sizes = {name: size for name, size in sizes.items() if name not in head_names}
    match = tensor_names.match_tensors(family, values, shape, plan.names, sizes)
    _check_computed_tables(family, shape, stored)
    shape, match, new_tensors, notes = _resolve_missing(family, target_head, shape, match, stored)
    return Checkpoint(
        folder=folder,
        config=config,
        family=family,
        head=target_head,
        shape=shape,
        labels=labels,
        match=match,
        stored=stored,
        new_tensors=new_tensors,
        notes=notes,
        warnings=(str(disagreement),) if has_label_warning else (),
        has_mean_head=has_mean_head,
    )


@dataclass(frozen=True)
class _StoredTensors:
    """The tensors of a file as `Family.infer_config` sees them."""

    stored: Mapping[str, StoredTensor]

    def __contains__(self, name: object) -> bool:
        return name in self.stored

    def are_equal(self, first: str, second: str) -> bool:
        """Whether two tensors have equal values."""
        import numpy as np

        mapped = MappedTensors(self.stored)
        if self.stored[first].size != self.stored[second].size:
            return False
        return bool(np.array_equal(mapped.array(first), mapped.array(second)))


def _detect_head(
    family: Family, config: Mapping[str, Any], values: Mapping[str, Any], stored_names: frozenset[str]
) -> str | None:
    """Return the head that `architectures` names; without it, the largest head whose tensors are all in the file."""
    if values.get(HEAD_POOLING) is not None:
        return "classify"
    architectures = config.get("architectures")
    if isinstance(architectures, list) and architectures and isinstance(architectures[0], str):
        class_name = architectures[0]
        if class_name in family.architectures:
            return family.architectures[class_name]
        if class_name.endswith("Model") and not any(class_name in other.architectures for other in FAMILIES.values()):
            return None
        supported = ", ".join(family.architectures)
        raise ConfigError(
            f"config.json has the architecture {class_name[:80]!r}. Supported classes of {family.title}: {supported}."
        )
    candidates = []
    modern_names = {tensor_names.modernize_name(name) for name in stored_names}
    for head in family.heads:
        shape = family.model_shape(values, head, 2)
        table = tensor_names.build_full_table(family, shape, family.plan_head(values, head, 2).names)
        # include the pooler: only it distinguishes a text classifier from a token classifier
        needed = {name for name in tensors.expected_sizes(shape) if name.split(".")[0] in ("head", "second", "pooler")}
        present = {
            name for stored_name, target in table.items() if stored_name in modern_names for name in target.names
        }
        if needed and needed <= present:
            candidates.append((len(needed), head))
    return max(candidates)[1] if candidates else None


def _resolve_missing(
    family: Family,
    head: str | None,
    shape: ModelShape,
    match: tensor_names.TensorMatch,
    stored: Mapping[str, StoredTensor],
) -> tuple[ModelShape, tensor_names.TensorMatch, tuple[str, ...], tuple[str, ...]]:
    """Decide which missing tensors belong to a new head and which are an error, and resolve ties."""
    notes = []
    part_names = ("head", "second", "pooler")
    expected = tensors.expected_sizes(shape)
    absent = {name for name in expected if name not in match.slices}
    parts = {part: {name for name in expected if name.split(".")[0] == part} for part in part_names}
    missing_parts = {part for part in part_names if parts[part] and parts[part] <= absent}
    new_tensors: set[str] = set()
    uses_pooler = any(head_shape.pooling == "pooled" for head_shape in (shape.head, shape.second_head) if head_shape)
    if "pooler" in missing_parts and shape.pooler is not None and not uses_pooler:
        shape = replace(shape, pooler=None)
        absent -= parts["pooler"]
    new_pooler = parts["pooler"] if "pooler" in missing_parts and shape.pooler is not None else set()
    if "head" in missing_parts and not match.mismatched:
        new_tensors |= parts["head"] | new_pooler | (parts["second"] if "second" in missing_parts else set())
        notes.append(f"The {head} head is newly initialized because the checkpoint has none that fits. Train it first.")
    elif "second" in missing_parts and not match.mismatched:
        new_tensors |= parts["second"] | new_pooler
        notes.append("The sentence-pair head is newly initialized because the checkpoint has none. Train it first.")
    elif "head.out.bias" in absent and family.model_type == "marian":
        new_tensors.add("head.out.bias")  # older exports omit a bias of zeros
    absent -= new_tensors
    missing = {name: stored_name for name, stored_name in match.missing.items() if name in absent}
    remaining = replace(match, missing=missing)
    if (problem := remaining.describe_problems()) is not None:
        raise TensorError(f"The weights do not fit {family.title} ({head or 'no head'}): {problem}.")
    new_count = tensors.count_values({name: size for name, size in expected.items() if name in new_tensors})
    stored_count = tensors.count_values({name: tensor.size for name, tensor in stored.items()})
    if new_count > max(MAX_NEW_PARAMETERS, stored_count):
        raise UnsafeError(
            f"config.json describes a new {head} head with {new_count:,} parameters, more than the checkpoint has."
        )
    shape, remaining = _resolve_ties(shape, remaining, stored)
    if match.unused:
        notes.append(f"{len(match.unused)} tensors of another head in the file are not used.")
    return shape, remaining, tuple(sorted(new_tensors)), tuple(notes)


def _check_computed_tables(family: Family, shape: ModelShape, stored: Mapping[str, StoredTensor]) -> None:
    """Refuse a stored table, such as sinusoidal positions, whose values differ from the computed ones."""
    import numpy as np

    mapped = MappedTensors(stored)
    for name, array in family.computed_tables(shape).items():
        for stored_name in {name, family.prefix + name} & stored.keys():
            if stored[stored_name].size != array.shape or not np.allclose(mapped.array(stored_name), array, atol=1e-4):
                raise TensorError(f"{stored_name} differs from the sinusoidal position table of {family.title}.")


def _resolve_ties(
    shape: ModelShape, match: tensor_names.TensorMatch, stored: Mapping[str, StoredTensor]
) -> tuple[ModelShape, tensor_names.TensorMatch]:
    """Untie an output matrix that is stored with its own values, and refuse duplicates that differ."""
    import numpy as np

    mapped = MappedTensors(stored)
    for name, original in match.duplicates.items():
        if stored[name].size != stored[original].size or not np.array_equal(mapped.array(name), mapped.array(original)):
            raise TensorError(f"{name} and {original} are two names of one tensor, but their values differ.")
    tied_to = tensors.tied_tensors(shape)
    for tied_name, tied_slice in match.tied.items():
        source = match.slices.get(tied_to[tied_name])
        if source is not None and np.array_equal(
            tied_slice.read_from(mapped.array(tied_slice.source)), source.read_from(mapped.array(source.source))
        ):
            continue
        if tied_name != "head.out.weight" or shape.head is None:
            raise TensorError(f"{tied_slice.source} must equal {tied_to[tied_name]}, but their values differ.")
        shape = replace(shape, head=replace(shape.head, tied=False))
        match = replace(match, slices={**match.slices, tied_name: tied_slice})
    return shape, match


def write_checkpoint(
    folder: Path,
    *,
    config: Mapping[str, Any],
    family: Family,
    head: str | None,
    shape: ModelShape,
    labels: tuple[str, ...],
    arrays: Mapping[str, np.ndarray[Any, Any]],
    shard_bytes: int = MAX_SHARD_BYTES,
) -> None:
    """Write config.json and the weights under their Hugging Face names."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be created: {error.strerror or error}.") from error
    values = family.read_config(config)
    plan = family.plan_head(values, head, len(labels))
    stored_tensors = tensor_names.to_stored_names(family, shape, plan.names, arrays)
    if head == "classify" and values.get(HEAD_POOLING) is not None:
        stored_tensors = drop_mean_head_tensors(stored_tensors, family.prefix)
    if shape.head is None:  # transformers expects them only in the base class
        stored_tensors += family.computed_tables(shape).items()
    write_tensors(folder, stored_tensors, shard_bytes)
    write_json(folder / "config.json", build_config(config, family, head, shape, labels))
