"""Column files, as CoNLL has them: a token a line, its tags beside it, a blank line after each sentence."""

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
DOCUMENT_START = "-DOCSTART-"  # CoNLL 2003 begins documents with it; it is no sentence
TAG_PATTERN = re.compile(r"^(?:O|[BIOLUSE]-\S+)$")
CONLL_U_COLUMNS = ("id", TOKENS, "lemma", TAGS, "xpos", "feats", "head", "deprel", "deps", "misc")  # CoNLL-U
WORD_NUMBER = re.compile(r"^\d+(?:[-.]\d+)?$")
TOKEN_COLUMN_NAMES = {
    "token",
    "tokens",
    "word",
    "words",
    "form",
    "text",
}  # of the first column, where a file names them
MAX_SAMPLE_LINES = 2000  # lines
MIN_BLANK_LINES = 2  # lines between sentences that a file without a telling name must have
MAX_SENTENCE_TOKENS = 1_000_000  # of one sentence


@dataclass(frozen=True, kw_only=True)
class ConllLayout:
    """How a column file is laid out."""

    columns: tuple[str, ...]  # `tokens`, and `tags` for the one that is learned
    tabs: bool
    header: bool
    marked: bool = False  # every tag is O, or has a B-, an I- or the like

    @property
    def universal(self) -> bool:
        """Whether it numbers its words, as CoNLL-U does."""
        return self.columns == CONLL_U_COLUMNS


def detect_conll(head: str, *, named: bool) -> ConllLayout | None:
    """What a file looks like from its first lines; `named` says that its name promises columns."""
    lines = [line.rstrip("\r") for line in islice(head.split("\n")[:-1] or [head], MAX_SAMPLE_LINES)]
    before = ("", *lines)  # lines of comment stand before the first token of a sentence
    tokens = [line for last, line in zip(before, lines, strict=False) if _is_token(line, last)]
    tabs = sum("\t" in line for line in tokens) * 2 > len(tokens)
    rows = [_split_cells(line, tabs=tabs) for line in tokens]
    counts = Counter(len(cells) for cells in rows if cells)
    if not counts:
        return None
    width = counts.most_common(1)[0][0]
    kept = [cells for cells in rows if len(cells) == width]
    if width == len(CONLL_U_COLUMNS) and all(WORD_NUMBER.match(cells[0]) for cells in kept):
        return ConllLayout(columns=CONLL_U_COLUMNS, tabs=tabs, header=False)
    header = (
        len(rows[0]) == width > 1 and rows[0][0].casefold() in TOKEN_COLUMN_NAMES and not TAG_PATTERN.match(rows[0][-1])
    )
    blanks = sum(not line.strip() for line in lines)
    tagged = width > 1 and all(TAG_PATTERN.match(cells[-1]) for cells in (kept[1:] if header else kept))
    if not named and not (tagged and blanks >= MIN_BLANK_LINES and len(kept) >= 0.98 * len(rows)):
        return None
    numbered = [f"column{place + 2}" for place in range(width - 2)]
    names = (TOKENS,) if width == 1 else (TOKENS, *(rows[0][1:-1] if header else numbered), TAGS)
    unique = len(set(names)) == len(names)
    columns = names if unique else (TOKENS, *numbered, TAGS)
    return ConllLayout(columns=columns, tabs=tabs, header=header, marked=tagged)


def _is_token(line: str, before: str) -> bool:
    """Neither blank, nor the beginning of a document, nor a comment above a sentence."""
    comment = line.startswith("#") and (not before.strip() or before.startswith(("#", DOCUMENT_START)))
    return bool(line.strip()) and not line.startswith(DOCUMENT_START) and not comment


def read_sentence_rows(lines: Iterable[Line], grid: ConllLayout) -> Rows:
    """A row for each sentence, with a list of cells for each column."""
    for number, sentence in enumerate(_iter_sentences(lines, grid), start=1):
        yield _build_row(number, sentence, grid)


def _iter_sentences(lines: Iterable[Line], grid: ConllLayout) -> Iterator[list[Line]]:
    sentence: list[Line] = []
    begun = not grid.header
    for line in lines:
        _, text, problem = line
        if problem is None and not text.strip():
            if sentence:
                yield sentence
            sentence = []
        elif problem is None and (text.startswith(DOCUMENT_START) or _is_comment(text, grid, first=not sentence)):
            continue
        elif not begun:
            begun = True
        else:
            sentence.append(line)
            if len(sentence) >= MAX_SENTENCE_TOKENS:
                yield sentence
                sentence = []
    if sentence:
        yield sentence


def _is_comment(text: str, grid: ConllLayout, *, first: bool) -> bool:
    """A line such as `# text = ...`; a token that is a number sign has the cells of a token, and its tag."""
    if not text.startswith("#"):
        return False
    cells = _split_cells(text, tabs=grid.tabs)
    return len(cells) != len(grid.columns) or (first and grid.marked and not TAG_PATTERN.match(cells[-1]))


def _build_row(number: int, sentence: Sequence[Line], grid: ConllLayout) -> Row | BadRow:
    begin = sentence[0][0]
    cells: list[list[str]] = []
    for place, text, problem in sentence:
        kind = problem or (NUL_BYTE if "\0" in text else None)
        if kind is not None:
            return BadRow(number, REASONS[kind], excerpt(text), place, kind)
        found = _split_cells(text, tabs=grid.tabs)
        if grid.universal and len(found) == len(grid.columns) and not found[0].isdigit():
            continue  # 1-2 joins two words, 1.1 is none that was written
        if len(found) != len(grid.columns) or not found[0].strip():
            reason = f"a line of {len(found)} cells, expected {len(grid.columns)}"
            return BadRow(number, reason, excerpt(text), place, WRONG_CELL_COUNT)
        cells.append(found)
    if not cells:
        return BadRow(number, "a sentence without words", excerpt(sentence[0][1]), begin, WRONG_CELL_COUNT)
    columns = zip(grid.columns, zip(*cells, strict=True), strict=True)
    return Row(number, {name: list(column) for name, column in columns}, begin)


def _split_cells(line: str, *, tabs: bool) -> list[str]:
    text = line.rstrip("\r\n")
    return [cell.strip() for cell in text.split("\t")] if tabs else text.split()
