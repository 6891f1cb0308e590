"""Parallel text: rows with a source and a target, split into parts without leaks."""

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
from clearhead.html import pluralize
from clearhead.jobs.plan import RunPlan
from clearhead.progress import Progress, no_progress

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

UNCLEAR_COLUMNS = "{source} has the columns {columns}: name the source and the target column ({setting})."
TRANSLATION_COLUMNS = ColumnLayout(
    roles=(
        Role(
            name="text",
            setting_name="source",
            column_names=("source", "src", "input", "text", "document", "article", "question"),
            missing_message=UNCLEAR_COLUMNS,
        ),
        Role(
            name="text_b",
            setting_name="target",
            column_names=("target", "tgt", "output", "translation", "summary", "highlights", "answer"),
            missing_message=UNCLEAR_COLUMNS,
        ),
    ),
    header_only=True,
    split_names=("split",),
)
PARTS = ("train", "dev", "test")
MIN_SOURCES = 10  # distinct sources that are needed to keep equal sources in one part


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One row: a source text and its target."""

    number: int  # row number in its file
    source: str
    target: str
    split: str | None = None


@dataclass(frozen=True, kw_only=True)
class ParallelTexts:
    """Rows by part, and messages about them."""

    columns: Columns  # source and target
    parts: Mapping[str, tuple[Pair, ...]]
    names: Mapping[str, str]  # source name of each part
    messages: tuple[str, ...]
    skipped: Mapping[str, int]
    leaks: tuple[str, ...] = ()  # messages about rows in more than one part

    @property
    def column_names(self) -> dict[str, str]:
        """The columns as run.json and the passport store them."""
        assert self.columns.text_b is not None
        return {"source": self.columns.text, "target": self.columns.text_b}

    def fingerprint(self, part: str) -> DatasetFingerprint:
        """Return a fingerprint of the rows of a part: equal for equal texts in equal order."""
        digest = hashlib.sha256()
        for pair in self.parts[part]:
            digest.update(f"{pair.source}\0{pair.target}\0".encode("utf-8", "surrogatepass"))
        return DatasetFingerprint(name=self.names[part], rows=len(self.parts[part]), sha256=digest.hexdigest())


def resolve_parallel_columns(source: Source, roles: ColumnRoles) -> Columns:
    """Resolve the source and the target column: those that were named, or the only candidates."""
    if len(source.columns) == 1:
        raise InputError(
            f"{source.name} has one column, {format_columns(source.columns)}: translation needs a source "
            "and a target column."
        )
    resolved = resolve_columns(source, TRANSLATION_COLUMNS, roles)
    if resolved.text == resolved.text_b:
        raise InputError(f"{setting('source')} and {setting('target')} are the same column, {resolved.text!r}.")
    is_named = roles.text is not None and roles.text_b is not None
    messages = () if is_named else (f"columns: source {resolved.text!r}, target {resolved.text_b!r}",)
    return replace(resolved, messages=messages)


def read_parallel_texts(sources: Mapping[str, Source], plan: RunPlan, progress: Progress) -> ParallelTexts:
    """Read and check all rows of all sources and split them into parts; unusable rows are reported together."""
    roles = ColumnRoles(text=plan.source, text_b=plan.target, split=plan.split)
    columns = resolve_parallel_columns(sources["train"], roles)
    pairs_of: dict[str, list[Pair]] = {}
    names: dict[str, str] = {}
    skipped: dict[str, int] = {}
    for part, source in sources.items():
        part_columns = columns if part == "train" else match_columns(source, columns, TRANSLATION_COLUMNS)
        pairs, bad = read_pairs(source, part_columns, skip_bad_rows=plan.skip_bad_rows, progress=progress)
        for problem, count in bad.counts.items():
            skipped[problem] = skipped.get(problem, 0) + count
        for pair in pairs:
            target_part = pair.split if part == "train" and pair.split is not None else part
            if target_part != part and target_part in sources:
                conflict = f"in column {columns.split!r} and in {setting(target_part)}"
                raise InputError(f"There are {target_part} rows {conflict}; use only one of them.")
            pairs_of.setdefault(target_part, []).append(pair)
            names[target_part] = source.name
    if not pairs_of.get("train"):
        raise InputError(f"{sources['train'].name} has no rows to train on.")
    parts = {part: tuple(pairs_of[part]) for part in PARTS if pairs_of.get(part)}
    if plan.rows is not None:
        sampled = sample_rows(len(parts["train"]), plan.rows, plan.settings.seed)
        parts["train"] = tuple(parts["train"][index] for index in sampled)
    parts = _split_parts(parts, plan)
    names = {part: names.get(part, names["train"]) for part in parts}
    messages = [*columns.messages, "rows: " + ", ".join(f"{len(rows):,} {part}" for part, rows in parts.items())]
    if skipped:
        problems = (f"{pluralize(count, 'row')} ({problem})" for problem, count in skipped.items())
        messages.append(f"skipped: {', '.join(problems)}")
    leaks = _describe_leaks(parts)
    messages += [*_describe_copies(parts["train"]), *leaks]
    return ParallelTexts(
        columns=columns, parts=parts, names=names, messages=tuple(messages), skipped=skipped, leaks=tuple(leaks)
    )


def read_pairs(
    source: Source, columns: Columns, *, skip_bad_rows: bool, progress: Progress = no_progress
) -> tuple[list[Pair], BadRows]:
    """Read the pairs of a source and its unusable rows, which are an error unless `skip_bad_rows`."""
    pairs: list[Pair] = []
    bad_rows = BadRows()
    for row_count, row in enumerate(source.rows(), 1):
        pair = row if isinstance(row, BadRow) else _make_pair(row, columns)
        if isinstance(pair, BadRow):
            bad_rows.add(pair)
        else:
            pairs.append(pair)
        if row_count % 1000 == 0:
            progress(f"reading {source.name}", row_count, None)
    if not skip_bad_rows:
        bad_rows.raise_if_any(source, len(pairs))
    return pairs, bad_rows


def _make_pair(row: Row, columns: Columns) -> Pair | BadRow:
    """Return both texts of a row, or what is wrong with one of them."""
    assert columns.text_b is not None
    source, target, split = read_text(row, columns.text), read_text(row, columns.text_b), read_split(row, columns)
    for cell in (source, target, split):
        if isinstance(cell, BadRow):
            return cell
    return Pair(number=row.number, source=str(source), target=str(target), split=None if split is None else str(split))


def _split_parts(parts: dict[str, tuple[Pair, ...]], plan: RunPlan) -> dict[str, tuple[Pair, ...]]:
    """Split dev and test rows off the training rows if none were given; equal sources stay in one part.

    A target that occurs often, such as a label, keeps its share in every part.
    """
    import numpy as np

    dev_share = 0.0 if "dev" in parts else plan.dev_share
    test_share = 0.0 if {"dev", "test"} & parts.keys() else plan.test_share
    rows = parts["train"]
    if (not dev_share and not test_share) or len(rows) < 3:
        return parts
    sources = np.array([hash_text(pair.source) for pair in rows], np.uint64)
    pairs = np.array([hash_text(pair.source, pair.target) for pair in rows], np.uint64)
    targets = np.array([hash_text(pair.target) for pair in rows], np.uint64)
    for hashes in (sources, pairs):  # too few distinct sources (labels, for example) cannot be kept in one part
        strata = _repeated_targets(targets, hashes)
        part_of_row = split_rows(strata, hashes, dev=dev_share, test=test_share, seed=plan.settings.seed)
        if len(np.unique(hashes)) >= MIN_SOURCES and _is_filled(part_of_row, {"dev": dev_share, "test": test_share}):
            break
    split = {
        part: tuple(pair for pair, row_part in zip(rows, part_of_row, strict=True) if row_part == part)
        for part in PARTS
    }
    return {**parts, **{part: pairs_of_part for part, pairs_of_part in split.items() if pairs_of_part}}


def _repeated_targets(targets: Array, hashes: Array) -> Array:
    """Return a stratum for each target that occurs with several sources, and one for all other targets."""
    import numpy as np

    _, clusters = np.unique(hashes, return_inverse=True)
    cluster_targets = np.full(
        int(clusters.max()) + 1, np.iinfo(np.uint64).max, np.uint64
    )  # a source with several targets gets one of them
    np.minimum.at(cluster_targets, clusters, targets)
    _, inverse, counts = np.unique(cluster_targets, return_inverse=True, return_counts=True)
    strata: Array = np.where(counts[inverse] > 1, cluster_targets, np.uint64(0))[clusters]
    return strata


def _is_filled(part_of_row: Array, shares: Mapping[str, float]) -> bool:
    """Whether every part has at least half of the requested rows."""
    return all(
        int((part_of_row == part).sum()) * 2 >= share * len(part_of_row) for part, share in shares.items() if share
    )


def _describe_copies(rows: Sequence[Pair]) -> list[str]:
    """Warn if most rows have equal source and target, which is rarely intended."""
    copies = sum(pair.source == pair.target for pair in rows)
    return (
        [f"{copies:,} of {len(rows):,} training rows have the same text on both sides"]
        if copies * 2 > len(rows)
        else []
    )


def _describe_leaks(parts: Mapping[str, Sequence[Pair]]) -> list[str]:
    """Describe sources that occur in the training rows and in dev or test rows."""
    train_sources = {pair.source for pair in parts["train"]}
    return [
        f"{count:,} of the {part} sources also occur in the training rows; {part} scores are optimistic"
        for part in ("dev", "test")
        if (count := sum(pair.source in train_sources for pair in parts.get(part, ())))
    ]
