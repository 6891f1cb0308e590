"""The best sequence of tags that makes sense: no entity goes on that has not begun."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from clearhead.tasks.ragged import RaggedArray

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

BEGINS, GOES_ON, ENDS = "BUS", "ILE", "LUES"  # BIO has B and I; BILOU and IOBES have the others, too
GROUP = 128  # rows that are decoded together


@cache
def allowed(names: tuple[str, ...], *, lenient: bool = False) -> tuple[Array, Array, Array]:
    """(tags, tags) whether the second may follow the first; (tags,) whether one may begin, and end, a sentence.

    `lenient`: of B- and I- alone, an I- may begin an entity, too.
    """
    import numpy as np

    marks = [_parts(name) for name in names]
    strict = any(mark in ENDS for mark, _ in marks)  # a letter for the end of an entity: it must come
    lenient = not strict and (lenient or not any(mark in BEGINS for mark, _ in marks))  # I- alone, as IOB1 has it
    follow = np.ones((len(names), len(names)), np.bool_)
    for one, (mark, kind) in enumerate(marks):
        for two, (after, other) in enumerate(marks):
            inside = mark != "O" and mark not in ENDS
            if after in GOES_ON and after != "O":
                follow[one, two] = lenient or (inside and kind == other)
            elif strict and inside:
                follow[one, two] = False
    first = np.array([lenient or mark == "O" or mark not in GOES_ON for mark, _ in marks])
    last = np.array([not strict or mark == "O" or mark in ENDS for mark, _ in marks])
    return follow, first, last


def _parts(name: str) -> tuple[str, str]:
    """A tag's mark and its type; a plain tag is outside of everything."""
    if len(name) > 2 and name[1] == "-" and name[0] in BEGINS + GOES_ON:
        return name[0], name[2:]
    return "O", name


def best_tags(scores: RaggedArray, names: Sequence[str], *, lenient: bool = False) -> RaggedArray:
    """Viterbi: of the sequences in which every tag may follow the one before, the one with the highest sum."""
    import numpy as np

    follow, first, last = allowed(tuple(names), lenient=lenient)
    made = np.zeros(len(scores.values), np.int64)
    if follow.all() and first.all() and last.all():
        return RaggedArray(values=scores.values.argmax(-1), bounds=scores.bounds)
    bars = np.where(follow, 0.0, -np.inf)
    counts = scores.counts
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    for begin in range(0, len(order), GROUP):
        rows = order[begin : begin + GROUP]
        made[scores.value_indices(rows)] = _decoded(scores[rows], bars, np.where(first, 0.0, -np.inf), last)
    return RaggedArray(values=made, bounds=scores.bounds)


def _decoded(some: RaggedArray, bars: Array, start: Array, last: Array) -> Array:
    """The best path through each row of a rectangle, whose rows get shorter."""
    import numpy as np

    table, counts = some.to_padded().astype(np.float64), some.counts
    rows, longest, _ = table.shape
    best = table[:, 0] + start
    back = np.zeros((longest, rows, table.shape[2]), np.int32)
    ends = np.zeros((rows, table.shape[2]))
    for place in range(1, longest):
        ends[counts == place] = best[counts == place]
        alive = int((counts > place).sum())  # the longest rows come first
        step = best[:alive, :, None] + bars
        back[place, :alive] = step.argmax(1)
        best[:alive] = step.max(1) + table[:alive, place]
    ends[counts == longest] = best[counts == longest]
    final = np.where(last, ends, -np.inf)
    tag = np.where(np.isfinite(final.max(1)), final.argmax(1), ends.argmax(1))
    path = np.zeros((rows, longest), np.int64)
    everyone = np.arange(rows)
    for place in range(longest - 1, -1, -1):
        here = counts > place
        path[here, place] = tag[here]
        if place:
            tag = np.where(here, back[place, everyone, tag], tag)
    return np.asarray(path[np.arange(longest) < counts[:, None]])
