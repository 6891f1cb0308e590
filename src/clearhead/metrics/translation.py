"""Translation metrics: BLEU, chrF and chrF++ as in sacrebleu, with confidence intervals over rows.

Sacrebleu counts each row once: n-grams of the hypothesis, of the reference, and matches. A corpus score is a formula
over sums of these counts, so that a thousand resamples take a few array operations and no text is tokenized again.

The tokenizations of sacrebleu (13a, intl, zh, ...) are part of the published metrics; they are used here instead of
`clearhead.text.words`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.deprecation import renamed_parameters
from clearhead.errors import InputError
from clearhead.metrics.checks import Array, ArrayLike, check_finite
from clearhead.metrics.classification import proportion
from clearhead.metrics.intervals import Interval, bootstrap, bootstrap_all
from clearhead.metrics.measure import to_json
from clearhead.metrics.slices import Slice, split_column
from clearhead.metrics.weights import WeightedMetric, divide_or, metric, weighted_sums

MAX_WORD_ORDER = 4  # longest word n-gram in BLEU
CHRF_BETA = 2  # weight of recall relative to precision in chrF
TOKENIZERS = ("13a", "intl", "zh", "char", "none")  # those of sacrebleu that need no download or extra package
TOKENIZER_OF_LANGUAGE = {"zh": "zh", "ja": "char", "ko": "char", "th": "char", "km": "char", "lo": "char", "my": "char"}

References = Sequence[str | Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class LengthSlice(Slice):
    """Rows with sources of similar length; the interval is that of BLEU."""

    chrf: Interval
    ratio: float  # hypothesis words per reference word; below 1, translations are too short


@dataclass(frozen=True, kw_only=True)
class TranslationScores:
    """Quality of translations: BLEU, chrF and chrF++ from 0 to 100, exact match as a fraction of rows."""

    measures: dict[str, Interval]  # bleu, chrf, chrf++, exact_match
    signatures: dict[str, str]  # sacrebleu signature of each metric
    precisions: tuple[float, ...]  # of n-grams of one to four words, in percent
    brevity: float  # brevity penalty of BLEU; 1 is no penalty
    ratio: float  # hypothesis words per reference word
    rows: int
    sentences: Array  # chrF of each row
    slices: tuple[LengthSlice, ...] = ()  # by source length, shortest first

    def worst(self, count: int = 10) -> list[int]:
        """Row indices, lowest chrF first."""
        return [int(row) for row in np.argsort(self.sentences, kind="stable")[:count]]

    def best(self, count: int = 10) -> list[int]:
        """Row indices, highest chrF first."""
        return [int(row) for row in np.argsort(-self.sentences, kind="stable")[:count]]

    def to_json(self) -> dict[str, Any]:
        """Convert the scores to JSON values, without those of single sentences."""
        return {
            "rows": self.rows,
            "metrics": to_json(self.measures),
            "signatures": dict(self.signatures),
            "precisions": list(self.precisions),
            "brevity": self.brevity,
            "ratio": self.ratio,
            "by_source_length": [
                {
                    "length": length_slice.name,
                    "rows": length_slice.rows,
                    "small": length_slice.small,
                    "ratio": length_slice.ratio,
                }
                | to_json({"bleu": length_slice.interval, "chrf": length_slice.chrf})
                for length_slice in self.slices
            ],
        }


@renamed_parameters(least="min_rows")
def measure_translations(
    hypotheses: Sequence[str],
    references: References,
    lengths: Sequence[int] | None = None,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    bins: int = 5,
    min_rows: int = 30,
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    groups: ArrayLike | None = None,
) -> TranslationScores:
    """Compute BLEU, chrF, chrF++ and exact match of translations, with one or several references each.

    `lengths` are those of the sources, in words or tokens, and add slices by length; `groups` resamples whole
    documents. Empty translations are scored like any other.
    """
    reference_lists = _check_references(hypotheses, references)
    bleu_counts, bleu_signature = bleu_statistics(hypotheses, reference_lists, tokenize=tokenize, lowercase=lowercase)
    chrf_counts, chrf_signature = chrf_statistics(hypotheses, reference_lists, lowercase=lowercase)
    chrf_plus_counts, chrf_plus_signature = chrf_statistics(
        hypotheses, reference_lists, lowercase=lowercase, word_order=2
    )
    resampling: dict[str, Any] = {"n": n, "level": level, "seed": seed}
    # one call per metric, since each has different counts; the same seed draws the same rows
    measures = {
        "bleu": bootstrap(corpus_bleu, bleu_counts, groups=groups, **resampling),
        "chrf": bootstrap(corpus_chrf, chrf_counts, groups=groups, **resampling),
        "chrf++": bootstrap(corpus_chrf, chrf_plus_counts, groups=groups, **resampling),
        "exact_match": bootstrap(proportion, exact_matches(hypotheses, reference_lists), groups=groups, **resampling),
    }
    sums = bleu_counts.sum(0)[:, None]
    return TranslationScores(
        measures=measures,
        signatures={"bleu": bleu_signature, "chrf": chrf_signature, "chrf++": chrf_plus_signature},
        precisions=tuple(float(value) for value in _precisions(sums)[:, 0]),
        brevity=float(_brevity(sums)[0]),
        ratio=float(divide_or(sums[0], sums[1])[0]),
        rows=len(bleu_counts),
        sentences=sentence_chrf(chrf_counts),
        slices=()
        if lengths is None
        else _slice_by_length(lengths, bleu_counts, chrf_counts, bins, min_rows, resampling),
    )


def tokenizer_for(language: str | None) -> str:
    """Sacrebleu's tokenizer for a target language; characters if words are not separated by spaces."""
    code = (language or "").lower().replace("_", "-").split("-")[0]
    return TOKENIZER_OF_LANGUAGE.get(code, "13a")


def bleu_statistics(
    hypotheses: Sequence[str], references: References, *, tokenize: str = "13a", lowercase: bool = False
) -> tuple[Array, str]:
    """BLEU counts by row (hypothesis length, reference length, matches and n-grams of order 1 to 4), and signature."""
    if tokenize not in TOKENIZERS:
        raise InputError(f"tokenize must be one of {', '.join(TOKENIZERS)}, got {tokenize!r}.")
    from sacrebleu import BLEU  # imported lazily: the import takes longer than counting a hundred rows

    counter = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    return _count_ngrams(counter, hypotheses, references)


def chrf_statistics(
    hypotheses: Sequence[str], references: References, *, word_order: int = 0, lowercase: bool = False
) -> tuple[Array, str]:
    """ChrF counts by row (hypothesis n-grams, reference n-grams and matches of each order), and signature."""
    if word_order not in (0, 1, 2):
        raise InputError(f"word_order must be 0 for chrF, 1 for chrF+ or 2 for chrF++, got {word_order!r}.")
    from sacrebleu import CHRF

    counter = CHRF(word_order=word_order, beta=CHRF_BETA, lowercase=lowercase)
    return _count_ngrams(counter, hypotheses, references)


@metric()
def corpus_bleu(statistics: ArrayLike) -> WeightedMetric:
    """BLEU from the counts of `bleu_statistics`, 0 to 100."""
    counts = _check_statistics(statistics, lambda columns: columns == 2 + 2 * MAX_WORD_ORDER)
    return WeightedMetric(rows=len(counts), values=lambda weights: _bleu(weighted_sums(counts.T, weights)))


@metric()
def corpus_chrf(statistics: ArrayLike) -> WeightedMetric:
    """ChrF from the counts of `chrf_statistics`, 0 to 100."""
    counts = _check_statistics(statistics, lambda columns: columns > 0 and columns % 3 == 0)
    return WeightedMetric(rows=len(counts), values=lambda weights: _chrf(weighted_sums(counts.T, weights)))


def sentence_chrf(statistics: ArrayLike) -> Array:
    """ChrF of every row, 0 to 100."""
    return _chrf(_check_statistics(statistics, lambda columns: columns > 0 and columns % 3 == 0).T)


def exact_matches(hypotheses: Sequence[str], references: References) -> Array:
    """Flag translations that equal one of their references, ignoring leading and trailing whitespace."""
    reference_lists = _check_references(hypotheses, references)
    rows = zip(hypotheses, reference_lists, strict=True)
    return np.array([hypothesis.strip() in {text.strip() for text in texts} for hypothesis, texts in rows])


def _bleu(sums: Array) -> Array:
    """BLEU = brevity penalty * exp(mean of log precisions), from sums (10, resamples)."""
    precisions = _precisions(sums)
    matches = sums[2 : 2 + MAX_WORD_ORDER]
    logs = np.log(precisions, out=np.full(precisions.shape, -np.inf), where=precisions > 0)
    scores: Array = np.where(matches.any(0), _brevity(sums) * np.exp(logs.sum(0) / MAX_WORD_ORDER), 0.0)
    return scores


def _precisions(sums: Array) -> Array:
    """N-gram precision by order in percent; the k-th order without matches counts 1 / 2^k matches, as in mteval."""
    matches, hypothesis_ngrams = sums[2 : 2 + MAX_WORD_ORDER], sums[2 + MAX_WORD_ORDER :]
    without_match = (matches == 0) & (hypothesis_ngrams > 0)
    smoothed = np.where(without_match, 0.5 ** np.cumsum(without_match, 0), matches)
    percentages: Array = np.where(matches.any(0), 100 * divide_or(smoothed, hypothesis_ngrams), 0.0)
    return percentages


def _brevity(sums: Array) -> Array:
    """Brevity penalty: exp(1 - reference length / hypothesis length) if the hypotheses are shorter, else 1."""
    penalty = np.exp(np.minimum(0.0, 1 - divide_or(sums[1], sums[0], 1.0)))
    penalties: Array = np.where((sums[0] == 0) & (sums[1] > 0), 0.0, penalty)
    return penalties


def _chrf(sums: Array) -> Array:
    """F-beta of mean precision and recall over the orders that both sides have, from sums (3 * orders, resamples)."""
    hypothesis_ngrams, reference_ngrams, matches = sums[0::3], sums[1::3], sums[2::3]
    in_both = (hypothesis_ngrams > 0) & (reference_ngrams > 0)
    n_orders = in_both.sum(0)
    precision = divide_or(np.where(in_both, divide_or(matches, hypothesis_ngrams), 0.0).sum(0), n_orders)
    recall = divide_or(np.where(in_both, divide_or(matches, reference_ngrams), 0.0).sum(0), n_orders)
    return 100 * divide_or((1 + CHRF_BETA**2) * precision * recall, CHRF_BETA**2 * precision + recall)


def _slice_by_length(
    lengths: Sequence[int], bleu_counts: Array, chrf_counts: Array, bins: int, min_rows: int, resampling: dict[str, Any]
) -> tuple[LengthSlice, ...]:
    checked_lengths = check_finite(lengths, "lengths")
    if checked_lengths.shape != (len(bleu_counts),):
        raise InputError(
            f"lengths must be one number per row ({len(bleu_counts)} rows), got shape {checked_lengths.shape}."
        )
    if bins < 1:
        raise InputError(f"bins must be at least 1, got {bins}.")
    slices = []
    for name, rows in sorted(
        split_column(_format_lengths(checked_lengths), bins, bins),
        key=lambda named_rows: float(checked_lengths[named_rows[1]].min()),
    ):
        sums = bleu_counts[rows].sum(0)
        measures = bootstrap_all({"bleu": corpus_bleu}, bleu_counts[rows], **resampling)
        measures |= bootstrap_all({"chrf": corpus_chrf}, chrf_counts[rows], **resampling)
        slices.append(
            LengthSlice(
                column="source length",
                name=name,
                rows=len(rows),
                small=len(rows) < min_rows,
                interval=measures["bleu"],
                chrf=measures["chrf"],
                ratio=float(divide_or(sums[0], sums[1])),
            ),
        )
    return tuple(slices)


def _format_lengths(lengths: Array) -> list[float]:
    """Convert integral lengths to int, so that slice names read 7 instead of 7.0."""
    return [int(length) if length.is_integer() else length for length in lengths.tolist()]


def _count_ngrams(counter: Any, hypotheses: Sequence[str], references: References) -> tuple[Array, str]:
    reference_lists = _check_references(hypotheses, references)
    max_references = max(len(texts) for texts in reference_lists)
    # sacrebleu takes one list per reference position, with None for rows that have fewer references
    columns = [
        [texts[position] if position < len(texts) else None for texts in reference_lists]
        for position in range(max_references)
    ]
    rows = counter._extract_corpus_statistics(list(hypotheses), columns)
    return np.array(rows, np.float64), str(counter.get_signature())


def _check_references(hypotheses: Sequence[str], references: References) -> list[list[str]]:
    """Convert the references of each row to a list; anything but strings is an error."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise InputError("Pass lists of texts, not a single string.")
    if len(hypotheses) != len(references):
        counts = f"{len(hypotheses)} translations and {len(references)} references"
        raise InputError(f"There are {counts}; expected one reference, or a list of them, per translation.")
    if not len(hypotheses):
        raise InputError("There are no translations; a metric needs at least one row.")
    reference_lists = []
    for row, (hypothesis, reference) in enumerate(zip(hypotheses, references, strict=True)):
        row_references = (
            [reference]
            if isinstance(reference, str)
            else list(reference)
            if isinstance(reference, Sequence)
            else [reference]
        )
        if not row_references:
            raise InputError(f"references[{row}] is empty; every translation needs at least one reference.")
        type_names = [type(text).__name__ for text in (hypothesis, *row_references) if not isinstance(text, str)]
        if type_names:
            raise InputError(
                f"Row {row} has a value of type {type_names[0]}; translations and references must be strings."
            )
        reference_lists.append(row_references)
    return reference_lists


def _check_statistics(statistics: ArrayLike, is_column_count: Any) -> Array:
    counts = check_finite(statistics, "statistics")
    if counts.ndim != 2 or not is_column_count(counts.shape[1]):
        raise InputError(f"statistics must be sacrebleu counts of rows, got shape {counts.shape}.")
    return counts
