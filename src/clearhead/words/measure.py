"""How good vectors are: likeness of words as people see it (WordSim-353, SimLex-999), and analogies by section."""

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

MOST_ROWS = 1_000_000
SOLVED = 2048  # questions between two reports of progress


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """How the cosines of word pairs rank beside the scores that people gave."""

    name: str
    spearman: Interval  # over the rows whose words are known
    rows: int
    known: int

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `--json` prints them."""
        return {"name": self.name, "rows": self.rows, "known": self.known, "spearman": interval_json(self.spearman)}


@dataclass(frozen=True, kw_only=True)
class Section:
    """The analogies of one kind."""

    name: str
    accuracy: Interval | None  # None: no row of it is known
    rows: int
    known: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        accuracy = None if self.accuracy is None else interval_json(self.accuracy)
        return {"name": self.name, "rows": self.rows, "known": self.known, "accuracy": accuracy}


@dataclass(frozen=True, kw_only=True)
class Analogies:
    """How many of `a is to b as c is to ...` are answered right, in all and by section."""

    name: str
    whole: Section
    sections: tuple[Section, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return self.whole.to_json() | {"name": self.name, "sections": [one.to_json() for one in self.sections]}


def interval_json(made: Interval) -> dict[str, float]:
    """A number with its ends."""
    return {"value": made.value, "low": made.low, "high": made.high}


def measure_likeness(vectors: WordVectors, path: str | os.PathLike[str], *, seed: int = 0) -> Likeness:
    """Spearman's correlation with a file of `word, word, score` lines, with a bootstrap interval over its rows."""
    pairs = list(_pairs(Path(path)))
    known = [
        (a, b, score)
        for one, two, score in pairs
        if (a := vectors.find(one)) is not None and (b := vectors.find(two)) is not None
    ]
    name = to_printable(Path(path).name)
    if len(known) < 3:
        few = f"{vectors.name} knows the words of {len(known)} of its {len(pairs):,} rows"
        raise InputError(f"{name}: {few}, and 3 are needed.")
    first, second = (np.array([row[side] for row in known]) for side in (0, 1))
    unit = [vectors.matrix[side] / vectors.lengths[side, None] for side in (first, second)]
    cosines = np.einsum("ij,ij->i", *unit).astype(np.float64)
    scores = np.array([score for _, _, score in known])
    found = bootstrap(spearman, scores, cosines, seed=seed)
    return Likeness(name=name, spearman=found, rows=len(pairs), known=len(known))


def measure_analogies(
    vectors: WordVectors, path: str | os.PathLike[str], *, progress: Progress = no_progress
) -> Analogies:
    """The share of a file's questions (four words a line, `: name` before a section) that 3CosAdd answers right."""
    sections = _questions(Path(path))
    name = to_printable(Path(path).name)
    asked = {title: _known(vectors, rows) for title, rows in sections.items()}
    total, done = sum(map(len, asked.values())), 0
    right: dict[str, int] = {}
    for title, rows in asked.items():
        right[title] = 0
        for start in range(0, len(rows), SOLVED):
            some = rows[start : start + SOLVED]
            right[title] += int((vectors.solve(some[:, :3]) == some[:, 3]).sum())
            done += len(some)
            progress("solving analogies", done, total)
    made = tuple(_section(title, right[title], len(asked[title]), len(rows)) for title, rows in sections.items())
    whole = _section("all", sum(right.values()), total, sum(map(len, sections.values())))
    return Analogies(name=name, whole=whole, sections=made)


def _section(name: str, right: int, known: int, rows: int) -> Section:
    return Section(name=name, accuracy=wilson_interval(right, known) if known else None, rows=rows, known=known)


def _known(vectors: WordVectors, rows: Sequence[Sequence[str]]) -> Array:
    """(questions, 4) the rows of the words, for questions whose words are all known and not the same."""
    found = [[vectors.find(word) for word in row] for row in rows]
    kept = [row for row in found if None not in row and row[3] not in row[:3]]
    return np.array(kept, np.int64).reshape(-1, 4)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    notes: list[str] = []
    for number, line in enumerate(_plain(path, notes), 1):
        if number > MOST_ROWS:
            raise InputError(f"{to_printable(path.name)} has more than {MOST_ROWS:,} lines, so it is no file of tests.")
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()


def _plain(path: Path, notes: list[str]) -> Iterable[str]:
    """The lines of a file, also where its name says that it is a table."""
    with path.open("rb") if path.is_file() else _missing(path) as file:
        yield from read_line_texts([file], None, None, notes)


def _missing(path: Path) -> Any:
    raise InputError(f"{to_printable(path)} is not there, or no file.")


def _pairs(path: Path) -> Iterator[tuple[str, str, float]]:
    """Two words and a score: the first three columns that are so, whatever parts them; SimLex has its score fourth."""
    header: list[str] = []
    for number, line in _lines(path):
        parts = [part.strip() for part in (line.split("\t") if "\t" in line else line.replace(",", " ").split())]
        lower = [part.lower() for part in parts]
        if not header and (lower[:2] in (["word1", "word2"], ["word 1", "word 2"])):
            header = lower
            continue
        place = header.index("simlex999") if "simlex999" in header else 2
        try:
            score = float(parts[place])
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


def _questions(path: Path) -> dict[str, list[list[str]]]:
    made: dict[str, list[list[str]]] = {}
    title = "questions"
    for number, line in _lines(path):
        if line.startswith(":"):
            title = to_printable(line[1:].strip(), 60) or "questions"
            continue
        words = line.split()
        if len(words) != 4:
            raise InputError(
                f"{to_printable(path.name)}: line {number:,} is {to_printable(line, 60)!r}, expected four words or "
                "`: name`."
            )
        made.setdefault(title, []).append(words)
    if not made:
        raise InputError(f"{to_printable(path.name)} holds no questions; expected lines of four words.")
    return made
