"""Texts as weighted counts of words and neighbouring words: the same numbers as scikit-learn's TfidfVectorizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from clearhead.classic.sparse import SparseRows, build_sparse_rows, pair_features, pair_width, stack_sparse_rows
from clearhead.errors import InputError, MissingExtraError
from clearhead.metrics.checks import Array
from clearhead.text.words import split_tfidf_words

MOST_TERMS = 1 << 20
MOST_NGRAM = 5
LONGEST = 256  # letters; what is longer is no term that comes again
MOST_COUNTED = 2_000_000  # terms that are counted at a time: about 300 MB
CHUNK = 1000  # rows that are turned into numbers together
ONE_ROW = 1 << 48  # a count holds rows and occurrences in one number: half the memory of two tables

Rows = Callable[[], Iterator[tuple[str, str | None]]]


@dataclass(frozen=True, kw_only=True)
class TfidfSettings:
    """What counts as a term, and how it is weighed."""

    ngrams: tuple[int, int] = (1, 2)  # words of the shortest and of the longest term
    lowercase: bool = True
    min_rows: int = 2  # a term that is in fewer texts is left out: it can only be learned by heart
    max_terms: int | None = 100_000  # the most frequent are kept; None: all
    sublinear: bool = True  # 1 + log(count): a word that comes ten times does not say ten times as much
    pairs: bool = False  # two texts a row

    def check(self) -> None:
        """One sentence for the first setting that cannot be."""
        rules = (
            (1 <= self.ngrams[0] <= self.ngrams[1] <= MOST_NGRAM, f"ngrams must rise within 1 to {MOST_NGRAM}"),
            (self.min_rows >= 1, "min_rows must be at least 1"),
            (self.max_terms is None or 1 <= self.max_terms <= MOST_TERMS, f"max_terms must be 1 to {MOST_TERMS:,}"),
        )
        for holds, said in rules:
            if not holds:
                raise InputError(f"TF-IDF settings: {said}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Tfidf:
    """The terms of a set of texts, and how much each of them says."""

    terms: tuple[str, ...]
    idf: Array  # (terms,) float32
    settings: TfidfSettings = TfidfSettings()

    @property
    def width(self) -> int:
        """How many features a row has."""
        return pair_width(len(self.terms)) if self.settings.pairs else len(self.terms)

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """The place of each term."""
        return {term: place for place, term in enumerate(self.terms)}

    def transform(self, texts: Sequence[str], texts_b: Sequence[str] | None = None) -> SparseRows:
        """One row of features for each text, or for each two."""
        if self.settings.pairs != (texts_b is not None):
            expected = "two texts" if self.settings.pairs else "one text"
            raise InputError(f"this model reads {expected} a row, and {'two' if texts_b is not None else 'one'} came.")
        if texts_b is None:
            return self._weigh_terms(texts)
        if len(texts) != len(texts_b):
            raise InputError(f"{len(texts)} first texts and {len(texts_b)} second texts came; give as many of both.")
        return pair_features(self._weigh_terms(texts), self._weigh_terms(texts_b))

    def _weigh_terms(self, texts: Sequence[str]) -> SparseRows:
        places: list[int] = []
        known: list[int] = []  # how many terms of each text are in the vocabulary
        place_of = self.vocabulary.get
        for text in _check_texts(texts):
            found = [place for term in extract_terms(text, self.settings) if (place := place_of(term)) is not None]
            places += found
            known.append(len(found))
        width = len(self.terms)
        keys = np.repeat(np.arange(len(known)), np.array(known, np.int64)) * width + np.array(places, np.int64)
        keys, counts = np.unique(keys, return_counts=True)
        rows, columns = keys // width, keys % width
        # weight(t, d) = (1 + log tf(t, d)) x idf(t), then rows of length 1
        values = (1 + np.log(counts) if self.settings.sublinear else counts) * self.idf[columns].astype(np.float64)
        length = np.sqrt(np.bincount(rows, weights=values**2, minlength=len(known)))
        return build_sparse_rows(rows, columns, values / length[rows], count=len(known), width=width)


def extract_terms(text: str, settings: TfidfSettings) -> list[str]:
    """The words of a text and the runs of neighbouring words, with repeats."""
    words = split_tfidf_words(text.lower() if settings.lowercase else text)
    shortest, longest = settings.ngrams
    found = words.copy() if shortest == 1 else []
    for size in range(max(shortest, 2), longest + 1):
        found += map(" ".join, zip(*(words[start:] for start in range(size)), strict=False))
    return found


def fit_tfidf(
    rows: Rows,
    *,
    pairs: bool = False,
    ngrams: tuple[int, int] = (1, 2),
    lowercase: bool = True,
    min_rows: int = 2,
    max_terms: int | None = 100_000,
    sublinear: bool = True,
) -> tuple[Tfidf, Any]:
    """Read the rows twice, once for the terms and once for their numbers: the model, and a scipy matrix of the rows."""
    try:
        from scipy.sparse import csr_matrix  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("Fitting TF-IDF", "train") from error
    settings = TfidfSettings(
        ngrams=(ngrams[0], ngrams[1]),
        lowercase=lowercase,
        min_rows=min_rows,
        max_terms=max_terms,
        sublinear=sublinear,
        pairs=pairs,
    )
    settings.check()
    tfidf = _count_terms(rows, settings)
    source, parts = _iter_pairs(rows(), pairs), []
    while chunk := list(islice(source, CHUNK)):
        first, second = [row[0] for row in chunk], [row[1] for row in chunk]
        parts.append(tfidf.transform(first, second if pairs else None))
    made = stack_sparse_rows(parts, tfidf.width)
    return tfidf, csr_matrix((made.values, made.indices, made.indptr), shape=(len(made), made.width))


def _count_terms(rows: Rows, settings: TfidfSettings) -> Tfidf:
    """Terms that are in enough texts, the most frequent if there are too many, in the order of their letters."""
    seen: dict[str, int] = {}
    texts = 0
    for first, second in _iter_pairs(rows(), settings.pairs):
        for text in (first, second) if settings.pairs else (first,):
            texts += 1
            for term, count in Counter(extract_terms(text, settings)).items():
                seen[term] = seen.get(term, 0) + ONE_ROW + count
        if len(seen) > MOST_COUNTED:
            seen = _prune_rare_terms(seen)
    kept = [term for term, count in seen.items() if count >= settings.min_rows * ONE_ROW and len(term) <= LONGEST]
    if not kept:
        raise InputError(
            f"No word of two letters or more is in at least {settings.min_rows} of the {texts:,} texts, so there is "
            "nothing to count: give more rows, or a lower min_rows."
        )
    most = min(settings.max_terms or MOST_TERMS, MOST_TERMS)
    if len(kept) > most:
        kept = sorted(kept, key=lambda term: (-(seen[term] % ONE_ROW), term))[:most]
    terms = tuple(sorted(kept))
    # idf(t) = log((1 + n) / (1 + df(t))) + 1
    found = np.array([seen[term] // ONE_ROW for term in terms], np.float64)
    return Tfidf(terms=terms, idf=(np.log((1 + texts) / (1 + found)) + 1).astype(np.float32), settings=settings)


def _prune_rare_terms(seen: dict[str, int]) -> dict[str, int]:
    """Forget the rarest terms, at least half; those that come again are counted anew, so only their counts suffer."""
    least = 1
    while len(seen) > MOST_COUNTED // 2:
        least += 1
        seen = {term: count for term, count in seen.items() if count >= least * ONE_ROW}
    return seen


def _iter_pairs(rows: Iterable[tuple[str, str | None]], pairs: bool) -> Iterator[tuple[str, str]]:
    for number, (first, second) in enumerate(rows, 1):
        if pairs != (second is not None):
            raise InputError(f"row {number} has {'no' if pairs else 'a'} second text, and pairs is {pairs}.")
        yield first, second or ""


def _check_texts(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InputError("texts must be a list of strings.")
    return texts
