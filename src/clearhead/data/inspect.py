"""A look at data before anything is trained on it: balance, lengths, duplicates, leaks, and what is odd."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from clearhead.data.column_resolver import resolve_columns
from clearhead.data.columns import Columns, format_column, format_columns
from clearhead.data.examples import TextRow, check_rows, hash_text, missing_label_row
from clearhead.data.findings import Finding, collect_findings, is_mojibake
from clearhead.data.labels import MAX_LABELS, Kind, LabelCounter, LabelSpace, format_label, is_missing, parse_number
from clearhead.data.lengths import Lengths, measure_lengths
from clearhead.data.near_duplicates import NearDuplicateIndex
from clearhead.data.row_codec import LimitedEncoder, TextEncoder
from clearhead.data.sources.readers import open_source
from clearhead.data.sources.row_tally import RowTally
from clearhead.data.sources.source import BadRow, Source
from clearhead.deprecation import rename_stored, renamed_fields
from clearhead.errors import InputError
from clearhead.html import render_table, short_repr

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

CHUNK_ROWS = 1000  # rows that are taken together
CHUNK_CHARACTERS = 2_000_000  # or fewer rows, if they are long
MAX_TOKENIZED_CHARACTERS = 200_000  # characters of a text whose tokens are counted; the rest of it is like them
MAX_TOKENIZED_ROWS = 50_000  # rows whose tokens are counted; the others are like them
MAX_NEAR_DUPLICATE_ROWS = 1_000_000  # rows that are compared for likeness
MAX_EXAMPLES = 10  # examples of each finding

RowRef = tuple[str, int]  # the part (train, dev, test, or all) and the number of a row


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Rows that are the same, or nearly: how many are more than one needs, and some groups of them."""

    rows: int = 0  # beyond the first of each group
    groups: int = 0
    examples: tuple[tuple[RowRef, ...], ...] = ()


@renamed_fields(said="messages")
@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Statistics and findings of a dataset."""

    sources: tuple[str, ...]
    messages: tuple[str, ...]  # how the files were read
    columns: Columns
    rows: int  # that can be used
    bad: dict[str, int]  # rows that cannot, by problem
    bad_rows: tuple[str, ...]  # the first of them
    unusable: tuple[str, ...]  # the same as `train` lists them, for each source that has some
    parts: dict[str, int]  # rows in train, dev and test, or in all
    kind: str | None  # classes, multilabel or number; None without labels
    labels: dict[str, int]  # rows of each label, most frequent first
    numbers: tuple[float, float, float] | None  # least, mean and most of labels that are numbers
    exact: Duplicates
    near: Duplicates
    leaks: Duplicates  # texts that are the same in more than one part
    near_leaks: Duplicates  # texts that are nearly the same in more than one part
    conflicts: Duplicates  # texts with more than one label
    characters: Lengths
    tokens: Lengths | None = None
    token_rows: int = 0  # rows whose tokens were counted
    max_length: int | None = None
    too_long: int | None = None  # of these rows, how many are longer than max_length: windowed, or cut
    mojibake: int = 0  # texts that look wrongly decoded
    estimate: dict[str, Any] | None = None  # training time and memory, filled in by those who know the model
    findings: list[Finding] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values."""
        values = rename_stored(asdict(self), {"messages": "said"})  # the key of version 0.1
        return values | {"columns": rename_stored(values["columns"], {"messages": "said"})}

    def __repr__(self) -> str:
        names = list(self.labels)
        labels = ", ".join(names[:5]) + (f", ... ({len(names):,} labels)" if len(names) > 5 else "")
        grave = [finding.severity for finding in self.findings]
        found = ", ".join(f"{grave.count(severity)} {severity}" for severity in dict.fromkeys(grave))
        named = ", ".join(dict.fromkeys(self.sources))
        bad = sum(self.bad.values())
        return short_repr(
            "Inspection",
            f"{self.rows:,} rows of {named}",
            f"{bad:,} bad rows" if bad else None,
            f"{self.kind}: {labels}" if labels else self.kind,
            f"findings: {found or 'none'}",
        )

    def _repr_html_(self) -> str:
        """The labels as a table in a notebook, with what was found."""
        rows = [(name, f"{count:,}", f"{count / max(self.rows, 1):.1%}") for name, count in self.labels.items()]
        notes = [f"{finding.severity}: {finding.sentence}" for finding in self.findings] or ["nothing odd was found"]
        named = ", ".join(dict.fromkeys(self.sources))
        return render_table(f"{self.rows:,} rows of {named}", ("label", "rows", "share"), rows, notes)


class _RowCollector:
    """What is kept of the rows while they stream by: numbers, never texts."""

    def __init__(self, tokenizer: TextEncoder | None, kind: Kind | None) -> None:
        self.names: list[str] = []  # of the parts
        self.part, self.number = array("b"), array("q")
        self.hash, self.length = array("Q"), array("q")
        self.label, self.tokens = array("i"), array("i")
        self.blank = array("b")  # whether the label is missing
        self.codes: dict[str, int] = {}
        self.counter = LabelCounter(kind=kind)
        self._space = LabelSpace(kind="number") if kind == "number" else None  # what is no number is a bad row
        self.values: list[float] = [float("inf"), 0.0, float("-inf"), 0]
        self.sources: list[RowTally] = []
        self.near = NearDuplicateIndex()
        self.mojibake = 0
        self._tokenizer = tokenizer

    def read(self, source: Source, columns: Columns, part: str, *, labelled: bool) -> None:
        chunk: list[TextRow] = []
        size = 0
        own = RowTally(source)
        self.sources.append(own)
        for row in check_rows(source, columns, self._space):
            if isinstance(row, BadRow):
                own.bad.add(row)
                continue
            own.good += 1
            if labelled and columns.label is not None and is_missing(row.label):
                own.unlabeled.add(missing_label_row(row))
            chunk.append(row)
            size += len(row.text) + len(row.text_b or "")
            if len(chunk) == CHUNK_ROWS or size > CHUNK_CHARACTERS:
                self._take(chunk, part)
                chunk, size = [], 0
        if chunk:
            self._take(chunk, part)

    def _take(self, rows: list[TextRow], part: str) -> None:
        for row in rows:
            name = row.split or part
            if name not in self.names:
                self.names.append(name)
            self.part.append(self.names.index(name))
            self.number.append(row.number)
            self.hash.append(hash_text(row.text, row.text_b))
            self.length.append(len(row.text) + len(row.text_b or ""))
            self.mojibake += is_mojibake(row.text)
            self.blank.append(is_missing(row.label))
            self._count(row.label)
        joined = [row.text if row.text_b is None else f"{row.text} {row.text_b}" for row in rows]
        if len(self.number) <= MAX_NEAR_DUPLICATE_ROWS:
            self.near.add(joined)
        if self._tokenizer is not None and len(self.tokens) < MAX_TOKENIZED_ROWS:
            self.tokens.extend(_count_tokens(rows, self._tokenizer))

    def _count(self, value: Any) -> None:
        if is_missing(value):
            self.label.append(-1)
            return
        try:
            self.counter.add(value)
        except InputError:  # too many to be labels, which the findings say
            self.label.append(-1)
            return
        text = format_label(value)
        full = len(self.codes) >= MAX_LABELS
        self.label.append(self.codes.get(text, -1) if full else self.codes.setdefault(text, len(self.codes)))
        number = parse_number(value)
        if number is not None:
            least, total, most, count = self.values
            self.values = [min(least, number), total + number, max(most, number), count + 1]


def _count_tokens(rows: Sequence[TextRow], tokenizer: TextEncoder) -> list[int]:
    """Tokens of each row; of a very long text the beginning is counted, and the rest taken to be like it."""
    pairs = [(row.text, row.text_b) for row in rows]
    items = [
        one[:MAX_TOKENIZED_CHARACTERS]
        if two is None
        else (one[:MAX_TOKENIZED_CHARACTERS], two[:MAX_TOKENIZED_CHARACTERS])
        for one, two in pairs
    ]
    found = []
    for (one, two), encoding in zip(pairs, tokenizer.encode_batch(items), strict=True):
        whole, seen = (
            len(one) + len(two or ""),
            len(one[:MAX_TOKENIZED_CHARACTERS]) + len((two or "")[:MAX_TOKENIZED_CHARACTERS]),
        )
        found.append(len(encoding) * whole // seen)
    return found


def inspect_data(
    source: Any,
    *,
    columns: Columns | None = None,
    tokenizer: TextEncoder | None = None,
    max_length: int | None = None,
    dev: Any = None,
    test: Any = None,
    kind: Kind | None = None,
    labelled: bool = True,
) -> Inspection:
    """Read everything once and tell what a careful person would want to know before training.

    `kind` says what the labels are; without it, their values do. `labelled` rows must have one.
    """
    opened = {"all" if dev is None and test is None else "train": open_source(source)}
    opened |= {name: open_source(given) for name, given in (("dev", dev), ("test", test)) if given is not None}
    first = next(iter(opened.values()))
    chosen = columns or _resolve_columns(first)
    seen = _RowCollector(tokenizer, kind)
    for part, data in opened.items():
        known = chosen
        missing = [name for name in (chosen.text, chosen.text_b, chosen.label) if name and name not in data.columns]
        if missing:
            raise InputError(
                f"{data.name} has no column {format_column(missing[0])!r}; it has {format_columns(data.columns)}."
            )
        if len(opened) > 1 or chosen.split not in data.columns:
            known = replace(chosen, split=None)
        seen.read(data, known, part, labelled=labelled)
    if not seen.number:
        seen.sources[0].bad.raise_if_any(first, 0)
        raise InputError(f"{first.name} holds no rows that can be used.")
    if max_length is None and isinstance(tokenizer, LimitedEncoder):
        max_length = tokenizer.max_length
    return _build_inspection(opened, chosen, seen, max_length, labelled=labelled)


def _resolve_columns(source: Source) -> Columns:
    try:
        return resolve_columns(source)
    except InputError:
        return resolve_columns(source, labelled=False)  # a file without labels can be looked at, too


def _build_inspection(
    opened: dict[str, Source], columns: Columns, seen: _RowCollector, max_length: int | None, *, labelled: bool
) -> Inspection:
    import numpy as np

    hashes, parts = np.frombuffer(seen.hash, np.uint64), np.frombuffer(seen.part, np.int8)
    labels = np.frombuffer(seen.label, np.int32)
    firsts = np.unique(hashes, return_index=True)[1].astype(np.int64)
    space = seen.counter.space() if columns.label is not None and seen.counter.total else None
    several = space is None or space.kind == "multilabel"  # then no label at all is an answer, or no row has one
    used = np.ones(len(hashes), bool)
    bad: Counter[str] = Counter()
    for own in seen.sources:
        if not several:
            own.exclude_unlabeled()
        bad.update(own.bad.counts)
    if labelled and not several and columns.label is not None:
        used = np.frombuffer(seen.blank, np.int8) == 0
    groups = _filter_groups(_group_equal(hashes), used)
    near = _filter_groups(seen.near.groups(np.sort(firsts[firsts < MAX_NEAR_DUPLICATE_ROWS])), used)
    tokens = np.frombuffer(seen.tokens, np.int32)
    tokens = tokens[used[: len(tokens)]]
    where = "" if len(seen.sources) == 1 else "{}: "
    least, total, most, filled = seen.values
    whole = space is not None and space.kind == "number" and isfinite(total)  # a sum may be too large
    inspection = Inspection(
        sources=tuple(source.name for source in opened.values()),
        messages=tuple(sentence for source in opened.values() for sentence in source.messages),
        columns=columns,
        rows=int(used.sum()),
        bad=dict(bad),
        bad_rows=tuple(where.format(own.source.name) + str(row) for own in seen.sources for row in own.bad.first)[:20],
        unusable=tuple(own.bad.describe(own.source, own.good) for own in seen.sources if own.bad.total),
        parts={name: int(((parts == place) & used).sum()) for place, name in enumerate(seen.names)},
        kind=None if space is None else space.kind,
        labels=dict(seen.counter.count_labels().most_common()),
        numbers=(least, total / filled, most) if whole and filled else None,
        exact=_summarize_groups(groups, seen),
        near=_summarize_groups(near, seen),
        leaks=_summarize_groups([group for group in groups if len(set(parts[group].tolist())) > 1], seen),
        near_leaks=_summarize_groups([group for group in near if len(set(parts[group].tolist())) > 1], seen),
        conflicts=_summarize_groups([group for group in groups if len(set(labels[group].tolist()) - {-1}) > 1], seen),
        characters=measure_lengths(np.frombuffer(seen.length, np.int64)[used]),
        tokens=measure_lengths(tokens) if len(tokens) else None,
        token_rows=len(tokens),
        max_length=max_length,
        too_long=_count_longer(tokens.tolist(), max_length),
        mojibake=seen.mojibake,
    )
    return replace(inspection, findings=collect_findings(inspection))


def _filter_groups(groups: Iterable[Sequence[int]], used: Array) -> list[list[int]]:
    """Groups of rows with those alone that can be used, where several of them are left."""
    kept = ([place for place in group if used[place]] for group in groups)
    return [group for group in kept if len(group) > 1]


def _count_longer(tokens: Sequence[int], most: int | None) -> int | None:
    return None if most is None or not len(tokens) else sum(count > most for count in tokens)


def _group_equal(values: Array) -> Iterator[list[int]]:
    """Places of equal values, for values that come more than once."""
    import numpy as np

    order = np.argsort(values, kind="stable")
    ranked = values[order]
    bounds = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1], True])
    for place in np.flatnonzero(np.diff(bounds) > 1):
        yield order[bounds[place] : bounds[place + 1]].tolist()


def _summarize_groups(groups: Sequence[Sequence[int]], seen: _RowCollector) -> Duplicates:
    largest = sorted(groups, key=lambda group: (-len(group), group[0]))[:MAX_EXAMPLES]
    return Duplicates(
        rows=sum(len(group) - 1 for group in groups),
        groups=len(groups),
        examples=tuple(
            tuple(
                (seen.names[seen.part[place]], seen.number[place])
                for place in _order_by_part(group, seen)[:MAX_EXAMPLES]
            )
            for group in largest
        ),
    )


def _order_by_part(group: Sequence[int], seen: _RowCollector) -> list[int]:
    """The first row of each part, then the others."""
    first: dict[int, int] = {}
    for place in group:
        first.setdefault(seen.part[place], place)
    return [*first.values(), *(place for place in group if place not in first.values())]
