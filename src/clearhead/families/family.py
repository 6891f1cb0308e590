"""What a family is: keys of its config.json, a shape made from them, its table of tensor names, its heads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from clearhead.errors import ConfigError, InputError
from clearhead.shape import HeadShape, ModelShape, PoolerShape, Shape

Values = Mapping[str, Any]

# Beyond these a config.json is a mistake or an attack: refused before memory is taken.
MOST_VOCAB = 1 << 24
MOST_WIDTH = 1 << 16
MOST_FEED = 1 << 20
MOST_LAYERS = 1024
MOST_POSITIONS = 1 << 22
MOST_LABELS = 1 << 20

ACTIVATIONS = (
    "gelu",
    "gelu_10",
    "gelu_fast",
    "gelu_new",
    "gelu_python",
    "gelu_accurate",
    "gelu_pytorch_tanh",
    "quick_gelu",
    "leaky_relu",
    "linear",
    "mish",
    "relu",
    "relu2",
    "relu6",
    "sigmoid",
    "silu",
    "swish",
    "tanh",
    "laplace",
    "elu",
)


@dataclass(frozen=True)
class Row:
    """Where one tensor of a file goes: to one of ours, or cut in equal parts to several."""

    ours: tuple[str, ...]
    transposed: bool = False  # stored as (inputs, outputs), as GPT's Conv1D does
    flat: bool = False  # stored with a leading side of one, as Marian's logit bias is


Table = Mapping[str, Row]


def table(rows: Mapping[str, str | Row], under: str = "") -> dict[str, Row]:
    """A table from plain rows; `under` goes before each of our names."""
    made = {}
    for theirs, ours in rows.items():
        row = ours if isinstance(ours, Row) else Row((ours,))
        made[theirs] = Row(tuple(under + name for name in row.ours), row.transposed, row.flat)
    return made


@dataclass(frozen=True)
class Key:
    """One key of config.json: what it is when absent, and how a value is checked."""

    default: Any
    check: Callable[[Any], str | None]
    also: tuple[str, ...] = ()  # other spellings of the same key
    real: bool = False  # a real number, which JSON may write without a point

    def value(self, found: Any) -> Any:
        """The value as the family uses it."""
        return float(found) if self.real and isinstance(found, int) else found


def size(default: int, most: int = MOST_WIDTH, *also: str) -> Key:
    """A whole number from 1 to `most`."""
    return Key(default, _whole(1, most), also)


def count(default: int | None, most: int = MOST_WIDTH) -> Key:
    """A whole number from 0 to `most`; where the default is null, null or one from 1."""
    return Key(default, _optional(_whole(0 if default is not None else 1, most), default))


def rate(default: float | None, *also: str) -> Key:
    """A probability."""
    return Key(default, _optional(_real(0.0, 1.0), default), also, real=True)


def real(default: float, low: float = 0.0, high: float = 1e12) -> Key:
    """A finite number."""
    return Key(default, _real(low, high), real=True)


def flag(default: bool | None) -> Key:
    """True or false."""
    return Key(default, _optional(lambda value: None if isinstance(value, bool) else "true or false", default))


def word(default: str | None, *allowed: str) -> Key:
    """One of a few words."""
    expected = "one of " + ", ".join(allowed)
    return Key(
        default,
        _optional(lambda value: None if isinstance(value, str) and value in allowed else expected, default),
    )


def token(default: int | None) -> Key:
    """A token id or null."""
    return Key(default, lambda value: None if value is None else _whole(0, MOST_VOCAB)(value))


def anything(default: Any) -> Key:
    """A value that the family itself looks into."""
    return Key(default, lambda value: None)


def _whole(low: int, high: int) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if fits else f"a whole number from {low} to {high}"

    return check


def _real(low: float, high: float) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if number and low <= value <= high else f"a number from {low:g} to {high:g}"

    return check


def _optional(check: Callable[[Any], str | None], default: Any) -> Callable[[Any], str | None]:
    if default is None:
        return lambda value: None if value is None else check(value)
    return check


class InFile(Protocol):
    """What a family may ask about the tensors of a file."""

    def __contains__(self, name: object) -> bool: ...

    def same(self, one: str, other: str) -> bool:
        """Whether two tensors hold the same numbers."""
        ...


@dataclass(frozen=True, kw_only=True)
class HeadPlan:
    """One head of a family: its shape, whether a pooler stands below it, and its tensor names."""

    head: HeadShape | None
    second: HeadShape | None = None
    pooler: PoolerShape | None = None
    decoder: bool = True  # False: the encoder of a pair alone
    names: Mapping[str, str | Row] = field(default_factory=dict)  # whole names, no prefix


HEAD_POOLING = "head_pooling"  # the key of config.json that selects a head which transformers does not have
MEAN_HEAD = ("2_Dense", "3_Dense")  # the modules of a sentence-transformers folder that hold its weights
FIRST_OR_MEAN: Mapping[str, Mapping[str, Any]] = {"first": {HEAD_POOLING: None}, "mean": {HEAD_POOLING: "mean"}}


def mean_head(native: HeadPlan, width: int) -> HeadPlan:
    """The mean of all states, dense, tanh, dropout, out; the dropout is the native head's."""
    head, (dense, out) = native.head, MEAN_HEAD
    assert head is not None
    return HeadPlan(
        head=HeadShape(
            kind=head.kind, pooling="mean", outputs=head.outputs, dense=width, activation="tanh", dropout=head.dropout
        ),
        names={f"{dense}.linear.*": "head.dense.*", f"{out}.linear.*": "head.out.*"},
    )


@dataclass(frozen=True, kw_only=True)
class Family:
    """All there is to know about one family."""

    model_type: str
    title: str
    prefix: str  # before the backbone's names when a head stands on it
    keys: Mapping[str, Key]
    stack: Callable[[Values], Shape]
    decoder: Callable[[Values], Shape | None] = lambda values: None
    shared_words: Callable[[Values], bool] = lambda values: True
    names: Callable[[ModelShape], Mapping[str, Row]]
    aliases: Mapping[str, str] = field(default_factory=dict)  # other spellings in old files: theirs -> theirs
    ignored: tuple[str, ...] = ()  # buffers and leftovers that carry no weight
    heads: Mapping[str, Callable[[Values, int], HeadPlan]]
    architectures: Mapping[str, str]  # the class name in config.json -> our head
    bare: PoolerShape | None = None  # the pooler of the model without a head
    start: Callable[[Values], int | None] = lambda values: None
    check: Callable[[Values], str | None] = lambda values: None  # what no single key can see
    guess: Callable[[dict[str, Any], InFile], dict[str, Any]] = lambda config, in_file: config
    computed: Callable[[ModelShape], dict[str, Any]] = lambda model: {}  # tables that files may hold and nobody learns
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    gives_way: Mapping[str, tuple[str, Any]] = field(default_factory=dict)  # keys of presets to (key, value) said
    own_poolings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of a classify head: keys that select

    def preset(self, name: str, said: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of a preset, without those that mean nothing beside what was said."""
        gone = {key for key, (other, value) in self.gives_way.items() if said.get(other) == value}
        return {key: value for key, value in self.presets[name].items() if key not in gone}

    def read(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Every key with its value or default; all impossible values in one error."""
        values, problems = {}, []
        for name, key in self.keys.items():
            spelling = next((s for s in (name, *key.also) if s in config), name)
            value = config.get(spelling, key.default)
            expected = key.check(value)
            if expected is not None:
                problems.append(f"{spelling} is {_short(value)}, expected {expected}")
            else:
                value = key.value(value)
            values[name] = value
        if not problems and (problem := self.check(values)) is not None:
            problems.append(problem)
        if problems:
            raise ConfigError(f"config.json does not describe a {self.title} model: " + "; ".join(problems) + ".")
        return values

    def model_shape(self, config: Mapping[str, Any], head: str | None, labels: int) -> ModelShape:
        """The whole model that a config.json describes, under one of the family's heads or none."""
        values = self.read(config)
        plan = self.plan(values, head, labels)
        return ModelShape(
            family=self.model_type,
            stack=self.stack(values),
            decoder=self.decoder(values) if plan.decoder else None,
            share_embeddings=self.shared_words(values),
            pooler=plan.pooler,
            head=plan.head,
            second_head=plan.second,
            decoder_start_id=self.start(values),
        )

    def plan(self, values: Values, head: str | None, labels: int) -> HeadPlan:
        """The head's plan; without a head, the bare model with its pooler."""
        if head is None:
            return HeadPlan(head=None, pooler=self.bare)
        if head not in self.heads:
            raise ConfigError(f"{self.title} has no head called {head!r}; it has {', '.join(self.heads)}.")
        plan = self.heads[head](values, labels)
        if head == "classify" and values.get(HEAD_POOLING) == "mean":
            return mean_head(plan, self.stack(values).width)
        return plan

    @property
    def poolings(self) -> Mapping[str, Mapping[str, Any]]:
        """What a classify head can read, first or mean, and the keys of config.json that select it."""
        return self.own_poolings or (FIRST_OR_MEAN if HEAD_POOLING in self.keys else {})

    def pool(self, config: Mapping[str, Any], pooling: str) -> dict[str, Any]:
        """The config whose classify head reads the first token's state or the mean of all states."""
        known = self.poolings
        if pooling not in known:
            hint = f"use {' or '.join(known)}" if known else "leave head_pooling out"
            raise InputError(f"A classification head of {self.title} has no head_pooling {pooling!r}: {hint}.")
        pooled = {**config, **known[pooling]}
        return {key: value for key, value in pooled.items() if key != HEAD_POOLING or value is not None}


def sized(
    width: str,
    layers: str | tuple[str, ...],
    heads: str | tuple[str, ...],
    feed: str | tuple[str, ...],
    more: Mapping[str, Any] | None = None,
) -> dict[str, dict[str, Any]]:
    """The sizes of BERT's small relatives (Turc and others, 2019) in a family's own keys."""
    keys = ((width,), *((key,) if isinstance(key, str) else key for key in (layers, heads, feed)))
    return {
        name: {key: value for group, value in zip(keys, values, strict=True) for key in group} | dict(more or {})
        for name, values in (("tiny", (128, 2, 2, 512)), ("mini", (256, 4, 4, 1024)), ("small", (512, 4, 8, 2048)))
    }


def config_said(said: str | None, example: str) -> dict[str, Any]:
    """Keys of config.json that a user wrote as JSON."""
    if said is None:
        return {}
    try:
        made = json.loads(said)
    except (ValueError, RecursionError) as error:
        raise InputError(f"config must be JSON, as in '{example}': {error}.") from None
    if not isinstance(made, dict):
        raise InputError("config must be a JSON object of names and values.")
    return made


def divides(width: str, heads: str) -> Callable[[Values], str | None]:
    """The check that the heads share the width evenly."""

    def check(values: Values) -> str | None:
        if values[width] % values[heads] == 0:
            return None
        return f"{width} {values[width]} is not a multiple of {heads} {values[heads]}"

    return check


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
