"""Predictions as values: what a model says of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from clearhead.data import Columns, Source, TextRow
from clearhead.data.examples import BadRows
from clearhead.predict.predictor import Chunk, Predictor


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSpan:
    """A piece of a text, where it stands, and how probable it is."""

    start: int  # in characters
    end: int
    text: str
    probability: float
    label: str | None = None  # of a tagged one; None: it is an answer

    def __repr__(self) -> str:
        from clearhead.html import one_line

        where = f"characters {self.start} to {self.end}"
        return one_line("FoundSpan", repr(self.text), self.label, where, f"probability={self.probability:.3f}")


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
    id: str | None = None  # of the row, where it has one
    text: str | None = None  # that spans count in: words that came as a list are joined by spaces
    tags: tuple[str, ...] | None = None  # a tag for each word
    spans: tuple[FoundSpan, ...] | None = None  # what is tagged
    answer: str | None = None  # to a question; empty: the passage does not say
    nbest: tuple[FoundSpan, ...] = ()  # the best answers, best first
    option: int | None = None  # which of the options, counted from 0

    def __repr__(self) -> str:
        from clearhead.html import one_line

        spans = None if self.spans is None else " ".join(f"{span.text}/{span.label}" for span in self.spans[:5])
        answers: tuple[tuple[str, object], ...] = (
            ("value", None if self.value is None else round(self.value, 4)),
            ("label", self.label),
            ("labels", None if self.labels is None else ", ".join(self.labels)),
            ("answer", None if self.answer is None else repr(self.answer)),
            ("spans", spans or None),
        )
        found = [f"{name}={value}" for name, value in answers if value is not None]
        if self.spans is not None and not self.spans:
            found.append("no spans")
        sure = None if self.probability is None else f"probability={self.probability:.3f}"
        cut = f"truncated={self.truncated}" if self.truncated else None
        return one_line("Prediction", "abstained" if self.abstained else None, *found, sure, cut)

    @property
    def place(self) -> tuple[int, int] | None:
        """Where an answer stands in its passage, in characters [start, end); None where there is none."""
        return (self.nbest[0].start, self.nbest[0].end) if self.answer else None

    def to_json(self) -> dict[str, Any]:
        """Plain values: what there is of the answer, and always whether there is one and what was cut off."""
        always = {"abstained": self.abstained, "truncated": self.truncated, "windows": self.windows}
        some = {name: value for name, value in asdict(self).items() if value not in (None, (), {}) and name != "row"}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in some.items()} | always


def _tagged(predictor: Predictor, chunk: Chunk, place: int, row: TextRow, common: dict[str, Any]) -> Prediction:
    """Tags of all words, and the spans that they make."""
    from clearhead.tasks.tag.decoding import spans_of

    ids, probs = chunk.answers.labels.row(place), chunk.answers.probs.row(place)
    tags = tuple(predictor.space.names[one] for one in ids)
    own = probs[range(len(ids)), ids]
    borders = row.extra.borders
    spans = tuple(
        FoundSpan(
            start=borders[first][0],
            end=borders[last - 1][1],
            text=row.text[borders[first][0] : borders[last - 1][1]],
            probability=float(own[first:last].prod()),
            label=label,
        )
        for first, last, label in spans_of(tags, predictor.space.scheme)
    )
    sure = float(own.min()) if len(own) else 1.0
    silent = common["abstained"]
    return Prediction(
        tags=None if silent else tags,
        spans=None if silent else spans,
        probability=sure,
        text=row.text,
        id=row.id,
        **common,
    )


def _answered_question(
    predictor: Predictor, chunk: Chunk, place: int, row: TextRow, common: dict[str, Any]
) -> Prediction:
    """The answer as it stands in the passage, and the runners-up."""
    from math import isfinite

    found, probs = chunk.answers.more, chunk.answers.probs[place]
    passage = row.text_b or ""
    nbest: list[FoundSpan] = []
    for rank in range(found.scores.shape[1]):
        if not isfinite(found.scores[place, rank]) or len(nbest) == predictor.best:
            break
        start, end = int(found.begins[place, rank]), int(found.ends[place, rank])
        text = passage[start:end]
        start += len(text) - len(text.lstrip())
        text = text.strip()
        nbest.append(FoundSpan(start=start, end=start + len(text), text=text, probability=float(probs[rank])))
    label = int(chunk.answers.labels[place])
    answer = None if common["abstained"] else "" if label < 0 else nbest[label].text
    return Prediction(answer=answer, nbest=tuple(nbest), probability=float(probs[label]), id=row.id, **common)


def _chosen(predictor: Predictor, chunk: Chunk, place: int, row: TextRow, common: dict[str, Any]) -> Prediction:
    """The option that is taken, called as the labels are written."""
    from clearhead.tasks.choice.rows import name_of

    option = int(chunk.answers.labels[place])
    probs = chunk.answers.probs[place][: len(row.extra.texts)]
    names = [name_of(one, row.extra, predictor.space.scheme) for one in range(len(probs))]
    label = None if common["abstained"] else names[option]
    alone = len(set(names)) == len(names)  # two options may be the same text
    keys = names if alone else [f"{place}: {name}" for place, name in enumerate(names)]
    return Prediction(
        label=label,
        option=option,
        probability=float(probs[option]),
        id=row.id,
        probabilities={key: float(p) for key, p in zip(keys, probs, strict=True)},
        **common,
    )


OWN: dict[str, Callable[..., Prediction]] = {"tags": _tagged, "answers": _answered_question, "options": _chosen}


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
        if kind in OWN:
            yield OWN[kind](predictor, chunk, place, row, common)
            continue
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
