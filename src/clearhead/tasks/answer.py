"""Answers: the prediction for one row, as a frozen type per task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.html import short_repr

if TYPE_CHECKING:
    from clearhead.tasks.task import Answers

DIGITS = 6  # decimal places of probabilities in files
OMITTED_VALUES: tuple[Any, ...] = (None, (), {})  # values omitted from the JSON of an answer
REQUIRED_FIELDS = ("truncated", "windows", "abstained")  # fields that the JSON of every answer has


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSpan:
    """A span of a text with its offsets and probability."""

    start: int  # character offset
    end: int
    text: str
    probability: float
    label: str | None = None  # type of an entity; None: the span answers a question

    def __repr__(self) -> str:
        position = f"characters {self.start} to {self.end}"
        return short_repr("FoundSpan", repr(self.text), self.label, position, f"probability={self.probability:.3f}")

    def to_cell(self) -> dict[str, Any]:
        """The span as it is written to files, with rounded probability."""
        label_cell = {} if self.label is None else {"label": self.label}
        probability = round(self.probability, DIGITS)
        return {"start": self.start, "end": self.end, **label_cell, "text": self.text, "probability": probability}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answer:
    """The prediction for one row: the fields that all tasks share.

    Each task has a subclass with its own fields. The attributes of other tasks are None or empty.
    """

    row: int  # row number in the source
    truncated: int = 0  # number of tokens cut off
    windows: int = 1
    abstained: bool = False
    id: str | None = None  # value of the id column

    leading: ClassVar[tuple[str, ...]] = ()  # fields that precede the shared ones in JSON

    @property
    def label(self) -> str | None:
        """The predicted label; None for several labels, a number, or an abstention."""
        return None

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The predicted labels, if rows can have several."""
        return None

    @property
    def value(self) -> float | None:
        """The predicted number of a regression."""
        return None

    @property
    def probability(self) -> float | None:
        """The probability of the answer."""
        return None

    @property
    def probabilities(self) -> Mapping[str, float]:
        """The probability of each label or option."""
        return {}

    @property
    def text(self) -> str | None:
        """The text that span offsets refer to; words given as a list are joined by spaces."""
        return None

    @property
    def tags(self) -> tuple[str, ...] | None:
        """One tag per word."""
        return None

    @property
    def spans(self) -> tuple[FoundSpan, ...] | None:
        """The tagged entities."""
        return None

    @property
    def answer(self) -> str | None:
        """The answer to a question; empty if the passage does not contain it."""
        return None

    @property
    def nbest(self) -> tuple[FoundSpan, ...]:
        """The most probable answers, best first."""
        return ()

    @property
    def option(self) -> int | None:
        """The index of the chosen option, from 0."""
        return None

    @property
    def place(self) -> tuple[int, int] | None:
        """The character offsets [start, end) of the answer in its passage; None without an answer."""
        return (self.nbest[0].start, self.nbest[0].end) if self.answer else None

    def __repr__(self) -> str:
        probability = None if self.probability is None else f"probability={self.probability:.3f}"
        truncated = f"truncated={self.truncated}" if self.truncated else None
        abstained = "abstained" if self.abstained else None
        return short_repr("Prediction", abstained, *self.summary(), probability, truncated)

    def summary(self) -> list[str]:
        """The answer in a few words, for `repr`."""
        return []

    def with_option_names(self, options: Sequence[str]) -> Answer:  # noqa: ARG002
        """The answer with the texts of the options as their names; unchanged for other tasks."""
        return self

    def columns(self) -> dict[str, Any]:
        """The answer as cells of an output file, by column name."""
        return {"truncated": self.truncated, "windows": self.windows}

    def to_json(self) -> dict[str, Any]:
        """Plain values without empty fields; `abstained`, `truncated` and `windows` are always included."""
        values = asdict(self)
        del values["row"]
        ordered = {name: values[name] for name in self.leading} | values
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in ordered.items()
            if value not in OMITTED_VALUES
        }

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON schema of `to_json`, derived from the field types."""
        import msgspec

        hints = cls._types()
        names = [*cls.leading, *(field.name for field in fields(cls) if field.name not in ("row", *cls.leading))]
        schemas, definitions = msgspec.json.schema_components(
            [hints[name] for name in names], ref_template="#/$defs/{name}"
        )
        schema = {"title": cls.__name__, "type": "object", "properties": dict(zip(names, schemas, strict=True))}
        return schema | {"required": list(REQUIRED_FIELDS)} | ({"$defs": definitions} if definitions else {})

    @classmethod
    def _types(cls) -> dict[str, Any]:
        from typing import get_type_hints

        return get_type_hints(cls)


Prediction = Answer  # the public name

# answers of a batch, index of the row in it, the row, labels, number of ranked candidates, shared fields
BuildAnswer = Callable[["Answers", int, TextRow, LabelSpace, int, dict[str, Any]], Answer]


def no_probability_columns(space: LabelSpace, columns: Columns) -> tuple[str, ...]:
    """No columns: the probabilities are not written separately."""
    return ()


@dataclass(frozen=True, kw_only=True)
class AnswerCodec:
    """How the decoded answers of a task become `Answer` values and columns of an output file."""

    build: BuildAnswer  # builds the answer for one row of a batch
    answer_types: tuple[type[Answer], ...]  # what `build` returns
    purpose: str  # completes "The model ..." in messages
    model_kind: str  # name of such a model in `kind_of`
    # (resolved columns, all columns of the source) -> names of the output columns
    columns: Callable[[Columns, tuple[str, ...]], tuple[str, ...]]
    probability_columns: Callable[[LabelSpace, Columns], tuple[str, ...]] = (
        no_probability_columns  # names that get a probability column
    )
    no_probabilities_reason: str = ""  # why the task has no probability columns
    has_nested_cells: bool = False  # cells contain lists, and the label column of the source is renamed
    formats: tuple[str, ...] = ()  # file formats that only this task can write
    prefers_json: bool = False  # JSON lines is the default output format
    max_candidates: int = 0  # most ranked answers per question; 0: the task does not answer questions


def round_probability(value: Any) -> Any:
    """Round a number to the precision of files; other values are returned unchanged."""
    return round(value, DIGITS) if isinstance(value, float) else value
