"""What a family is: keys of its config.json, a shape made from them, its table of tensor names, its heads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from clearhead.errors import ConfigError, InputError
from clearhead.shape import HeadShape, ModelShape, PoolerShape, Shape

ConfigValues = Mapping[str, Any]

# Beyond these a config.json is a mistake or an attack: refused before memory is taken.
MAX_VOCAB = 1 << 24
MAX_WIDTH = 1 << 16
MAX_FEED_WIDTH = 1 << 20
MAX_LAYERS = 1024
MAX_POSITIONS = 1 << 22
MAX_LABELS = 1 << 20

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
class TensorTarget:
    """Where one tensor of a file goes: to one of ours, or cut in equal parts to several."""

    ours: tuple[str, ...]
    transposed: bool = False  # stored as (inputs, outputs), as GPT's Conv1D does
    flat: bool = False  # stored with a leading side of one, as Marian's logit bias is


NameTable = Mapping[str, TensorTarget]


def name_table(rows: Mapping[str, str | TensorTarget], prefix: str = "") -> dict[str, TensorTarget]:
    """A table from plain rows; `under` goes before each of our names."""
    made = {}
    for theirs, ours in rows.items():
        row = ours if isinstance(ours, TensorTarget) else TensorTarget((ours,))
        made[theirs] = TensorTarget(tuple(prefix + name for name in row.ours), row.transposed, row.flat)
    return made


@dataclass(frozen=True)
class ConfigKey:
    """One key of config.json: what it is when absent, and how a value is checked."""

    default: Any
    check: Callable[[Any], str | None]
    aliases: tuple[str, ...] = ()  # other spellings of the same key
    is_float: bool = False  # a real number, which JSON may write without a point

    def convert(self, found: Any) -> Any:
        """The value as the family uses it."""
        return float(found) if self.is_float and isinstance(found, int) else found


def positive_int(default: int, maximum: int = MAX_WIDTH, *aliases: str) -> ConfigKey:
    """A whole number from 1 to `most`."""
    return ConfigKey(default, _check_int(1, maximum), aliases)


def non_negative_int(default: int | None, maximum: int = MAX_WIDTH) -> ConfigKey:
    """A whole number from 0 to `most`; where the default is null, null or one from 1."""
    return ConfigKey(default, _allow_null(_check_int(0 if default is not None else 1, maximum), default))


def probability(default: float | None, *aliases: str) -> ConfigKey:
    """A probability."""
    return ConfigKey(default, _allow_null(_check_float(0.0, 1.0), default), aliases, is_float=True)


def finite_float(default: float, low: float = 0.0, high: float = 1e12) -> ConfigKey:
    """A finite number."""
    return ConfigKey(default, _check_float(low, high), is_float=True)


def boolean(default: bool | None) -> ConfigKey:
    """True or false."""
    return ConfigKey(default, _allow_null(lambda value: None if isinstance(value, bool) else "true or false", default))


def one_of(default: str | None, *allowed: str) -> ConfigKey:
    """One of a few words."""
    expected = "one of " + ", ".join(allowed)
    return ConfigKey(
        default,
        _allow_null(lambda value: None if isinstance(value, str) and value in allowed else expected, default),
    )


def optional_token_id(default: int | None) -> ConfigKey:
    """A token id or null."""
    return ConfigKey(default, lambda value: None if value is None else _check_int(0, MAX_VOCAB)(value))


def unchecked(default: Any) -> ConfigKey:
    """A value that the family itself looks into."""
    return ConfigKey(default, lambda value: None)


def _check_int(low: int, high: int) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if fits else f"a whole number from {low} to {high}"

    return check


def _check_float(low: float, high: float) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if number and low <= value <= high else f"a number from {low:g} to {high:g}"

    return check


def _allow_null(check: Callable[[Any], str | None], default: Any) -> Callable[[Any], str | None]:
    if default is None:
        return lambda value: None if value is None else check(value)
    return check


class TensorLookup(Protocol):
    """What a family may ask about the tensors of a file."""

    def __contains__(self, name: object) -> bool: ...

    def are_equal(self, one: str, other: str) -> bool:
        """Whether two tensors hold the same numbers."""
        ...


@dataclass(frozen=True, kw_only=True)
class HeadPlan:
    """One head of a family: its shape, whether a pooler stands below it, and its tensor names."""

    head: HeadShape | None
    second: HeadShape | None = None
    pooler: PoolerShape | None = None
    uses_decoder: bool = True  # False: the encoder of a pair alone
    names: Mapping[str, str | TensorTarget] = field(default_factory=dict)  # whole names, no prefix


HEAD_POOLING = "head_pooling"  # the key of config.json that selects a head which transformers does not have
MEAN_HEAD_MODULES = ("2_Dense", "3_Dense")  # the modules of a sentence-transformers folder that hold its weights
HEAD_POOLINGS: Mapping[str, Mapping[str, Any]] = {"first": {HEAD_POOLING: None}, "mean": {HEAD_POOLING: "mean"}}


def plan_mean_head(native: HeadPlan, width: int) -> HeadPlan:
    """The mean of all states, dense, tanh, dropout, out; the dropout is the native head's."""
    head, (dense, out) = native.head, MEAN_HEAD_MODULES
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
    config_keys: Mapping[str, ConfigKey]
    build_stack: Callable[[ConfigValues], Shape]
    build_decoder: Callable[[ConfigValues], Shape | None] = lambda values: None
    shares_embeddings: Callable[[ConfigValues], bool] = lambda values: True
    build_names: Callable[[ModelShape], Mapping[str, TensorTarget]]
    aliases: Mapping[str, str] = field(default_factory=dict)  # other spellings in old files: theirs -> theirs
    ignored: tuple[str, ...] = ()  # buffers and leftovers that carry no weight
    heads: Mapping[str, Callable[[ConfigValues, int], HeadPlan]]
    architectures: Mapping[str, str]  # the class name in config.json -> our head
    base_pooler: PoolerShape | None = None  # the pooler of the model without a head
    start_token: Callable[[ConfigValues], int | None] = lambda values: None
    check: Callable[[ConfigValues], str | None] = lambda values: None  # what no single key can see
    infer_config: Callable[[dict[str, Any], TensorLookup], dict[str, Any]] = lambda config, in_file: config
    # fixed tables, such as sinusoidal positions, that a file may store although they are not learned
    computed_tables: Callable[[ModelShape], dict[str, Any]] = lambda model: {}
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # preset key -> (key, value): the preset key is dropped when the user sets this value
    preset_exclusions: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    own_poolings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of a classify head: keys that select

    def preset_config(self, name: str, said: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of a preset, without those that mean nothing beside what was said."""
        gone = {key for key, (other, value) in self.preset_exclusions.items() if said.get(other) == value}
        return {key: value for key, value in self.presets[name].items() if key not in gone}

    def read_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Every key with its value or default; all impossible values in one error."""
        values, problems = {}, []
        for name, key in self.config_keys.items():
            spelling = next((s for s in (name, *key.aliases) if s in config), name)
            value = config.get(spelling, key.default)
            expected = key.check(value)
            if expected is not None:
                problems.append(f"{spelling} is {_shorten(value)}, expected {expected}")
            else:
                value = key.convert(value)
            values[name] = value
        if not problems and (problem := self.check(values)) is not None:
            problems.append(problem)
        if problems:
            raise ConfigError(f"config.json does not describe a {self.title} model: " + "; ".join(problems) + ".")
        return values

    def model_shape(self, config: Mapping[str, Any], head: str | None, labels: int) -> ModelShape:
        """The whole model that a config.json describes, under one of the family's heads or none."""
        values = self.read_config(config)
        plan = self.plan_head(values, head, labels)
        return ModelShape(
            family=self.model_type,
            stack=self.build_stack(values),
            decoder=self.build_decoder(values) if plan.uses_decoder else None,
            share_embeddings=self.shares_embeddings(values),
            pooler=plan.pooler,
            head=plan.head,
            second_head=plan.second,
            decoder_start_id=self.start_token(values),
        )

    def plan_head(self, values: ConfigValues, head: str | None, labels: int) -> HeadPlan:
        """The head's plan; without a head, the bare model with its pooler."""
        if head is None:
            return HeadPlan(head=None, pooler=self.base_pooler)
        if head not in self.heads:
            raise ConfigError(f"{self.title} has no head called {head!r}; it has {', '.join(self.heads)}.")
        plan = self.heads[head](values, labels)
        if head == "classify" and values.get(HEAD_POOLING) == "mean":
            return plan_mean_head(plan, self.build_stack(values).width)
        return plan

    @property
    def poolings(self) -> Mapping[str, Mapping[str, Any]]:
        """What a classify head can read, first or mean, and the keys of config.json that select it."""
        return self.own_poolings or (HEAD_POOLINGS if HEAD_POOLING in self.config_keys else {})

    def set_pooling(self, config: Mapping[str, Any], pooling: str) -> dict[str, Any]:
        """The config whose classify head reads the first token's state or the mean of all states."""
        known = self.poolings
        if pooling not in known:
            hint = f"use {' or '.join(known)}" if known else "leave head_pooling out"
            raise InputError(f"A classification head of {self.title} has no head_pooling {pooling!r}: {hint}.")
        pooled = {**config, **known[pooling]}
        return {key: value for key, value in pooled.items() if key != HEAD_POOLING or value is not None}


def small_presets(
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


def parse_config_option(said: str | None, example: str) -> dict[str, Any]:
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


def check_divisible(width: str, heads: str) -> Callable[[ConfigValues], str | None]:
    """The check that the heads share the width evenly."""

    def check(values: ConfigValues) -> str | None:
        if values[width] % values[heads] == 0:
            return None
        return f"{width} {values[width]} is not a multiple of {heads} {values[heads]}"

    return check


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
