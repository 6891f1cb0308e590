"""Parallel text: rows with a source and a target, in parts that leak nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.checkpoint.passport import DatasetFingerprint
from clearhead.data import BadRow, Columns, Row, Source, split_rows, text_hash
from clearhead.data.columns import titles
from clearhead.data.examples import BadRows, split_in, text_in
from clearhead.data.split import draw_rows
from clearhead.errors import InputError
from clearhead.jobs.plan import RunPlan
from clearhead.progress import Progress, no_progress

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

SOURCES = ("source", "src", "input", "text", "document", "article", "question")  # names that speak for themselves
TARGETS = ("target", "tgt", "output", "translation", "summary", "highlights", "answer")
PARTS = ("train", "dev", "test")
ENOUGH_SOURCES = 10  # different ones, to keep the rows of each on one side


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One row: what is read, and what is to be written."""

    number: int  # in its file
    source: str
    target: str
    split: str | None = None


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Which column is which."""

    source: str
    target: str
    split: str | None = None
    said: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Rows in parts, and what is to be told of them."""

    sides: Sides
    parts: Mapping[str, tuple[Pair, ...]]
    names: Mapping[str, str]  # where each part came from
    said: tuple[str, ...]
    skipped: Mapping[str, int]
    leaks: tuple[str, ...] = ()  # what is in more than one part, in sentences

    def mark(self, part: str) -> DatasetFingerprint:
        """Which rows these are: equal marks are equal texts in equal order."""
        made = hashlib.sha256()
        for pair in self.parts[part]:
            made.update(f"{pair.source}\0{pair.target}\0".encode("utf-8", "surrogatepass"))
        return DatasetFingerprint(name=self.names[part], rows=len(self.parts[part]), sha256=made.hexdigest())


def sides_of(source: Source, asked: RunPlan) -> Sides:
    """The columns that were named, or those whose names or number leave no doubt."""
    columns = list(source.columns)
    split = asked.split if asked.split is not None else next((one for one in columns if one.lower() == "split"), None)
    for name in (asked.source, asked.target, asked.split):
        if name is not None and name not in columns:
            raise InputError(f"{source.name} has no column {name!r}; it has {titles(columns)}.")
    if len(columns) == 1:
        raise InputError(
            f"{source.name} has one column, {titles(columns)}: translation needs what is read and what is "
            "written, each in a column of its own."
        )
    free = [name for name in columns if name not in (asked.source, asked.target, split)]
    first = asked.source or _named(free, SOURCES)
    second = asked.target or _named([name for name in free if name != first], TARGETS)
    left = [name for name in free if name not in (first, second)]
    if first is None and second is None and len(left) == 2:
        first, second = left
    elif first is None and len(left) == 1:
        first = left[0]
    elif second is None and len(left) == 1:
        second = left[0]
    if first is None or second is None:
        sides = (("source", first), ("target", second))
        missing = " and ".join(setting(name, "COLUMN") for name, one in sides if one is None)
        raise InputError(f"{source.name} has the columns {titles(columns)}: say what becomes what ({missing}).")
    if first == second:
        raise InputError(f"{setting('source')} and {setting('target')} are the same column, {first!r}.")
    said = () if asked.source and asked.target else (f"columns: {first!r} is read, {second!r} is written",)
    return Sides(source=first, target=second, split=split, said=said)


def _named(columns: Sequence[str], names: Sequence[str]) -> str | None:
    known = {column.lower().strip(): column for column in columns}
    return next((known[name] for name in names if name in known), None)


def read_texts(sources: Mapping[str, Source], plan: RunPlan, progress: Progress) -> Texts:
    """Every row of every source, checked, in parts; rows that cannot be used are named together."""
    sides = sides_of(sources["train"], plan)
    found: dict[str, list[Pair]] = {}
    names: dict[str, str] = {}
    skipped: dict[str, int] = {}
    for part, source in sources.items():
        own_sides = sides if part == "train" else _beside(source, sides)
        pairs, bad = read_pairs(source, own_sides, skip_bad_rows=plan.skip_bad_rows, progress=progress)
        for problem, number in bad.counts.items():
            skipped[problem] = skipped.get(problem, 0) + number
        for pair in pairs:
            own = pair.split if part == "train" and pair.split is not None else part
            if own != part and own in sources:
                both = f"in column {sides.split!r} and in {setting(own)}"
                raise InputError(f"There are {own} rows {both}; leave one out.")
            found.setdefault(own, []).append(pair)
            names[own] = source.name
    if not found.get("train"):
        raise InputError(f"{sources['train'].name} has no rows to train on.")
    parts = {part: tuple(found[part]) for part in PARTS if found.get(part)}
    if plan.rows is not None:
        kept = draw_rows(len(parts["train"]), plan.rows, plan.settings.seed)
        parts["train"] = tuple(parts["train"][place] for place in kept)
    parts = _split(parts, plan)
    names = {part: names.get(part, names["train"]) for part in parts}
    said = [*sides.said, "rows: " + ", ".join(f"{len(rows):,} {part}" for part, rows in parts.items())]
    if skipped:
        said.append(f"left out: {', '.join(f'{number:,} rows ({problem})' for problem, number in skipped.items())}")
    leaks = _leaks(parts)
    said += [*_alike(parts["train"]), *leaks]
    return Texts(sides=sides, parts=parts, names=names, said=tuple(said), skipped=skipped, leaks=tuple(leaks))


def read_pairs(
    source: Source, sides: Sides, *, skip_bad_rows: bool, progress: Progress = no_progress
) -> tuple[list[Pair], BadRows]:
    """The pairs of one source, and the rows that are none: refused together, unless they may be left out."""
    made: list[Pair] = []
    bad = BadRows()
    columns = Columns(text=sides.source, text_b=sides.target, split=sides.split)
    for place, row in enumerate(source.rows(), 1):
        one = row if isinstance(row, BadRow) else _pair(row, sides, columns)
        if isinstance(one, BadRow):
            bad.add(one)
        else:
            made.append(one)
        if place % 1000 == 0:
            progress(f"reading {source.name}", place, None)
    if not skip_bad_rows:
        bad.refuse(source, len(made))
    return made, bad


def _pair(row: Row, sides: Sides, columns: Columns) -> Pair | BadRow:
    """Both texts of a row, or what is wrong with one of them."""
    source, target, split = text_in(row, sides.source), text_in(row, sides.target), split_in(row, columns)
    for one in (source, target, split):
        if isinstance(one, BadRow):
            return one
    return Pair(number=row.number, source=str(source), target=str(target), split=None if split is None else str(split))


def _beside(source: Source, sides: Sides) -> Sides:
    for name in (sides.source, sides.target):
        if name not in source.columns:
            raise InputError(f"{source.name} has no column {name!r}; it has {titles(list(source.columns))}.")
    return Sides(source=sides.source, target=sides.target)


def _split(parts: dict[str, tuple[Pair, ...]], plan: RunPlan) -> dict[str, tuple[Pair, ...]]:
    """Rows to choose and to measure on come from the training rows where none were given; equal sources stay together.

    A target that comes again and again, as a label does, keeps its share in every part.
    """
    import numpy as np

    dev = 0.0 if "dev" in parts else plan.dev_share
    test = 0.0 if {"dev", "test"} & parts.keys() else plan.test_share
    rows = parts["train"]
    if (not dev and not test) or len(rows) < 3:
        return parts
    sources = np.array([text_hash(pair.source) for pair in rows], np.uint64)
    pairs = np.array([text_hash(pair.source, pair.target) for pair in rows], np.uint64)
    targets = np.array([text_hash(pair.target) for pair in rows], np.uint64)
    for hashes in (sources, pairs):  # the few sources of a model that writes what a label says cannot be kept apart
        strata = _repeated_targets(targets, hashes)
        where = split_rows(strata, hashes, dev=dev, test=test, seed=plan.settings.seed)
        if len(np.unique(hashes)) >= ENOUGH_SOURCES and _is_filled(where, {"dev": dev, "test": test}):
            break
    cut = {part: tuple(pair for pair, own in zip(rows, where, strict=True) if own == part) for part in PARTS}
    return {**parts, **{part: some for part, some in cut.items() if some}}


def _repeated_targets(targets: Array, hashes: Array) -> Array:
    """A stratum for each target that comes again with other sources, and one for all other targets."""
    import numpy as np

    _, clusters = np.unique(hashes, return_inverse=True)
    own = np.full(int(clusters.max()) + 1, np.iinfo(np.uint64).max, np.uint64)  # a source with two targets has one
    np.minimum.at(own, clusters, targets)
    _, inverse, counts = np.unique(own, return_inverse=True, return_counts=True)
    strata: Array = np.where(counts[inverse] > 1, own, np.uint64(0))[clusters]
    return strata


def _is_filled(where: Array, shares: Mapping[str, float]) -> bool:
    """Whether every part has at least half of the rows that were asked for."""
    return all(int((where == part).sum()) * 2 >= share * len(where) for part, share in shares.items() if share)


def _alike(rows: Sequence[Pair]) -> list[str]:
    """Rows that are translated already: seldom what somebody wants, unless to copy is the task."""
    same = sum(pair.source == pair.target for pair in rows)
    return [f"{same:,} of {len(rows):,} training rows have the same text on both sides"] if same * 2 > len(rows) else []


def _leaks(parts: Mapping[str, Sequence[Pair]]) -> list[str]:
    """Sources that are trained on and measured on."""
    seen = {pair.source for pair in parts["train"]}
    return [
        f"{count:,} of the {part} sources are in the training rows, too: they flatter"
        for part in ("dev", "test")
        if (count := sum(pair.source in seen for pair in parts.get(part, ())))
    ]
