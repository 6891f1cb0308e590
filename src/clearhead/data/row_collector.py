"""Collect facts about rows for an inspection while they are read once: numbers, never texts."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow, check_rows, hash_text, missing_label_row
from clearhead.data.findings import is_mojibake
from clearhead.data.labels import MAX_LABELS, Kind, LabelCounter, LabelSpace, format_label, is_missing, parse_number
from clearhead.data.near_duplicates import NearDuplicateIndex
from clearhead.data.row_codec import TextEncoder
from clearhead.data.sources.row_tally import RowTally
from clearhead.data.sources.source import BadRow, Source
from clearhead.errors import InputError

CHUNK_ROWS = 1000  # rows that are processed together
CHUNK_CHARACTERS = 2_000_000  # a chunk of long rows ends earlier
MAX_TOKENIZED_CHARACTERS = 200_000  # of a text; the token count of the remainder is extrapolated
MAX_TOKENIZED_ROWS = 50_000  # a sample is enough for the distribution of lengths
MAX_NEAR_DUPLICATE_ROWS = 1_000_000  # rows that are searched for near duplicates


class RowCollector:
    """Collects hashes, lengths and labels of rows."""

    def __init__(self, tokenizer: TextEncoder | None, kind: Kind | None) -> None:
        self.part_names: list[str] = []
        self.part, self.number = array("b"), array("q")
        self.hash, self.length = array("Q"), array("q")
        self.label, self.tokens = array("i"), array("i")
        self.is_unlabeled = array("b")
        self.label_ids: dict[str, int] = {}
        self.counter = LabelCounter(kind=kind)
        self._space = LabelSpace(kind="number") if kind == "number" else None  # other labels are bad rows
        self.number_stats: list[float] = [float("inf"), 0.0, float("-inf"), 0]  # minimum, sum, maximum, count
        self.sources: list[RowTally] = []
        self.near = NearDuplicateIndex()
        self.mojibake = 0
        self._tokenizer = tokenizer

    def read(self, source: Source, columns: Columns, part: str, *, labeled: bool) -> None:
        chunk: list[TextRow] = []
        characters = 0
        tally = RowTally(source)
        self.sources.append(tally)
        for row in check_rows(source, columns, self._space):
            if isinstance(row, BadRow):
                tally.bad.add(row)
                continue
            tally.good += 1
            if labeled and columns.label is not None and is_missing(row.label):
                tally.unlabeled.add(missing_label_row(row))
            chunk.append(row)
            characters += len(row.text) + len(row.text_b or "")
            if len(chunk) == CHUNK_ROWS or characters > CHUNK_CHARACTERS:
                self._take(chunk, part)
                chunk, characters = [], 0
        if chunk:
            self._take(chunk, part)

    def _take(self, rows: list[TextRow], part: str) -> None:
        for row in rows:
            name = row.split or part
            if name not in self.part_names:
                self.part_names.append(name)
            self.part.append(self.part_names.index(name))
            self.number.append(row.number)
            self.hash.append(hash_text(row.text, row.text_b))
            self.length.append(len(row.text) + len(row.text_b or ""))
            self.mojibake += is_mojibake(row.text)
            self.is_unlabeled.append(is_missing(row.label))
            self._count(row.label)
        texts = [row.text if row.text_b is None else f"{row.text} {row.text_b}" for row in rows]
        if len(self.number) <= MAX_NEAR_DUPLICATE_ROWS:
            self.near.add(texts)
        if self._tokenizer is not None and len(self.tokens) < MAX_TOKENIZED_ROWS:
            self.tokens.extend(_count_tokens(rows, self._tokenizer))

    def _count(self, value: Any) -> None:
        if is_missing(value):
            self.label.append(-1)
            return
        try:
            self.counter.add(value)
        except InputError:  # too many distinct values for labels: reported as a finding
            self.label.append(-1)
            return
        text = format_label(value)
        is_full = len(self.label_ids) >= MAX_LABELS
        self.label.append(
            self.label_ids.get(text, -1) if is_full else self.label_ids.setdefault(text, len(self.label_ids))
        )
        number = parse_number(value)
        if number is not None:
            minimum, total, maximum, count = self.number_stats
            self.number_stats = [min(minimum, number), total + number, max(maximum, number), count + 1]


def _count_tokens(rows: Sequence[TextRow], tokenizer: TextEncoder) -> list[int]:
    """Count the tokens of each row; counts of very long texts are extrapolated from their beginning."""
    pairs = [(row.text, row.text_b) for row in rows]
    items = [
        text[:MAX_TOKENIZED_CHARACTERS]
        if text_b is None
        else (text[:MAX_TOKENIZED_CHARACTERS], text_b[:MAX_TOKENIZED_CHARACTERS])
        for text, text_b in pairs
    ]
    counts = []
    for (text, text_b), encoding in zip(pairs, tokenizer.encode_batch(items), strict=True):
        characters = len(text) + len(text_b or "")
        tokenized_characters = len(text[:MAX_TOKENIZED_CHARACTERS]) + len((text_b or "")[:MAX_TOKENIZED_CHARACTERS])
        counts.append(len(encoding) * characters // tokenized_characters)
    return counts
