"""Inspect a dataset before training: label balance, lengths, duplicates, leaks, conflicts and bad rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from clearhead.data.column_resolver import resolve_columns
from clearhead.data.columns import Columns, format_column, format_columns
from clearhead.data.findings import Finding, collect_findings
from clearhead.data.labels import Kind
from clearhead.data.lengths import Lengths, measure_lengths
from clearhead.data.row_codec import LimitedEncoder, TextEncoder
from clearhead.data.row_collector import MAX_NEAR_DUPLICATE_ROWS, RowCollector
from clearhead.data.sources.readers import open_source
from clearhead.data.sources.source import Source
from clearhead.deprecation import renamed_fields, renamed_parameters
from clearhead.errors import InputError
from clearhead.html import pluralize, render_table, short_repr

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAX_EXAMPLES = 10  # of each finding

RowRef = tuple[str, int]  # part (train, dev, test or all) and row number


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Groups of equal or similar rows: how many there are, and the largest of them."""

    rows: int = 0  # without the first one of each group
    groups: int = 0
    examples: tuple[tuple[RowRef, ...], ...] = ()


@renamed_fields(said="messages")
@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Statistics and findings of a dataset."""

    sources: tuple[str, ...]
    messages: tuple[str, ...]  # how the files were read
    columns: Columns
    rows: int  # usable rows
    bad: dict[str, int]  # unusable rows by problem
    bad_rows: tuple[str, ...]  # the first unusable rows
    unusable: tuple[str, ...]  # the message of `train` for each source with unusable rows
    parts: dict[str, int]  # rows in train, dev and test, or in all
    kind: str | None  # classes, multilabel or number; None without labels
    labels: dict[str, int]  # rows of each label, most frequent first
    numbers: tuple[float, float, float] | None  # minimum, mean and maximum of numeric labels
    exact: Duplicates
    near: Duplicates
    leaks: Duplicates  # texts that occur in more than one part
    near_leaks: Duplicates  # similar texts in more than one part
    conflicts: Duplicates  # texts with more than one label
    characters: Lengths
    tokens: Lengths | None = None
    token_rows: int = 0  # rows whose tokens were counted
    max_length: int | None = None
    too_long: int | None = None  # number of these rows that exceed max_length
    mojibake: int = 0  # texts with signs of a wrong encoding
    estimate: dict[str, Any] | None = None  # training time and memory, added by `train/inspection.py`
    findings: list[Finding] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values."""
        values = _rename_messages(asdict(self))
        return values | {"columns": _rename_messages(values["columns"])}

    def __repr__(self) -> str:
        names = list(self.labels)
        labels = ", ".join(names[:5]) + (f", ... ({len(names):,} labels)" if len(names) > 5 else "")
        severities = [finding.severity for finding in self.findings]
        finding_counts = ", ".join(f"{severities.count(severity)} {severity}" for severity in dict.fromkeys(severities))
        source_names = ", ".join(dict.fromkeys(self.sources))
        bad_count = sum(self.bad.values())
        return short_repr(
            "Inspection",
            f"{pluralize(self.rows, 'row')} of {source_names}",
            pluralize(bad_count, "bad row") if bad_count else None,
            f"{self.kind}: {labels}" if labels else self.kind,
            f"findings: {finding_counts or 'none'}",
        )

    def _repr_html_(self) -> str:
        """Render the labels and the findings as a table in a notebook."""
        rows = [(name, f"{count:,}", f"{count / max(self.rows, 1):.1%}") for name, count in self.labels.items()]
        notes = [f"{finding.severity}: {finding.sentence}" for finding in self.findings] or ["no problems found"]
        source_names = ", ".join(dict.fromkeys(self.sources))
        return render_table(f"{pluralize(self.rows, 'row')} of {source_names}", ("label", "rows", "share"), rows, notes)


def _rename_messages(values: dict[str, Any]) -> dict[str, Any]:
    return {"said" if key == "messages" else key: value for key, value in values.items()}  # the key of version 0.1


@renamed_parameters(labelled="labeled")
def inspect_data(
    source: Any,
    *,
    columns: Columns | None = None,
    tokenizer: TextEncoder | None = None,
    max_length: int | None = None,
    dev: Any = None,
    test: Any = None,
    kind: Kind | None = None,
    labeled: bool = True,
) -> Inspection:
    """Read a dataset once and report what matters before training.

    `kind` is the kind of labels; by default it is inferred. If `labeled`, every row must have a label.
    """
    sources = {"all" if dev is None and test is None else "train": open_source(source)}
    sources |= {
        name: open_source(part_source)
        for name, part_source in (("dev", dev), ("test", test))
        if part_source is not None
    }
    first_source = next(iter(sources.values()))
    all_columns = columns or _resolve_columns(first_source)
    collected = RowCollector(tokenizer, kind)
    for part, part_data in sources.items():
        part_columns = all_columns
        missing = [
            name
            for name in (all_columns.text, all_columns.text_b, all_columns.label)
            if name and name not in part_data.columns
        ]
        if missing:
            raise InputError(
                f"{part_data.name} has no column {format_column(missing[0])!r}; "
                f"it has {format_columns(part_data.columns)}."
            )
        if len(sources) > 1 or all_columns.split not in part_data.columns:
            part_columns = replace(all_columns, split=None)
        collected.read(part_data, part_columns, part, labeled=labeled)
    if not collected.number:
        collected.sources[0].bad.raise_if_any(first_source, 0)
        raise InputError(f"{first_source.name} has no usable rows.")
    if max_length is None and isinstance(tokenizer, LimitedEncoder):
        max_length = tokenizer.max_length
    return _build_inspection(sources, all_columns, collected, max_length, labeled=labeled)


def _resolve_columns(source: Source) -> Columns:
    try:
        return resolve_columns(source)
    except InputError:
        return resolve_columns(source, labeled=False)  # a file without labels can be inspected, too


def _build_inspection(
    sources: dict[str, Source], columns: Columns, collected: RowCollector, max_length: int | None, *, labeled: bool
) -> Inspection:
    import numpy as np

    hashes, parts = np.frombuffer(collected.hash, np.uint64), np.frombuffer(collected.part, np.int8)
    labels = np.frombuffer(collected.label, np.int32)
    first_rows = np.unique(hashes, return_index=True)[1].astype(np.int64)
    space = collected.counter.space() if columns.label is not None and collected.counter.total else None
    allows_missing = space is None or space.kind == "multilabel"  # an empty set of labels is valid
    is_used = np.ones(len(hashes), bool)
    bad_counts: Counter[str] = Counter()
    for tally in collected.sources:
        if not allows_missing:
            tally.exclude_unlabeled()
        bad_counts.update(tally.bad.counts)
    if labeled and not allows_missing and columns.label is not None:
        is_used = np.frombuffer(collected.is_unlabeled, np.int8) == 0
    equal_groups = _filter_groups(_group_equal(hashes), is_used)
    near_groups = _filter_groups(
        collected.near.groups(np.sort(first_rows[first_rows < MAX_NEAR_DUPLICATE_ROWS])), is_used
    )
    token_counts = np.frombuffer(collected.tokens, np.int32)
    token_counts = token_counts[is_used[: len(token_counts)]]
    prefix = "" if len(collected.sources) == 1 else "{}: "
    minimum, total, maximum, number_count = collected.number_stats
    has_mean = space is not None and space.kind == "number" and isfinite(total)  # the sum may overflow
    inspection = Inspection(
        sources=tuple(source.name for source in sources.values()),
        messages=tuple(sentence for source in sources.values() for sentence in source.messages),
        columns=columns,
        rows=int(is_used.sum()),
        bad=dict(bad_counts),
        bad_rows=tuple(
            prefix.format(tally.source.name) + str(row) for tally in collected.sources for row in tally.bad.first
        )[:20],
        unusable=tuple(tally.bad.describe(tally.source, tally.good) for tally in collected.sources if tally.bad.total),
        parts={name: int(((parts == part) & is_used).sum()) for part, name in enumerate(collected.part_names)},
        kind=None if space is None else space.kind,
        labels=dict(collected.counter.count_labels().most_common()),
        numbers=(minimum, total / number_count, maximum) if has_mean and number_count else None,
        exact=_summarize_groups(equal_groups, collected),
        near=_summarize_groups(near_groups, collected),
        leaks=_summarize_groups([group for group in equal_groups if len(set(parts[group].tolist())) > 1], collected),
        near_leaks=_summarize_groups(
            [group for group in near_groups if len(set(parts[group].tolist())) > 1], collected
        ),
        conflicts=_summarize_groups(
            [group for group in equal_groups if len(set(labels[group].tolist()) - {-1}) > 1], collected
        ),
        characters=measure_lengths(np.frombuffer(collected.length, np.int64)[is_used]),
        tokens=measure_lengths(token_counts) if len(token_counts) else None,
        token_rows=len(token_counts),
        max_length=max_length,
        too_long=_count_longer(token_counts.tolist(), max_length),
        mojibake=collected.mojibake,
    )
    return replace(inspection, findings=collect_findings(inspection))


def _filter_groups(groups: Iterable[Sequence[int]], is_used: Array) -> list[list[int]]:
    """Drop unused rows from groups, and groups with fewer than two rows left."""
    filtered = ([row for row in group if is_used[row]] for group in groups)
    return [group for group in filtered if len(group) > 1]


def _count_longer(token_counts: Sequence[int], max_length: int | None) -> int | None:
    return None if max_length is None or not len(token_counts) else sum(count > max_length for count in token_counts)


def _group_equal(values: Array) -> Iterator[list[int]]:
    """Yield the indices of equal values, for values that occur more than once."""
    import numpy as np

    order = np.argsort(values, kind="stable")
    ordered = values[order]
    bounds = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1], True])
    for start in np.flatnonzero(np.diff(bounds) > 1):
        yield order[bounds[start] : bounds[start + 1]].tolist()


def _summarize_groups(groups: Sequence[Sequence[int]], collected: RowCollector) -> Duplicates:
    largest = sorted(groups, key=lambda group: (-len(group), group[0]))[:MAX_EXAMPLES]
    return Duplicates(
        rows=sum(len(group) - 1 for group in groups),
        groups=len(groups),
        examples=tuple(
            tuple(
                (collected.part_names[collected.part[row]], collected.number[row])
                for row in _order_by_part(group, collected)[:MAX_EXAMPLES]
            )
            for group in largest
        ),
    )


def _order_by_part(group: Sequence[int], collected: RowCollector) -> list[int]:
    """Order the rows of a group: first the first row of each part, then the others."""
    first_rows: dict[int, int] = {}
    for row in group:
        first_rows.setdefault(collected.part[row], row)
    return [*first_rows.values(), *(row for row in group if row not in first_rows.values())]
