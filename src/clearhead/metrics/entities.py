"""Entities out of tags, and how many were found: precision, recall and F1 of whole entities, as CoNLL counts them.

An entity is right when its first word, its last word and its type are right; a part of it is worth nothing. Tags are
read as the conlleval script and seqeval (its default mode) read them: any sequence has a reading, valid or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from clearhead.errors import InputError
from clearhead.files import to_printable
from clearhead.metrics.checks import Array, ArrayLike
from clearhead.metrics.classification import F1, PRECISION, RECALL, ClassCounts, Formula, LabelScore
from clearhead.metrics.intervals import Interval, bootstrap_all
from clearhead.metrics.measure import Metrics
from clearhead.metrics.weights import WeightedMetric, build_group_sum, divide_or, metric

Entity: TypeAlias = tuple[int, int, str]  # first word, one past the last, type

SCHEMES = ("iob1", "iob2", "bilou", "plain")
ALIKE = {"U": "S", "L": "E"}  # BILOU's letters for what IOBES calls single and end
NO_TYPE = "_"  # the type of a bare B or I, as in seqeval
MARKED = re.compile(r"[BIESUL]-")


@dataclass(frozen=True, kw_only=True, eq=False)
class EntityCounts:
    """How many entities of each type were right, said and true in each row."""

    types: tuple[str, ...]
    array: Array  # (rows, types, 3) of int: right, said, true


def extract_entities(tags: Sequence[str], scheme: str | None = None) -> list[Entity]:
    """The entities of one sentence's tags in IOB1, IOB2, BILOU, IOBES or plain form, in order.

    A tag without a known prefix ("NN", "X-PER") is an entity of one word by itself; with scheme="plain" every tag but O
    is. seqeval takes the first letter of such a tag for a prefix, whatever it is.
    """
    found: list[Entity] = []
    start, open_type, before = 0, None, "O"
    for place, tag in enumerate(tags):
        mark, kind = _split_tag(tag, scheme)
        goes_on = mark in "IE" and before in "BI" and kind == open_type
        if open_type is not None and not goes_on:
            found.append((start, place, open_type))
            open_type = None
        if mark != "O" and not goes_on:
            start, open_type = place, kind
        before = mark
    if open_type is not None:
        found.append((start, len(tags), open_type))
    return found


def to_bio(tags: Sequence[str], scheme: str | None = None) -> list[str]:
    """The same entities as IOB2 tags; plain tags stay as they are."""
    if (detect_scheme([tags]) if scheme is None else _check_scheme(scheme)) == "plain":
        return list(tags)
    made = ["O"] * len(tags)
    for start, end, kind in extract_entities(tags):
        made[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return made


def detect_scheme(rows: Iterable[Sequence[str]]) -> str:
    """How these sentences are tagged: "iob1", "iob2", "bilou" (and IOBES, which reads the same) or "plain"."""
    kept = [list(row) for row in rows]
    seen = {tag for row in kept for tag in row} - {"O"}
    marked = {tag for tag in seen if MARKED.match(tag)}
    plain = seen - marked
    if plain and not marked:
        # a bare B and I are chunks of one nameless type; other single letters may well be parts of speech
        return "iob2" if plain <= {"B", "I"} and any("O" in row for row in kept) else "plain"
    if plain:
        odd, fine = sorted(plain)[0], sorted(marked)[0]
        raise InputError(
            f"The tag {to_printable(odd)} has no prefix and {to_printable(fine)} has one; give every tag but O a "
            "prefix "
            "(B- and I-), or none."
        )
    if any(tag[0] in "ESUL" for tag in marked):
        return "bilou"
    begun, needless = False, False  # an I- that starts an entity; a B- where an I- would have done
    for row in kept:
        for before, tag in zip(["O", *row], row, strict=False):
            follows = before[1:] == tag[1:] and before != "O"
            begun |= tag[0] == "I" and not follows
            needless |= tag[0] == "B" and not follows
    return "iob1" if begun and not needless else "iob2"


def count_entities(
    true: Sequence[Iterable[Entity]], said: Sequence[Iterable[Entity]], types: Sequence[str] | None = None
) -> EntityCounts:
    """Entities counted by row and type; the types are those that occur, in order of the alphabet, unless given."""
    if len(true) != len(said):
        raise InputError(f"true has {len(true)} rows and said has {len(said)}; they must have as many.")
    if not len(true):
        raise InputError("There are no rows to count; a metric needs at least one.")
    truths, calls = [set(row) for row in true], [set(row) for row in said]
    occurring = {kind for row in (*truths, *calls) for _, _, kind in row}
    names = tuple(sorted(occurring) if types is None else types)
    unknown = sorted(occurring - set(names))
    if unknown:
        raise InputError(f"The type {to_printable(unknown[0])} occurs and is not one of the types given.")
    number = {kind: place for place, kind in enumerate(names)}
    made = np.zeros((len(truths), len(names), 3), np.int64)
    for row, (truth, call) in enumerate(zip(truths, calls, strict=True)):
        for column, part in enumerate((truth & call, call, truth)):
            for _, _, kind in part:
                made[row, number[kind], column] += 1
    return EntityCounts(types=names, array=made)


@metric(discrete=True)
def entity_precision(counts: ArrayLike, *, average: str = "micro") -> WeightedMetric:
    """Of the entities said, the share that are there; counts are (rows, types, 3) of right, said and true."""
    return _average_types(counts, average, PRECISION)


@metric(discrete=True)
def entity_recall(counts: ArrayLike, *, average: str = "micro") -> WeightedMetric:
    """Of the entities that are there, the share found; counts are (rows, types, 3) of right, said and true."""
    return _average_types(counts, average, RECALL)


@metric(discrete=True)
def entity_f1(counts: ArrayLike, *, average: str = "micro") -> WeightedMetric:
    """Harmonic mean of the two: of all entities (micro), or of the types that occur, all alike (macro)."""
    return _average_types(counts, average, F1)


MEASURES: Metrics = {
    "precision": entity_precision,
    "recall": entity_recall,
    "f1": entity_f1,
    "f1_macro": partial(entity_f1, average="macro"),
}


def entity_scores(counts: EntityCounts) -> dict[str, float]:
    """Precision, recall and F1 of all entities, and the mean F1 of the types; 0 where there is nothing to divide by."""
    return {name: score(counts.array) for name, score in MEASURES.items()}


def entity_table(counts: EntityCounts) -> tuple[LabelScore, ...]:
    """Precision, recall and F1 of every type; `rows` counts its true entities and `predicted` those said."""
    right, said, true = counts.array.sum(0).T  # (types,) each
    summed = ClassCounts(hits=right, labels=true, predictions=said)
    scores = zip(*(divide_or(*formula(summed)).tolist() for formula in (PRECISION, RECALL, F1)), strict=True)
    return tuple(
        LabelScore(label=kind, precision=p, recall=r, f1=f, rows=int(rows), predicted=int(predicted))
        for kind, (p, r, f), rows, predicted in zip(counts.types, scores, true, said, strict=True)
    )


def measure_entities(
    counts: EntityCounts, *, n: int = 1000, level: float = 0.95, seed: int = 0, groups: ArrayLike | None = None
) -> dict[str, Interval]:
    """`entity_scores` with their intervals; whole rows (sentences) are drawn, since their entities belong together."""
    array = counts.array if counts.types else np.zeros((len(counts.array), 1, 3), np.int64)
    return bootstrap_all(MEASURES, array, n=n, level=level, seed=seed, groups=groups)


def _split_tag(tag: str, scheme: str | None) -> tuple[str, str]:
    """A tag as one of B, I, E, S and O, and its type."""
    if not tag:
        raise InputError("A tag is empty; write O for a word outside every entity.")
    if tag == "O":
        return "O", NO_TYPE
    if scheme is not None and _check_scheme(scheme) == "plain":
        return "S", tag
    if tag[0] not in "OBIESUL" or tag[1:2] not in ("", "-"):
        return "S", tag
    return ALIKE.get(tag[0], tag[0]), tag[2:] or NO_TYPE


def _check_scheme(scheme: str) -> str:
    if scheme not in SCHEMES:
        raise InputError(f"scheme must be one of {', '.join(SCHEMES)}, and it is {to_printable(scheme)}.")
    return scheme


def _average_types(counts: ArrayLike, average: str, formula: Formula) -> WeightedMetric:
    """One number from the counts of all types."""
    if average not in ("micro", "macro"):
        raise InputError(f"average must be micro or macro, and it is {to_printable(average)}.")
    array = np.asarray(counts)
    if array.ndim != 3 or array.shape[2] != 3 or not len(array):
        raise InputError(f"counts must be (rows, types, 3) of right, said and true, and its shape is {array.shape}.")
    array = array.sum(1, keepdims=True) if average == "micro" else array
    # most rows have none of most types: only what is there is summed
    row, kind, part = np.nonzero(array)
    found, sums = array[row, kind, part][:, None], build_group_sum(kind * 3 + part, array.shape[1] * 3)

    def values(weights: Array) -> Array:
        right, said, true = sums(weights.take(row, 0) * found).reshape(-1, 3, weights.shape[1]).swapaxes(0, 1)
        over, under = formula(ClassCounts(hits=right, labels=true, predictions=said))
        return divide_or(
            divide_or(over, under).sum(0), (true + said > 0).sum(0)
        )  # a type that does not occur has no score

    return WeightedMetric(rows=len(array), values=values)
