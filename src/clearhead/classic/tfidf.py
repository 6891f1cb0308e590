"""TF-IDF features of word n-grams, equal to those of scikit-learn's TfidfVectorizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from clearhead.classic.sparse import SparseRows, build_sparse_rows, combine_pairs, count_pair_columns, stack_sparse_rows
from clearhead.errors import InputError, MissingExtraError
from clearhead.metrics.checks import Array
from clearhead.text.words import split_tfidf_words

MAX_TERMS = 1 << 20
MAX_NGRAM_WORDS = 5
MAX_TERM_LENGTH = 256  # characters; longer terms do not recur
MAX_COUNTED_TERMS = 2_000_000  # terms counted at a time (about 300 MB)
CHUNK_ROWS = 1000  # rows that are vectorized together
ROW_UNIT = 1 << 48  # one integer counts both rows (upper bits) and occurrences, which halves the memory

Rows = Callable[[], Iterator[tuple[str, str | None]]]


@dataclass(frozen=True, kw_only=True)
class TfidfSettings:
    """Which terms are used, and how they are weighted."""

    ngrams: tuple[int, int] = (1, 2)  # number of words of the shortest and the longest term
    lowercase: bool = True
    min_rows: int = 2  # terms in fewer texts are dropped, since a model could only memorize them
    max_terms: int | None = 100_000  # only the most frequent terms; None: all
    sublinear: bool = True  # 1 + log(count) instead of count: repetitions of a word add little
    pairs: bool = False  # rows are pairs of texts

    def check(self) -> None:
        """Raise an error for the first invalid setting."""
        rules = (
            (
                1 <= self.ngrams[0] <= self.ngrams[1] <= MAX_NGRAM_WORDS,
                f"ngrams must be two ascending numbers from 1 to {MAX_NGRAM_WORDS}",
            ),
            (self.min_rows >= 1, "min_rows must be at least 1"),
            (self.max_terms is None or 1 <= self.max_terms <= MAX_TERMS, f"max_terms must be from 1 to {MAX_TERMS:,}"),
        )
        for is_valid, message in rules:
            if not is_valid:
                raise InputError(f"TF-IDF settings: {message}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Tfidf:
    """A TF-IDF vocabulary with the inverse document frequency of each term."""

    terms: tuple[str, ...]
    idf: Array  # (terms,) float32
    settings: TfidfSettings = TfidfSettings()

    @property
    def width(self) -> int:
        """Number of features per row."""
        return count_pair_columns(len(self.terms)) if self.settings.pairs else len(self.terms)

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """The index of each term."""
        return {term: index for index, term in enumerate(self.terms)}

    def transform(self, texts: Sequence[str], texts_b: Sequence[str] | None = None) -> SparseRows:
        """Compute a row of features for each text or pair of texts."""
        if self.settings.pairs != (texts_b is not None):
            expected = "two texts" if self.settings.pairs else "one text"
            raise InputError(f"This model expects {expected} per row, got {'two' if texts_b is not None else 'one'}.")
        if texts_b is None:
            return self._weigh_terms(texts)
        if len(texts) != len(texts_b):
            raise InputError(f"Got {len(texts)} first texts and {len(texts_b)} second texts; the counts must match.")
        return combine_pairs(self._weigh_terms(texts), self._weigh_terms(texts_b))

    def _weigh_terms(self, texts: Sequence[str]) -> SparseRows:
        columns_of_terms: list[int] = []
        term_counts: list[int] = []  # terms of each text that are in the vocabulary
        index_of = self.vocabulary.get
        for text in _check_texts(texts):
            text_columns = [
                index for term in extract_terms(text, self.settings) if (index := index_of(term)) is not None
            ]
            columns_of_terms += text_columns
            term_counts.append(len(text_columns))
        width = len(self.terms)
        rows_of_terms = np.repeat(np.arange(len(term_counts)), np.array(term_counts, np.int64))
        keys, counts = np.unique(rows_of_terms * width + np.array(columns_of_terms, np.int64), return_counts=True)
        rows, columns = keys // width, keys % width
        # weight(t, d) = (1 + log tf(t, d)) x idf(t), then rows are scaled to length 1
        values = (1 + np.log(counts) if self.settings.sublinear else counts) * self.idf[columns].astype(np.float64)
        length = np.sqrt(np.bincount(rows, weights=values**2, minlength=len(term_counts)))
        return build_sparse_rows(rows, columns, values / length[rows], count=len(term_counts), width=width)


def extract_terms(text: str, settings: TfidfSettings) -> list[str]:
    """Extract the word n-grams of a text, with repetitions."""
    words = split_tfidf_words(text.lower() if settings.lowercase else text)
    shortest, longest = settings.ngrams
    terms = words.copy() if shortest == 1 else []
    for size in range(max(shortest, 2), longest + 1):
        terms += map(" ".join, zip(*(words[start:] for start in range(size)), strict=False))
    return terms


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
    """Fit TF-IDF in two passes over the rows, and return the model and a scipy matrix of the rows."""
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
    pairs_of_texts, parts = _iter_pairs(rows(), pairs), []
    while chunk := list(islice(pairs_of_texts, CHUNK_ROWS)):
        first, second = [row[0] for row in chunk], [row[1] for row in chunk]
        parts.append(tfidf.transform(first, second if pairs else None))
    stacked = stack_sparse_rows(parts, tfidf.width)
    return tfidf, csr_matrix((stacked.values, stacked.indices, stacked.indptr), shape=(len(stacked), stacked.width))


def _count_terms(rows: Rows, settings: TfidfSettings) -> Tfidf:
    """Collect the terms that occur in enough texts, the most frequent if there are too many, in alphabetical order."""
    counts: dict[str, int] = {}
    text_count = 0
    for first, second in _iter_pairs(rows(), settings.pairs):
        for text in (first, second) if settings.pairs else (first,):
            text_count += 1
            for term, count in Counter(extract_terms(text, settings)).items():
                counts[term] = counts.get(term, 0) + ROW_UNIT + count
        if len(counts) > MAX_COUNTED_TERMS:
            counts = _prune_rare_terms(counts)
    kept_terms = [
        term for term, count in counts.items() if count >= settings.min_rows * ROW_UNIT and len(term) <= MAX_TERM_LENGTH
    ]
    if not kept_terms:
        raise InputError(
            f"No word of two or more letters occurs in at least {settings.min_rows} of the {text_count:,} texts; "
            "add rows, or lower min_rows."
        )
    max_terms = min(settings.max_terms or MAX_TERMS, MAX_TERMS)
    if len(kept_terms) > max_terms:
        kept_terms = sorted(kept_terms, key=lambda term: (-(counts[term] % ROW_UNIT), term))[:max_terms]
    terms = tuple(sorted(kept_terms))
    # idf(t) = log((1 + n) / (1 + df(t))) + 1
    row_counts = np.array([counts[term] // ROW_UNIT for term in terms], np.float64)
    return Tfidf(
        terms=terms, idf=(np.log((1 + text_count) / (1 + row_counts)) + 1).astype(np.float32), settings=settings
    )


def _prune_rare_terms(counts: dict[str, int]) -> dict[str, int]:
    """Drop the rarest terms, at least half; those that recur are counted from 1, so counts are lower bounds."""
    min_rows = 1
    while len(counts) > MAX_COUNTED_TERMS // 2:
        min_rows += 1
        counts = {term: count for term, count in counts.items() if count >= min_rows * ROW_UNIT}
    return counts


def _iter_pairs(rows: Iterable[tuple[str, str | None]], pairs: bool) -> Iterator[tuple[str, str]]:
    for row_number, (first, second) in enumerate(rows, 1):
        if pairs != (second is not None):
            raise InputError(f"Row {row_number} has {'no' if pairs else 'a'} second text, but pairs is {pairs}.")
        yield first, second or ""


def _check_texts(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InputError("texts must be a list of strings.")
    return texts
