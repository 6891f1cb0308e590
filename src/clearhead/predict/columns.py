"""Which columns a prediction becomes in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clearhead.caller import setting
from clearhead.data import Columns
from clearhead.data.source import Row, Source
from clearhead.errors import InputError
from clearhead.files import shown
from clearhead.predict.predictions import FoundSpan, Prediction
from clearhead.predict.predictor import Predictor
from clearhead.predict.writers import Answers, Tokens, Writer

DIGITS = 6  # of probabilities in files
GIVEN = "given_"  # before the name of a column that holds what is right, where the answer has the same name
PROBABILITIES = "probabilities"
NUMBER = "id"  # what the number of a row without an id is called
KEYED = ("squad",)  # forms in which answers stand by the id of their question
DROPPED = {"squad": ("context", "answers", "is_impossible")}  # they stand once a passage, and not once a question


Cells = Callable[[Prediction | None], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Maker:
    """Which columns a prediction becomes."""

    names: tuple[str, ...]
    cells: Cells
    kept: Callable[[Mapping[str, Any]], dict[str, Any]] = dict  # what stays of a row's own values
    nested: tuple[str, ...] = ()  # columns whose lists are JSON in a cell, so that an empty one is not nothing
    numbered: bool = False  # rows have no id, and get their number as one


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Sees to it that no row takes the place of an earlier one, where answers stand by the id of their row."""

    source: str
    column: str
    rows: dict[str, int] = field(default_factory=dict)  # the row of each key

    def add(self, row: Row) -> None:
        """One more row, or an error that names both."""
        value = row.values.get(self.column)
        key = "" if value is None else str(value)
        first = self.rows.setdefault(key, row.number)
        if first != row.number:
            said = f"rows {first:,} and {row.number:,} both have the {self.column} {shown(key, 40)!r}"
            raise InputError(f"{self.source}: {said}; give each question its own, or write .jsonl.")


def maker_for(
    predictor: Predictor, source: Source, columns: Columns, names: Sequence[str], prefix: str, *, probabilities: bool
) -> Maker:
    """The new columns, none of which may be there already."""
    kind = predictor.space.kind
    if kind not in MAKERS:
        made = _maker(predictor, prefix, probabilities=probabilities)
        _check_free(made.names, names, source)
        return made
    own, cells = MAKERS[kind](columns, names, prefix)
    if probabilities:
        own, cells = _with_options(own, cells, [f"{prefix}probability:{name}" for name in columns.options])
    if predictor.reading.abstain_below is not None:
        own, cells = _with_silence(own, cells, f"{prefix}abstained")
    label = columns.label if columns.label is not None else next((name for name in own if name in LABELS), None)
    moved = {label: f"{GIVEN}{label}"} if label in own else {}
    dropped = DROPPED.get(source.kind, ())

    def kept(values: Mapping[str, Any]) -> dict[str, Any]:
        return {moved.get(name, name): value for name, value in values.items() if name not in dropped}

    _check_free(own, [moved.get(name, name) for name in names], source)
    return Maker(names=own, cells=cells, kept=kept, nested=(*own, *moved.values()), numbered=NUMBER in own)


def check_probabilities(predictor: Predictor, columns: Columns) -> None:
    """Refuse a column for each label where there are no labels, and say where the probabilities are instead."""
    kind = predictor.space.kind
    there = {
        "number": "answers with numbers, which have no probabilities",
        "tags": "finds spans, each of which has its probability already",
        "answers": "finds answers, and nbest has the best ones with their probabilities already",
        "options": f"chooses among options of one column, whose {PROBABILITIES} are in their order already",
    }
    if kind in there and (kind != "options" or len(columns.options) < 2):
        raise InputError(f"{predictor.reference} {there[kind]}; leave {setting('probabilities')} out.")


def _with_options(own: tuple[str, ...], cells: Cells, every: Sequence[str]) -> tuple[tuple[str, ...], Cells]:
    """One more column for each column of options; a row that has fewer of them leaves the last ones empty."""

    def more(found: Prediction | None) -> dict[str, Any]:
        known = [] if found is None else [_rounded(p) for p in found.probabilities.values()]
        return {**cells(found), **dict.fromkeys(every), **dict(zip(every, known, strict=False))}

    return (*own, *every), more


def _with_silence(own: tuple[str, ...], cells: Cells, name: str) -> tuple[tuple[str, ...], Cells]:
    """One more column, that says where the model was not sure enough."""
    return (*own, name), lambda found: {**cells(found), name: None if found is None else found.abstained}


def _check_free(new: Sequence[str], names: Sequence[str], source: Source) -> None:
    if taken := sorted(set(new) & set(names)):
        prefix = setting("prefix", "NAME")
        raise InputError(f"{source.name} has a column {taken[0]!r} already; name the new ones with {prefix}.")


def _maker(predictor: Predictor, prefix: str, *, probabilities: bool) -> Maker:
    number, silent = predictor.space.kind == "number", predictor.reading.abstain_below is not None
    names = [f"{prefix}prediction"]
    names += [] if number else [f"{prefix}probability"]
    names += [f"{prefix}truncated", f"{prefix}windows"]
    names += [f"{prefix}abstained"] if silent else []
    every = [f"{prefix}probability:{name}" for name in predictor.space.names] if probabilities else []

    def cells(found: Prediction | None) -> dict[str, Any]:
        if found is None:
            return dict.fromkeys((*names, *every))
        answer: Any = found.value if number else list(found.labels) if found.labels is not None else found.label
        made = {f"{prefix}prediction": _rounded(answer)}
        if not number:
            made[f"{prefix}probability"] = _rounded(found.probability)
        made |= {f"{prefix}truncated": found.truncated, f"{prefix}windows": found.windows}
        made |= {f"{prefix}abstained": found.abstained} if silent else {}
        shown = zip(every, found.probabilities.values(), strict=True) if every else ()
        return made | {name: _rounded(p) for name, p in shown}

    return Maker(names=(*names, *every), cells=cells)


def _rounded(value: Any) -> Any:
    return round(value, DIGITS) if isinstance(value, float) else value


LABELS = ("spans", "tags", "answer", "prediction")  # what answers and labels may both be called


def _tags(columns: Columns, names: Sequence[str], prefix: str) -> tuple[tuple[str, ...], Cells]:  # noqa: ARG001
    """The text that spans count in, the spans, and a tag for each word."""
    text = () if columns.text == "text" else ("text",)
    own = (*(f"{prefix}{name}" for name in text), f"{prefix}spans", f"{prefix}truncated", f"{prefix}windows")

    def cells(found: Prediction | None) -> dict[str, Any]:
        if found is None:
            return dict.fromkeys(own)
        made = {f"{prefix}text": found.text} if text else {}
        spans = None if found.spans is None else [_span(span) for span in found.spans]
        return {
            **made,
            f"{prefix}spans": spans,
            f"{prefix}truncated": found.truncated,
            f"{prefix}windows": found.windows,
        }

    return own, cells


def _span(span: FoundSpan) -> dict[str, Any]:
    made: dict[str, Any] = {"start": span.start, "end": span.end}
    if span.label is not None:
        made["label"] = span.label
    return made | {"text": span.text, "probability": _rounded(span.probability)}


def _answers(columns: Columns, names: Sequence[str], prefix: str) -> tuple[tuple[str, ...], Cells]:
    """The answer as it stands in the passage, where it stands, and the runners-up; null where there is none."""
    parts = ("answer", "start", "end", "probability", "nbest", "truncated", "windows")
    numbered = columns.id is None and "id" not in names
    named = tuple(f"{prefix}{name}" for name in parts)
    own = (NUMBER, *named) if numbered else named

    def cells(found: Prediction | None) -> dict[str, Any]:
        if found is None:
            return dict.fromkeys(named)
        best = next((one for one in found.nbest if one.text == found.answer), None) if found.answer else None
        values = (
            found.answer,
            None if best is None else best.start,
            None if best is None else best.end,
            _rounded(found.probability),
            [_span(one) for one in found.nbest],
            found.truncated,
            found.windows,
        )
        return dict(zip(named, values, strict=True))

    return own, cells


def _options(columns: Columns, names: Sequence[str], prefix: str) -> tuple[tuple[str, ...], Cells]:  # noqa: ARG001
    """The option that is taken, and the probabilities of all of them."""
    own = tuple(f"{prefix}{name}" for name in ("prediction", "probability", PROBABILITIES, "truncated", "windows"))

    def cells(found: Prediction | None) -> dict[str, Any]:
        if found is None:
            return dict.fromkeys(own)
        every = [_rounded(p) for p in found.probabilities.values()]
        values = (found.label, _rounded(found.probability), every, found.truncated, found.windows)
        return dict(zip(own, values, strict=True))

    return own, cells


MAKERS: dict[str, Callable[[Columns, Sequence[str], str], tuple[tuple[str, ...], Cells]]] = {
    "tags": _tags,
    "answers": _answers,
    "options": _options,
}


def own_writer(kind: str, source: Source, columns: Columns) -> tuple[Maker, Writer]:
    """A writer with a form of its own, and what it needs of a prediction."""
    if kind == "conll":
        tags = Maker(names=("prediction",), cells=lambda found: {"prediction": found.tags if found else None})
        names = (*source.columns, "prediction")
        return tags, Tokens(names, source.delimiter or "\t", header=bool(source.has_header))
    named = columns.id

    def cells(found: Prediction | None) -> dict[str, Any]:
        return {"answer": found.answer if found else ""}

    def kept(values: Mapping[str, Any]) -> dict[str, Any]:
        return {} if named is None else {"id": values.get(named)}

    return Maker(names=("answer",), cells=cells, kept=kept, numbered=named is None), Answers()
