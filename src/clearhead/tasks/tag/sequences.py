"""Viterbi decoding of valid tag sequences: only a started entity can be continued."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from clearhead.tasks.ragged import RaggedArray

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

# BIO has only B and I; the others are from BILOU and IOBES
BEGIN_LETTERS, INSIDE_LETTERS, END_LETTERS = (
    "BUS",
    "ILE",
    "LUES",
)
BATCH_ROWS = 128  # rows decoded together


@cache
def find_allowed_transitions(names: tuple[str, ...], *, lenient: bool = False) -> tuple[Array, Array, Array]:
    """Return which tags can follow each other, (tags, tags), and which can start and end a sentence, (tags,).

    `lenient`: without end tags, I- can also start an entity.
    """
    import numpy as np

    split_tags = [_split_tag(name) for name in names]
    has_end_tags = any(letter in END_LETTERS for letter, _ in split_tags)  # then every entity must be closed
    # tag sets with only I- are lenient, too, as in IOB1
    lenient = not has_end_tags and (lenient or not any(letter in BEGIN_LETTERS for letter, _ in split_tags))
    follow = np.ones((len(names), len(names)), np.bool_)
    for tag, (letter, kind) in enumerate(split_tags):
        for next_tag, (next_letter, next_kind) in enumerate(split_tags):
            is_open = letter != "O" and letter not in END_LETTERS
            if next_letter in INSIDE_LETTERS and next_letter != "O":
                follow[tag, next_tag] = lenient or (is_open and kind == next_kind)
            elif has_end_tags and is_open:
                follow[tag, next_tag] = False
    first = np.array([lenient or letter == "O" or letter not in INSIDE_LETTERS for letter, _ in split_tags])
    last = np.array([not has_end_tags or letter == "O" or letter in END_LETTERS for letter, _ in split_tags])
    return follow, first, last


def _split_tag(name: str) -> tuple[str, str]:
    """Split a tag into prefix letter and type; plain tags count as O."""
    if len(name) > 2 and name[1] == "-" and name[0] in BEGIN_LETTERS + INSIDE_LETTERS:
        return name[0], name[2:]
    return "O", name


def decode_best_tags(scores: RaggedArray, names: Sequence[str], *, lenient: bool = False) -> RaggedArray:
    """Find the valid tag sequence with the highest total score for each row."""
    import numpy as np

    follow, first, last = find_allowed_transitions(tuple(names), lenient=lenient)
    tags = np.zeros(len(scores.values), np.int64)
    if follow.all() and first.all() and last.all():
        return RaggedArray(values=scores.values.argmax(-1), bounds=scores.bounds)
    penalties = np.where(follow, 0.0, -np.inf)
    counts = scores.counts
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    for start in range(0, len(order), BATCH_ROWS):
        rows = order[start : start + BATCH_ROWS]
        tags[scores.value_indices(rows)] = _decode_batch(scores[rows], penalties, np.where(first, 0.0, -np.inf), last)
    return RaggedArray(values=tags, bounds=scores.bounds)


def _decode_batch(scores: RaggedArray, penalties: Array, start: Array, last: Array) -> Array:
    """Decode a batch of rows sorted by descending length."""
    import numpy as np

    table, counts = scores.to_padded().astype(np.float64), scores.counts
    rows, longest, _ = table.shape
    best = table[:, 0] + start
    backpointers = np.zeros((longest, rows, table.shape[2]), np.int32)
    end_scores = np.zeros((rows, table.shape[2]))
    for word in range(1, longest):
        end_scores[counts == word] = best[counts == word]
        active = int((counts > word).sum())  # rows are sorted by descending length
        step = best[:active, :, None] + penalties
        backpointers[word, :active] = step.argmax(1)
        best[:active] = step.max(1) + table[:active, word]
    end_scores[counts == longest] = best[counts == longest]
    final = np.where(last, end_scores, -np.inf)
    tag = np.where(np.isfinite(final.max(1)), final.argmax(1), end_scores.argmax(1))
    path = np.zeros((rows, longest), np.int64)
    row_indices = np.arange(rows)
    for word in range(longest - 1, -1, -1):
        has_word = counts > word
        path[has_word, word] = tag[has_word]
        if word:
            tag = np.where(has_word, backpointers[word, row_indices, tag], tag)
    return np.asarray(path[np.arange(longest) < counts[:, None]])
