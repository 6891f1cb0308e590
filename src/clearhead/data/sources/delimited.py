"""Read comma-, tab-, semicolon- and pipe-separated files, and detect how they are written."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from clearhead.data.sources.files import MAX_RECORD_CHARS, Line, detect_newline
from clearhead.data.sources.source import (
    BROKEN_QUOTES,
    DAMAGED_FILE,
    NUL_BYTE,
    TOO_LONG,
    WRONG_CELL_COUNT,
    WRONG_ENCODING,
    BadRow,
    Row,
    Rows,
    excerpt,
)

DELIMITERS = {"\t": "tab", "|": "pipe", ";": "semicolon", ",": "comma"}  # the rarest in texts first
REASONS = {
    WRONG_ENCODING: "some bytes are not text in this encoding; save the file as UTF-8",
    DAMAGED_FILE: "the file is damaged from here on and cannot be read further",
    TOO_LONG: f"longer than {MAX_RECORD_CHARS:,} characters",
    NUL_BYTE: "contains a NUL byte",
    BROKEN_QUOTES: "a quoted cell is not closed",
}


MAX_SAMPLE_LINES = 1000  # used to detect the dialect
LOOKAHEAD_CREDIT = 1_000_000  # characters that may be reread after unclosed quotes
CREDIT_PER_CHARACTER = 20  # increase of the credit for each character read
MAX_LINES_WITHOUT_CREDIT = 20  # lines of a quoted cell once the credit is spent; prevents quadratic time
MIN_STRAY_QUOTES = 3  # fewer stray quotes do not make quotes ordinary characters


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """Delimiter, quoting and comments of a table."""

    delimiter: str
    quotes: bool = True  # cells may be quoted, and then contain delimiters and newlines
    escapes: bool = False  # a quote within quotes is written \\" instead of ""
    comments: int = 0  # lines before the table


@dataclass(frozen=True, slots=True)
class Record:
    """The cells of a row, or the problem with it."""

    line: int
    cells: list[str]
    problem: str | None = None
    text: str = ""
    reason: str = ""


class _LineStream:
    """A stream of lines that can be put back."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = iter(lines)
        self._put_back_lines: list[Line] = []  # last one first
        self.credit = LOOKAHEAD_CREDIT

    def __iter__(self) -> Iterator[Line]:
        return self

    def __next__(self) -> Line:
        return self._put_back_lines.pop() if self._put_back_lines else next(self._lines)

    def put_back(self, lines: list[Line]) -> None:
        self._put_back_lines += reversed(lines)
        self.credit -= sum(len(line) for _, line, _ in lines)


def read_records(lines: Iterable[Line], dialect: Dialect) -> Iterator[Record]:
    """Yield a record for each row; empty lines are skipped."""
    stream = _LineStream(lines)
    quote_characters = ('"', "\\") if dialect.escapes else ('"',) if dialect.quotes else ()
    delimiter = dialect.delimiter
    for number, line, problem in stream:
        if number <= dialect.comments:
            continue
        if problem is not None:
            yield Record(number, [], problem, line, REASONS[problem])
        elif not line.strip(" \r\n"):
            continue
        elif "\0" in line:
            yield Record(number, [], NUL_BYTE, line, REASONS[NUL_BYTE])
        elif any(character in line for character in quote_characters):
            yield _read_quoted_record(number, line, stream, dialect)
        else:
            yield Record(number, _strip_newline(line).split(delimiter), None, line)


def _strip_newline(line: str) -> str:
    line = line[:-1] if line.endswith("\n") else line
    return line[:-1] if line.endswith("\r") else line


def _read_quoted_record(number: int, line: str, stream: _LineStream, dialect: Dialect) -> Record:
    """Read a record with quotes, which may span several lines; on failure, all lines but the first are put back."""
    continuation: list[Line] = []
    stream.credit += CREDIT_PER_CHARACTER * len(line)
    max_lines = sys.maxsize if stream.credit > 0 else MAX_LINES_WITHOUT_CREDIT

    def feed() -> Iterator[str]:
        yield line
        characters = len(line)
        for following in stream:
            continuation.append(following)
            characters += len(following[1])
            if (
                characters > MAX_RECORD_CHARS
                or len(continuation) > max_lines
                or following[2] in (TOO_LONG, DAMAGED_FILE)
            ):
                return
            yield following[1]

    if csv.field_size_limit() < MAX_RECORD_CHARS:
        csv.field_size_limit(min(2 * MAX_RECORD_CHARS, sys.maxsize))
    reader = csv.reader(
        feed(),
        delimiter=dialect.delimiter,
        doublequote=not dialect.escapes,
        escapechar="\\" if dialect.escapes else None,
        strict=True,  # a stray quote is an error; lenient parsing would merge rows
    )
    try:
        cells = next(reader)
    except csv.Error as error:
        stream.put_back(continuation)
        reason = "text after a closing quote; write quotes within quoted cells twice"
        if "unexpected end" in str(error):
            reason = REASONS[BROKEN_QUOTES] + (
                f" within {MAX_LINES_WITHOUT_CREDIT} lines" if len(continuation) > max_lines else ""
            )
        return Record(number, [], BROKEN_QUOTES, line, reason)
    for _, following, problem in continuation:
        if problem is not None or "\0" in following:
            kind = problem or NUL_BYTE
            return Record(number, [], kind, following, REASONS[kind])
    return Record(number, cells, None, line)


def read_delimited_rows(lines: Iterable[Line], dialect: Dialect, columns: Sequence[str], *, header: bool) -> Rows:
    """Yield the rows of a table with known columns."""
    records = read_records(lines, dialect)
    if header:
        next(records, None)
    width = len(columns)
    for number, record in enumerate(records, start=1):
        cells = record.cells
        if record.problem is not None:
            yield BadRow(number, record.reason, excerpt(record.text), record.line, record.problem)
        elif len(cells) != width:
            count = f"{len(cells)} cell{'s' * (len(cells) != 1)}, expected {width}"
            yield BadRow(number, count, excerpt(record.text), record.line, WRONG_CELL_COUNT)
        else:
            yield Row(number, dict(zip(columns, cells, strict=True)), record.line)


def split_head(head: str) -> list[Line]:
    """Split the beginning of a file into numbered lines."""
    newline = detect_newline(head)
    return [(number, line + newline, None) for number, line in enumerate(head.split(newline), start=1)]


def detect_dialect(
    head: str, *, suffix: str, is_complete: bool, delimiter: str | None, quotes: bool | None
) -> Dialect | None:
    """Detect the dialect from the beginning of a file; None: there is no delimiter."""
    lines = split_head(head)
    is_complete = is_complete and len(lines) <= MAX_SAMPLE_LINES
    lines = lines[:MAX_SAMPLE_LINES]
    suffix_delimiter = {".tsv": "\t", ".tab": "\t", ".csv": ","}.get(suffix)
    best: tuple[float, Dialect] | None = None
    for candidate in DELIMITERS if delimiter is None else (delimiter,):
        dialect, width, wrong_share, first_fits = _detect_quoting(
            lines, candidate, is_complete=is_complete, quotes=quotes
        )
        if width < 2 and delimiter is None:
            continue
        cost = wrong_share + (0 if first_fits else 0.5) - (0.1 if candidate == suffix_delimiter else 0)
        if best is None or cost < best[0]:
            best = (cost, dialect)
    if best is not None and (best[0] < 0.6 or delimiter is not None or suffix_delimiter == best[1].delimiter):
        return best[1]
    if suffix_delimiter is None:
        return None
    return _detect_quoting(lines, suffix_delimiter, is_complete=is_complete, quotes=quotes)[0]


def _detect_quoting(
    lines: list[Line], delimiter: str, *, is_complete: bool, quotes: bool | None
) -> tuple[Dialect, int, float, bool]:
    """Find the best quoting for a delimiter; return dialect, row width, share of other rows, whether row 1 fits."""
    unquoted = Dialect(delimiter=delimiter, quotes=False)
    quoted = Dialect(delimiter=delimiter)
    if quotes is not None:
        candidates = [quoted if quotes else unquoted]
    elif any('"' in line for _, line, _ in lines):
        candidates = [quoted, unquoted] if delimiter != "\t" else [unquoted, quoted]
        candidates += [replace(quoted, escapes=True)] if any('\\"' in line for _, line, _ in lines) else []
    else:
        candidates = [quoted if delimiter != "\t" else unquoted]
    scores = [_score_dialect(lines, dialect, is_complete=is_complete) for dialect in candidates]
    best = min(range(len(candidates)), key=lambda i: scores[i][1])
    if quotes is None and len(candidates) > 1:
        has_quoted_cells = _has_quoted_cells(lines, delimiter)
        if delimiter != "\t" and candidates[best] == unquoted and (has_quoted_cells or scores[0][4] < MIN_STRAY_QUOTES):
            best = 0  # a few stray quotes do not make quotes ordinary characters
        elif delimiter == "\t" and has_quoted_cells and scores[1][1] <= scores[0][1]:
            best = 1
    width, wrong_share, comments, first_fits, _ = scores[best]
    return replace(candidates[best], comments=comments), width, wrong_share, first_fits


def _score_dialect(lines: list[Line], dialect: Dialect, *, is_complete: bool) -> tuple[int, float, int, bool, int]:
    """Return the usual width, share of other rows, comment lines, whether row 1 fits, and number of stray quotes."""
    sample = list(read_records(lines, dialect))
    if not is_complete:  # the last row may be incomplete, with an unclosed quote
        unclosed = (index for index, record in enumerate(sample) if record.reason.startswith(REASONS[BROKEN_QUOTES]))
        sample = sample[: next(unclosed, max(len(sample) - 1, 1))]
    counts = Counter(len(record.cells) for record in sample if record.problem is None)
    if not counts:
        return 0, 1.0, 0, False, 0
    width = max(counts, key=lambda count: (counts[count], count))
    comments = 0
    while sample and sample[0].text.startswith("#") and len(sample[0].cells) != width:
        comments = sample.pop(0).line
    stray_quotes = sum(1 for record in sample if record.problem == BROKEN_QUOTES)
    wrong_share = sum(1 for record in sample if len(record.cells) != width) / max(len(sample), 1)
    return width, wrong_share, comments, bool(sample) and len(sample[0].cells) == width, stray_quotes


def _has_quoted_cells(lines: list[Line], delimiter: str) -> bool:
    """Whether cells are clearly quoted: they contain doubled quotes, or a whole column is quoted."""
    rows = 0
    quoted_counts: Counter[int] = Counter()
    for _, line, _ in lines:
        cells = _strip_newline(line).split(delimiter)
        if not line.strip():
            continue
        rows += 1
        for column, cell in enumerate(cells):
            if len(cell) > 1 and cell[0] == cell[-1] == '"':
                inner = cell[1:-1]
                if '""' in inner and '"' not in inner.replace('""', ""):
                    return True
                if '"' not in inner:
                    quoted_counts[column] += 1
    return any(count >= max(rows - 1, 1) for count in quoted_counts.values())
