"""Prepared data: tokenized rows in train, dev and test parts that share no texts."""

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
from clearhead.html import pluralize
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


MIN_PASSAGES = 10  # required to split by passages
MAX_GROUP_SHARE = 0.05  # of all rows; larger groups with one first text are split


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
        """The encoded labels."""
        assert self.table.labels is not None
        return self.table.labels[self.indices]

    @property
    def row_numbers(self) -> Array:
        """The row numbers in the source."""
        return self.table.rows[self.indices]

    @property
    def groups(self) -> Array | None:
        """Groups of rows that must stay in one part, in addition to equal texts."""
        return _find_groups(self.table, self.indices)

    def texts(self) -> Iterator[tuple[str, str | None]]:
        """Read the texts in another pass over the source, in order."""
        row_numbers = iter(self.row_numbers.tolist())
        next_number = next(row_numbers, None)
        for row in check_rows(self.source, self.columns, self.space):
            if not isinstance(row, BadRow) and row.number == next_number:
                yield row.text, row.text_b
                next_number = next(row_numbers, None)

    def fingerprint(self) -> DatasetFingerprint:
        """Return a fingerprint of texts, labels and their order."""
        digest = hash_rows(self.table.hashes[self.indices], self.targets, self.space)
        return DatasetFingerprint(name=self.source.name, rows=len(self), sha256=digest)


def read_text_rows(part: PartRows) -> list[TextRow]:
    """Read the rows of a part again, with their texts."""
    return [
        TextRow(number=number, text=text, text_b=text_b, label=None, id=None, split=None)
        for number, (text, text_b) in zip(part.row_numbers.tolist(), part.texts(), strict=True)
    ]


def hash_rows(hashes: Array, targets: Any, space: LabelSpace) -> str:
    """Hash texts and labels in order."""
    digest = hashlib.sha256(hashes.tobytes())
    if getattr(getattr(targets, "dtype", None), "hasobject", False):
        digest.update("\0".join(map(repr, targets)).encode("utf-8", "surrogatepass"))
    else:
        digest.update(targets.tobytes())
    digest.update("\0".join(space.names).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class PreparedData:
    """Tokenized data in parts, with its task, columns and labels."""

    task: Task
    columns: Columns
    space: LabelSpace
    parts: Mapping[str, PartRows]  # train, and dev and test if not empty
    messages: tuple[str, ...]
    skipped: dict[str, int]

    @property
    def tokens_digest(self) -> str:
        """A hash of all token ids, which must be equal when a run is resumed."""
        digest = hashlib.sha256()
        for table in {id(part.table): part.table for part in self.parts.values()}.values():
            digest.update(table.ids.tobytes())
            digest.update(table.starts.tobytes())
        return digest.hexdigest()


class NoTokenizer:
    """A tokenizer without tokens, for methods that read texts directly."""

    vocab_size = 1

    def encode_batch(self, items: Iterable[Any], *, max_length: int | None = None) -> Sequence[Encoding]:  # noqa: ARG002
        """Return an empty encoding for each item."""
        empty = Encoding(ids=[], tokens=[], offsets=[], words=[], segments=[], special=[], sides=[])
        return [empty for _ in items]


def prepare_data(
    profile: DatasetProfile, plan: RunPlan, tokenizer: TextEncoder | None, length_policy: LengthPolicy
) -> PreparedData:
    """Tokenize all sources, and assign their rows to parts."""
    import numpy as np

    parts: dict[str, PartRows] = {}
    tables: dict[str, TokenTable] = {}
    for name, source in profile.sources.items():
        columns = (
            profile.columns if name == "train" else match_columns(source, profile.columns, profile.task.rows.layout)
        )
        table = encode_table(
            source,
            columns,
            tokenizer if tokenizer is not None else NoTokenizer(),
            profile.space,
            max_length=length_policy.max_length if tokenizer is not None else None,
            long=length_policy.long,
            stride=length_policy.stride,
            max_answer=length_policy.max_answer,
            max_tokens=length_policy.max_tokens,
            skip_bad_rows=plan.skip_bad_rows,
            codec=profile.task.rows,
        )
        tables[name] = table
        for part, indices in _assign_parts(name, table, profile, plan).items():
            if len(indices):
                parts[part] = PartRows(
                    source=source, columns=columns, space=profile.space, table=table, indices=indices
                )
    if "train" not in parts:
        raise InputError(f"{profile.sources['train'].name} has no rows to train on.")
    if profile.space.kind == "classes" and len(np.unique(parts["train"].targets)) < 2:
        raise InputError("All training rows have the same label; training needs at least two labels.")
    counts = ", ".join(f"{len(rows):,} {part}" for part, rows in parts.items())
    skipped: dict[str, int] = {}
    for table in tables.values():
        for problem, count in table.skipped.items():
            skipped[problem] = skipped.get(problem, 0) + count
    messages = [f"rows: {counts}", *find_empty_parts(parts, profile, plan), *find_leaks(parts)]
    messages += [_describe_unread(table, profile) for table in tables.values()]
    if skipped:
        problems = (f"{pluralize(count, 'row')} ({problem})" for problem, count in skipped.items())
        messages.append(f"skipped: {', '.join(problems)}")
    return PreparedData(
        task=profile.task,
        columns=profile.columns,
        space=profile.space,
        parts=parts,
        messages=tuple(filter(None, messages)),
        skipped=skipped,
    )


def _describe_unread(table: TokenTable, profile: DatasetProfile) -> str:
    """Describe rows whose labels the tokens cannot represent, with the first row numbers; empty if there are none."""
    if profile.task.rows.find_unlearnable is None:
        return ""
    problem, indices = profile.task.rows.find_unlearnable(table)
    if not len(indices):
        return ""
    row_numbers = ", ".join(f"{number:,}" for number in table.rows[indices[:8]].tolist())
    rows = pluralize(len(indices), "row", ("has", "have"))
    return f"{rows} {problem} (row {row_numbers}{', ...' if len(indices) > 8 else ''})"


def _assign_parts(name: str, table: TokenTable, profile: DatasetProfile, plan: RunPlan) -> dict[str, Array]:
    """Assign the rows of a source to parts; missing parts are split off the training rows."""
    import numpy as np

    all_rows = np.arange(len(table))
    if name != "train":
        return {name: all_rows}
    part_rows = {"train": all_rows}
    if table.splits is not None:
        part_rows = {part: all_rows[table.splits == part_index] for part_index, part in enumerate(PARTS)}
    if plan.rows is not None:
        part_rows["train"] = part_rows["train"][sample_rows(len(part_rows["train"]), plan.rows, plan.settings.seed)]
    column_parts = {part for part, indices in part_rows.items() if len(indices)}
    for part in ("dev", "test"):
        if part in column_parts and part in profile.sources:
            column = profile.columns.split
            locations = f"in column {column!r} and in {setting(part)}"
            raise InputError(f"There are {part} rows {locations}; remove one of the two.")
    existing_parts = column_parts | set(profile.sources)
    dev_share = 0.0 if "dev" in existing_parts else plan.dev_share
    test_share = 0.0 if existing_parts & {"dev", "test"} else plan.test_share
    if not dev_share and not test_share:
        return part_rows
    rows = part_rows["train"]
    labels, kind = None if table.labels is None else table.labels[rows], str(profile.space.kind)
    if profile.task.rows.stratify is not None and labels is not None:
        labels, kind = profile.task.rows.stratify(labels, profile.space)
    split = split_rows(
        labels,
        table.hashes[rows],
        _find_groups(table, rows, profile.task),
        dev=dev_share,
        test=test_share,
        seed=plan.settings.seed,
        kind=kind,
    )
    split_parts = {part: rows[split == part] for part in PARTS}
    return part_rows | {part: indices for part, indices in split_parts.items() if part == "train" or len(indices)}


def _find_groups(table: TokenTable, rows: Array, task: Task | None = None) -> Array | None:
    """Find groups of rows that must stay in one part: by repeated id, or by first text or passage."""
    import numpy as np

    if table.groups is not None and len(np.unique(table.groups[rows])) < len(rows):
        return table.groups[rows]
    if table.shared_hashes is None:
        return None
    if task is not None and task.rows.label_counter is not None:
        return table.shared_hashes[rows] if len(np.unique(table.shared_hashes[rows])) >= MIN_PASSAGES else None
    largest_group = int(np.unique(table.shared_hashes[rows], return_counts=True)[1].max())
    if largest_group > MAX_GROUP_SHARE * len(rows):  # for example, one question for all texts
        return None
    return table.shared_hashes[rows]


def encode_part(model: Model, part: PartRows) -> PackedDataset:
    """Pack a part as input of a model."""
    return pack_table(part.table, segments=model.shape.stack.segments > 1).select(part.indices)
