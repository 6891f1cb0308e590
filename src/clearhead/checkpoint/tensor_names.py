"""Map tensor names: expand a family's name table, match it with a file, and rename tensors when saving."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clearhead import tensors
from clearhead.errors import TensorError
from clearhead.families.family import HEAD_POOLING, ConfigValues, Family, TensorTarget, name_table
from clearhead.files import to_printable
from clearhead.shape import ModelShape

if TYPE_CHECKING:
    import numpy as np

Sizes = Mapping[str, tuple[int, ...]]

MAX_LISTED_CHARS = 360  # of tensor names in an error message


@dataclass(frozen=True)
class TensorSlice:
    """The location of a tensor in a file: a whole stored tensor, or one of its equal parts."""

    source: str
    part: int = 0
    parts: int = 1
    transposed: bool = False
    flat: bool = False

    def slice_size(self, stored: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the size of this slice, or None if the stored tensor cannot be split this way."""
        sides = list(stored)
        if self.flat:
            if len(sides) != 2 or sides[0] != 1:
                return None
            sides = sides[1:]
        if self.transposed and len(sides) == 2:
            sides.reverse()
        if not sides or sides[0] % self.parts:
            return None
        return (sides[0] // self.parts, *sides[1:])

    def read_from(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return this slice of a stored tensor as a view."""
        if self.flat:
            array = array[0]
        if self.transposed and array.ndim == 2:
            array = array.T
        rows = array.shape[0] // self.parts
        return array[self.part * rows : (self.part + 1) * rows] if self.parts > 1 else array


@dataclass(frozen=True, kw_only=True)
class TensorMatch:
    """The match between a file and a model: slices for its tensors, and all problems."""

    slices: Mapping[str, TensorSlice]
    tied: Mapping[str, TensorSlice]  # tied tensors that the file stores anyway
    duplicates: Mapping[str, str]  # spelling -> the tensor that it repeats
    missing: Mapping[str, str]  # tensor -> its name in the file
    unexpected: tuple[str, ...]
    mismatched: tuple[str, ...]
    unused: tuple[str, ...] = field(default=())  # of other heads of the family

    def describe_problems(self) -> str | None:
        """Return all problems in one phrase, or None."""
        missing = tuple(dict.fromkeys(self.missing.values()))
        descriptions = {
            " missing (the file is incomplete, or config.json belongs to another model)": missing,
            " unknown to this family": self.unexpected,
            " (config.json and the weights disagree)": self.mismatched,
        }
        problems = {suffix: names for suffix, names in descriptions.items() if names}
        max_chars = MAX_LISTED_CHARS // max(len(problems), 1)
        return "; ".join(_format_names(names, max_chars) + suffix for suffix, names in problems.items()) or None


def _format_names(names: Iterable[str], max_chars: int = MAX_LISTED_CHARS) -> str:
    """List names up to `max_chars`, then the number of remaining names."""
    all_names, fitting = list(names), list[str]()
    for name in all_names:
        if fitting and sum(map(len, fitting)) + len(name) > max_chars:
            break
        fitting.append(to_printable(name, 120))
    listed = ", ".join(fitting)
    more = f" and {len(all_names) - len(fitting)} more" if len(all_names) > len(fitting) else ""
    return f"{len(all_names)} tensors {listed}{more}" if len(all_names) > 1 else f"tensor {listed}"


def expand_table(rows: Mapping[str, TensorTarget], blocks: int) -> dict[str, TensorTarget]:
    """Expand the placeholders of a name table: {n} to layer numbers, * to weight and bias."""
    expanded: dict[str, TensorTarget] = {}
    for pattern, target in rows.items():
        layers = range(blocks) if "{n}" in pattern else (None,)
        leaves = ("weight", "bias") if "*" in pattern else (None,)
        for layer in layers:
            for leaf in leaves:
                stored_name, *names = (
                    text if layer is None else text.replace("{n}", str(layer)) for text in (pattern, *target.names)
                )
                if leaf is not None:
                    stored_name, *names = (text.replace("*", leaf) for text in (stored_name, *names))
                expanded[stored_name] = TensorTarget(tuple(names), target.transposed, target.flat)
    return expanded


def _count_blocks(model: ModelShape) -> int:
    return max(model.stack.blocks, model.decoder.blocks if model.decoder else 0)


def build_full_table(
    family: Family, model: ModelShape, head_names: Mapping[str, str | TensorTarget]
) -> dict[str, TensorTarget]:
    """Return the expanded table of backbone and head, with the prefix that a file with this head has."""
    prefix = family.prefix if model.head is not None else ""
    blocks = _count_blocks(model)
    backbone = {prefix + name: target for name, target in expand_table(family.build_names(model), blocks).items()}
    return backbone | expand_table(name_table(head_names), blocks)


def match_tensors(
    family: Family, values: ConfigValues, model: ModelShape, head_names: Mapping[str, str | TensorTarget], stored: Sizes
) -> TensorMatch:
    """Match the tensors of a file with those of a model; all problems are collected, none is raised."""
    expected, tied_to = tensors.expected_sizes(model), tensors.tied_tensors(model)
    blocks = _count_blocks(model)
    table = expand_table(name_table(head_names), blocks)
    backbone = expand_table(family.build_names(model), blocks)
    table |= backbone | {family.prefix + name: target for name, target in backbone.items()}
    prefixes = {"", family.prefix}
    aliases = {prefix + alias: prefix + usual for alias, usual in family.aliases.items() for prefix in prefixes}
    ignored = _list_ignored_names(family, blocks)
    family_names = None

    slices: dict[str, tuple[int, TensorSlice]] = {}  # with the row of the table that named it
    tied: dict[str, TensorSlice] = {}
    duplicates: dict[str, str] = {}
    unexpected: list[str] = []
    unused: list[str] = []
    mismatched: list[str] = []
    covered: set[str] = set()  # tensors that are in the file, but have the wrong size
    rank = {stored_name: row for row, stored_name in enumerate(table)}
    for spelling, size in stored.items():
        stored_name = modernize_name(spelling)
        if stored_name not in table and stored_name in aliases:
            if aliases[stored_name] in stored:
                duplicates[spelling] = aliases[stored_name]
                continue
            stored_name = aliases[stored_name]
        target = table.get(stored_name)
        if target is None or not any(name in expected or name in tied_to for name in target.names):
            if stored_name in ignored:
                continue
            if family_names is None:
                family_names = _list_family_names(family, values, blocks)
            (unused if stored_name in family_names else unexpected).append(spelling)
            continue
        for part, name in enumerate(target.names):
            tensor_slice = TensorSlice(spelling, part, len(target.names), target.transposed, target.flat)
            expected_size = expected.get(name) or expected[tied_to[name]]
            if tensor_slice.slice_size(size) != expected_size:
                expected_text = _format_size(_source_size(tensor_slice, expected_size))
                mismatched.append(f"{spelling} is {_format_size(size)}, expected {expected_text}")
                covered |= set(target.names)
                break
            if name in tied_to:
                tied[name] = tensor_slice
            elif name not in slices:
                slices[name] = rank[stored_name], tensor_slice
            else:  # a second spelling of the same tensor: the earlier row of the table wins; values must be equal
                if name != "head.out.bias" or values.get("tie_word_embeddings") is not False:
                    duplicates[spelling] = slices[name][1].source  # an untied output has its own bias and an unused one
                slices[name] = min(slices[name], (rank[stored_name], tensor_slice), key=lambda candidate: candidate[0])
    if values.get("tie_word_embeddings"):  # some files store a tied tensor only under its second name
        for name, tensor_slice in tied.items():
            slices.setdefault(tied_to[name], (len(rank), tensor_slice))
    # messages use the stored names, with the prefix if the file has it
    prefix = family.prefix if any(spelling.startswith(family.prefix) for spelling in stored) else ""
    reported = [(name, target) for name, target in table.items() if name not in backbone or not prefix]
    stored_names = {name: stored_name for stored_name, target in reversed(reported) for name in target.names}
    absent = expected.keys() - slices.keys() - covered
    return TensorMatch(
        slices={name: tensor_slice for name, (_, tensor_slice) in slices.items()},
        tied=tied,
        duplicates=duplicates,
        missing={name: stored_names.get(name, name) for name in expected if name in absent},
        unexpected=tuple(unexpected),
        mismatched=tuple(mismatched),
        unused=tuple(unused),
    )


def modernize_name(name: str) -> str:
    """Rename gamma and beta of the first BERT files to weight and bias."""
    if name.endswith(".gamma"):
        return name[: -len("gamma")] + "weight"
    if name.endswith(".beta"):
        return name[: -len("beta")] + "bias"
    return name


def _list_ignored_names(family: Family, blocks: int) -> set[str]:
    names = expand_table({name: TensorTarget(("",)) for name in family.ignored}, blocks)
    return {prefix + name for name in names for prefix in ("", family.prefix)}


def _list_family_names(family: Family, values: ConfigValues, blocks: int) -> set[str]:
    """Return the stored names of all tensors that any head of the family, its pooler or its decoder uses."""
    names: set[str] = set()
    native = {key: value for key, value in values.items() if key != HEAD_POOLING}
    for head in (None, *family.heads):
        model = family.model_shape(native, head, 2)
        used_tensors = tensors.expected_sizes(model).keys() | tensors.tied_tensors(model).keys()
        table = expand_table(name_table(family.plan_head(native, head, 2).names), blocks)
        for name, target in expand_table(family.build_names(model), blocks).items():
            table |= {name: target, family.prefix + name: target}
        names |= {name for name, target in table.items() if any(tensor in used_tensors for tensor in target.names)}
    return names


def _source_size(tensor_slice: TensorSlice, size: tuple[int, ...]) -> tuple[int, ...]:
    sides = [size[0] * tensor_slice.parts, *size[1:]]
    if tensor_slice.transposed and len(sides) == 2:
        sides.reverse()
    return (1, *sides) if tensor_slice.flat else tuple(sides)


def _format_size(size: tuple[int, ...]) -> str:
    return "x".join(map(str, size)) or "a single number"


def to_stored_names(
    family: Family,
    model: ModelShape,
    head_names: Mapping[str, str | TensorTarget],
    arrays: Mapping[str, np.ndarray[Any, Any]],
) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Return a model's tensors under their stored names; fused tensors are concatenated."""
    import numpy as np

    written_names, stored_tensors = set(), []
    for stored_name, target in build_full_table(family, model, head_names).items():
        if any(name not in arrays for name in target.names):
            continue
        array = (
            np.concatenate([arrays[name] for name in target.names])
            if len(target.names) > 1
            else arrays[target.names[0]]
        )
        if target.transposed and array.ndim == 2:
            array = array.T
        stored_tensors.append((stored_name, array[None] if target.flat else array))
        written_names |= set(target.names)
    if unnamed := sorted(arrays.keys() - written_names):
        raise TensorError(f"{family.title} has no name for {_format_names(unnamed)}.")
    return stored_tensors
