"""Read CoNLL files: one token with its tags per line, a blank line after each sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from clearhead.data.sources.delimited import REASONS
from clearhead.data.sources.files import Line
from clearhead.data.sources.source import NUL_BYTE, WRONG_CELL_COUNT, BadRow, Row, Rows, excerpt

SUFFIXES = (".conll", ".conllu", ".conll2003", ".iob", ".iob2", ".bio", ".ner")
TOKENS, TAGS = "tokens", "tags"
DOCUMENT_START = "-DOCSTART-"  # starts a document in CoNLL 2003; not a sentence
TAG_PATTERN = re.compile(r"^(?:O|[BIOLUSE]-\S+)$")
CONLL_U_COLUMNS = ("id", TOKENS, "lemma", TAGS, "xpos", "feats", "head", "deprel", "deps", "misc")
WORD_NUMBER = re.compile(r"^\d+(?:[-.]\d+)?$")
TOKEN_COLUMN_NAMES = {"token", "tokens", "word", "words", "form", "text"}  # of the first column, in a header
MAX_SAMPLE_LINES = 2000  # used to detect the layout
MIN_BLANK_LINES = 2  # required if the file name has no CoNLL suffix
MAX_SENTENCE_TOKENS = 1_000_000  # a longer sentence is split


@dataclass(frozen=True, kw_only=True)
class ConllLayout:
    """The layout of a CoNLL file."""

    columns: tuple[str, ...]  # `tokens`, and `tags` for the column to learn
    tabs: bool
    header: bool
    has_tags: bool = False  # every tag is O or has a prefix such as B- or I-

    @property
    def is_conll_u(self) -> bool:
        """Whether the file is in CoNLL-U format, with numbered words."""
        return self.columns == CONLL_U_COLUMNS


def detect_conll(head: str, *, has_conll_suffix: bool) -> ConllLayout | None:
    """Detect the layout from the first lines of a file; None: not a CoNLL file."""
    lines = [line.rstrip("\r") for line in islice(head.split("\n")[:-1] or [head], MAX_SAMPLE_LINES)]
    previous_lines = ("", *lines)  # comments precede the first token of a sentence
    token_lines = [line for previous, line in zip(previous_lines, lines, strict=False) if _is_token(line, previous)]
    tabs = sum("\t" in line for line in token_lines) * 2 > len(token_lines)
    rows = [_split_cells(line, tabs=tabs) for line in token_lines]
    counts = Counter(len(cells) for cells in rows if cells)
    if not counts:
        return None
    width = counts.most_common(1)[0][0]
    full_rows = [cells for cells in rows if len(cells) == width]
    if width == len(CONLL_U_COLUMNS) and all(WORD_NUMBER.match(cells[0]) for cells in full_rows):
        return ConllLayout(columns=CONLL_U_COLUMNS, tabs=tabs, header=False)
    header = (
        len(rows[0]) == width > 1 and rows[0][0].casefold() in TOKEN_COLUMN_NAMES and not TAG_PATTERN.match(rows[0][-1])
    )
    blank_count = sum(not line.strip() for line in lines)
    has_tags = width > 1 and all(TAG_PATTERN.match(cells[-1]) for cells in (full_rows[1:] if header else full_rows))
    if not has_conll_suffix and not (
        has_tags and blank_count >= MIN_BLANK_LINES and len(full_rows) >= 0.98 * len(rows)
    ):
        return None
    numbered_columns = [f"column{index + 2}" for index in range(width - 2)]
    names = (TOKENS,) if width == 1 else (TOKENS, *(rows[0][1:-1] if header else numbered_columns), TAGS)
    are_unique = len(set(names)) == len(names)
    columns = names if are_unique else (TOKENS, *numbered_columns, TAGS)
    return ConllLayout(columns=columns, tabs=tabs, header=header, has_tags=has_tags)


def _is_token(line: str, previous: str) -> bool:
    """Whether a line is a token, and not blank, the start of a document or a comment above a sentence."""
    is_comment = line.startswith("#") and (not previous.strip() or previous.startswith(("#", DOCUMENT_START)))
    return bool(line.strip()) and not line.startswith(DOCUMENT_START) and not is_comment


def read_sentence_rows(lines: Iterable[Line], layout: ConllLayout) -> Rows:
    """Yield a row for each sentence, with a list of cells for each column."""
    for number, sentence in enumerate(_iter_sentences(lines, layout), start=1):
        yield _build_row(number, sentence, layout)


def _iter_sentences(lines: Iterable[Line], layout: ConllLayout) -> Iterator[list[Line]]:
    sentence: list[Line] = []
    is_past_header = not layout.header
    for line in lines:
        _, text, problem = line
        if problem is None and not text.strip():
            if sentence:
                yield sentence
            sentence = []
        elif problem is None and (text.startswith(DOCUMENT_START) or _is_comment(text, layout, is_first=not sentence)):
            continue
        elif not is_past_header:
            is_past_header = True
        else:
            sentence.append(line)
            if len(sentence) >= MAX_SENTENCE_TOKENS:
                yield sentence
                sentence = []
    if sentence:
        yield sentence


def _is_comment(text: str, layout: ConllLayout, *, is_first: bool) -> bool:
    """Whether a line is a comment such as `# text = ...`, and not the token #, which has a tag."""
    if not text.startswith("#"):
        return False
    cells = _split_cells(text, tabs=layout.tabs)
    return len(cells) != len(layout.columns) or (is_first and layout.has_tags and not TAG_PATTERN.match(cells[-1]))


def _build_row(number: int, sentence: Sequence[Line], layout: ConllLayout) -> Row | BadRow:
    first_line = sentence[0][0]
    cells: list[list[str]] = []
    for line_number, text, problem in sentence:
        row_problem = problem or (NUL_BYTE if "\0" in text else None)
        if row_problem is not None:
            return BadRow(number, REASONS[row_problem], excerpt(text), line_number, row_problem)
        line_cells = _split_cells(text, tabs=layout.tabs)
        if layout.is_conll_u and len(line_cells) == len(layout.columns) and not line_cells[0].isdigit():
            continue  # 1-2 is a multiword token, 1.1 an empty node
        if len(line_cells) != len(layout.columns) or not line_cells[0].strip():
            reason = f"a line with {len(line_cells)} cells, expected {len(layout.columns)}"
            return BadRow(number, reason, excerpt(text), line_number, WRONG_CELL_COUNT)
        cells.append(line_cells)
    if not cells:
        return BadRow(number, "a sentence without words", excerpt(sentence[0][1]), first_line, WRONG_CELL_COUNT)
    columns = zip(layout.columns, zip(*cells, strict=True), strict=True)
    return Row(number, {name: list(column) for name, column in columns}, first_line)


def _split_cells(line: str, *, tabs: bool) -> list[str]:
    text = line.rstrip("\r\n")
    return [cell.strip() for cell in text.split("\t")] if tabs else text.split()
