"""A data file sent through everything that reads data, and judged by what comes out."""

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

MOST_SECONDS = 5.0  # of one processor
LONGEST = 2000  # letters of a message, the rows that it lists aside
LISTED = 700  # letters of one such row; it may hold two names of files
SMALL = 200_000  # bytes of files whose texts are tokenised
HOW: tuple[dict[str, Any], ...] = (  # what the user says of the labels
    {},
    {},
    {},
    {"kind": "classes"},
    {"kind": "multilabel"},
    {"kind": "number"},
    {"separator": ","},
)


class BrokenPromiseError(Exception):
    """What came out cannot be true."""


def promise(kept: bool, what: str) -> None:
    """Stop at the first thing that is not as it must be."""
    if not kept:
        raise BrokenPromiseError(what)


def judge(file: File, path: Path, number: int, tokenizer: Any) -> Outcome:
    """Read the file in every way there is."""
    started = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            outcome = _answer(file, path, random.Random(number), tokenizer)
    except BrokenPromiseError as error:
        outcome = Outcome(word="broken promise", detail=f"{error}\n{traceback.format_exc()[-3000:]}", finding=True)
    except BaseException as error:  # a panic in Rust is a BaseException
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = "".join(traceback.format_exception(error))
        outcome = Outcome(word=f"untyped {type(error).__name__}", detail=frames[-6000:], finding=True)
    taken = time.process_time() - started
    if taken > MOST_SECONDS and not outcome.finding:
        return Outcome(word="slow", detail=f"{taken:.1f} seconds; {outcome.word}: {outcome.detail}", finding=True)
    return outcome


def _answer(file: File, path: Path, rng: Rng, tokenizer: Any) -> Outcome:
    try:
        return _read(file, path, rng, tokenizer)
    except ClearheadError as error:
        return _refused(error)


def _refused(error: ClearheadError) -> Outcome:
    _sentence(str(error))
    return Outcome(word=f"refused: {type(error).__name__}", detail=str(error))


def _sentence(text: str) -> None:
    """Lines that can be printed, not too long; the rows that an error lists may be many."""
    lines = text.split("\n")
    promise(bool(text.strip()), "an empty message")
    promise(all(line.isprintable() for line in lines), f"control characters in {text[:500]!r}")
    listed = [line for line in lines if line.startswith("  ")]
    promise(len(lines) == 1 or len(listed) == len(lines) - 2 > 0, f"{len(lines)} lines in {text[:500]!r}")
    promise(max(map(len, listed), default=0) <= LISTED, f"a long row is listed in {text[:1500]!r}")
    promise(sum(map(len, lines)) - sum(map(len, listed)) <= LONGEST, f"{len(text)} letters in {text[:1500]!r}")


def _read(file: File, path: Path, rng: Rng, tokenizer: Any) -> Outcome:
    source = open_source(path, **file.options)
    total = _rows(source, file)
    if (task := detect_task(source)) is not None:
        small = path.is_dir() or path.stat().st_size < SMALL
        if not small:
            return Outcome(word="too large to be tokenised")
        read_task(task, source, tokenizer, promise)
        return Outcome(word=f"read as {task.name}")
    guessed = True
    try:
        columns = guess_columns(source, task=rng.choice((None, None, "classify", "pair", "regress")))
    except ClearheadError as error:
        _refused(error)
        guessed = False
        last = source.columns[-1] if len(source.columns) > 1 else None
        columns = guess_columns(source, text=source.columns[0], label=last, labeled=False)
    for said in (*source.messages, *columns.messages):
        _sentence(said)
    how = rng.choice(HOW)
    examples = _examples(source, columns, total, how)
    small = path.is_dir() or path.stat().st_size < SMALL
    twice = rng.random() < 0.1  # also as its own dev part
    tokens = tokenizer if small else None
    inspection = inspect_data(source, columns=columns, tokenizer=tokens, max_length=24, dev=source if twice else None)
    _inspection(inspection, 2 * total if twice else total)
    if examples is None:
        return Outcome(word="no rows left")
    if small and max(map(len, (*examples.texts, *(examples.texts_b or ())))) < SMALL:
        _table(source, columns, examples, tokenizer, rng, how)
    if not guessed:
        return Outcome(word="read, columns said")
    return Outcome(word="read" if not examples.skipped else "read in part")


def _rows(source: Source, file: File) -> int:
    promise(bool(source.columns), "a source without columns")
    cells: list[list[str]] = []
    total = 0
    for row in source.rows():
        total += 1
        promise(row.number == total, f"row {row.number} comes as number {total}")
        if isinstance(row, BadRow):
            promise(len(str(row)) <= LISTED and str(row).isprintable(), f"a bad row says {str(row)[:1500]!r}")
        else:
            fits = source.kind not in ("csv", "tsv") or tuple(row.values) == source.columns
            promise(fits, "a row has other columns than its file")
            if file.cells is not None:
                cells.append([str(value) for value in row.values.values()])
    promise(file.rows is None or total == file.rows, f"{file.rows} rows were written, {total} came out")
    promise(file.cells is None or cells == file.cells, "other cells came out than were written")
    return total


def _examples(source: Source, columns: Columns, total: int, how: dict[str, Any]) -> Examples | None:
    strict: Examples | None = None
    try:
        strict = load_examples(source, columns, **how)
        promise(not strict.skipped and not strict.bad, "bad rows were left out without a word")
    except ClearheadError as error:
        _refused(error)
    try:
        found = load_examples(source, columns, skip_bad_rows=True, **how)
    except ClearheadError as error:
        promise(strict is None, "rows that can be used cannot be used when bad ones are skipped")
        _refused(error)
        return None
    skipped = sum(found.skipped.values())
    promise(len(found) + skipped == total, f"{len(found)} rows and {skipped} bad ones of {total}")
    promise((strict is None) == (skipped > 0), f"{skipped} bad rows, but not so in the other mode")
    _arrays(found, columns)
    again = load_examples(source, columns, found.space, skip_bad_rows=True)
    promise(again.texts == found.texts and again.skipped == found.skipped, "known labels change the rows")
    promise(found.labels is None or np.array_equal(again.labels, found.labels), "known labels change the labels")  # type: ignore[arg-type]
    return found


def _arrays(found: Examples, columns: Columns) -> None:
    count = len(found.texts)
    for name, values in (("texts_b", found.texts_b), ("ids", found.ids), ("splits", found.splits)):
        promise(values is None or len(values) == count, f"{count} texts and {len(values or ())} {name}")
    promise(len(found.rows) == len(found.hashes) == count, "rows and hashes of another length")
    promise(bool((np.diff(found.rows) > 0).all()), "rows are out of order")
    promise(all(part in ("train", "dev", "test") for part in found.splits or ()), "a split of another name")
    promise((found.labels is None) == (columns.label is None), "labels without a column, or none with one")
    for text in (*found.texts, *(found.texts_b or ()), *(found.space.names if found.space else ())):
        promise("\0" not in text and bool(text.strip()), "a text or a label is empty or holds a NUL")
        text.encode()  # half a character is no text
    if found.labels is None or found.space is None:
        return
    promise(len(found.labels) == count, f"{count} texts and {len(found.labels)} labels")
    promise(len(set(found.space.names)) == len(found.space), "a label that stands twice")
    if found.space.kind == "number":
        promise(bool(np.isfinite(found.labels).all()), "a label is no finite number")
    elif found.space.kind == "classes":
        low, high = int(found.labels.min()), int(found.labels.max())
        promise(low >= 0 and high < len(found.space), "a label without a name")
        promise(len(np.unique(found.labels)) == len(found.space), "a name without a row")
    else:
        promise(found.labels.shape == (count, len(found.space)), "a table of labels of another shape")
        promise(bool((found.labels <= 1).all()), "a label that is neither 0 nor 1")


def _inspection(found: Any, total: int) -> None:
    bad = sum(found.bad.values())
    promise(found.rows + bad == total, f"inspection: {found.rows} rows and {bad} bad ones of {total}")
    promise(sum(found.parts.values()) == found.rows, "inspection: the parts are not the whole")
    promise(sum(count for _, count in found.characters.histogram) == found.rows, "inspection: lengths of other rows")
    json.dumps(found.to_json(), allow_nan=False).encode()
    for sentence in (*found.bad_rows, *(finding.sentence for finding in found.findings)):
        _sentence(sentence)


def _table(source: Source, columns: Columns, examples: Examples, tokenizer: Any, rng: Rng, how: Any) -> None:
    long = rng.choice(("window", "cut"))
    found = encode_table(source, columns, tokenizer, max_length=16, long=long, skip_bad_rows=True, **how)
    promise(np.array_equal(found.rows, examples.rows), f"table: {len(found)} rows, examples: {len(examples)}")
    promise(np.array_equal(found.hashes, examples.hashes), "table: other hashes")
    promise(found.labels is None or np.array_equal(found.labels, examples.labels), "table: other labels")  # type: ignore[arg-type]
    promise(found.space == examples.space and found.skipped == examples.skipped, "table: other labels or bad rows")
    promise(
        len(found.starts) == len(found.window_rows) + 1 == len(found.segment_starts) + 1,
        "table: pieces of another number",
    )
    promise(bool((found.lengths > 0).all()) and int(found.lengths.max()) <= 16, "table: pieces of another length")
    promise(np.array_equal(np.unique(found.window_rows), np.arange(len(found))), "table: a row without a piece")
    promise(int(found.ids.max()) < tokenizer.vocab_size, "table: an id beyond the vocabulary")
    kind = found.space.kind if found.space is not None else "classes"
    parts = split_rows(found.labels, found.hashes, found.groups, seed=rng.randrange(9), kind=kind)
    promise(len(parts) == len(found) and set(parts.tolist()) <= {"train", "dev", "test"}, "split: rows are missing")
    for values in (found.hashes, found.groups):
        pairs = {} if values is None else dict(zip(values.tolist(), parts.tolist(), strict=True))
        same = values is None or all(pairs[value] == part for value, part in zip(values.tolist(), parts, strict=True))
        promise(same, "split: the same text or group on two sides")
    batches = token_batches(found.lengths, budget_tokens=rng.choice((16, 64, 1000)), seed=rng.randrange(9))
    places = np.sort(np.concatenate(batches))
    promise(np.array_equal(places, np.arange(len(found.lengths))), "batches: a piece is missing, or comes twice")
