"""Decoding of the tag task: token logits to the most probable valid tag sequence of the words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.ragged import RaggedArray
from clearhead.tasks.tag.alignment import SHARED_TOKEN
from clearhead.tasks.tag.sequences import decode_best_tags
from clearhead.tasks.task import Answers, Calibration

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


OUTSIDE = "O"
LENIENT = "iob"  # scheme of foreign checkpoints: I- can start an entity, as in IOB1


def collect_words(values: Array, data: PackedDataset) -> RaggedArray:
    """Select the outputs of each word's first token."""
    import numpy as np

    return arrange_words(values[data.pack_annotations(np.arange(len(data)))["token_indices"]], data)


def arrange_words(values: Array, data: PackedDataset) -> RaggedArray:
    """Arrange the outputs of words with a token as (words, outputs) of each row.

    Words inside an earlier word's token get infinity, words without any token NaN.
    """
    import numpy as np

    word_tokens = data.annotations.word_tokens[data.table_rows]
    outputs = np.where(word_tokens.values[:, None] == SHARED_TOKEN, np.inf, np.nan) * np.ones(
        (1, values.shape[1]), np.float32
    )
    outputs[word_tokens.values >= 0] = values
    return RaggedArray(values=outputs.astype(np.float32), bounds=word_tokens.bounds)


def decode(logits: RaggedArray, space: LabelSpace, calibration: Calibration) -> Answers:
    """Decode the most probable valid sequence of tags."""
    import numpy as np

    from clearhead.metrics import apply_temperature

    values = np.asarray(logits.values, np.float64)
    has_token = np.isfinite(values[:, 0])
    probs = np.zeros_like(values)
    outside = space.ids.get(OUTSIDE, 0)
    probs[:, outside] = 1.0
    if OUTSIDE not in space.ids:
        probs[:] = 1 / len(space)  # words without a token have a uniform distribution
    if has_token.any():
        probs[has_token] = apply_temperature(values[has_token], calibration.temperature)
    counts = np.bincount(logits.row_indices[has_token], minlength=len(logits))
    log_probs = RaggedArray(
        values=np.log(np.maximum(probs[has_token], 1e-30)), bounds=np.concatenate([[0], np.cumsum(counts)])
    )
    labels = np.full(len(values), outside)
    labels[has_token] = decode_best_tags(log_probs, space.names, lenient=space.scheme == LENIENT).values
    fill_gaps(labels, probs, values, logits.bounds, space)
    bounds = logits.bounds
    answers = Answers(labels=RaggedArray(values=labels, bounds=bounds), probs=RaggedArray(values=probs, bounds=bounds))
    if calibration.abstain_below is None:
        return answers
    return replace(answers, abstained=get_confidence(answers) < calibration.abstain_below)


def fill_gaps(labels: Array, probs: Array, values: Array, bounds: Array, space: LabelSpace) -> None:
    """Tag words without a token: they continue the entity of a shared token, and gaps in entities are closed."""
    import numpy as np

    is_plain = space.scheme == "plain"
    inside_tags = {name: space.ids.get(name if is_plain else f"I-{name[2:]}") for name in space.names}
    row_starts = set(bounds[:-1].tolist())
    for word in np.flatnonzero(~np.isfinite(values[:, 0])).tolist():
        if word in row_starts:
            continue
        inside_tag = inside_tags[space.names[labels[word - 1]]]
        next_word = word + 1
        is_gap = next_word < len(labels) and next_word not in row_starts and labels[next_word] == inside_tag
        if inside_tag is not None and (np.isposinf(values[word, 0]) or (is_gap and not is_plain)):
            labels[word] = inside_tag
            probs[word] = 0.0
            probs[word, inside_tag] = 1.0  # leaves the probability of the entity unchanged


def get_confidence(answers: Answers) -> Array:
    """The probability of the least confident tag of each row."""
    import numpy as np

    labels, probs = answers.labels, answers.probs
    tag_probs = probs.values[np.arange(len(labels.values)), labels.values]
    confidence = np.ones(len(labels))
    np.minimum.at(confidence, labels.row_indices, tag_probs)
    return confidence


def fit_calibration(logits: RaggedArray, targets: RaggedArray, space: LabelSpace) -> Calibration:
    """Fit the temperature on all words with a token."""
    import numpy as np

    from clearhead.metrics import fit_temperature

    has_token = np.isfinite(logits.values[:, 0])
    if int(has_token.sum()) < 10 or len(space) < 2:
        return Calibration()
    return Calibration(temperature=float(fit_temperature(logits.values[has_token], targets.values[has_token])))


def extract_spans(tags: Sequence[str], scheme: str | None) -> list[tuple[int, int, str]]:
    """Extract the entities of a row as (first word, one past the last, type); with plain tags, every word."""
    from clearhead.metrics import extract_entities

    if scheme == "plain":
        return [(word, word + 1, tag) for word, tag in enumerate(tags)]
    return extract_entities(tags)


def extract_row_spans(rows: RaggedArray, space: LabelSpace) -> list[list[tuple[int, int, str]]]:
    """Extract the entities of all rows."""
    return [extract_spans([space.names[tag] for tag in row], space.scheme) for row in rows]
