"""Parallel text: rows with a source and a target, in parts that leak nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.checkpoint.passport import DatasetFingerprint
from clearhead.data import BadRow, Columns, Row, Source, hash_text, split_rows
from clearhead.data.column_layout import ColumnLayout, Role
from clearhead.data.column_resolver import match_columns, resolve_columns
from clearhead.data.columns import ColumnRoles, format_columns
from clearhead.data.examples import BadRows, read_split, read_text
from clearhead.data.split import sample_rows
from clearhead.errors import InputError
from clearhead.jobs.plan import RunPlan
from clearhead.progress import Progress, no_progress

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

UNCLEAR = "{source} has the columns {columns}: say what becomes what ({setting})."
TRANSLATION_COLUMNS = ColumnLayout(
    roles=(
        Role(
            name="text",
            setting_name="source",
            column_names=("source", "src", "input", "text", "document", "article", "question"),
            missing_message=UNCLEAR,
        ),
        Role(
            name="text_b",
            setting_name="target",
            column_names=("target", "tgt", "output", "translation", "summary", "highlights", "answer"),
            missing_message=UNCLEAR,
        ),
    ),
    header_only=True,
    split_names=("split",),
)
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
class Texts:
    """Rows in parts, and what is to be told of them."""

    columns: Columns  # of the source and the target
    parts: Mapping[str, tuple[Pair, ...]]
    names: Mapping[str, str]  # where each part came from
    said: tuple[str, ...]
    skipped: Mapping[str, int]
    leaks: tuple[str, ...] = ()  # what is in more than one part, in sentences

    @property
    def sides(self) -> dict[str, str]:
        """The columns as run.json and the passport have them."""
        assert self.columns.text_b is not None
        return {"source": self.columns.text, "target": self.columns.text_b}

    def mark(self, part: str) -> DatasetFingerprint:
        """Which rows these are: equal marks are equal texts in equal order."""
        made = hashlib.sha256()
        for pair in self.parts[part]:
            made.update(f"{pair.source}\0{pair.target}\0".encode("utf-8", "surrogatepass"))
        return DatasetFingerprint(name=self.names[part], rows=len(self.parts[part]), sha256=made.hexdigest())


def resolve_sides(source: Source, named: ColumnRoles) -> Columns:
    """The column that is read and the one that is written: those that were named, or that leave no doubt."""
    if len(source.columns) == 1:
        raise InputError(
            f"{source.name} has one column, {format_columns(source.columns)}: translation needs a source "
            "and a target column."
        )
    found = resolve_columns(source, TRANSLATION_COLUMNS, named)
    if found.text == found.text_b:
        raise InputError(f"{setting('source')} and {setting('target')} are the same column, {found.text!r}.")
    is_named = named.text is not None and named.text_b is not None
    said = () if is_named else (f"columns: {found.text!r} is read, {found.text_b!r} is written",)
    return replace(found, messages=said)


def read_texts(sources: Mapping[str, Source], plan: RunPlan, progress: Progress) -> Texts:
    """Every row of every source, checked, in parts; rows that cannot be used are named together."""
    named = ColumnRoles(text=plan.source, text_b=plan.target, split=plan.split)
    columns = resolve_sides(sources["train"], named)
    found: dict[str, list[Pair]] = {}
    names: dict[str, str] = {}
    skipped: dict[str, int] = {}
    for part, source in sources.items():
        own = columns if part == "train" else match_columns(source, columns, TRANSLATION_COLUMNS)
        pairs, bad = read_pairs(source, own, skip_bad_rows=plan.skip_bad_rows, progress=progress)
        for problem, number in bad.counts.items():
            skipped[problem] = skipped.get(problem, 0) + number
        for pair in pairs:
            own_part = pair.split if part == "train" and pair.split is not None else part
            if own_part != part and own_part in sources:
                both = f"in column {columns.split!r} and in {setting(own_part)}"
                raise InputError(f"There are {own_part} rows {both}; leave one out.")
            found.setdefault(own_part, []).append(pair)
            names[own_part] = source.name
    if not found.get("train"):
        raise InputError(f"{sources['train'].name} has no rows to train on.")
    parts = {part: tuple(found[part]) for part in PARTS if found.get(part)}
    if plan.rows is not None:
        kept = sample_rows(len(parts["train"]), plan.rows, plan.settings.seed)
        parts["train"] = tuple(parts["train"][place] for place in kept)
    parts = _split(parts, plan)
    names = {part: names.get(part, names["train"]) for part in parts}
    said = [*columns.messages, "rows: " + ", ".join(f"{len(rows):,} {part}" for part, rows in parts.items())]
    if skipped:
        said.append(f"left out: {', '.join(f'{number:,} rows ({problem})' for problem, number in skipped.items())}")
    leaks = _leaks(parts)
    said += [*_alike(parts["train"]), *leaks]
    return Texts(columns=columns, parts=parts, names=names, said=tuple(said), skipped=skipped, leaks=tuple(leaks))


def read_pairs(
    source: Source, columns: Columns, *, skip_bad_rows: bool, progress: Progress = no_progress
) -> tuple[list[Pair], BadRows]:
    """The pairs of one source, and the rows that are none: refused together, unless they may be left out."""
    made: list[Pair] = []
    bad = BadRows()
    for place, row in enumerate(source.rows(), 1):
        one = row if isinstance(row, BadRow) else _pair(row, columns)
        if isinstance(one, BadRow):
            bad.add(one)
        else:
            made.append(one)
        if place % 1000 == 0:
            progress(f"reading {source.name}", place, None)
    if not skip_bad_rows:
        bad.raise_if_any(source, len(made))
    return made, bad


def _pair(row: Row, columns: Columns) -> Pair | BadRow:
    """Both texts of a row, or what is wrong with one of them."""
    assert columns.text_b is not None
    source, target, split = read_text(row, columns.text), read_text(row, columns.text_b), read_split(row, columns)
    for one in (source, target, split):
        if isinstance(one, BadRow):
            return one
    return Pair(number=row.number, source=str(source), target=str(target), split=None if split is None else str(split))


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
    sources = np.array([hash_text(pair.source) for pair in rows], np.uint64)
    pairs = np.array([hash_text(pair.source, pair.target) for pair in rows], np.uint64)
    targets = np.array([hash_text(pair.target) for pair in rows], np.uint64)
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
