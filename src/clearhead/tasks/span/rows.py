"""Rows of the span task: questions, passages and answers, their tokens, and windows over long passages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clearhead.data.columns import Columns, format_column
from clearhead.data.examples import TextRow, read_id, read_split, read_text
from clearhead.data.labels import LabelSpace, is_missing, is_valid_text
from clearhead.data.row_codec import EncodedRow, LengthPolicy, TextEncoder
from clearhead.data.sources.source import MISSING_LABEL, UNKNOWN_LABEL, BadRow, Row, excerpt
from clearhead.files import to_printable
from clearhead.tasks.cells import JSON_OPENERS, MISALIGNED_SPAN, parse_cell
from clearhead.text.encoding import Encoding, select_tokens, split_into_windows, truncate

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

START_KEYS = ("answer_start", "answer_starts", "start", "starts")
TEXT_KEYS = ("text", "texts", "answer", "answers")
IMPOSSIBLE_COLUMN = "is_impossible"
TRUE_VALUES = ("true", "1", "1.0", "yes")
START_PATTERN = re.compile(r"^-?[0-9]{1,12}(?:\.0+)?$")
SPACE_CODES = tuple(code for code in range(0x3001) if chr(code).isspace())


@dataclass(frozen=True, slots=True)
class AnswerTruth:
    """The true answers of a question with their offsets in the passage; empty if it has no answer."""

    passage: str
    answers: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()

    def __repr__(self) -> str:
        # recorded runs contain digests of this text, under the class name of version 0.1.0
        return f"Truth(passage={self.passage!r}, answers={self.answers!r}, starts={self.starts!r})"


def check_row(row: Row, columns: Columns, space: LabelSpace | None) -> TextRow | BadRow:
    """Read a question, a passage and answers; the text at an answer's start must equal the answer."""
    assert columns.text_b is not None
    question = read_text(row, columns.text)
    passage = question if isinstance(question, BadRow) else read_text(row, columns.text_b)
    if isinstance(question, BadRow) or isinstance(passage, BadRow):
        return question if isinstance(question, BadRow) else passage  # type: ignore[return-value]
    split = read_split(row, columns)
    if isinstance(split, BadRow):
        return split
    label: Any = None
    if columns.label is not None:
        label = _read_truth(row, columns.label, passage)
        if isinstance(label, BadRow):
            return label
    return TextRow(row.number, question, passage, label, read_id(row, columns), split, row.line)


def _read_truth(row: Row, column: str, passage: str) -> AnswerTruth | BadRow:
    cell = row.values.get(column)
    if str(row.values.get(IMPOSSIBLE_COLUMN)).strip().casefold() in TRUE_VALUES:
        return AnswerTruth(passage)
    answers_and_starts = _read_answers(cell, row.values)
    if answers_and_starts is None:
        reason = f"{format_column(column)} is not a list of answers (text and answer_start)"
        return BadRow(row.number, reason, excerpt(cell), row.line, MISSING_LABEL)
    answers, starts = [], []
    for text, start in answers_and_starts:
        if not isinstance(text, str) or not text.strip() or not is_valid_text(text):
            return BadRow(row.number, "an answer is empty or not text", excerpt(text), row.line, UNKNOWN_LABEL)
        start = passage.find(text) if start is None else _parse_start(start)
        if start is None:
            reason = f"the start of the answer {to_printable(text, 40)!r} is not an integer"
            return BadRow(row.number, reason, "", row.line, MISALIGNED_SPAN)
        if start < 0:
            return BadRow(
                row.number,
                f"the answer {to_printable(text, 40)!r} is not in the passage",
                "",
                row.line,
                MISALIGNED_SPAN,
            )
        if passage[start : start + len(text)] != text:
            passage_text = to_printable(passage[start : start + len(text)], 40)
            expected = f"expected the answer {to_printable(text, 40)!r}, got {passage_text!r}"
            reason = f"character {to_printable(start, 20)} of the passage: {expected}"
            return BadRow(row.number, reason, "", row.line, MISALIGNED_SPAN)
        indent = len(text) - len(text.lstrip())
        answers.append(text.strip())
        starts.append(start + indent)
    return AnswerTruth(passage, tuple(answers), tuple(starts))


def _parse_start(start: Any) -> int | None:
    """Parse a start given as a number or as text, as in tables."""
    if isinstance(start, str) and START_PATTERN.match(start.strip()):
        start = float(start)
    if isinstance(start, float) and start.is_integer():
        start = int(start)
    return start if isinstance(start, int) and not isinstance(start, bool) else None


def _read_answers(value: Any, row: dict[str, Any]) -> list[tuple[Any, Any]] | None:
    """Read (text, start) of each answer from parallel lists, a list of objects, or a text with a start column."""
    if isinstance(value, str) and value.lstrip()[:1] in JSON_OPENERS:
        parsed_cell = parse_cell(value)  # an answer can be the text "[1]"
        is_answer_list = isinstance(parsed_cell, dict) or (
            isinstance(parsed_cell, list) and all(isinstance(entry, dict | str) for entry in parsed_cell)
        )
        value = parsed_cell if is_answer_list else value
    if isinstance(value, dict):
        texts, starts = (
            next((value[name] for name in names if name in value), None) for names in (TEXT_KEYS, START_KEYS)
        )
        if isinstance(texts, list | tuple):
            start_list = starts if isinstance(starts, list | tuple) else [None] * len(texts)
            return list(zip(texts, start_list, strict=False)) if len(texts) == len(start_list) else None
        return None if texts is None else [(texts, starts)]
    if isinstance(value, list | tuple):
        answers: list[tuple[Any, Any]] = []
        for entry in value:
            entry_answers = (
                [(entry, None)]
                if isinstance(entry, str)
                else _read_answers(entry, {})
                if isinstance(entry, dict)
                else None
            )
            if entry_answers is None:
                return None
            answers += entry_answers
        return answers
    if is_missing(value):
        return []  # an empty cell means no answer
    start = next((row[name] for name in START_KEYS if name in row), None)
    return [(value, None if is_missing(start) else start)] if isinstance(value, str) else None


class AnswerCounter:
    """Detects whether all questions have an answer."""

    def __init__(self) -> None:
        self.total = 0
        self.without_answer = 0

    def add(self, truth: AnswerTruth) -> None:
        """Add the answers of a question."""
        self.total += 1
        self.without_answer += not truth.answers

    def space(self) -> LabelSpace:
        """Return the scheme: `some` questions have an answer (SQuAD 2.0), or `all` (SQuAD 1.1)."""
        return LabelSpace(kind="answers", scheme="some" if self.without_answer else "all")


@dataclass(frozen=True, slots=True)
class PassageWindow:
    """The passage tokens of one window."""

    first: int  # first token of the passage
    end: int  # one past its last token
    char_starts: Array  # (end - first,) where each token starts in the passage, without spaces, ...
    char_ends: Array  # ... and where it ends; equal to its start if the token is only a space
    is_first: bool = True  # whether the passage starts in this window
    is_last: bool = True  # whether the passage ends in this window


def encode_passages(rows: Sequence[TextRow], tokenizer: TextEncoder, fit: LengthPolicy) -> Iterable[EncodedRow]:
    """Encode `[CLS] question [SEP] passage [SEP]`, long passages in overlapping windows."""
    encodings = tokenizer.encode_batch([(row.text, row.text_b) for row in rows], max_length=fit.token_level_limit)
    for row, encoding in zip(rows, encodings, strict=True):
        windows = _split_windows(encoding, fit)
        yield EncodedRow(windows, _annotate_windows(windows, encoding, row.text_b or ""))


def _split_windows(encoding: Encoding, fit: LengthPolicy) -> list[Encoding]:
    max_length = fit.max_length
    if max_length is None or len(encoding) <= max_length or fit.long == "keep":
        return [encoding]
    question_tokens = [token for token, side in enumerate(encoding.sides) if side == 0]
    available = max_length - encoding.sides.count(None)
    # at most half of the window unless the passage is short
    question_room = max(available // 2, available - encoding.sides.count(1), 1)
    excess = max(len(question_tokens) - question_room, 0)
    truncated, encoding = encoding.truncated + excess, replace(encoding, truncated=0)
    if excess:
        dropped = set(question_tokens[question_room:])
        encoding = select_tokens(encoding, [token for token in range(len(encoding)) if token not in dropped])
    if fit.long == "cut":
        windows = [truncate(encoding, max_length)]
    else:
        available = max_length - (len(encoding) - encoding.sides.count(1))
        windows = split_into_windows(
            encoding, max_length=max_length, stride=min(fit.stride, max(available // 2, 0)), side=1
        )
    return [replace(windows[0], truncated=windows[0].truncated + truncated), *windows[1:]]


def _annotate_windows(windows: Sequence[Encoding], encoding: Encoding, passage: str) -> list[PassageWindow]:
    """Annotate the passage tokens of each window."""
    passage_start, passage_end = _find_passage_range(encoding)
    annotated = []
    for window in windows:
        range_start, range_end = _find_passage_range(window)
        passage_tokens = [token for token, side in enumerate(window.sides) if side == 1]
        first, last = (passage_tokens[0], passage_tokens[-1] + 1) if passage_tokens else (0, 0)
        starts, ends = _trim_spaces(window.offsets[first:last], passage)
        is_first = range_start <= passage_start
        is_last = range_end >= passage_end and not encoding.truncated
        annotated.append(PassageWindow(first, last, starts, ends, is_first, is_last))
    return annotated


def _find_passage_range(encoding: Encoding) -> tuple[int, int]:
    """Return the range of characters covered by the passage tokens of an encoding."""
    offsets = [
        (start, end)
        for (start, end), side in zip(encoding.offsets, encoding.sides, strict=True)
        if side == 1 and end > start
    ]
    return (offsets[0][0], offsets[-1][1]) if offsets else (0, 0)


def _trim_spaces(offsets: Sequence[tuple[int, int]], passage: str) -> tuple[Array, Array]:
    """Trim whitespace from token offsets; some tokenizers include it."""
    import numpy as np

    offset_array = np.array(offsets or np.zeros((0, 2)), np.int32).reshape(-1, 2)
    if not len(offset_array):
        return offset_array[:, 0], offset_array[:, 1]
    start, stop = int(offset_array.min()), int(offset_array.max())  # only the part of the passage in this window
    starts, ends = _trim_offsets(offset_array - start, passage[start:stop] or " ")
    return starts + start, ends + start


def _trim_offsets(offsets: Array, passage: str) -> tuple[Array, Array]:
    import numpy as np

    starts, ends = offsets[:, 0], offsets[:, 1]
    count = len(passage)
    is_space = np.isin(np.frombuffer(passage.encode("utf-32-le"), np.uint32), SPACE_CODES)
    if not is_space[np.minimum(starts, count - 1)].any() and not is_space[np.clip(ends - 1, 0, count - 1)].any():
        return starts, ends
    positions = np.arange(count, dtype=np.int32)
    next_letter = np.minimum.accumulate(np.where(is_space, np.int32(count), positions)[::-1])[
        ::-1
    ]  # next non-space character, ...
    previous_letter = np.maximum.accumulate(np.where(is_space, np.int32(-1), positions))  # ... and the previous one
    first = next_letter[np.minimum(starts, count - 1)]
    last = previous_letter[np.clip(ends - 1, 0, count - 1)] + 1
    is_empty = (last <= first) | (ends <= starts)
    return np.where(is_empty, starts, first), np.where(is_empty, starts, last)


def locate_answer(window: PassageWindow, truth: AnswerTruth) -> tuple[int, int]:
    """Return first and last token of the answer in a window; (0, 0), the [CLS] token, unless it is fully inside."""
    import numpy as np

    if not truth.answers or not len(window.char_starts):
        return 0, 0
    start, end = truth.starts[0], truth.starts[0] + len(truth.answers[0])
    has_text = window.char_ends > window.char_starts
    answer_tokens = np.flatnonzero(has_text & (window.char_ends > start) & (window.char_starts < end))
    if not len(answer_tokens):
        return 0, 0
    # characters without a token are allowed at the edge of an answer, not of a window
    text_tokens = np.flatnonzero(has_text)
    cut_before = (
        answer_tokens[0] == text_tokens[0] and not window.is_first and window.char_starts[answer_tokens[0]] > start
    )
    cut_after = (
        answer_tokens[-1] == text_tokens[-1] and not window.is_last and window.char_ends[answer_tokens[-1]] < end
    )
    if cut_before or cut_after:
        return 0, 0
    return window.first + int(answer_tokens[0]), window.first + int(answer_tokens[-1])


@dataclass(frozen=True, kw_only=True)
class SpanAnnotations:
    """Passage and answer tokens of each window, and the character offsets of passage tokens."""

    passage_starts: Array  # (windows,) first token of the passage in each window
    passage_ends: Array  # (windows,) one past its last token
    char_starts: Array  # (passage tokens,) where each token starts in the passage
    char_ends: Array
    token_bounds: Array  # (windows + 1,) the tokens of each window in `char_starts` and `char_ends`
    targets: Array | None  # (windows, 2) first and last token of the answer, counted in the window
    max_answer: int  # maximum length of an answer in tokens

    def pack(self, rows: Array, windows: Array, row_starts: Array) -> dict[str, Array]:  # noqa: ARG002
        """Pack the annotations of windows: the range of passage tokens, and the answer."""
        import numpy as np

        targets = np.zeros((len(windows), 2), np.int64) if self.targets is None else self.targets[windows]
        return {
            "passage_start": self.passage_starts[windows],
            "passage_end": self.passage_ends[windows],
            "answer": targets,
        }


def annotate_passages(
    row_windows: Sequence[Sequence[PassageWindow]], truths: Sequence[AnswerTruth] | None, fit: LengthPolicy
) -> SpanAnnotations:
    """Build the annotations of all rows."""
    import numpy as np

    windows = [window for row in row_windows for window in row]
    targets = None
    if truths is not None:
        pairs = [locate_answer(window, truth) for row, truth in zip(row_windows, truths, strict=True) for window in row]
        targets = np.array(pairs, np.int64).reshape(-1, 2)
    counts = [window.end - window.first for window in windows]
    return SpanAnnotations(
        passage_starts=np.array([window.first for window in windows], np.int64),
        passage_ends=np.array([window.end for window in windows], np.int64),
        char_starts=np.concatenate([window.char_starts for window in windows] or [np.zeros(0, np.int32)]),
        char_ends=np.concatenate([window.char_ends for window in windows] or [np.zeros(0, np.int32)]),
        token_bounds=np.concatenate([[0], np.cumsum(np.array(counts, np.int64))]).astype(np.int64),
        targets=targets,
        max_answer=fit.max_answer,
    )


def to_truth_array(truths: Sequence[AnswerTruth], space: LabelSpace) -> Array:
    """Convert the answers of all questions to an object array."""
    import numpy as np

    array = np.empty(len(truths), object)
    array[:] = list(truths)
    return array
