"""Entity extraction from tags, and entity-level precision, recall and F1 as in CoNLL.

An entity is correct if its first word, last word and type are correct; partial matches do not count. Tags are parsed
as in the conlleval script and in the default mode of seqeval, which accept every sequence, valid or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from clearhead.deprecation import renamed_parameters
from clearhead.errors import InputError
from clearhead.files import to_printable
from clearhead.html import pluralize
from clearhead.metrics.checks import Array, ArrayLike
from clearhead.metrics.classification import F1, PRECISION, RECALL, ClassCounts, Formula, LabelScore
from clearhead.metrics.intervals import Interval, bootstrap_all
from clearhead.metrics.measure import Metrics
from clearhead.metrics.weights import WeightedMetric, build_group_sum, divide_or, metric

Entity: TypeAlias = tuple[int, int, str]  # first word, one past the last word, type

SCHEMES = ("iob1", "iob2", "bilou", "plain")
IOBES_OF_BILOU = {"U": "S", "L": "E"}  # unit -> single, last -> end
NO_TYPE = "_"  # the type of a bare B or I, as in seqeval
PREFIXED_TAG = re.compile(r"[BIESUL]-")


@dataclass(frozen=True, kw_only=True, eq=False)
class EntityCounts:
    """Counts of correct, predicted and true entities of each type in each row."""

    types: tuple[str, ...]
    array: Array  # (rows, types, 3) of int: correct, predicted, true


def extract_entities(tags: Sequence[str], scheme: str | None = None) -> list[Entity]:
    """Extract the entities of one sentence from tags in the scheme IOB1, IOB2, BILOU, IOBES or plain, in order.

    A tag without a known prefix ("NN", "X-PER") is a single-word entity, as is every tag but O with scheme="plain".
    seqeval, in contrast, treats the first letter of such a tag as its prefix.
    """
    entities: list[Entity] = []
    start, open_type, previous_prefix = 0, None, "O"
    for position, tag in enumerate(tags):
        prefix, entity_type = _split_tag(tag, scheme)
        is_continued = prefix in "IE" and previous_prefix in "BI" and entity_type == open_type
        if open_type is not None and not is_continued:
            entities.append((start, position, open_type))
            open_type = None
        if prefix != "O" and not is_continued:
            start, open_type = position, entity_type
        previous_prefix = prefix
    if open_type is not None:
        entities.append((start, len(tags), open_type))
    return entities


def to_bio(tags: Sequence[str], scheme: str | None = None) -> list[str]:
    """Convert tags to IOB2; plain tags remain unchanged."""
    if (detect_scheme([tags]) if scheme is None else _check_scheme(scheme)) == "plain":
        return list(tags)
    bio_tags = ["O"] * len(tags)
    for start, end, entity_type in extract_entities(tags):
        bio_tags[start:end] = [f"B-{entity_type}", *[f"I-{entity_type}"] * (end - start - 1)]
    return bio_tags


def detect_scheme(rows: Iterable[Sequence[str]]) -> str:
    """Detect the tagging scheme of sentences: "iob1", "iob2", "bilou" (also for IOBES) or "plain"."""
    sentences = [list(row) for row in rows]
    distinct_tags = {tag for row in sentences for tag in row} - {"O"}
    prefixed_tags = {tag for tag in distinct_tags if PREFIXED_TAG.match(tag)}
    plain_tags = distinct_tags - prefixed_tags
    if plain_tags and not prefixed_tags:
        # bare B and I are chunks of one unnamed type; other single letters may be parts of speech
        return "iob2" if plain_tags <= {"B", "I"} and any("O" in row for row in sentences) else "plain"
    if plain_tags:
        plain_tag, prefixed_tag = sorted(plain_tags)[0], sorted(prefixed_tags)[0]
        raise InputError(
            f"The tag {to_printable(plain_tag)} has no prefix and {to_printable(prefixed_tag)} has one; add a prefix "
            "(B- or I-) to every tag but O, or to none."
        )
    if any(tag[0] in "ESUL" for tag in prefixed_tags):
        return "bilou"
    has_initial_i, has_needless_b = False, False  # an I- that starts an entity; a B- where I- would suffice
    for row in sentences:
        for previous_tag, tag in zip(["O", *row], row, strict=False):
            is_same_type = previous_tag[1:] == tag[1:] and previous_tag != "O"
            has_initial_i |= tag[0] == "I" and not is_same_type
            has_needless_b |= tag[0] == "B" and not is_same_type
    return "iob1" if has_initial_i and not has_needless_b else "iob2"


@renamed_parameters(said="predicted")
def count_entities(
    true: Sequence[Iterable[Entity]], predicted: Sequence[Iterable[Entity]], types: Sequence[str] | None = None
) -> EntityCounts:
    """Count entities by row and type; by default, the types are those that occur, sorted."""
    if len(true) != len(predicted):
        raise InputError(
            f"true has {pluralize(len(true), 'row')} and predicted has {len(predicted)}; row counts must match."
        )
    if not len(true):
        raise InputError("There are no rows to count; a metric needs at least one.")
    true_sets, predicted_sets = [set(row) for row in true], [set(row) for row in predicted]
    occurring = {entity_type for row in (*true_sets, *predicted_sets) for _, _, entity_type in row}
    names = tuple(sorted(occurring) if types is None else types)
    unknown = sorted(occurring - set(names))
    if unknown:
        raise InputError(f"The type {to_printable(unknown[0])} occurs in the rows but not in types.")
    type_index = {entity_type: index for index, entity_type in enumerate(names)}
    array = np.zeros((len(true_sets), len(names), 3), np.int64)
    for row, (true_set, predicted_set) in enumerate(zip(true_sets, predicted_sets, strict=True)):
        for column, entities in enumerate((true_set & predicted_set, predicted_set, true_set)):
            for _, _, entity_type in entities:
                array[row, type_index[entity_type], column] += 1
    return EntityCounts(types=names, array=array)


@metric(is_discrete=True)
def entity_precision(counts: ArrayLike, *, average: str = "micro") -> WeightedMetric:
    """Fraction of the predicted entities that are correct; counts are (rows, types, 3): correct, predicted, true."""
    return _average_types(counts, average, PRECISION)


@metric(is_discrete=True)
def entity_recall(counts: ArrayLike, *, average: str = "micro") -> WeightedMetric:
    """Fraction of the true entities that are predicted; counts are (rows, types, 3): correct, predicted, true."""
    return _average_types(counts, average, RECALL)


@metric(is_discrete=True)
def entity_f1(counts: ArrayLike, *, average: str = "micro") -> WeightedMetric:
    """Harmonic mean of entity precision and recall: of all entities (micro), or the mean over types (macro)."""
    return _average_types(counts, average, F1)


MEASURES: Metrics = {
    "precision": entity_precision,
    "recall": entity_recall,
    "f1": entity_f1,
    "f1_macro": partial(entity_f1, average="macro"),
}


def entity_scores(counts: EntityCounts) -> dict[str, float]:
    """Precision, recall and F1 of all entities, and the mean F1 of the types; a division by zero yields 0."""
    return {name: score(counts.array) for name, score in MEASURES.items()}


def entity_table(counts: EntityCounts) -> tuple[LabelScore, ...]:
    """Precision, recall and F1 of every type, with the numbers of true (`rows`) and predicted entities."""
    hits, predicted, true = counts.array.sum(0).T  # (types,) each
    class_counts = ClassCounts(hits=hits, labels=true, predictions=predicted)
    scores = zip(*(divide_or(*formula(class_counts)).tolist() for formula in (PRECISION, RECALL, F1)), strict=True)
    return tuple(
        LabelScore(
            label=entity_type, precision=p, recall=r, f1=f, rows=int(true_count), predicted=int(prediction_count)
        )
        for entity_type, (p, r, f), true_count, prediction_count in zip(
            counts.types, scores, true, predicted, strict=True
        )
    )


def measure_entities(
    counts: EntityCounts, *, n: int = 1000, level: float = 0.95, seed: int = 0, groups: ArrayLike | None = None
) -> dict[str, Interval]:
    """Compute `entity_scores` with confidence intervals; resamples draw whole sentences (rows)."""
    array = counts.array if counts.types else np.zeros((len(counts.array), 1, 3), np.int64)
    return bootstrap_all(MEASURES, array, n=n, level=level, seed=seed, groups=groups)


def _split_tag(tag: str, scheme: str | None) -> tuple[str, str]:
    """Split a tag into its prefix (B, I, E, S or O) and its type."""
    if not tag:
        raise InputError("A tag is empty; use O for words outside entities.")
    if tag == "O":
        return "O", NO_TYPE
    if scheme is not None and _check_scheme(scheme) == "plain":
        return "S", tag
    if tag[0] not in "OBIESUL" or tag[1:2] not in ("", "-"):
        return "S", tag
    return IOBES_OF_BILOU.get(tag[0], tag[0]), tag[2:] or NO_TYPE


def _check_scheme(scheme: str) -> str:
    if scheme not in SCHEMES:
        raise InputError(f"scheme must be one of {', '.join(SCHEMES)}, got {to_printable(scheme)}.")
    return scheme


def _average_types(counts: ArrayLike, average: str, formula: Formula) -> WeightedMetric:
    """Average a score over entity types."""
    if average not in ("micro", "macro"):
        raise InputError(f"average must be micro or macro, got {to_printable(average)}.")
    array = np.asarray(counts)
    if array.ndim != 3 or array.shape[2] != 3 or not len(array):
        raise InputError(
            f"counts must have shape (rows, types, 3): correct, predicted and true entities; got shape {array.shape}."
        )
    array = array.sum(1, keepdims=True) if average == "micro" else array
    # most counts are 0, so only the others are summed
    row_of_count, type_index, count_index = np.nonzero(array)
    nonzero_counts = array[row_of_count, type_index, count_index][:, None]
    sum_by_type = build_group_sum(type_index * 3 + count_index, array.shape[1] * 3)

    def values(weights: Array) -> Array:
        sums = sum_by_type(weights.take(row_of_count, 0) * nonzero_counts)
        hits, predicted, true = sums.reshape(-1, 3, weights.shape[1]).swapaxes(0, 1)
        numerators, denominators = formula(ClassCounts(hits=hits, labels=true, predictions=predicted))
        # a type that does not occur has no score
        return divide_or(divide_or(numerators, denominators).sum(0), (true + predicted > 0).sum(0))

    return WeightedMetric(rows=len(array), values=values)
