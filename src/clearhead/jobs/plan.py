"""The plan of a run: all settings in one frozen value, from defaults, a recipe and explicit settings."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from clearhead.data import ColumnRoles
from clearhead.data.labels import Kind
from clearhead.data.row_codec import MAX_ANSWER_TOKENS, MAX_TOKENS_SETTING
from clearhead.deprecation import PLAN_SETTINGS, TRAINING_SETTINGS, rename_settings, renamed_fields
from clearhead.errors import ConfigError, InputError
from clearhead.files import decode_dataclass, read_bytes, to_printable
from clearhead.metrics.measure import BINARY, CLASSIFY, MULTILABEL, PROBS, REGRESS
from clearhead.model.layers import pooling_modes
from clearhead.tasks import TASKS, Task
from clearhead.training.settings import TrainSettings

TASK_NAMES = (*TASKS, "aspect", "translate")  # aspect: a tag task followed by a pair task
METHODS = ("finetune", "head", "features", "tfidf", "majority")
NETWORK_METHODS = ("finetune", "head")  # methods that train a network
ONE_VECTOR_TASKS = tuple(name for name, task in TASKS.items() if task.head.kind == "classify")
HEAD_POOLING_RULE = (
    f"head_pooling applies only to tasks with one vector per text ({', '.join(ONE_VECTOR_TASKS)}, aspect)"
)
MAX_RECIPE_BYTES = 1 << 20
MAX_DOTS = 1000  # per line of a recipe
MAX_THREADS = max(256, os.cpu_count() or 1)  # operating systems refuse thousands, and the process aborts
MAX_MINUTES = 366 * 24 * 60
VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
# a head alone has few weights, which need larger and more steps
METHOD_DEFAULTS: dict[str, dict[str, Any]] = {"head": {"freeze_encoder": True, "learning_rate": 1e-3, "epochs": 10}}

# the settings of the 2017 Transformer paper, scaled to a small machine
NEW_TRANSFORMER_DEFAULTS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "schedule": "inverse_sqrt",
    "warmup_ratio": 0.1,
    "adam_beta2": 0.98,
    "label_smoothing": 0.1,
    "weight_decay": 0.0,
    "batch_tokens": 4096,
    "average_epochs": 5,
    "save_every": 120.0,
}
# on Multi30k, an RNN reaches 33 BLEU after four epochs with these settings, and 8 with those of the Transformer
NEW_RNN_DEFAULTS: dict[str, Any] = NEW_TRANSFORMER_DEFAULTS | {
    "learning_rate": 3e-3,
    "schedule": "linear",
    "average_epochs": 2,
}
PRETRAINED_TRANSLATOR_DEFAULTS: dict[str, Any] = {"warmup_ratio": 0.0, "batch_tokens": 2048, "save_every": 120.0}


@renamed_fields(**PLAN_SETTINGS)
@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """All settings of a training run: data, model, method and evaluation."""

    train: str | None = None  # path; None: the rows are Python values
    dev: str | None = None
    test: str | None = None
    task: str | None = None  # None: inferred from columns and labels
    source: str | None = None  # column of source texts of a translation task
    target: str | None = None  # column of target texts
    family: str | None = None  # of a new translation model: transformer or rnn; None: that of the model, or transformer
    preset: str | None = None  # named size of a new translation model
    config: str | None = None  # further keys of config.json of a new translation model, as JSON
    vocab_size: int | None = None  # of a new translation model; None: by its size
    pieces: Literal["bpe", "unigram", "wordpiece", "characters"] = "bpe"  # its tokenizer
    shared: bool = True  # one vocabulary for both languages; False: one per language
    prefix: str = ""  # prepended to every source text, as the task prefixes of T5
    num_beams: int = 4  # when translations are evaluated
    text: str | None = None  # columns; None: detected and reported
    text_b: str | None = None
    label: str | None = None
    id: str | None = None  # rows with the same id stay in one part
    split: str | None = None
    options: str | None = None  # columns of the options of a question, comma-separated, or one column with all of them
    labels: Kind | None = None  # classes, multilabel or number; None: inferred from the values
    separator: str | None = None  # between several labels in a cell
    model: str = "default"
    method: Literal["finetune", "head", "features", "tfidf", "majority"] = "finetune"
    seeds: int = 1  # number of runs with different seeds; the best on dev is kept
    skip_bad_rows: bool = False
    rows: int | None = None  # size of a random sample of the training rows; None: all
    dev_share: float = 0.1  # of the rows, if there are no dev rows
    test_share: float = 0.1
    max_length: int | None = None  # tokens; None: the limit of the model
    long: Literal["window", "cut"] = "window"
    stride: int | None = None  # tokens that consecutive windows share; None: default of the task
    both_orders: bool | None = None  # read pairs in both orders; None: if a causal model compares them
    max_answer: int = MAX_ANSWER_TOKENS  # maximum tokens of an answer span
    max_tokens: int | None = (
        None  # of a row in all its windows, beyond which it is truncated; None: default of the task
    )
    metric: str | None = None  # that selects the best epoch; None: default of the task
    target_accuracy: float | None = None  # abstain on the least confident rows to reach this accuracy
    # of a classification head; auto: mean if the model's folder uses mean pooling; None: default of the family
    head_pooling: Literal["auto", "first", "mean"] | None = "auto"
    layer: str | int | None = None  # of features
    pooling: str | None = None  # of features
    layers: Literal["sweep"] | None = None  # compare all layers and poolings, and use the best
    C: float | None = None  # inverse regularization strength of a logistic regression; None: by cross-validation
    baselines: bool = True  # compare a trained network with the majority class and frozen features
    device: str = "auto"
    threads: int | None = None
    minutes: float | None = None  # time budget of training, for all seeds; None: all epochs
    keep_state: bool = False  # keep the optimizer state in the folder of a finished run
    auto_epochs: bool = True  # choose the epochs from the dataset; False if they were set
    auto_rate: bool = True  # choose the learning rate for the model; False if it was set
    auto_method: bool = True  # use frozen features if they are better; False if the method was set
    settings: TrainSettings = field(default_factory=TrainSettings)

    @property
    def column_roles(self) -> ColumnRoles:
        """The named columns."""
        options = tuple(name.strip() for name in (self.options or "").split(",") if name.strip())
        return ColumnRoles(
            text=self.text, text_b=self.text_b, label=self.label, id=self.id, split=self.split, options=options
        )

    @property
    def has_explicit_pooling(self) -> bool:
        """Whether the pooling of a classification head was set."""
        return self.head_pooling not in ("auto", None)

    def check_task(self, task: Task) -> None:
        """Refuse head_pooling for tasks without a classification head."""
        if self.has_explicit_pooling and task.head.kind != "classify":
            raise InputError(f"Settings of the run: {HEAD_POOLING_RULE}; this is {task.name}.")

    def check(self) -> None:
        """Refuse invalid settings; the message names the first one."""
        self.settings.check()
        rules = (
            (self.task is None or self.task in TASK_NAMES, f"task must be one of {', '.join(TASK_NAMES)}"),
            (self.rows is None or self.rows >= 1, "rows must be at least 1"),
            (self.family in (None, "transformer", "rnn"), "family must be transformer or rnn"),
            (self.vocab_size is None or self.vocab_size >= 16, "vocab_size must be at least 16"),
            (1 <= self.num_beams <= 64, "num_beams must be from 1 to 64"),
            (1 <= self.seeds <= 100, "seeds must be from 1 to 100"),
            (0 <= self.dev_share < 1, "dev_share must be from 0 up to 1"),
            (0 <= self.test_share < 1, "test_share must be from 0 up to 1"),
            (self.dev_share + self.test_share < 0.9, "dev_share and test_share leave too little to train on"),
            (self.max_length is None or self.max_length >= 8, "max_length must be at least 8"),
            (self.stride is None or self.stride >= 0, "stride must be at least 0"),
            (1 <= self.max_answer <= 10_000, "max_answer must be from 1 to 10,000"),
            (
                self.max_tokens is None or 1 <= self.max_tokens <= MAX_TOKENS_SETTING,
                f"max_tokens must be from 1 to {MAX_TOKENS_SETTING:,}",
            ),
            (
                self.metric is None or self.metric in METRIC_NAMES,
                f"metric must be one of {', '.join(sorted(METRIC_NAMES))}",
            ),
            (self.target_accuracy is None or 0 < self.target_accuracy <= 1, "target_accuracy must be from 0 to 1"),
            (self.C is None or self.C > 0, "C must be above 0"),
            (self.threads is None or self.threads >= 1, "threads must be at least 1"),
            (self.threads is None or self.threads <= MAX_THREADS, f"threads must be at most {MAX_THREADS}"),
            (self.minutes is None or 0 < self.minutes <= MAX_MINUTES, "minutes must be above 0 and at most a year"),
            (
                self.minutes is None or self.method in NETWORK_METHODS,
                "minutes applies only to methods that train a network: finetune and head",
            ),
            (
                self.method == "features" or (self.layer is None and self.pooling is None),
                "layer and pooling apply only to method features",
            ),
            (self.method == "features" or self.layers is None, "layers=sweep applies only to method features"),
            (
                not self.has_explicit_pooling or self.method in NETWORK_METHODS,
                "head_pooling applies only to methods finetune and head",
            ),
            (not self.has_explicit_pooling or self.task in (None, "aspect", *ONE_VECTOR_TASKS), HEAD_POOLING_RULE),
            (
                not self.both_orders or self.method in NETWORK_METHODS,
                "both_orders applies only to methods finetune and head",
            ),
            (not self.settings.lm_weight or self.method == "finetune", "lm_weight applies only to method finetune"),
            (
                self.layers is None or (self.layer is None and self.pooling is None),
                "layers=sweep tries all layers and poolings; omit layer and pooling",
            ),
        )
        for is_valid, rule in rules:
            if not is_valid:
                raise InputError(f"Settings of the run: {rule}.")
        if self.pooling is not None:
            pooling_modes(self.pooling.split("+"))


# of runs that were stored before these settings existed
EARLIER_DEFAULTS: dict[str, Any] = {"head_pooling": None, "auto_rate": False, "auto_method": False, "baselines": False}
METRIC_NAMES = {*CLASSIFY, *BINARY, *MULTILABEL, *PROBS, *REGRESS, "precision", "recall", "f1", "exact_match"}
RENAMED_SETTINGS = {**TRAINING_SETTINGS, **PLAN_SETTINGS}  # former name -> current name
BATCH_SETTINGS = {"batch_size", "batch_tokens"}
LOWER_IS_BETTER = ("log_loss", "mse", "mae")
_SETTING_FIELDS = {field.name for field in fields(TrainSettings)}
AUTO_FLAGS = {"auto_epochs", "auto_rate", "auto_method"}  # derived from other settings, and not settable by name
_PLAN_FIELDS = {field.name for field in fields(RunPlan)} - {"settings", *AUTO_FLAGS}
# setting one of these implies a network: epochs, learning_rate and others that no other method has
_SHARED_SETTINGS = {"seed", "class_weight", "precision", "save_every"}
_NETWORK_SETTINGS = {*_SETTING_FIELDS, "head_pooling", "both_orders", "seeds", "minutes"} - _SHARED_SETTINGS


def make_plan(*layers: Mapping[str, Any]) -> RunPlan:
    """Make a plan from flat settings; later layers override earlier ones, and None is ignored."""
    requested: dict[str, Any] = {}
    for layer in layers:
        layer_settings = {key.replace("-", "_"): value for key, value in layer.items() if value is not None}
        layer_settings = rename_settings(layer_settings, RENAMED_SETTINGS, stacklevel=3)
        if layer_settings.keys() & BATCH_SETTINGS:  # alternatives: the last one set wins
            requested = {key: value for key, value in requested.items() if key not in BATCH_SETTINGS}
        requested |= layer_settings
    for key in requested:
        if key not in _SETTING_FIELDS | _PLAN_FIELDS:
            similar = get_close_matches(key, sorted(_SETTING_FIELDS | _PLAN_FIELDS), n=1)
            hint = (
                f"; did you mean {similar[0]}?"
                if similar
                else f"; settings are {', '.join(sorted(_SETTING_FIELDS | _PLAN_FIELDS))}."
            )
            raise InputError(f"Unknown setting {to_printable(key, 40)!r}{hint}")
    auto_method = "method" not in requested and not requested.keys() & _NETWORK_SETTINGS
    requested = METHOD_DEFAULTS.get(str(requested.get("method")), {}) | requested
    if requested.get("task") == "translate":
        new_model_defaults = NEW_RNN_DEFAULTS if requested.get("family") == "rnn" else NEW_TRANSFORMER_DEFAULTS
        translator_defaults = (
            new_model_defaults if requested.get("model", "default") == "default" else PRETRAINED_TRANSLATOR_DEFAULTS
        )
        requested = {
            key: value
            for key, value in translator_defaults.items()
            if key not in BATCH_SETTINGS or not requested.keys() & BATCH_SETTINGS
        } | requested
    if requested.get("batch_tokens") is not None and "batch_size" not in requested:
        requested["batch_size"] = None  # instead of the default
    settings = {key: value for key, value in requested.items() if key in _SETTING_FIELDS}
    plan = {key: value for key, value in requested.items() if key in _PLAN_FIELDS}
    try:
        auto_flags = {
            "auto_epochs": "epochs" not in requested,
            "auto_rate": "learning_rate" not in requested,
            "auto_method": auto_method,
        }
        run_plan = decode_dataclass({**plan, **auto_flags, "settings": settings}, RunPlan, "settings")
    except ConfigError as error:
        raise InputError(explain_setting_error(str(error), RunPlan)) from None
    run_plan.check()
    return run_plan


def explain_setting_error(message: str, plan_class: type) -> str:
    """Rephrase a decoding error: the setting, the problem and, if there are few, its choices."""
    problem, _, location = message.removeprefix("settings: ").rpartition(" - at ")
    name = location.strip("`.").rpartition(".")[2]
    hints = get_type_hints(plan_class) | get_type_hints(TrainSettings)
    choices = [choice for choice in _literal_values(hints.get(name)) if isinstance(choice, str)]
    choice_hint = f" Choices: {', '.join(choices)}." if choices else ""
    return f"Setting {name}: {problem[:1].lower()}{problem[1:].replace('`', '')}.{choice_hint}"


def _literal_values(hint: Any) -> list[Any]:
    """List the values of a Literal, also inside an Optional."""
    return [value for inner in get_args(hint) for value in (_literal_values(inner) if get_args(inner) else [inner])]


def read_recipe(path: str | Path) -> dict[str, Any]:
    """Read settings from a TOML file; data paths are relative to it and may contain environment variables."""
    recipe_path = Path(path)
    try:
        text = read_bytes(recipe_path, max_bytes=MAX_RECIPE_BYTES).decode()
        if any(
            line.count(".") > MAX_DOTS for line in text.splitlines()
        ):  # memory is quadratic in the depth of nested tables
            raise ValueError(f"a line has more than {MAX_DOTS} dots")
        settings = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # including excessive nesting and numbers with too many digits
        raise InputError(f"{recipe_path.name} is not valid TOML: {to_printable(error, 160)}.") from None
    settings = rename_settings(settings, RENAMED_SETTINGS, stacklevel=3)
    for key, value in settings.items():
        if isinstance(value, dict | list):
            problem = f"{to_printable(key, 40)!r} is a table or a list"
            raise InputError(f"{recipe_path.name}: {problem}; a recipe must contain only names and plain values.")
        if key in ("train", "dev", "test") and isinstance(value, str):
            settings[key] = str(recipe_path.parent / _expand_variables(value, f"{recipe_path.name}: {key}"))
    return settings


def _expand_variables(path: str, context: str) -> str:
    """Expand $NAME and ${NAME} in a path; unset variables are an error."""

    def look_up(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if not os.environ.get(name):
            raise InputError(f"{context} needs the environment variable {name}; set it to the folder of the data.")
        return os.environ[name]

    return VARIABLE.sub(look_up, path)


def parse_set(pairs: list[str] | tuple[str, ...]) -> dict[str, Any]:
    """Parse `key=value` pairs; values are TOML, or else plain strings."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator or not key.strip():
            raise InputError(f"--set expects key=value, got {to_printable(pair, 40)!r}.")
        try:
            if text.count(".") > MAX_DOTS:
                raise ValueError
            value = tomllib.loads(f"x = {text}")["x"]
        except (ValueError, RecursionError):
            value = {"True": True, "False": False}.get(text, text)
        settings[key.strip()] = value
    return settings
