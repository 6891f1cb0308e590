"""Questions on passages: what a row says, the tokens that answers begin and end at, and windows over long passages."""

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

STARTS = ("answer_start", "answer_starts", "start", "starts")
TEXTS = ("text", "texts", "answer", "answers")
IMPOSSIBLE = "is_impossible"
YES = ("true", "1", "1.0", "yes")
PLACE = re.compile(r"^-?[0-9]{1,12}(?:\.0+)?$")
SPACES = tuple(code for code in range(0x3001) if chr(code).isspace())


@dataclass(frozen=True, slots=True)
class AnswerTruth:
    """The right answers of a question, each with its place in the passage; none: the passage does not say."""

    passage: str
    answers: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()

    def __repr__(self) -> str:
        # recorded runs contain digests of this text, under the class name of version 0.1.0
        return f"Truth(passage={self.passage!r}, answers={self.answers!r}, starts={self.starts!r})"


def check(row: Row, columns: Columns, space: LabelSpace | None) -> TextRow | BadRow:
    """A question, a passage and the places of the answers; an answer must stand where its start says."""
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
        label = _truth(row, columns.label, passage)
        if isinstance(label, BadRow):
            return label
    return TextRow(row.number, question, passage, label, read_id(row, columns), split, row.line)


def _truth(row: Row, column: str, passage: str) -> AnswerTruth | BadRow:
    value = row.values.get(column)
    if str(row.values.get(IMPOSSIBLE)).strip().casefold() in YES:
        return AnswerTruth(passage)
    found = _answers(value, row.values)
    if found is None:
        reason = f"{format_column(column)} is no list of answers (text and answer_start)"
        return BadRow(row.number, reason, excerpt(value), row.line, MISSING_LABEL)
    answers, starts = [], []
    for text, start in found:
        if not isinstance(text, str) or not text.strip() or not is_valid_text(text):
            return BadRow(row.number, "an answer is empty or no text", excerpt(text), row.line, UNKNOWN_LABEL)
        start = passage.find(text) if start is None else _place(start)
        if start is None:
            reason = f"the start of the answer {to_printable(text, 40)!r} is no whole number"
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
            there = to_printable(passage[start : start + len(text)], 40)
            reason = (
                f"at {to_printable(start, 20)} the passage has {there!r}, and not the answer {to_printable(text, 40)!r}"
            )
            return BadRow(row.number, reason, "", row.line, MISALIGNED_SPAN)
        lead = len(text) - len(text.lstrip())
        answers.append(text.strip())
        starts.append(start + lead)
    return AnswerTruth(passage, tuple(answers), tuple(starts))


def _place(start: Any) -> int | None:
    """A start that came as a number, or as the text of one, as tables have it."""
    if isinstance(start, str) and PLACE.match(start.strip()):
        start = float(start)
    if isinstance(start, float) and start.is_integer():
        start = int(start)
    return start if isinstance(start, int) and not isinstance(start, bool) else None


def _answers(value: Any, row: dict[str, Any]) -> list[tuple[Any, Any]] | None:
    """(text, start) of each answer: as lists side by side, a list of objects, or one text with its start beside it."""
    if isinstance(value, str) and value.lstrip()[:1] in JSON_OPENERS:
        found = parse_cell(value)  # an answer may well be [1]
        whole = isinstance(found, dict) or (
            isinstance(found, list) and all(isinstance(one, dict | str) for one in found)
        )
        value = found if whole else value
    if isinstance(value, dict):
        texts, starts = (next((value[name] for name in names if name in value), None) for names in (TEXTS, STARTS))
        if isinstance(texts, list | tuple):
            places = starts if isinstance(starts, list | tuple) else [None] * len(texts)
            return list(zip(texts, places, strict=False)) if len(texts) == len(places) else None
        return None if texts is None else [(texts, starts)]
    if isinstance(value, list | tuple):
        made: list[tuple[Any, Any]] = []
        for one in value:
            inner = [(one, None)] if isinstance(one, str) else _answers(one, {}) if isinstance(one, dict) else None
            if inner is None:
                return None
            made += inner
        return made
    if is_missing(value):
        return []  # an empty cell: no answer
    start = next((row[name] for name in STARTS if name in row), None)
    return [(value, None if is_missing(start) else start)] if isinstance(value, str) else None


class AnswerCounter:
    """Finds out whether all questions have an answer."""

    def __init__(self) -> None:
        self.total = 0
        self.without = 0

    def add(self, said: AnswerTruth) -> None:
        """One more question."""
        self.total += 1
        self.without += not said.answers

    def space(self) -> LabelSpace:
        """`some`: a question may have no answer, as in SQuAD 2.0; `all`: every one has, as in 1.1."""
        return LabelSpace(kind="answers", scheme="some" if self.without else "all")


@dataclass(frozen=True, slots=True)
class Window:
    """What is known of the tokens of one window."""

    first: int  # of the tokens of the passage
    last: int  # one past them
    begins: Array  # (last - first,) where each token begins in the passage, spaces left out, ...
    ends: Array  # ... and ends: at its begin where nothing of it is left
    head: bool = True  # nothing of the passage stands before it
    tail: bool = True  # nor after it


def pieces(rows: Sequence[TextRow], tokenizer: TextEncoder, fit: LengthPolicy) -> Iterable[EncodedRow]:
    """`[CLS] question [SEP] passage [SEP]`, with the passage in overlapping windows where it is long."""
    whole = tokenizer.encode_batch([(row.text, row.text_b) for row in rows], max_length=fit.token_level_limit)
    for row, encoding in zip(rows, whole, strict=True):
        made = _windows(encoding, fit)
        yield EncodedRow(made, _marked(made, encoding, row.text_b or ""))


def _windows(encoding: Encoding, fit: LengthPolicy) -> list[Encoding]:
    most = fit.max_length
    if most is None or len(encoding) <= most or fit.long == "keep":
        return [encoding]
    asked = [place for place, side in enumerate(encoding.sides) if side == 0]
    free = most - encoding.sides.count(None)
    room = max(free // 2, free - encoding.sides.count(1), 1)  # half of it for a long question, or what is left over
    cut = max(len(asked) - room, 0)
    lost, encoding = encoding.truncated + cut, replace(encoding, truncated=0)
    if cut:
        gone = set(asked[room:])
        encoding = select_tokens(encoding, [place for place in range(len(encoding)) if place not in gone])
    if fit.long == "cut":
        made = [truncate(encoding, most)]
    else:
        free = most - (len(encoding) - encoding.sides.count(1))
        made = split_into_windows(encoding, max_length=most, stride=min(fit.stride, max(free // 2, 0)), side=1)
    return [replace(made[0], truncated=made[0].truncated + lost), *made[1:]]


def _marked(made: Sequence[Encoding], whole: Encoding, passage: str) -> list[Window]:
    """What is known of the tokens of each window."""
    ends = [_edges(one) for one in (whole, *made)]
    found = []
    for encoding, (head, tail) in zip(made, ends[1:], strict=True):
        places = [place for place, side in enumerate(encoding.sides) if side == 1]
        first, last = (places[0], places[-1] + 1) if places else (0, 0)
        begins, stops = _trimmed(encoding.offsets[first:last], passage)
        is_end = tail >= ends[0][1] and not whole.truncated
        found.append(Window(first, last, begins, stops, head <= ends[0][0], is_end))
    return found


def _edges(encoding: Encoding) -> tuple[int, int]:
    """Where the tokens of the passage begin and end in it."""
    real = [(a, b) for (a, b), side in zip(encoding.offsets, encoding.sides, strict=True) if side == 1 and b > a]
    return (real[0][0], real[-1][1]) if real else (0, 0)


def _trimmed(offsets: Sequence[tuple[int, int]], passage: str) -> tuple[Array, Array]:
    """Where tokens begin and end without the spaces that some tokenizers count to them."""
    import numpy as np

    made = np.array(offsets or np.zeros((0, 2)), np.int32).reshape(-1, 2)
    if not len(made):
        return made[:, 0], made[:, 1]
    start, stop = int(made.min()), int(made.max())  # of a long passage the part that this window reads
    begins, ends = _trimmed_part(made - start, passage[start:stop] or " ")
    return begins + start, ends + start


def _trimmed_part(offsets: Array, passage: str) -> tuple[Array, Array]:
    import numpy as np

    begins, ends = offsets[:, 0], offsets[:, 1]
    count = len(passage)
    spaces = np.isin(np.frombuffer(passage.encode("utf-32-le"), np.uint32), SPACES)
    if not spaces[np.minimum(begins, count - 1)].any() and not spaces[np.clip(ends - 1, 0, count - 1)].any():
        return begins, ends
    places = np.arange(count, dtype=np.int32)
    later = np.minimum.accumulate(np.where(spaces, np.int32(count), places)[::-1])[::-1]  # the next letter, ...
    earlier = np.maximum.accumulate(np.where(spaces, np.int32(-1), places))  # ... and the one before
    first = later[np.minimum(begins, count - 1)]
    last = earlier[np.clip(ends - 1, 0, count - 1)] + 1
    empty = (last <= first) | (ends <= begins)
    return np.where(empty, begins, first), np.where(empty, begins, last)


def target(window: Window, truth: AnswerTruth) -> tuple[int, int]:
    """The first and last token of the answer in a window; 0 and 0 ([CLS]) where it is not wholly in it."""
    import numpy as np

    if not truth.answers or not len(window.begins):
        return 0, 0
    begin, end = truth.starts[0], truth.starts[0] + len(truth.answers[0])
    real = window.ends > window.begins
    over = np.flatnonzero(real & (window.ends > begin) & (window.begins < end))
    if not len(over):
        return 0, 0
    places = np.flatnonzero(real)  # a letter without a token may stand at the edge of an answer, but not of a window
    cut_before = over[0] == places[0] and not window.head and window.begins[over[0]] > begin
    cut_after = over[-1] == places[-1] and not window.tail and window.ends[over[-1]] < end
    if cut_before or cut_after:
        return 0, 0
    return window.first + int(over[0]), window.first + int(over[-1])


@dataclass(frozen=True, kw_only=True)
class SpanAnnotations:
    """Of every window the tokens of the passage and those of the answer; of every token its place in the passage."""

    first: Array  # (windows,)
    last: Array
    begins: Array  # (passage tokens,) characters
    ends: Array
    bounds: Array  # (windows + 1,) where a window's tokens lie in the two above
    targets: Array | None  # (windows, 2) tokens of a window
    max_answer: int

    def pack(self, rows: Array, windows: Array, begins: Array) -> dict[str, Array]:  # noqa: ARG002
        """Of some windows: the range of tokens that may be answers, and the right ones."""
        import numpy as np

        right = np.zeros((len(windows), 2), np.int64) if self.targets is None else self.targets[windows]
        return {"first": self.first[windows], "last": self.last[windows], "right": right}


def marks(
    found: Sequence[Sequence[Window]], truths: Sequence[AnswerTruth] | None, fit: LengthPolicy
) -> SpanAnnotations:
    """Of all rows."""
    import numpy as np

    every = [window for row in found for window in row]
    right = None
    if truths is not None:
        pairs = [target(window, truth) for row, truth in zip(found, truths, strict=True) for window in row]
        right = np.array(pairs, np.int64).reshape(-1, 2)
    counts = [window.last - window.first for window in every]
    return SpanAnnotations(
        first=np.array([window.first for window in every], np.int64),
        last=np.array([window.last for window in every], np.int64),
        begins=np.concatenate([window.begins for window in every] or [np.zeros(0, np.int32)]),
        ends=np.concatenate([window.ends for window in every] or [np.zeros(0, np.int32)]),
        bounds=np.concatenate([[0], np.cumsum(np.array(counts, np.int64))]).astype(np.int64),
        targets=right,
        max_answer=fit.max_answer,
    )


def truths(found: Sequence[AnswerTruth], space: LabelSpace) -> Array:
    """An array of them, one for each question."""
    import numpy as np

    made = np.empty(len(found), object)
    made[:] = list(found)
    return made
