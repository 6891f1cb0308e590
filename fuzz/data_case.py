"""Read a data file with every reader, and check the invariants of the results."""

from __future__ import annotations

import json
import random
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.data import (
    BadRow,
    Columns,
    Examples,
    Source,
    encode_table,
    guess_columns,
    inspect_data,
    load_examples,
    open_source,
    split_rows,
    token_batches,
)
from clearhead.errors import ClearheadError
from clearhead.tasks import detect_task
from fuzz.case import Outcome
from fuzz.data_seeds import File, Rng
from fuzz.data_tasks import read_task

MAX_SECONDS = 5.0  # of one processor
MAX_MESSAGE = 2000  # characters of a message without the rows it lists
MAX_LISTED_ROW = 700  # characters of a listed row, which may contain two file names
MAX_TOKENIZED = 200_000  # bytes: larger files are not tokenized
LABEL_OPTIONS: tuple[dict[str, Any], ...] = (  # label options of the user
    {},
    {},
    {},
    {"kind": "classes"},
    {"kind": "multilabel"},
    {"kind": "number"},
    {"separator": ","},
)


class BrokenInvariantError(Exception):
    """A result violates an invariant."""


def check(holds: bool, description: str) -> None:
    """Raise BrokenInvariantError unless a condition holds."""
    if not holds:
        raise BrokenInvariantError(description)


def check_file(file: File, path: Path, number: int, tokenizer: Any) -> Outcome:
    """Read a file with every reader; unexpected errors, warnings and slowness are findings."""
    started = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            outcome = _read_or_refuse(file, path, random.Random(number), tokenizer)
    except BrokenInvariantError as error:
        outcome = Outcome(word="broken promise", detail=f"{error}\n{traceback.format_exc()[-3000:]}", finding=True)
    except BaseException as error:  # a panic in Rust is a BaseException
        if isinstance(error, KeyboardInterrupt):
            raise
        trace = "".join(traceback.format_exception(error))
        outcome = Outcome(word=f"untyped {type(error).__name__}", detail=trace[-6000:], finding=True)
    cpu_seconds = time.process_time() - started
    if cpu_seconds > MAX_SECONDS and not outcome.finding:
        return Outcome(word="slow", detail=f"{cpu_seconds:.1f} seconds; {outcome.word}: {outcome.detail}", finding=True)
    return outcome


def _read_or_refuse(file: File, path: Path, rng: Rng, tokenizer: Any) -> Outcome:
    try:
        return _read_file(file, path, rng, tokenizer)
    except ClearheadError as error:
        return _make_refusal(error)


def _make_refusal(error: ClearheadError) -> Outcome:
    _check_message(str(error))
    return Outcome(word=f"refused: {type(error).__name__}", detail=str(error))


def _check_message(text: str) -> None:
    """Check that a message is printable and short; an error may list many rows."""
    lines = text.split("\n")
    check(bool(text.strip()), "an empty message")
    check(all(line.isprintable() for line in lines), f"control characters in {text[:500]!r}")
    listed_rows = [line for line in lines if line.startswith("  ")]
    check(len(lines) == 1 or len(listed_rows) == len(lines) - 2 > 0, f"{len(lines)} lines in {text[:500]!r}")
    check(max(map(len, listed_rows), default=0) <= MAX_LISTED_ROW, f"a long row is listed in {text[:1500]!r}")
    check(
        sum(map(len, lines)) - sum(map(len, listed_rows)) <= MAX_MESSAGE, f"{len(text)} characters in {text[:1500]!r}"
    )


def _read_file(file: File, path: Path, rng: Rng, tokenizer: Any) -> Outcome:
    source = open_source(path, **file.options)
    total = _check_rows(source, file)
    if (task := detect_task(source)) is not None:
        is_small = path.is_dir() or path.stat().st_size < MAX_TOKENIZED
        if not is_small:
            return Outcome(word="too large to tokenize")
        read_task(task, source, tokenizer, check)
        return Outcome(word=f"read as {task.name}")
    is_guessed = True
    try:
        columns = guess_columns(source, task=rng.choice((None, None, "classify", "pair", "regress")))
    except ClearheadError as error:
        _make_refusal(error)
        is_guessed = False
        label = source.columns[-1] if len(source.columns) > 1 else None
        columns = guess_columns(source, text=source.columns[0], label=label, labeled=False)
    for message in (*source.messages, *columns.messages):
        _check_message(message)
    options = rng.choice(LABEL_OPTIONS)
    examples = _check_examples(source, columns, total, options)
    is_small = path.is_dir() or path.stat().st_size < MAX_TOKENIZED
    with_dev = rng.random() < 0.1  # also use it as its own dev set
    small_tokenizer = tokenizer if is_small else None
    inspection = inspect_data(
        source, columns=columns, tokenizer=small_tokenizer, max_length=24, dev=source if with_dev else None
    )
    _check_inspection(inspection, 2 * total if with_dev else total)
    if examples is None:
        return Outcome(word="no rows left")
    if is_small and max(map(len, (*examples.texts, *(examples.texts_b or ())))) < MAX_TOKENIZED:
        _check_table(source, columns, examples, tokenizer, rng, options)
    if not is_guessed:
        return Outcome(word="read, columns set explicitly")
    return Outcome(word="read" if not examples.skipped else "read in part")


def _check_rows(source: Source, file: File) -> int:
    check(bool(source.columns), "a source without columns")
    cells: list[list[str]] = []
    total = 0
    for row in source.rows():
        total += 1
        check(row.number == total, f"row {total} has the number {row.number}")
        if isinstance(row, BadRow):
            check(
                len(str(row)) <= MAX_LISTED_ROW and str(row).isprintable(), f"message of a bad row: {str(row)[:1500]!r}"
            )
        else:
            has_file_columns = source.kind not in ("csv", "tsv") or tuple(row.values) == source.columns
            check(has_file_columns, "a row and its file have different columns")
            if file.cells is not None:
                cells.append([str(value) for value in row.values.values()])
    check(file.rows is None or total == file.rows, f"{file.rows} rows were written, {total} were read")
    check(file.cells is None or cells == file.cells, "the cells differ from those written")
    return total


def _check_examples(source: Source, columns: Columns, total: int, options: dict[str, Any]) -> Examples | None:
    strict: Examples | None = None
    try:
        strict = load_examples(source, columns, **options)
        check(not strict.skipped and not strict.bad, "bad rows were skipped silently")
    except ClearheadError as error:
        _make_refusal(error)
    try:
        examples = load_examples(source, columns, skip_bad_rows=True, **options)
    except ClearheadError as error:
        check(strict is None, "usable rows are refused when bad rows are skipped")
        _make_refusal(error)
        return None
    skipped = sum(examples.skipped.values())
    check(len(examples) + skipped == total, f"{len(examples)} usable and {skipped} bad rows of {total}")
    check((strict is None) == (skipped > 0), f"{skipped} bad rows, but strict mode disagrees")
    _check_arrays(examples, columns)
    reloaded = load_examples(source, columns, examples.space, skip_bad_rows=True)
    check(
        reloaded.texts == examples.texts and reloaded.skipped == examples.skipped,
        "a given label space changes the rows",
    )
    check(
        examples.labels is None or np.array_equal(reloaded.labels, examples.labels),  # type: ignore[arg-type]
        "a given label space changes the labels",
    )
    return examples


def _check_arrays(examples: Examples, columns: Columns) -> None:
    count = len(examples.texts)
    for name, values in (("texts_b", examples.texts_b), ("ids", examples.ids), ("splits", examples.splits)):
        check(values is None or len(values) == count, f"{count} texts and {len(values or ())} {name}")
    check(len(examples.rows) == len(examples.hashes) == count, "row numbers or hashes have the wrong length")
    check(bool((np.diff(examples.rows) > 0).all()), "rows are out of order")
    check(all(part in ("train", "dev", "test") for part in examples.splits or ()), "a split has an unknown name")
    check(
        (examples.labels is None) == (columns.label is None),
        "labels without a label column, or a label column without labels",
    )
    for text in (*examples.texts, *(examples.texts_b or ()), *(examples.space.names if examples.space else ())):
        check("\0" not in text and bool(text.strip()), "a text or a label is empty or contains NUL")
        text.encode()  # raises for lone surrogates
    if examples.labels is None or examples.space is None:
        return
    check(len(examples.labels) == count, f"{count} texts and {len(examples.labels)} labels")
    check(len(set(examples.space.names)) == len(examples.space), "a label name occurs twice")
    if examples.space.kind == "number":
        check(bool(np.isfinite(examples.labels).all()), "a label is not a finite number")
    elif examples.space.kind == "classes":
        low, high = int(examples.labels.min()), int(examples.labels.max())
        check(low >= 0 and high < len(examples.space), "a label without a name")
        check(len(np.unique(examples.labels)) == len(examples.space), "a name without a row")
    else:
        check(examples.labels.shape == (count, len(examples.space)), "the label matrix has the wrong shape")
        check(bool((examples.labels <= 1).all()), "a label that is neither 0 nor 1")


def _check_inspection(inspection: Any, total: int) -> None:
    bad_count = sum(inspection.bad.values())
    check(
        inspection.rows + bad_count == total,
        f"inspection: {inspection.rows} usable and {bad_count} bad rows of {total}",
    )
    check(sum(inspection.parts.values()) == inspection.rows, "inspection: the parts do not add up to all rows")
    check(
        sum(count for _, count in inspection.characters.histogram) == inspection.rows,
        "inspection: the length histogram does not cover all rows",
    )
    json.dumps(inspection.to_json(), allow_nan=False).encode()
    for sentence in (*inspection.bad_rows, *(finding.sentence for finding in inspection.findings)):
        _check_message(sentence)


def _check_table(source: Source, columns: Columns, examples: Examples, tokenizer: Any, rng: Rng, options: Any) -> None:
    long_policy = rng.choice(("window", "cut"))
    table = encode_table(source, columns, tokenizer, max_length=16, long=long_policy, skip_bad_rows=True, **options)
    check(np.array_equal(table.rows, examples.rows), f"table: {len(table)} rows, examples: {len(examples)}")
    check(np.array_equal(table.hashes, examples.hashes), "table: hashes differ from those of the examples")
    check(
        table.labels is None or np.array_equal(table.labels, examples.labels),  # type: ignore[arg-type]
        "table: labels differ from those of the examples",
    )
    check(
        table.space == examples.space and table.skipped == examples.skipped,
        "table: label space or skipped rows differ from those of the examples",
    )
    check(
        len(table.starts) == len(table.window_rows) + 1 == len(table.segment_starts) + 1,
        "table: inconsistent number of windows",
    )
    check(bool((table.lengths > 0).all()) and int(table.lengths.max()) <= 16, "table: a window is empty or too long")
    check(np.array_equal(np.unique(table.window_rows), np.arange(len(table))), "table: a row without a window")
    check(int(table.ids.max()) < tokenizer.vocab_size, "table: a token id outside the vocabulary")
    kind = table.space.kind if table.space is not None else "classes"
    row_parts = split_rows(table.labels, table.hashes, table.groups, seed=rng.randrange(9), kind=kind)
    check(
        len(row_parts) == len(table) and set(row_parts.tolist()) <= {"train", "dev", "test"}, "split: rows are missing"
    )
    for values in (table.hashes, table.groups):
        pairs = {} if values is None else dict(zip(values.tolist(), row_parts.tolist(), strict=True))
        is_same = values is None or all(
            pairs[value] == part for value, part in zip(values.tolist(), row_parts, strict=True)
        )
        check(is_same, "split: the same text or group is in two parts")
    batches = token_batches(table.lengths, budget_tokens=rng.choice((16, 64, 1000)), seed=rng.randrange(9))
    window_indices = np.sort(np.concatenate(batches))
    check(np.array_equal(window_indices, np.arange(len(table.lengths))), "batches: a window is missing or occurs twice")
