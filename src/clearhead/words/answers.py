"""Results of `words`: nearest neighbors, cosines, and evaluations of word vectors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clearhead.caller import setting
from clearhead.deprecation import renamed_fields
from clearhead.errors import InputError
from clearhead.html import render_table, short_repr
from clearhead.progress import Progress, no_progress
from clearhead.words.measure import AnalogyScores, WordSimilarity, measure_analogies, measure_similarity
from clearhead.words.vectors import Neighbor, WordVectors


@renamed_fields(neighbours="neighbors", likeness="similarities")
@dataclass(frozen=True, kw_only=True)
class WordAnswers:
    """Results of queries on word vectors; fields that were not requested are empty."""

    vectors: WordVectors
    terms: tuple[str, ...] = ()
    neighbors: tuple[Neighbor, ...] = ()  # of the terms, nearest first
    similar: tuple[str, str] | None = None
    cosine: float | None = None  # of the words in `similar`
    similarities: Mapping[str, WordSimilarity] = field(default_factory=dict)  # wordsim, simlex
    analogies: AnalogyScores | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        vectors = self.vectors
        values: dict[str, Any] = {"model": vectors.name, "words": len(vectors), "width": vectors.width}
        values["notes"] = list(vectors.notes)
        if self.terms:
            values["asked"] = " ".join(self.terms)
            values["neighbours"] = [{"word": neighbor.word, "cosine": neighbor.cosine} for neighbor in self.neighbors]
        if self.similar is not None:
            values["similar"] = {"words": list(self.similar), "cosine": self.cosine}
        values |= {name: scores.to_json() for name, scores in self.similarities.items()}
        return values | ({} if self.analogies is None else {"analogies": self.analogies.to_json()})

    def __repr__(self) -> str:
        neighbors = ", ".join(f"{neighbor.word} {neighbor.cosine:.3f}" for neighbor in self.neighbors[:6])
        cosine = None if self.cosine is None else f"cosine {self.cosine:.4f}"
        return short_repr("WordAnswers", " ".join(self.terms), neighbors, cosine)

    def _repr_html_(self) -> str:
        rows = [(neighbor.word, f"{neighbor.cosine:.4f}") for neighbor in self.neighbors]
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
    """Compute the neighbors of the terms, the cosine of two words, and the scores on the given files."""
    neighbors = tuple(vectors.neighbors(terms, top=top)) if terms else ()
    files = {name: path for name, path in (("wordsim", wordsim), ("simlex", simlex)) if path is not None}
    return WordAnswers(
        vectors=vectors,
        terms=tuple(terms),
        neighbors=neighbors,
        similar=None if similar is None else (similar[0], similar[1]),
        cosine=None if similar is None else vectors.cosine(*similar),
        similarities={name: measure_similarity(vectors, path) for name, path in files.items()},
        analogies=None if analogies is None else measure_analogies(vectors, analogies, progress=progress),
    )


def check_question(terms: Sequence[str], *others: object) -> None:
    """Refuse a call without a query."""
    if not terms and all(source is None for source in others):
        alternatives = ", ".join(setting(name) for name in ("similar", "wordsim", "simlex", "analogies"))
        raise InputError(f"Pass a word, words with + and - between them, or {alternatives}.")
