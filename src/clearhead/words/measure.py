"""Evaluation of word vectors: human similarity judgments (WordSim-353, SimLex-999), and analogies by section."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.data.sources.lines import read_line_texts
from clearhead.errors import InputError
from clearhead.files import to_printable
from clearhead.metrics.checks import Array
from clearhead.metrics.correlation import spearman
from clearhead.metrics.intervals import Interval, bootstrap, wilson_interval
from clearhead.progress import Progress, no_progress
from clearhead.words.vectors import WordVectors

MAX_LINES = 1_000_000
PROGRESS_QUESTIONS = 2048  # questions between progress reports


@dataclass(frozen=True, kw_only=True)
class WordSimilarity:
    """Rank correlation of cosines with human similarity scores."""

    name: str
    spearman: Interval  # over the rows whose words are in the vocabulary
    rows: int
    known: int

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as printed by `--json`."""
        return {"name": self.name, "rows": self.rows, "known": self.known, "spearman": interval_to_json(self.spearman)}


@dataclass(frozen=True, kw_only=True)
class AnalogySection:
    """Accuracy on one section of the analogies."""

    name: str
    accuracy: Interval | None  # None: no row is in the vocabulary
    rows: int
    known: int

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        accuracy = None if self.accuracy is None else interval_to_json(self.accuracy)
        return {"name": self.name, "rows": self.rows, "known": self.known, "accuracy": accuracy}


@dataclass(frozen=True, kw_only=True)
class AnalogyScores:
    """Accuracy on analogies (`a is to b as c is to ...`), in total and by section."""

    name: str
    whole: AnalogySection
    sections: tuple[AnalogySection, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return self.whole.to_json() | {"name": self.name, "sections": [section.to_json() for section in self.sections]}


def interval_to_json(interval: Interval) -> dict[str, float]:
    """Return an interval as plain values."""
    return {"value": interval.value, "low": interval.low, "high": interval.high}


def measure_similarity(vectors: WordVectors, path: str | os.PathLike[str], *, seed: int = 0) -> WordSimilarity:
    """Compute Spearman's correlation with a file of `word, word, score` lines, with a bootstrap interval."""
    pairs = list(_read_pairs(Path(path)))
    known_pairs = [
        (a, b, score)
        for word_a, word_b, score in pairs
        if (a := vectors.find(word_a)) is not None and (b := vectors.find(word_b)) is not None
    ]
    name = to_printable(Path(path).name)
    if len(known_pairs) < 3:
        problem = f"only {len(known_pairs)} of its {len(pairs):,} rows are in the vocabulary of {vectors.name}"
        raise InputError(f"{name}: {problem}, but 3 are needed.")
    first, second = (np.array([row[side] for row in known_pairs]) for side in (0, 1))
    unit = [vectors.matrix[side] / vectors.norms[side, None] for side in (first, second)]
    cosines = np.einsum("ij,ij->i", *unit).astype(np.float64)
    scores = np.array([score for _, _, score in known_pairs])
    correlation = bootstrap(spearman, scores, cosines, seed=seed)
    return WordSimilarity(name=name, spearman=correlation, rows=len(pairs), known=len(known_pairs))


def measure_analogies(
    vectors: WordVectors, path: str | os.PathLike[str], *, progress: Progress = no_progress
) -> AnalogyScores:
    """Compute the accuracy of 3CosAdd on a file of analogies: four words per line, `: name` starts a section."""
    sections = _read_questions(Path(path))
    name = to_printable(Path(path).name)
    questions = {title: _find_question_rows(vectors, rows) for title, rows in sections.items()}
    total, done = sum(map(len, questions.values())), 0
    correct: dict[str, int] = {}
    for title, rows in questions.items():
        correct[title] = 0
        for start in range(0, len(rows), PROGRESS_QUESTIONS):
            block = rows[start : start + PROGRESS_QUESTIONS]
            correct[title] += int((vectors.solve_analogies(block[:, :3]) == block[:, 3]).sum())
            done += len(block)
            progress("solving analogies", done, total)
    scores = tuple(
        _make_section(title, correct[title], len(questions[title]), len(rows)) for title, rows in sections.items()
    )
    overall = _make_section("all", sum(correct.values()), total, sum(map(len, sections.values())))
    return AnalogyScores(name=name, whole=overall, sections=scores)


def _make_section(name: str, correct: int, known_count: int, rows: int) -> AnalogySection:
    return AnalogySection(
        name=name, accuracy=wilson_interval(correct, known_count) if known_count else None, rows=rows, known=known_count
    )


def _find_question_rows(vectors: WordVectors, rows: Sequence[Sequence[str]]) -> Array:
    """Return the rows of the words, (questions, 4), for questions with known words and a distinct answer."""
    question_rows = [[vectors.find(word) for word in row] for row in rows]
    valid = [row for row in question_rows if None not in row and row[3] not in row[:3]]
    return np.array(valid, np.int64).reshape(-1, 4)


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    notes: list[str] = []
    for number, line in enumerate(_read_text_lines(path, notes), 1):
        if number > MAX_LINES:
            raise InputError(
                f"{to_printable(path.name)} has more than {MAX_LINES:,} lines, so it is not an evaluation file."
            )
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()


def _read_text_lines(path: Path, notes: list[str]) -> Iterable[str]:
    """Iterate over the lines of a file as plain text, even if its name is that of a table."""
    with path.open("rb") if path.is_file() else _refuse_missing_file(path) as file:
        yield from read_line_texts([file], None, None, notes)


def _refuse_missing_file(path: Path) -> Any:
    raise InputError(f"{to_printable(path)} does not exist or is not a file.")


def _read_pairs(path: Path) -> Iterator[tuple[str, str, float]]:
    """Iterate over two words and a score per line, in any column format; SimLex has the score in the fourth column."""
    header: list[str] = []
    for number, line in _read_lines(path):
        parts = [part.strip() for part in (line.split("\t") if "\t" in line else line.replace(",", " ").split())]
        lower = [part.lower() for part in parts]
        if not header and (lower[:2] in (["word1", "word2"], ["word 1", "word 2"])):
            header = lower
            continue
        score_column = header.index("simlex999") if "simlex999" in header else 2
        try:
            score = float(parts[score_column])
        except (IndexError, ValueError):
            raise InputError(
                f"{to_printable(path.name)}: line {number:,} is {to_printable(line, 60)!r}, expected two words and "
                "a score."
            ) from None
        if not np.isfinite(score):
            raise InputError(
                f"{to_printable(path.name)}: line {number:,} has the score {score}, expected a finite number."
            )
        yield parts[0], parts[1], score


def _read_questions(path: Path) -> dict[str, list[list[str]]]:
    questions: dict[str, list[list[str]]] = {}
    title = "questions"
    for number, line in _read_lines(path):
        if line.startswith(":"):
            title = to_printable(line[1:].strip(), 60) or "questions"
            continue
        words = line.split()
        if len(words) != 4:
            raise InputError(
                f"{to_printable(path.name)}: line {number:,} is {to_printable(line, 60)!r}, expected four words or "
                "`: name`."
            )
        questions.setdefault(title, []).append(words)
    if not questions:
        raise InputError(f"{to_printable(path.name)} contains no questions; expected lines of four words.")
    return questions
