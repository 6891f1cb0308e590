"""The table engine: a family's rows spread out to whole names, one verdict on a file, and the way back."""

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

MAX_LISTED_CHARS = 360  # letters of names in one sentence: it must fit a screen, however many there are


@dataclass(frozen=True)
class TensorSlice:
    """Where one of our tensors lies in a file: a whole tensor, or one of its equal parts."""

    source: str
    part: int = 0
    parts: int = 1
    transposed: bool = False
    flat: bool = False

    def slice_size(self, stored: tuple[int, ...]) -> tuple[int, ...] | None:
        """The size that this piece has, or None when the stored tensor cannot be cut so."""
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
        """This piece of a stored tensor, as a view."""
        if self.flat:
            array = array[0]
        if self.transposed and array.ndim == 2:
            array = array.T
        rows = array.shape[0] // self.parts
        return array[self.part * rows : (self.part + 1) * rows] if self.parts > 1 else array


@dataclass(frozen=True, kw_only=True)
class TensorMatch:
    """What a file holds for a model: pieces for our tensors, and everything that does not fit."""

    slices: Mapping[str, TensorSlice]
    tied: Mapping[str, TensorSlice]  # tied tensors that the file stores all the same
    duplicates: Mapping[str, str]  # other spellings of a tensor that is there already
    missing: Mapping[str, str]  # our name -> the file's
    unexpected: tuple[str, ...]
    mismatched: tuple[str, ...]
    unused: tuple[str, ...] = field(default=())  # belong to another head of the family

    def describe_problems(self) -> str | None:
        """One sentence listing all that is wrong, or None."""
        kinds = (
            (tuple(dict.fromkeys(self.missing.values())), " missing (an incomplete file, or another's config.json)"),
            (self.unexpected, " not known to this family"),
            (self.mismatched, " (config.json and the weights disagree)"),
        )
        wrong = [(names, what) for names, what in kinds if names]
        return "; ".join(_format_names(names, MAX_LISTED_CHARS // len(wrong)) + what for names, what in wrong) or None


def _format_names(names: Iterable[str], room: int = MAX_LISTED_CHARS) -> str:
    """As many names as a sentence has room for, and how many more there are."""
    every, first = list(names), list[str]()
    for name in every:
        if first and sum(map(len, first)) + len(name) > room:
            break
        first.append(to_printable(name, 120))
    listed = ", ".join(first)
    more = f" and {len(every) - len(first)} more" if len(every) > len(first) else ""
    return f"{len(every)} tensors {listed}{more}" if len(every) > 1 else f"tensor {listed}"


def expand_table(rows: Mapping[str, TensorTarget], blocks: int) -> dict[str, TensorTarget]:
    """Every row with its layer numbers and its weight or bias written out."""
    whole: dict[str, TensorTarget] = {}
    for theirs, row in rows.items():
        numbers = range(blocks) if "{n}" in theirs else (None,)
        leaves = ("weight", "bias") if "*" in theirs else (None,)
        for number in numbers:
            for leaf in leaves:
                name, *ours = (
                    text if number is None else text.replace("{n}", str(number)) for text in (theirs, *row.ours)
                )
                if leaf is not None:
                    name, *ours = (text.replace("*", leaf) for text in (name, *ours))
                whole[name] = TensorTarget(tuple(ours), row.transposed, row.flat)
    return whole


def _count_blocks(model: ModelShape) -> int:
    return max(model.stack.blocks, model.decoder.blocks if model.decoder else 0)


def build_full_table(
    family: Family, model: ModelShape, head_names: Mapping[str, str | TensorTarget]
) -> dict[str, TensorTarget]:
    """The rows of backbone and head as a file with this head writes them."""
    prefix = family.prefix if model.head is not None else ""
    blocks = _count_blocks(model)
    backbone = {prefix + name: row for name, row in expand_table(family.build_names(model), blocks).items()}
    return backbone | expand_table(name_table(head_names), blocks)


def match_tensors(
    family: Family, values: ConfigValues, model: ModelShape, head_names: Mapping[str, str | TensorTarget], stored: Sizes
) -> TensorMatch:
    """Match a file's tensors with what the model needs, all at once."""
    needed, tied_to = tensors.expected_sizes(model), tensors.tied_tensors(model)
    blocks = _count_blocks(model)
    rows = expand_table(name_table(head_names), blocks)
    backbone = expand_table(family.build_names(model), blocks)
    rows |= backbone | {family.prefix + name: row for name, row in backbone.items()}
    aliases = {p + a: p + b for a, b in family.aliases.items() for p in {"", family.prefix}}
    ignored = _list_ignored_names(family, blocks)
    known = None

    found: dict[str, tuple[int, TensorSlice]] = {}
    tied: dict[str, TensorSlice] = {}
    again: dict[str, str] = {}
    unexpected: list[str] = []
    unused: list[str] = []
    misshaped: list[str] = []
    rank = {name: place for place, name in enumerate(rows)}
    for name, size in stored.items():
        theirs = modernize_name(name)
        if theirs not in rows and theirs in aliases:
            if aliases[theirs] in stored:
                again[name] = aliases[theirs]
                continue
            theirs = aliases[theirs]
        row = rows.get(theirs)
        if row is None or not any(ours in needed or ours in tied_to for ours in row.ours):
            if theirs in ignored:
                continue
            if known is None:
                known = _list_family_names(family, values, blocks)
            (unused if theirs in known else unexpected).append(name)
            continue
        for part, ours in enumerate(row.ours):
            piece = TensorSlice(name, part, len(row.ours), row.transposed, row.flat)
            target = needed.get(ours) or needed[tied_to[ours]]
            if piece.slice_size(size) != target:
                misshaped.append(
                    f"{name} is {_format_size(size)}, expected {_format_size(_source_size(piece, target))}"
                )
                break
            if ours in tied_to:
                tied[ours] = piece
            elif ours not in found:
                found[ours] = rank[theirs], piece
            else:  # a second spelling of the same tensor: the earlier row's counts, and both must hold the same
                if ours != "head.out.bias" or values.get("tie_word_embeddings") is not False:
                    again[name] = found[ours][1].source  # an untied output has a bias of its own beside an unused one
                found[ours] = min(found[ours], (rank[theirs], piece), key=lambda placed: placed[0])
    if values.get("tie_word_embeddings"):  # some files hold a tied tensor under its second name only
        for ours, piece in tied.items():
            found.setdefault(tied_to[ours], (len(rank), piece))
    bad = {line.split(" is ")[0] for line in misshaped}
    covered = {ours for name in bad for ours in rows[modernize_name(name)].ours if modernize_name(name) in rows}
    # the file's names for our tensors, with the prefix if the file has one: for messages
    prefix = family.prefix if any(name.startswith(family.prefix) for name in stored) else ""
    shortest = {theirs: row for theirs, row in rows.items() if theirs not in backbone or not prefix}
    theirs_of = {ours: theirs for theirs, row in reversed(list(shortest.items())) for ours in row.ours}
    missing = {ours: theirs_of.get(ours, ours) for ours in needed if ours not in found and ours not in covered}
    return TensorMatch(
        slices={ours: piece for ours, (_, piece) in found.items()},
        tied=tied,
        duplicates=again,
        missing=missing,
        unexpected=tuple(unexpected),
        mismatched=tuple(misshaped),
        unused=tuple(unused),
    )


def modernize_name(name: str) -> str:
    """The first BERT files say gamma and beta."""
    if name.endswith(".gamma"):
        return name[: -len("gamma")] + "weight"
    if name.endswith(".beta"):
        return name[: -len("beta")] + "bias"
    return name


def _list_ignored_names(family: Family, blocks: int) -> set[str]:
    names = expand_table({name: TensorTarget(("",)) for name in family.ignored}, blocks)
    return {prefix + name for name in names for prefix in ("", family.prefix)}


def _list_family_names(family: Family, values: ConfigValues, blocks: int) -> set[str]:
    """Names of every tensor that some head of the family, its pooler or its decoder would use."""
    names: set[str] = set()
    native = {key: value for key, value in values.items() if key != HEAD_POOLING}
    for head in (None, *family.heads):
        model = family.model_shape(native, head, 2)
        used = tensors.expected_sizes(model).keys() | tensors.tied_tensors(model).keys()
        rows = expand_table(name_table(family.plan_head(native, head, 2).names), blocks)
        for name, row in expand_table(family.build_names(model), blocks).items():
            rows |= {name: row, family.prefix + name: row}
        names |= {name for name, row in rows.items() if any(ours in used for ours in row.ours)}
    return names


def _source_size(piece: TensorSlice, target: tuple[int, ...]) -> tuple[int, ...]:
    sides = [target[0] * piece.parts, *target[1:]]
    if piece.transposed and len(sides) == 2:
        sides.reverse()
    return (1, *sides) if piece.flat else tuple(sides)


def _format_size(size: tuple[int, ...]) -> str:
    return "x".join(map(str, size)) or "a single number"


def to_stored_names(
    family: Family,
    model: ModelShape,
    head_names: Mapping[str, str | TensorTarget],
    ours: Mapping[str, np.ndarray[Any, Any]],
) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Our tensors under the file's names: the table read the other way."""
    import numpy as np

    written, made = set(), []
    for theirs, row in build_full_table(family, model, head_names).items():
        if any(name not in ours for name in row.ours):
            continue
        whole = np.concatenate([ours[name] for name in row.ours]) if len(row.ours) > 1 else ours[row.ours[0]]
        if row.transposed and whole.ndim == 2:
            whole = whole.T
        made.append((theirs, whole[None] if row.flat else whole))
        written |= set(row.ours)
    if lost := sorted(ours.keys() - written):
        raise TensorError(f"{family.title} has no name for {_format_names(lost)}.")
    return made
