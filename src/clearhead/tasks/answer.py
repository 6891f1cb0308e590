"""Answers as values: what a model predicts for one row, one frozen type per task."""

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

DIGITS = 6  # of probabilities in files
OMITTED_VALUES: tuple[Any, ...] = (None, (), {})  # values that an answer's JSON leaves out
REQUIRED_FIELDS = ("truncated", "windows", "abstained")  # values that it always has


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSpan:
    """A piece of a text, where it stands, and how probable it is."""

    start: int  # in characters
    end: int
    text: str
    probability: float
    label: str | None = None  # of a tagged one; None: it is an answer

    def __repr__(self) -> str:
        where = f"characters {self.start} to {self.end}"
        return short_repr("FoundSpan", repr(self.text), self.label, where, f"probability={self.probability:.3f}")

    def to_cell(self) -> dict[str, Any]:
        """The span as it is written to a file."""
        labeled = {} if self.label is None else {"label": self.label}
        probability = round(self.probability, DIGITS)
        return {"start": self.start, "end": self.end, **labeled, "text": self.text, "probability": probability}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answer:
    """The prediction for one row: what the answers of all tasks have in common.

    Each task adds its own fields in a type of its own. The attributes of other tasks are None, or empty.
    """

    row: int  # its number in the source
    truncated: int = 0  # tokens that were cut off
    windows: int = 1
    abstained: bool = False
    id: str | None = None  # of the row, where it has one

    leading: ClassVar[tuple[str, ...]] = ()  # fields that stand before the common ones in JSON

    @property
    def label(self) -> str | None:
        """The label; None: several labels, a number, or no answer."""
        return None

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The labels, where a row can have several."""
        return None

    @property
    def value(self) -> float | None:
        """The number, where the answer is one."""
        return None

    @property
    def probability(self) -> float | None:
        """How probable the answer is."""
        return None

    @property
    def probabilities(self) -> Mapping[str, float]:
        """The probability of each label, or of each option."""
        return {}

    @property
    def text(self) -> str | None:
        """The text that spans count in: words that came as a list are joined by spaces."""
        return None

    @property
    def tags(self) -> tuple[str, ...] | None:
        """A tag for each word."""
        return None

    @property
    def spans(self) -> tuple[FoundSpan, ...] | None:
        """What is tagged."""
        return None

    @property
    def answer(self) -> str | None:
        """The answer to a question; empty: it is not in the passage."""
        return None

    @property
    def nbest(self) -> tuple[FoundSpan, ...]:
        """The best answers, best first."""
        return ()

    @property
    def option(self) -> int | None:
        """Which of the options, counted from 0."""
        return None

    @property
    def place(self) -> tuple[int, int] | None:
        """Where an answer stands in its passage, in characters [start, end); None where there is none."""
        return (self.nbest[0].start, self.nbest[0].end) if self.answer else None

    def __repr__(self) -> str:
        probability = None if self.probability is None else f"probability={self.probability:.3f}"
        cut = f"truncated={self.truncated}" if self.truncated else None
        abstained = "abstained" if self.abstained else None
        return short_repr("Prediction", abstained, *self.summary(), probability, cut)

    def summary(self) -> list[str]:
        """The answer in a few words."""
        return []

    def with_option_names(self, options: Sequence[str]) -> Answer:  # noqa: ARG002
        """The same with the texts of the options for their names; an answer that is no option as it is."""
        return self

    def columns(self) -> dict[str, Any]:
        """The answer as cells of a file, by the names of their columns."""
        return {"truncated": self.truncated, "windows": self.windows}

    def to_json(self) -> dict[str, Any]:
        """Plain values: what there is of the answer, and always whether there is one and what was cut off."""
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
        """The JSON schema of `to_json`, from the types of the fields."""
        import msgspec

        hints = cls._types()
        names = [*cls.leading, *(field.name for field in fields(cls) if field.name not in ("row", *cls.leading))]
        schemas, parts = msgspec.json.schema_components([hints[name] for name in names], ref_template="#/$defs/{name}")
        made = {"title": cls.__name__, "type": "object", "properties": dict(zip(names, schemas, strict=True))}
        return made | {"required": list(REQUIRED_FIELDS)} | ({"$defs": parts} if parts else {})

    @classmethod
    def _types(cls) -> dict[str, Any]:
        from typing import get_type_hints

        return get_type_hints(cls)


Prediction = Answer  # the public name

# a batch, the place of the row in it, the row, its labels, how many ranked candidates to list, fields of every answer
BuildAnswer = Callable[["Answers", int, TextRow, LabelSpace, int, dict[str, Any]], Answer]


def no_probability_columns(space: LabelSpace, columns: Columns) -> tuple[str, ...]:
    """Nothing: the probabilities have no columns of their own."""
    return ()


@dataclass(frozen=True, kw_only=True)
class AnswerCodec:
    """How the decoded answers of a task become values, and which columns of a file they fill."""

    build: BuildAnswer  # the answer to one row of a batch
    answer_types: tuple[type[Answer], ...]  # that `build` makes
    purpose: str  # what a model of this task does with a text, for people
    model_kind: str  # what `kind_of` calls such a model
    # names of a file's columns; Columns: those that were read, the tuple: all of the source
    columns: Callable[[Columns, tuple[str, ...]], tuple[str, ...]]
    probability_columns: Callable[[LabelSpace, Columns], tuple[str, ...]] = (
        no_probability_columns  # what such a column each is for
    )
    no_probabilities_reason: str = ""  # why there are no such columns
    has_nested_cells: bool = False  # cells hold lists, and a column of labels is moved out of the way
    formats: tuple[str, ...] = ()  # of files that only these answers can be written in
    prefers_json: bool = False  # answers are written as JSON lines where nothing else is asked for
    max_candidates: int = 0  # ranked answers to a question that can be listed; 0: it answers no questions


def round_probability(value: Any) -> Any:
    """A number with the digits that files have; anything else as it is."""
    return round(value, DIGITS) if isinstance(value, float) else value
