"""What `words` answers: neighbours and sums of words, cosines, and how good the vectors are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clearhead.caller import setting
from clearhead.errors import InputError
from clearhead.html import render_table, short_repr
from clearhead.progress import Progress, no_progress
from clearhead.words.measure import Analogies, Likeness, measure_analogies, measure_likeness
from clearhead.words.vectors import Neighbour, WordVectors


@dataclass(frozen=True, kw_only=True)
class WordAnswers:
    """The answers of word vectors; what was not asked for is empty."""

    vectors: WordVectors
    terms: tuple[str, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()  # of the terms, the nearest first
    similar: tuple[str, str] | None = None
    cosine: float | None = None  # of the two similar words
    likeness: Mapping[str, Likeness] = field(default_factory=dict)  # wordsim, simlex
    analogies: Analogies | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        vectors = self.vectors
        values: dict[str, Any] = {"model": vectors.name, "words": len(vectors), "width": vectors.width}
        values["notes"] = list(vectors.notes)
        if self.terms:
            values["asked"] = " ".join(self.terms)
            values["neighbours"] = [{"word": near.word, "cosine": near.cosine} for near in self.neighbours]
        if self.similar is not None:
            values["similar"] = {"words": list(self.similar), "cosine": self.cosine}
        values |= {name: measure.to_json() for name, measure in self.likeness.items()}
        return values | ({} if self.analogies is None else {"analogies": self.analogies.to_json()})

    def __repr__(self) -> str:
        near = ", ".join(f"{word.word} {word.cosine:.3f}" for word in self.neighbours[:6])
        cosine = None if self.cosine is None else f"cosine {self.cosine:.4f}"
        return short_repr("WordAnswers", " ".join(self.terms), near, cosine)

    def _repr_html_(self) -> str:
        rows = [(near.word, f"{near.cosine:.4f}") for near in self.neighbours]
        return render_table(" ".join(self.terms) or self.vectors.name, ("word", "cosine"), rows)


def answer_words(
    vectors: WordVectors,
    terms: Sequence[str],
    *,
    top: int = 10,
    similar: tuple[str, str] | None = None,
    wordsim: str | os.PathLike[str] | None = None,
    simlex: str | os.PathLike[str] | None = None,
    analogies: str | os.PathLike[str] | None = None,
    progress: Progress = no_progress,
) -> WordAnswers:
    """Neighbours of the terms, the cosine of two words, and the measures on the files that are given."""
    near = tuple(vectors.neighbours(terms, top=top)) if terms else ()
    files = {name: path for name, path in (("wordsim", wordsim), ("simlex", simlex)) if path is not None}
    return WordAnswers(
        vectors=vectors,
        terms=tuple(terms),
        neighbours=near,
        similar=None if similar is None else (similar[0], similar[1]),
        cosine=None if similar is None else vectors.cosine(*similar),
        likeness={name: measure_likeness(vectors, path) for name, path in files.items()},
        analogies=None if analogies is None else measure_analogies(vectors, analogies, progress=progress),
    )


def check_question(terms: Sequence[str], *others: object) -> None:
    """Refuse a call that asks for nothing."""
    if not terms and all(other is None for other in others):
        ways = ", ".join(setting(name) for name in ("similar", "wordsim", "simlex", "analogies"))
        raise InputError(f"Say a word, words with + and - between them, or {ways}.")
