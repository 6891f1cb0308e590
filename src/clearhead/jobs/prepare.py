"""From files to parts that can be trained and measured on: columns, labels, tokens, and a split that leaks nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.checkpoint.passport import DatasetFingerprint
from clearhead.data import Columns, LabelSpace, Source, TokenTable, check_rows, split_rows
from clearhead.data.column_resolver import match_columns
from clearhead.data.examples import TextRow
from clearhead.data.row_codec import LengthPolicy, TextEncoder
from clearhead.data.sources.source import BadRow
from clearhead.data.split import sample_rows
from clearhead.data.table import PARTS, encode_table
from clearhead.errors import InputError
from clearhead.jobs.part_checks import find_empty_parts, find_leaks
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.profile import DatasetProfile
from clearhead.model import Model
from clearhead.tasks import Task
from clearhead.tasks.packed import PackedDataset, pack_table
from clearhead.text.encoding import Encoding

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


MIN_PASSAGES = 10  # to split by them
MAX_GROUP_SHARE = 0.05  # of the rows may have one first text and still stay together


@dataclass(frozen=True, kw_only=True)
class PartRows:
    """The rows of one part: train, dev or test."""

    source: Source
    columns: Columns
    space: LabelSpace
    table: TokenTable
    indices: Array  # in the table

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def targets(self) -> Any:
        """Their labels as numbers."""
        assert self.table.labels is not None
        return self.table.labels[self.indices]

    @property
    def row_numbers(self) -> Array:
        """Their numbers in the source."""
        return self.table.rows[self.indices]

    @property
    def groups(self) -> Array | None:
        """What keeps rows on one side of a split, beside their texts."""
        return _find_groups(self.table, self.indices)

    def texts(self) -> Iterator[tuple[str, str | None]]:
        """Their texts in another pass over the source, in its order."""
        wanted = iter(self.row_numbers.tolist())
        number = next(wanted, None)
        for row in check_rows(self.source, self.columns, self.space):
            if not isinstance(row, BadRow) and row.number == number:
                yield row.text, row.text_b
                number = next(wanted, None)

    def fingerprint(self) -> DatasetFingerprint:
        """Which rows these are: equal marks are equal texts and labels in equal order."""
        digest = hash_rows(self.table.hashes[self.indices], self.targets, self.space)
        return DatasetFingerprint(name=self.source.name, rows=len(self), sha256=digest)


def read_text_rows(part: PartRows) -> list[TextRow]:
    """The rows of a part with their texts, read once more."""
    return [
        TextRow(number=number, text=text, text_b=text_b, label=None, id=None, split=None)
        for number, (text, text_b) in zip(part.row_numbers.tolist(), part.texts(), strict=True)
    ]


def hash_rows(hashes: Array, targets: Any, space: LabelSpace) -> str:
    """A digest of texts and labels in their order."""
    made = hashlib.sha256(hashes.tobytes())
    if getattr(getattr(targets, "dtype", None), "hasobject", False):
        made.update("\0".join(map(repr, targets)).encode("utf-8", "surrogatepass"))
    else:
        made.update(targets.tobytes())
    made.update("\0".join(space.names).encode("utf-8", "surrogatepass"))
    return made.hexdigest()


@dataclass(frozen=True, kw_only=True)
class PreparedData:
    """Data that is ready: what it is, and its parts."""

    task: Task
    columns: Columns
    space: LabelSpace
    parts: Mapping[str, PartRows]  # train, and dev and test where there are any
    messages: tuple[str, ...]
    skipped: dict[str, int]

    @property
    def tokens_digest(self) -> str:
        """A mark of every token id: a resumed run must see the same ones."""
        made = hashlib.sha256()
        for table in {id(part.table): part.table for part in self.parts.values()}.values():
            made.update(table.ids.tobytes())
            made.update(table.starts.tobytes())
        return made.hexdigest()


class NoTokenizer:
    """Stands in for a tokenizer where a method reads the texts themselves: rows are checked, and have no tokens."""

    vocab_size = 1

    def encode_batch(self, items: Iterable[Any], *, max_length: int | None = None) -> Sequence[Encoding]:  # noqa: ARG002
        """Nothing for each item."""
        empty = Encoding(ids=[], tokens=[], offsets=[], words=[], segments=[], special=[], sides=[])
        return [empty for _ in items]


def prepare_data(seen: DatasetProfile, plan: RunPlan, tokenizer: TextEncoder | None, fit: LengthPolicy) -> PreparedData:
    """Tokens of all sources, and their rows in parts."""
    import numpy as np

    parts: dict[str, PartRows] = {}
    tables: dict[str, TokenTable] = {}
    for name, source in seen.sources.items():
        columns = seen.columns if name == "train" else match_columns(source, seen.columns, seen.task.rows.layout)
        table = encode_table(
            source,
            columns,
            tokenizer if tokenizer is not None else NoTokenizer(),
            seen.space,
            max_length=fit.max_length if tokenizer is not None else None,
            long=fit.long,
            stride=fit.stride,
            max_answer=fit.max_answer,
            max_tokens=fit.max_tokens,
            skip_bad_rows=plan.skip_bad_rows,
            form=seen.task.rows,
        )
        tables[name] = table
        for part, places in _assign_parts(name, table, seen, plan).items():
            if len(places):
                parts[part] = PartRows(source=source, columns=columns, space=seen.space, table=table, indices=places)
    if "train" not in parts:
        raise InputError(f"{seen.sources['train'].name} has no rows to train on.")
    if seen.space.kind == "classes" and len(np.unique(parts["train"].targets)) < 2:
        raise InputError("The training rows all have one label; there is nothing to learn.")
    counts = ", ".join(f"{len(rows):,} {part}" for part, rows in parts.items())
    skipped: dict[str, int] = {}
    for table in tables.values():
        for problem, count in table.skipped.items():
            skipped[problem] = skipped.get(problem, 0) + count
    said = [f"rows: {counts}", *find_empty_parts(parts, seen, plan), *find_leaks(parts)]
    said += [_describe_unread(table, seen) for table in tables.values()]
    if skipped:
        said.append(f"left out: {', '.join(f'{count:,} rows ({problem})' for problem, count in skipped.items())}")
    return PreparedData(
        task=seen.task,
        columns=seen.columns,
        space=seen.space,
        parts=parts,
        messages=tuple(filter(None, said)),
        skipped=skipped,
    )


def _describe_unread(table: TokenTable, seen: DatasetProfile) -> str:
    """What the tokens of some rows cannot say, with the first of these rows; empty: nothing."""
    if seen.task.rows.find_unlearnable is None:
        return ""
    what, places = seen.task.rows.find_unlearnable(table)
    if not len(places):
        return ""
    first = ", ".join(f"{number:,}" for number in table.rows[places[:8]].tolist())
    rows = "1 row has" if len(places) == 1 else f"{len(places):,} rows have"
    return f"{rows} {what} (row {first}{', ...' if len(places) > 8 else ''})"


def _assign_parts(name: str, table: TokenTable, seen: DatasetProfile, plan: RunPlan) -> dict[str, Array]:
    """Which rows of a source are which part; what is missing is taken from the training rows."""
    import numpy as np

    every = np.arange(len(table))
    if name != "train":
        return {name: every}
    found = {"train": every}
    if table.splits is not None:
        found = {part: every[table.splits == place] for place, part in enumerate(PARTS)}
    if plan.rows is not None:
        found["train"] = found["train"][sample_rows(len(found["train"]), plan.rows, plan.settings.seed)]
    own = {part for part, places in found.items() if len(places)}
    for part in ("dev", "test"):
        if part in own and part in seen.sources:
            column = seen.columns.split
            both = f"in column {column!r} and in {setting(part)}"
            raise InputError(f"There are {part} rows {both}; leave one of the two out.")
    given = own | set(seen.sources)
    dev = 0.0 if "dev" in given else plan.dev_share
    test = 0.0 if given & {"dev", "test"} else plan.test_share
    if not dev and not test:
        return found
    rows = found["train"]
    labels, kind = None if table.labels is None else table.labels[rows], str(seen.space.kind)
    if seen.task.rows.stratify is not None and labels is not None:
        labels, kind = seen.task.rows.stratify(labels, seen.space)
    split = split_rows(
        labels,
        table.hashes[rows],
        _find_groups(table, rows, seen.task),
        dev=dev,
        test=test,
        seed=plan.settings.seed,
        kind=kind,
    )
    cut = {part: rows[split == part] for part in PARTS}
    return found | {part: places for part, places in cut.items() if part == "train" or len(places)}


def _find_groups(table: TokenTable, rows: Array, task: Task | None = None) -> Array | None:
    """What keeps rows on one side: an id that comes again, or else the first of two texts, or a passage."""
    import numpy as np

    if table.groups is not None and len(np.unique(table.groups[rows])) < len(rows):
        return table.groups[rows]
    if table.shared_hashes is None:
        return None
    if task is not None and task.rows.label_counter is not None:
        return table.shared_hashes[rows] if len(np.unique(table.shared_hashes[rows])) >= MIN_PASSAGES else None
    largest = int(np.unique(table.shared_hashes[rows], return_counts=True)[1].max())
    return (
        table.shared_hashes[rows] if largest <= MAX_GROUP_SHARE * len(rows) else None
    )  # one question asked of all texts


def encode_part(model: Model, part: PartRows) -> PackedDataset:
    """A part as this model reads it."""
    return pack_table(part.table, segments=model.shape.stack.segments > 1).select(part.indices)
