"""The description of a model family: config.json keys, architecture, tensor names and heads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from clearhead.errors import ConfigError, InputError
from clearhead.shape import HeadShape, ModelShape, PoolerShape, Shape

ConfigValues = Mapping[str, Any]

# Upper limits for config.json. A larger value is a mistake or an attack and is refused before memory is allocated.
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
    """The destination of one stored tensor: one Clearhead tensor, or several equal parts of it."""

    names: tuple[str, ...]
    transposed: bool = False  # stored as (inputs, outputs), like the Conv1D layers of GPT-2
    flat: bool = False  # stored with a leading dimension of 1, like Marian's logit bias


NameTable = Mapping[str, TensorTarget]


def name_table(rows: Mapping[str, str | TensorTarget], prefix: str = "") -> dict[str, TensorTarget]:
    """Build a table of tensor names; `prefix` is added to each Clearhead name."""
    targets = {}
    for stored_name, names in rows.items():
        target = names if isinstance(names, TensorTarget) else TensorTarget((names,))
        targets[stored_name] = TensorTarget(
            tuple(prefix + name for name in target.names), target.transposed, target.flat
        )
    return targets


@dataclass(frozen=True)
class ConfigKey:
    """One key of config.json: its default and the check of its value."""

    default: Any
    check: Callable[[Any], str | None]  # returns what is expected when the value is invalid
    aliases: tuple[str, ...] = ()  # other spellings of the same key
    is_float: bool = False  # JSON may write such a value without a decimal point

    def convert(self, value: Any) -> Any:
        """Return the value in the type that the family uses."""
        return float(value) if self.is_float and isinstance(value, int) else value


def positive_int(default: int, maximum: int = MAX_WIDTH, *aliases: str) -> ConfigKey:
    """An integer from 1 to `maximum`."""
    return ConfigKey(default, _check_int(1, maximum), aliases)


def non_negative_int(default: int | None, maximum: int = MAX_WIDTH) -> ConfigKey:
    """An integer from 0 to `maximum`; if the default is None, an integer from 1 or null."""
    return ConfigKey(default, _allow_null(_check_int(0 if default is not None else 1, maximum), default))


def probability(default: float | None, *aliases: str) -> ConfigKey:
    """A number from 0 to 1."""
    return ConfigKey(default, _allow_null(_check_float(0.0, 1.0), default), aliases, is_float=True)


def finite_float(default: float, low: float = 0.0, high: float = 1e12) -> ConfigKey:
    """A finite number."""
    return ConfigKey(default, _check_float(low, high), is_float=True)


def boolean(default: bool | None) -> ConfigKey:
    """A boolean, or null if the default is None."""
    return ConfigKey(default, _allow_null(lambda value: None if isinstance(value, bool) else "true or false", default))


def one_of(default: str | None, *allowed: str) -> ConfigKey:
    """One of the allowed strings, or null if the default is None."""
    expected = "one of " + ", ".join(allowed)
    return ConfigKey(
        default,
        _allow_null(lambda value: None if isinstance(value, str) and value in allowed else expected, default),
    )


def optional_token_id(default: int | None) -> ConfigKey:
    """A token id or null."""
    return ConfigKey(default, lambda value: None if value is None else _check_int(0, MAX_VOCAB)(value))


def any_value(default: Any) -> ConfigKey:
    """A value that the family's own check validates."""
    return ConfigKey(default, lambda value: None)


def _check_int(low: int, high: int) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if fits else f"an integer from {low} to {high}"

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
    """The tensors of a file, as far as `Family.infer_config` needs them."""

    def __contains__(self, name: object) -> bool: ...

    def are_equal(self, first: str, second: str) -> bool:
        """Whether two tensors have equal values."""
        ...


@dataclass(frozen=True, kw_only=True)
class HeadPlan:
    """The head of a model: its shape, its pooler and its tensor names."""

    head: HeadShape | None
    second_head: HeadShape | None = None
    pooler: PoolerShape | None = None
    uses_decoder: bool = True  # False: only the encoder of an encoder-decoder model
    names: Mapping[str, str | TensorTarget] = field(default_factory=dict)  # full names without a prefix


HEAD_POOLING = "head_pooling"  # config.json key for mean pooling below the classification head; not in transformers
MEAN_HEAD_MODULES = ("2_Dense", "3_Dense")  # the sentence-transformers modules that store the weights of this head
HEAD_POOLINGS: Mapping[str, Mapping[str, Any]] = {"first": {HEAD_POOLING: None}, "mean": {HEAD_POOLING: "mean"}}


def plan_mean_head(native: HeadPlan, width: int) -> HeadPlan:
    """Return a head that computes mean pooling, dense, tanh, dropout, output; its dropout is the native head's."""
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
    """A model family: how its config.json, tensor names and heads map to Clearhead's architectures."""

    model_type: str
    title: str
    prefix: str  # of the backbone's tensor names in a model with a head
    config_keys: Mapping[str, ConfigKey]
    build_stack: Callable[[ConfigValues], Shape]
    build_decoder: Callable[[ConfigValues], Shape | None] = lambda values: None
    shares_embeddings: Callable[[ConfigValues], bool] = lambda values: True
    build_names: Callable[[ModelShape], Mapping[str, TensorTarget]]
    aliases: Mapping[str, str] = field(default_factory=dict)  # stored name -> the usual stored name
    ignored: tuple[str, ...] = ()  # stored buffers and leftovers that the model does not use
    heads: Mapping[str, Callable[[ConfigValues, int], HeadPlan]]
    architectures: Mapping[str, str]  # class name in config.json -> head
    base_pooler: PoolerShape | None = None  # the pooler of a model without a head
    decoder_start_id: Callable[[ConfigValues], int | None] = lambda values: None
    check: Callable[[ConfigValues], str | None] = lambda values: None  # of several keys together
    infer_config: Callable[[dict[str, Any], TensorLookup], dict[str, Any]] = lambda config, stored: config
    # fixed tables, such as sinusoidal positions, that a file may store although they are not learned
    computed_tables: Callable[[ModelShape], dict[str, Any]] = lambda model: {}
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # preset key -> (key, value): the preset key is dropped when the user sets this value
    preset_exclusions: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    own_poolings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of a classify head -> config keys

    def preset_config(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the config of a preset without the keys that the user's `config` excludes."""
        excluded = {key for key, (option, value) in self.preset_exclusions.items() if config.get(option) == value}
        return {key: value for key, value in self.presets[name].items() if key not in excluded}

    def read_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value or default of every key; one error lists all invalid values."""
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

    def model_shape(self, config: Mapping[str, Any], head: str | None, num_labels: int) -> ModelShape:
        """Return the architecture that a config.json describes, with one of the family's heads or none."""
        values = self.read_config(config)
        plan = self.plan_head(values, head, num_labels)
        return ModelShape(
            family=self.model_type,
            stack=self.build_stack(values),
            decoder=self.build_decoder(values) if plan.uses_decoder else None,
            share_embeddings=self.shares_embeddings(values),
            pooler=plan.pooler,
            head=plan.head,
            second_head=plan.second_head,
            decoder_start_id=self.decoder_start_id(values),
        )

    def plan_head(self, values: ConfigValues, head: str | None, num_labels: int) -> HeadPlan:
        """Return the plan of a head; for None, the base model with its pooler."""
        if head is None:
            return HeadPlan(head=None, pooler=self.base_pooler)
        if head not in self.heads:
            raise ConfigError(f"{self.title} has no head {head!r}. Available heads: {', '.join(self.heads)}.")
        plan = self.heads[head](values, num_labels)
        if head == "classify" and values.get(HEAD_POOLING) == "mean":
            return plan_mean_head(plan, self.build_stack(values).width)
        return plan

    @property
    def poolings(self) -> Mapping[str, Mapping[str, Any]]:
        """The poolings of a classification head, such as first or mean, with the config keys that select them."""
        return self.own_poolings or (HEAD_POOLINGS if HEAD_POOLING in self.config_keys else {})

    def set_pooling(self, config: Mapping[str, Any], pooling: str) -> dict[str, Any]:
        """Return a config whose classification head uses this pooling."""
        poolings = self.poolings
        if pooling not in poolings:
            hint = f"Use {' or '.join(poolings)}." if poolings else "Omit head_pooling."
            raise InputError(f"The classification head of {self.title} has no head_pooling {pooling!r}. {hint}")
        pooled = {**config, **poolings[pooling]}
        return {key: value for key, value in pooled.items() if key != HEAD_POOLING or value is not None}


def small_presets(
    width: str,
    layers: str | tuple[str, ...],
    heads: str | tuple[str, ...],
    feed_width: str | tuple[str, ...],
    extra: Mapping[str, Any] | None = None,
) -> dict[str, dict[str, Any]]:
    """Return presets with the sizes of the small BERT models (Turc et al. 2019) under a family's config keys."""
    keys = ((width,), *((key,) if isinstance(key, str) else key for key in (layers, heads, feed_width)))
    return {
        name: {key: value for group, value in zip(keys, values, strict=True) for key in group} | dict(extra or {})
        for name, values in (("tiny", (128, 2, 2, 512)), ("mini", (256, 4, 4, 1024)), ("small", (512, 4, 8, 2048)))
    }


def parse_config_option(text: str | None, example: str) -> dict[str, Any]:
    """Parse config.json keys that a user passes as a JSON string."""
    if text is None:
        return {}
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"config must be JSON, as in '{example}': {error}.") from None
    if not isinstance(config, dict):
        raise InputError(f"config must be a JSON object, as in '{example}'.")
    return config


def check_divisible(width: str, heads: str) -> Callable[[ConfigValues], str | None]:
    """Return a check that the width is a multiple of the number of heads."""

    def check(values: ConfigValues) -> str | None:
        if values[width] % values[heads] == 0:
            return None
        return f"{width} {values[width]} is not a multiple of {heads} {values[heads]}"

    return check


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
