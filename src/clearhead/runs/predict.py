"""Predictions as values: what a model says of each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from clearhead.data import Columns, Source
from clearhead.data.examples import BadRows
from clearhead.runs.predictor import Chunk, Predictor


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a model says of one row."""

    row: int  # its number in the source
    label: str | None = None  # None: several labels, a number, or no answer
    labels: tuple[str, ...] | None = None  # where a row can have several
    value: float | None = None  # where the answer is a number
    probability: float | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)
    truncated: int = 0  # tokens that were cut off
    windows: int = 1
    abstained: bool = False


def predictions(predictor: Predictor, source: Source, columns: Columns, *, skip_bad_rows: bool) -> Iterator[Prediction]:
    """The rows of a source one after the other; those that cannot be used are one error, or left out."""
    bad = BadRows()
    good = 0
    for chunk in predictor.answer(source, columns):
        for one in chunk.bad:
            bad.add(one)
        good += len(chunk.kept)
        yield from answered(predictor, chunk)
    if not skip_bad_rows:
        bad.refuse(source, good)


def answered(predictor: Predictor, chunk: Chunk) -> Iterator[Prediction]:
    """The rows of a chunk that the model can read, in their order."""
    names, kind = predictor.space.names, predictor.space.kind
    sure = predictor.task.confidence(chunk.answers) if chunk.kept else None
    for place, row in enumerate(chunk.kept):
        said = chunk.answers.labels[place]
        silent = chunk.answers.abstained is not None and bool(chunk.answers.abstained[place])
        common: dict[str, Any] = {
            "row": row.number,
            "truncated": int(chunk.truncated[place]),
            "windows": int(chunk.windows[place]),
            "abstained": silent,
        }
        if kind == "number":
            yield Prediction(value=float(said), **common)
            continue
        assert chunk.answers.probs is not None
        assert sure is not None
        probs = dict(zip(names, (float(p) for p in chunk.answers.probs[place]), strict=True))
        if kind == "classes":
            label = None if silent else names[int(said)]
            yield Prediction(label=label, probability=float(sure[place]), probabilities=probs, **common)
        else:
            labels = None if silent else tuple(name for name, yes in zip(names, said, strict=True) if yes)
            yield Prediction(labels=labels, probability=float(sure[place]), probabilities=probs, **common)
