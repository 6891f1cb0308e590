"""Model folders in Hugging Face layout: read with one verdict on names, and written so that others can read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead import tensors
from clearhead.checkpoint import names
from clearhead.checkpoint.labels import count_outputs, read_labels
from clearhead.checkpoint.mean_head import drop_mean_head_tensors, list_mean_head_tensors
from clearhead.checkpoint.weights import (
    FloatConverter,
    MappedTensors,
    StoredTensor,
    check_values,
    list_tensors,
    resolve_inside,
    write_tensors,
)
from clearhead.errors import CheckpointError, ConfigError, TensorError, UnsafeError
from clearhead.families import FAMILIES, Family, family_of
from clearhead.families.family import HEAD_POOLING, name_table
from clearhead.files import read_json, write_json
from clearhead.shape import ModelShape

if TYPE_CHECKING:
    import numpy as np

AUTO = "auto"
MAX_SHARD_BYTES = 4 << 30
READER_THREADS = 4  # threads that bring tensors in
MAX_NEW_PARAMETERS = 1 << 24  # numbers of a new head, unless the checkpoint itself is larger


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A folder that was read: its shape, labels, and where each tensor lies; no weight is in memory yet."""

    folder: Path
    config: Mapping[str, Any]
    family: Family
    head: str | None
    shape: ModelShape
    labels: tuple[str, ...]
    match: names.TensorMatch
    stored: Mapping[str, StoredTensor]
    new_tensors: tuple[str, ...]  # our tensors that the file does not have and a new head needs
    notes: tuple[str, ...]  # one line each, for people
    warnings: tuple[str, ...] = ()  # what may surprise them, in sentences
    mean_head: bool = False  # whether it was saved with a head that reads the mean, which is a module of its own

    def iter_arrays(
        self, to_float: FloatConverter | None = None, *, writable: bool = True, names: Collection[str] | None = None
    ) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
        """Our tensors (or those of `names`) one by one, mapped, as float32; a number that is not finite stops it."""
        mapped = MappedTensors(self.stored, to_float, writable=writable)

        def read_checked(source: str) -> np.ndarray[Any, Any]:
            array = mapped.array(source)
            check_values(array, source)
            return array

        slices = {ours: piece for ours, piece in self.match.slices.items() if names is None or ours in names}
        sources = list(dict.fromkeys(piece.source for piece in slices.values()))
        with ThreadPoolExecutor(READER_THREADS) as readers:  # reading, converting and checking release the GIL
            arrays = dict(zip(sources, readers.map(read_checked, sources), strict=True))
        for ours, piece in slices.items():
            yield ours, piece.read_from(arrays[piece.source])


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a model folder."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder.")
    path = resolve_inside(folder, "config.json")
    if not path.exists():
        raise CheckpointError(f"{folder} is not a model folder: it has no config.json.")
    return read_json(path)


def detect_model_type(config: Mapping[str, Any], in_file: Iterable[str]) -> object:
    """What config.json says; where it is silent, as the first files were, what the class or the tensors say."""
    if "model_type" in config:
        return config["model_type"]
    named = config.get("architectures")
    classes = named if isinstance(named, list) else []
    for family in FAMILIES.values():
        if any(name in family.architectures for name in classes if isinstance(name, str)):
            return family.model_type
    own = [family for family in FAMILIES.values() if family.prefix not in ("", "model.", "transformer.")]
    starts = {name.partition(".")[0] + "." for name in in_file}
    return next((family.model_type for family in own if family.prefix in starts), None)


def read_checkpoint(
    folder: Path,
    head: str | None = AUTO,
    labels: tuple[str, ...] | None = None,
    pooling: str | None = None,
    *,
    keep_head: bool = False,
) -> Checkpoint:
    """Read a model folder under the head it was saved with, another one, or none.

    `pooling` is what a classify head reads (None: as saved, or native). With `keep_head` it is for a new head of a
    family that has the choice: a saved one that fits stays.
    """
    config = read_config(folder)
    stored = list_tensors(folder)
    family = family_of(detect_model_type(config, stored))
    sizes = {name: tensor.size for name, tensor in stored.items()}
    config = family.infer_config(config, _StoredTensors(stored))
    mean_head = config.get(HEAD_POOLING) is not None
    values = family.read_config(config)
    saved_head = _detect_head(family, config, values, frozenset(sizes))
    saved_labels, disagreement = read_labels(config, count_outputs(family, values, saved_head, sizes))
    warned = disagreement is not None and labels is None and saved_head in ("classify", "tag")
    labels = saved_labels if labels is None else labels
    wanted = saved_head if head == AUTO else head
    relabelled = wanted in ("classify", "tag") and len(labels) != len(saved_labels)
    fits = wanted == saved_head and not relabelled
    keep = keep_head and (fits or pooling not in family.poolings)
    if wanted == "classify" and pooling is not None and not keep:
        pooled = family.set_pooling(config, pooling)
        fits = fits and family.read_config(pooled) == values
        config, values = pooled, family.read_config(pooled)
    if wanted == "classify" and fits and values.get(HEAD_POOLING) == "mean":
        stored |= list_mean_head_tensors(folder)
        sizes = {name: tensor.size for name, tensor in stored.items()}
    plan = family.plan_head(values, wanted, len(labels))
    shape = family.model_shape(config, wanted, len(labels))
    if {wanted, saved_head} <= _TASK_HEADS and not fits:
        # the heads of several tasks share their names: the saved head belongs to another task, so it is ignored
        head_names = names.expand_table(name_table(plan.names), 1)
        sizes = {name: size for name, size in sizes.items() if name not in head_names}
    verdict = names.match_tensors(family, values, shape, plan.names, sizes)
    _check_computed_tables(family, shape, stored)
    shape, verdict, fresh, notes = _resolve_missing(family, wanted, shape, verdict, stored)
    return Checkpoint(
        folder=folder,
        config=config,
        family=family,
        head=wanted,
        shape=shape,
        labels=labels,
        match=verdict,
        stored=stored,
        new_tensors=fresh,
        notes=notes,
        warnings=(str(disagreement),) if warned else (),
        mean_head=mean_head,
    )


@dataclass(frozen=True)
class _StoredTensors:
    """Answers to what a family asks about a file."""

    stored: Mapping[str, StoredTensor]

    def __contains__(self, name: object) -> bool:
        return name in self.stored

    def are_equal(self, first: str, second: str) -> bool:
        """Whether two tensors hold the same numbers."""
        import numpy as np

        mapped = MappedTensors(self.stored)
        if self.stored[first].size != self.stored[second].size:
            return False
        return bool(np.array_equal(mapped.array(first), mapped.array(second)))


def _detect_head(
    family: Family, config: Mapping[str, Any], values: Mapping[str, Any], in_file: frozenset[str]
) -> str | None:
    """The head that `architectures` names; where it is silent, the largest one that the tensors complete."""
    if values.get(HEAD_POOLING) is not None:
        return "classify"
    named = config.get("architectures")
    if isinstance(named, list) and named and isinstance(named[0], str):
        name = named[0]
        if name in family.architectures:
            return family.architectures[name]
        if name.endswith("Model") and not any(name in other.architectures for other in FAMILIES.values()):
            return None
        known = ", ".join(family.architectures)
        raise ConfigError(f"config.json names the architecture {name[:80]!r}; {family.title} has {known}.")
    complete = []
    spelled = {names.modernize_name(name) for name in in_file}
    for head in family.heads:
        shape = family.model_shape(values, head, 2)
        rows = names.build_full_table(family, shape, family.plan_head(values, head, 2).names)
        # the pooler counts: it tells a classifier of texts from one of tokens, whose names are the same
        needed = {ours for ours in tensors.expected_sizes(shape) if ours.split(".")[0] in ("head", "second", "pooler")}
        there = {ours for theirs, row in rows.items() if theirs in spelled for ours in row.ours}
        if needed and needed <= there:
            complete.append((len(needed), head))
    return max(complete)[1] if complete else None


def _resolve_missing(
    family: Family, head: str | None, shape: ModelShape, verdict: names.TensorMatch, stored: Mapping[str, StoredTensor]
) -> tuple[ModelShape, names.TensorMatch, tuple[str, ...], tuple[str, ...]]:
    """Decide what may be absent, what is tied after all, and what is an error."""
    notes = []
    top = ("head", "second", "pooler")
    absent = {ours for ours in tensors.expected_sizes(shape) if ours not in verdict.slices}
    parts = {part: {ours for ours in tensors.expected_sizes(shape) if ours.split(".")[0] == part} for part in top}
    gone = {part for part in top if parts[part] and parts[part] <= absent}
    fresh: set[str] = set()
    pooled = "pooled" in (one.pooling for one in (shape.head, shape.second_head) if one is not None)
    if "pooler" in gone and shape.pooler is not None and not pooled:
        shape = replace(shape, pooler=None)
        absent -= parts["pooler"]
    if "head" in gone and not verdict.mismatched:
        fresh |= parts["head"] | (parts["second"] if "second" in gone else set())
        fresh |= parts["pooler"] if "pooler" in gone and shape.pooler is not None else set()
        notes.append(f"The {head} head is new, for the checkpoint has none that fits: train it before you trust it.")
    elif "second" in gone and not verdict.mismatched:
        fresh |= parts["second"] | (parts["pooler"] if "pooler" in gone and shape.pooler is not None else set())
        notes.append("The head for pairs of texts is new, for the checkpoint has none: train it before you trust it.")
    elif "head.out.bias" in absent and family.model_type == "marian":
        fresh.add("head.out.bias")  # old exports leave out a bias of zeros
    absent -= fresh
    left = replace(verdict, missing={ours: name for ours, name in verdict.missing.items() if ours in absent})
    if (problem := left.describe_problems()) is not None:
        raise TensorError(f"The weights do not fit {family.title} ({head or 'no head'}): {problem}.")
    numbers = tensors.count_values(
        {name: size for name, size in tensors.expected_sizes(shape).items() if name in fresh}
    )
    if numbers > max(MAX_NEW_PARAMETERS, tensors.count_values({name: tensor.size for name, tensor in stored.items()})):
        raise UnsafeError(f"config.json asks for a new {head} head of {numbers:,} numbers, more than the weights hold.")
    shape, left = _resolve_ties(shape, left, stored)
    if verdict.unused:
        notes.append(f"{len(verdict.unused)} tensors of another head are in the file and not used.")
    return shape, left, tuple(sorted(fresh)), tuple(notes)


def _check_computed_tables(family: Family, shape: ModelShape, stored: Mapping[str, StoredTensor]) -> None:
    """Tables that are computed here must be in a file as they are computed, or not at all."""
    import numpy as np

    mapped = MappedTensors(stored)
    for name, array in family.computed_tables(shape).items():
        for spelled in {name, family.prefix + name} & stored.keys():
            if stored[spelled].size != array.shape or not np.allclose(mapped.array(spelled), array, atol=1e-4):
                raise TensorError(f"{spelled} holds other numbers than the sines and cosines that {family.title} has.")


def _resolve_ties(
    shape: ModelShape, verdict: names.TensorMatch, stored: Mapping[str, StoredTensor]
) -> tuple[ModelShape, names.TensorMatch]:
    """A tied tensor that a file stores with other values is not tied; the same twice is no news."""
    import numpy as np

    mapped = MappedTensors(stored)
    for name, original in verdict.duplicates.items():
        if stored[name].size != stored[original].size or not np.array_equal(mapped.array(name), mapped.array(original)):
            raise TensorError(f"{name} and {original} should be one tensor, and the file holds two different ones.")
    tied_to = tensors.tied_tensors(shape)
    for ours, piece in verdict.tied.items():
        source = verdict.slices.get(tied_to[ours])
        if source is not None and np.array_equal(
            piece.read_from(mapped.array(piece.source)), source.read_from(mapped.array(source.source))
        ):
            continue
        if ours != "head.out.weight" or shape.head is None:
            raise TensorError(f"{piece.source} should be the same as {tied_to[ours]}, and it is not.")
        shape = replace(shape, head=replace(shape.head, tied=False))
        verdict = replace(verdict, slices={**verdict.slices, ours: piece})
    return shape, verdict


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
    """config.json and the weights, under the names that Hugging Face uses."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be made: {error.strerror or error}.") from error
    values = family.read_config(config)
    plan = family.plan_head(values, head, len(labels))
    written = names.to_stored_names(family, shape, plan.names, arrays)
    if head == "classify" and values.get(HEAD_POOLING) is not None:
        written = drop_mean_head_tensors(written, family.prefix)
    if shape.head is None:  # transformers asks for them in the bare class alone
        written += family.computed_tables(shape).items()
    write_tensors(folder, written, shard_bytes)
    write_json(folder / "config.json", build_config(config, family, head, shape, labels))


def build_config(
    config: Mapping[str, Any], family: Family, head: str | None, shape: ModelShape, labels: tuple[str, ...]
) -> dict[str, Any]:
    """config.json as it was, with what this model changed: every key written out, so that no default can drift."""
    saved = {**family.read_config(config), **config, "model_type": family.model_type}
    optional = {key for key, spec in family.config_keys.items() if key not in config and spec.default is None}
    saved = {key: value for key, value in saved.items() if key not in optional}
    for stale in ("num_labels", "_num_labels", "torch_dtype", "auto_map", "_name_or_path", "_commit_hash"):
        saved.pop(stale, None)
    classes = {ours: name for name, ours in reversed(list(family.architectures.items()))}
    bare = head is None or (head == "classify" and saved.get(HEAD_POOLING) is not None)
    saved["architectures"] = [base_class_name(family) if bare else classes[str(head)]]
    if not bare or head is None:
        saved.pop(HEAD_POOLING, None)
    saved["dtype"] = "float32"
    if shape.head is not None and "tie_word_embeddings" in family.config_keys and shape.head.kind in _LM_HEADS:
        if family.model_type == "t5":
            saved["scale_decoder_outputs"] = shape.head.scale != 1.0
        saved["tie_word_embeddings"] = shape.head.tied
    if shape.head is not None and shape.head.kind in ("classify", "tag", "span"):
        saved["id2label"] = {str(i): label for i, label in enumerate(labels)}
        saved["label2id"] = {label: i for i, label in enumerate(labels)}
    return saved


_TASK_HEADS = {"classify", "tag", "span", "choice"}
_LM_HEADS = ("masked", "causal", "seq2seq", "bilm")


def base_class_name(family: Family) -> str:
    """The class name of a family's model without a head."""
    first = next(iter(family.architectures))
    return first.split("For")[0].removesuffix("LMHeadModel").removesuffix("MTModel") + "Model"
