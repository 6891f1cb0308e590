"""Outputs of tokens to the tags of words: the most probable sequence that makes sense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.ragged import RaggedArray
from clearhead.tasks.tag.alignment import INHERITS
from clearhead.tasks.tag.sequences import best_tags
from clearhead.tasks.task import Answers, Calibration

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


OUTSIDE = "O"
LENIENT = "iob"  # of other people's models: an I- may begin an entity, as IOB1 has it


def collect(values: Array, data: PackedDataset) -> RaggedArray:
    """(words, outputs) of each row, out of those of all tokens."""
    import numpy as np

    return words(values[data.pack_annotations(np.arange(len(data)))["token_indices"]], data)


def words(values: Array, data: PackedDataset) -> RaggedArray:
    """The same out of the words that are read.

    Infinity stands for a word inside the token of an earlier one, NaN for a word of which no token is left.
    """
    import numpy as np

    places = data.annotations.word_tokens[data.table_rows]
    made = np.where(places.values[:, None] == INHERITS, np.inf, np.nan) * np.ones((1, values.shape[1]), np.float32)
    made[places.values >= 0] = values
    return RaggedArray(values=made.astype(np.float32), bounds=places.bounds)


def read(logits: RaggedArray, space: LabelSpace, calibration: Calibration) -> Answers:
    """The most probable tags that may stand in this order."""
    import numpy as np

    from clearhead.metrics import apply_temperature

    values = np.asarray(logits.values, np.float64)
    known = np.isfinite(values[:, 0])
    probs = np.zeros_like(values)
    outside = space.ids.get(OUTSIDE, 0)
    probs[:, outside] = 1.0
    if OUTSIDE not in space.ids:
        probs[:] = 1 / len(space)  # nothing is known of a word without a token
    if known.any():
        probs[known] = apply_temperature(values[known], calibration.temperature)
    counts = np.bincount(logits.row_indices[known], minlength=len(logits))
    clear = RaggedArray(values=np.log(np.maximum(probs[known], 1e-30)), bounds=np.concatenate([[0], np.cumsum(counts)]))
    labels = np.full(len(values), outside)
    labels[known] = best_tags(clear, space.names, lenient=space.scheme == LENIENT).values
    fill_gaps(labels, probs, values, logits.bounds, space)
    bounds = logits.bounds
    answers = Answers(labels=RaggedArray(values=labels, bounds=bounds), probs=RaggedArray(values=probs, bounds=bounds))
    if calibration.abstain_below is None:
        return answers
    return replace(answers, abstained=confidence(answers) < calibration.abstain_below)


def fill_gaps(labels: Array, probs: Array, values: Array, bounds: Array, space: LabelSpace) -> None:
    """Words that no token stands for: inside an earlier word's token they go on with it, and gaps are closed."""
    import numpy as np

    plain = space.scheme == "plain"
    inside = {name: space.ids.get(name if plain else f"I-{name[2:]}") for name in space.names}
    starts = set(bounds[:-1].tolist())
    for place in np.flatnonzero(~np.isfinite(values[:, 0])).tolist():
        if place in starts:
            continue
        goes_on = inside[space.names[labels[place - 1]]]
        after = place + 1
        gap = after < len(labels) and after not in starts and labels[after] == goes_on
        if goes_on is not None and (np.isposinf(values[place, 0]) or (gap and not plain)):
            labels[place] = goes_on
            probs[place] = 0.0
            probs[place, goes_on] = 1.0  # no more and no less sure than what it belongs to


def confidence(answers: Answers) -> Array:
    """How sure a row is: the probability of its least sure tag."""
    import numpy as np

    labels, probs = answers.labels, answers.probs
    own = probs.values[np.arange(len(labels.values)), labels.values]
    made = np.ones(len(labels))
    np.minimum.at(made, labels.row_indices, own)
    return made


def fit(logits: RaggedArray, targets: RaggedArray, space: LabelSpace) -> Calibration:
    """The temperature that makes the probabilities of words honest."""
    import numpy as np

    from clearhead.metrics import fit_temperature

    known = np.isfinite(logits.values[:, 0])
    if int(known.sum()) < 10 or len(space) < 2:
        return Calibration()
    return Calibration(temperature=float(fit_temperature(logits.values[known], targets.values[known])))


def spans_of(tags: Sequence[str], scheme: str | None) -> list[tuple[int, int, str]]:
    """The entities of one row: first word, one past the last, type; of plain tags, every word."""
    from clearhead.metrics import extract_entities

    if scheme == "plain":
        return [(place, place + 1, tag) for place, tag in enumerate(tags)]
    return extract_entities(tags)


def row_spans(rows: RaggedArray, space: LabelSpace) -> list[list[tuple[int, int, str]]]:
    """The entities of every row."""
    return [spans_of([space.names[tag] for tag in row], space.scheme) for row in rows]
