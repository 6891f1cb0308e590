"""Translations against references: BLEU, chrF and chrF++ as sacrebleu counts them, with intervals over rows.

Each row is counted once, by sacrebleu: so many n-grams said, so many wanted, so many right. A corpus score is a formula
over sums of these counts, so a thousand resamples are a few array operations and no text is cut into tokens again.

Sacrebleu's own tokenizations (13a, intl, zh, ...) are part of the published metrics, so they split the texts here,
and not by `clearhead.text.words`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike, check_finite
from clearhead.metrics.classification import proportion
from clearhead.metrics.intervals import Interval, bootstrap, bootstrap_all
from clearhead.metrics.measure import to_json
from clearhead.metrics.slices import Slice, split_column
from clearhead.metrics.weights import WeightedMetric, divide_or, metric, weighted_sums

ORDERS = 4  # n-grams of words that BLEU looks at
BETA = 2  # how much more recall weighs than precision in chrF
TOKENIZERS = ("13a", "intl", "zh", "char", "none")  # those of sacrebleu that need no download and no further package
BY_LANGUAGE = {"zh": "zh", "ja": "char", "ko": "char", "th": "char", "km": "char", "lo": "char", "my": "char"}

References = Sequence[str | Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class LengthSlice(Slice):
    """Rows whose sources are about as long: BLEU as the interval, and what goes with it."""

    chrf: Interval
    ratio: float  # words said for each word of the references: below 1 the translations are too short


@dataclass(frozen=True, kw_only=True)
class TranslationScores:
    """How good translations are; BLEU, chrF and chrF++ from 0 to 100, exact match as a share of rows."""

    measures: dict[str, Interval]  # bleu, chrf, chrf++, exact_match
    signatures: dict[str, str]  # sacrebleu's own words for how each was counted
    precisions: tuple[float, ...]  # of n-grams of one to four words, in percent
    brevity: float  # the penalty that BLEU takes for short translations; 1 is none
    ratio: float  # words said for each word of the references
    rows: int
    sentences: Array  # chrF of each row by itself
    slices: tuple[LengthSlice, ...] = ()  # by length of the source, the shortest first

    def worst(self, count: int = 10) -> list[int]:
        """Row numbers from 0, the lowest chrF first."""
        return [int(row) for row in np.argsort(self.sentences, kind="stable")[:count]]

    def best(self, count: int = 10) -> list[int]:
        """Row numbers from 0, the highest chrF first."""
        return [int(row) for row in np.argsort(-self.sentences, kind="stable")[:count]]

    def to_json(self) -> dict[str, Any]:
        """Plain values, all but the single sentences."""
        return {
            "rows": self.rows,
            "metrics": to_json(self.measures),
            "signatures": dict(self.signatures),
            "precisions": list(self.precisions),
            "brevity": self.brevity,
            "ratio": self.ratio,
            "by_source_length": [
                {"length": one.name, "rows": one.rows, "small": one.small, "ratio": one.ratio}
                | to_json({"bleu": one.interval, "chrf": one.chrf})
                for one in self.slices
            ],
        }


def measure_translations(
    hypotheses: Sequence[str],
    references: References,
    lengths: Sequence[int] | None = None,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    bins: int = 5,
    least: int = 30,
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    groups: ArrayLike | None = None,
) -> TranslationScores:
    """BLEU, chrF, chrF++ and exact match of translations; `references` has one text or several for each.

    `lengths` are those of the sources, in words or tokens, and ask for slices by length; `groups` draws rows of one
    document together. An empty translation is a translation, only a bad one.
    """
    wanted = _check_references(hypotheses, references)
    words, bleu_signature = bleu_statistics(hypotheses, wanted, tokenize=tokenize, lowercase=lowercase)
    letters, chrf_signature = chrf_statistics(hypotheses, wanted, lowercase=lowercase)
    both, plus_signature = chrf_statistics(hypotheses, wanted, lowercase=lowercase, word_order=2)
    drawn: dict[str, Any] = {"n": n, "level": level, "seed": seed}
    # one at a time: each has its own counts, and the same seed draws the same rows
    measures = {
        "bleu": bootstrap(corpus_bleu, words, groups=groups, **drawn),
        "chrf": bootstrap(corpus_chrf, letters, groups=groups, **drawn),
        "chrf++": bootstrap(corpus_chrf, both, groups=groups, **drawn),
        "exact_match": bootstrap(proportion, exact_matches(hypotheses, wanted), groups=groups, **drawn),
    }
    sums = words.sum(0)[:, None]
    return TranslationScores(
        measures=measures,
        signatures={"bleu": bleu_signature, "chrf": chrf_signature, "chrf++": plus_signature},
        precisions=tuple(float(value) for value in _precisions(sums)[:, 0]),
        brevity=float(_brevity(sums)[0]),
        ratio=float(divide_or(sums[0], sums[1])[0]),
        rows=len(words),
        sentences=sentence_chrf(letters),
        slices=() if lengths is None else _slice_by_length(lengths, words, letters, bins, least, drawn),
    )


def tokenizer_for(language: str | None) -> str:
    """Sacrebleu's tokenizer for a target language: by character where blanks do not part words."""
    code = (language or "").lower().replace("_", "-").split("-")[0]
    return BY_LANGUAGE.get(code, "13a")


def bleu_statistics(
    hypotheses: Sequence[str], references: References, *, tokenize: str = "13a", lowercase: bool = False
) -> tuple[Array, str]:
    """What BLEU counts in each row (words said, words wanted, right and said n-grams of 1 to 4), and its signature."""
    if tokenize not in TOKENIZERS:
        raise InputError(f"tokenize must be one of {', '.join(TOKENIZERS)}, and it is {tokenize!r}.")
    from sacrebleu import BLEU  # here, for importing it takes longer than counting a hundred rows

    counter = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    return _count_ngrams(counter, hypotheses, references)


def chrf_statistics(
    hypotheses: Sequence[str], references: References, *, word_order: int = 0, lowercase: bool = False
) -> tuple[Array, str]:
    """What chrF counts in each row (said, wanted and right n-grams of each order), and its signature; 2 for chrF++."""
    if word_order not in (0, 1, 2):
        raise InputError(f"word_order is 0 for chrF, 1 for chrF+ or 2 for chrF++, and it is {word_order!r}.")
    from sacrebleu import CHRF

    counter = CHRF(word_order=word_order, beta=BETA, lowercase=lowercase)
    return _count_ngrams(counter, hypotheses, references)


@metric()
def corpus_bleu(statistics: ArrayLike) -> WeightedMetric:
    """BLEU of rows that `bleu_statistics` counted, 0 to 100."""
    counts = _check_statistics(statistics, lambda columns: columns == 2 + 2 * ORDERS)
    return WeightedMetric(rows=len(counts), values=lambda weights: _bleu(weighted_sums(counts.T, weights)))


@metric()
def corpus_chrf(statistics: ArrayLike) -> WeightedMetric:
    """ChrF of rows that `chrf_statistics` counted, 0 to 100."""
    counts = _check_statistics(statistics, lambda columns: columns > 0 and columns % 3 == 0)
    return WeightedMetric(rows=len(counts), values=lambda weights: _chrf(weighted_sums(counts.T, weights)))


def sentence_chrf(statistics: ArrayLike) -> Array:
    """ChrF of every row by itself, 0 to 100."""
    return _chrf(_check_statistics(statistics, lambda columns: columns > 0 and columns % 3 == 0).T)


def exact_matches(hypotheses: Sequence[str], references: References) -> Array:
    """Which translations are word for word one of their references, blanks at either end aside."""
    wanted = _check_references(hypotheses, references)
    rows = zip(hypotheses, wanted, strict=True)
    return np.array([said.strip() in {one.strip() for one in ones} for said, ones in rows])


def _bleu(sums: Array) -> Array:
    """BLEU = brevity * exp(mean of log precisions), of (10, resamples) sums."""
    precisions = _precisions(sums)
    right = sums[2 : 2 + ORDERS]
    logs = np.log(precisions, out=np.full(precisions.shape, -np.inf), where=precisions > 0)
    made: Array = np.where(right.any(0), _brevity(sums) * np.exp(logs.sum(0) / ORDERS), 0.0)
    return made


def _precisions(sums: Array) -> Array:
    """Share of right n-grams by order in percent; the k-th order without any has 1 / 2^k of one, as in mteval."""
    right, said = sums[2 : 2 + ORDERS], sums[2 + ORDERS :]
    none = (right == 0) & (said > 0)
    smoothed = np.where(none, 0.5 ** np.cumsum(none, 0), right)
    made: Array = np.where(right.any(0), 100 * divide_or(smoothed, said), 0.0)
    return made


def _brevity(sums: Array) -> Array:
    """exp(1 - wanted / said) where less was said than wanted."""
    short = np.exp(np.minimum(0.0, 1 - divide_or(sums[1], sums[0], 1.0)))
    made: Array = np.where((sums[0] == 0) & (sums[1] > 0), 0.0, short)
    return made


def _chrf(sums: Array) -> Array:
    """F-beta of mean precision and recall over the orders that both sides have, of (3 * orders, resamples) sums."""
    said, wanted, right = sums[0::3], sums[1::3], sums[2::3]
    there = (said > 0) & (wanted > 0)
    orders = there.sum(0)
    precision = divide_or(np.where(there, divide_or(right, said), 0.0).sum(0), orders)
    recall = divide_or(np.where(there, divide_or(right, wanted), 0.0).sum(0), orders)
    return 100 * divide_or((1 + BETA**2) * precision * recall, BETA**2 * precision + recall)


def _slice_by_length(
    lengths: Sequence[int], words: Array, letters: Array, bins: int, least: int, drawn: dict[str, Any]
) -> tuple[LengthSlice, ...]:
    given = check_finite(lengths, "lengths")
    if given.shape != (len(words),):
        raise InputError(f"lengths must be one number per row: {len(words)} rows, and its shape is {given.shape}.")
    if bins < 1:
        raise InputError(f"bins must be at least 1, and it is {bins}.")
    found = []
    for name, rows in sorted(
        split_column(_format_lengths(given), bins, bins), key=lambda part: float(given[part[1]].min())
    ):
        sums = words[rows].sum(0)
        both = bootstrap_all({"bleu": corpus_bleu}, words[rows], **drawn)
        both |= bootstrap_all({"chrf": corpus_chrf}, letters[rows], **drawn)
        found.append(
            LengthSlice(
                column="source length",
                name=name,
                rows=len(rows),
                small=len(rows) < least,
                interval=both["bleu"],
                chrf=both["chrf"],
                ratio=float(divide_or(sums[0], sums[1])),
            ),
        )
    return tuple(found)


def _format_lengths(lengths: Array) -> list[float]:
    """Lengths as they name slices: 7, and not 7.0."""
    return [int(one) if one.is_integer() else one for one in lengths.tolist()]


def _count_ngrams(counter: Any, hypotheses: Sequence[str], references: References) -> tuple[Array, str]:
    wanted = _check_references(hypotheses, references)
    most = max(len(ones) for ones in wanted)
    # sacrebleu takes one list for each place of a reference, None where a row has fewer
    columns = [[ones[place] if place < len(ones) else None for ones in wanted] for place in range(most)]
    rows = counter._extract_corpus_statistics(list(hypotheses), columns)
    return np.array(rows, np.float64), str(counter.get_signature())


def _check_references(hypotheses: Sequence[str], references: References) -> list[list[str]]:
    """A list of references for each row; everything else is refused."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise InputError("Give lists of texts, not a single string.")
    if len(hypotheses) != len(references):
        counts = f"{len(hypotheses)} translations and {len(references)} references"
        raise InputError(f"There are {counts}; give one reference, or a list of them, for each translation.")
    if not len(hypotheses):
        raise InputError("There are no translations; a metric needs at least one row.")
    made = []
    for row, (said, given) in enumerate(zip(hypotheses, references, strict=True)):
        ones = [given] if isinstance(given, str) else list(given) if isinstance(given, Sequence) else [given]
        if not ones:
            raise InputError(f"references[{row}] is empty; give at least one reference for each translation.")
        wrong = [type(text).__name__ for text in (said, *ones) if not isinstance(text, str)]
        if wrong:
            raise InputError(f"Row {row} holds a value of type {wrong[0]}; translations and references are strings.")
        made.append(ones)
    return made


def _check_statistics(statistics: ArrayLike, fits: Any) -> Array:
    counts = check_finite(statistics, "statistics")
    if counts.ndim != 2 or not fits(counts.shape[1]):
        raise InputError(f"statistics must be counts of rows as sacrebleu's, and their shape is {counts.shape}.")
    return counts
