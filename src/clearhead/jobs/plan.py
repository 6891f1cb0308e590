"""The plan of a run: every choice in one frozen value, from defaults, a recipe file and what was said on top."""

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

TASK_NAMES = (*TASKS, "aspect", "translate")  # aspect: a tag and a pair, one after the other
METHODS = ("finetune", "head", "features", "tfidf", "majority")
NETWORK_METHODS = ("finetune", "head")  # methods that train a network
ONE_VECTOR_TASKS = tuple(name for name, task in TASKS.items() if task.head.kind == "classify")
HEAD_POOLING_RULE = f"head_pooling is for tasks with one vector per text ({', '.join(ONE_VECTOR_TASKS)}, aspect)"
MAX_RECIPE_BYTES = 1 << 20
MAX_DOTS = 1000  # in one line of it
MAX_THREADS = max(256, os.cpu_count() or 1)  # a system refuses thousands, and the process ends with it
MAX_MINUTES = 366 * 24 * 60
VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
METHOD_DEFAULTS: dict[str, dict[str, Any]] = {
    "head": {"freeze_encoder": True, "learning_rate": 1e-3, "epochs": 10}
}  # few weights learn


# a new translator learns as the 2017 paper says, scaled to a small machine; a checkpoint as the lecture fine-tunes it
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
# a recurrent one: on Multi30k it had 33 BLEU after four epochs this way, and 8 the Transformer's way
NEW_RNN_DEFAULTS: dict[str, Any] = NEW_TRANSFORMER_DEFAULTS | {
    "learning_rate": 3e-3,
    "schedule": "linear",
    "average_epochs": 2,
}
PRETRAINED_TRANSLATOR_DEFAULTS: dict[str, Any] = {"warmup_ratio": 0.0, "batch_tokens": 2048, "save_every": 120.0}


@renamed_fields(**PLAN_SETTINGS)
@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What to train, on what, how, and how to judge it."""

    train: str | None = None  # where rows come from; None: they came as Python values
    dev: str | None = None
    test: str | None = None
    task: str | None = None  # None: by the columns and labels
    source: str | None = None  # of translations: the column that is read, ...
    target: str | None = None  # ... and the one that is written
    family: str | None = None  # of a new translator: transformer or rnn; None: the model's own, or transformer
    preset: str | None = None  # of a new translator: its size by name
    config: str | None = None  # of a new translator: further keys of its config.json, as JSON
    vocab_size: int | None = None  # tokens of a new translator; None: by its size
    pieces: Literal["bpe", "unigram", "wordpiece", "characters"] = "bpe"  # how its words are cut
    shared: bool = True  # one vocabulary for both languages; False: one for each
    prefix: str = ""  # what is put before every source, as T5 is told what to do
    num_beams: int = 4  # of the translations that are measured
    text: str | None = None  # columns; None: guessed, and said
    text_b: str | None = None
    label: str | None = None
    id: str | None = None  # rows with the same one stay together
    split: str | None = None
    options: str | None = None  # of a question: the columns that hold them, commas between, or one with all of them
    labels: Kind | None = None  # classes, multilabel or number; None: by the values
    separator: str | None = None  # between several labels in a cell
    model: str = "default"
    method: Literal["finetune", "head", "features", "tfidf", "majority"] = "finetune"
    seeds: int = 1  # so many runs with seeds of their own; the best on dev is kept
    skip_bad_rows: bool = False
    rows: int | None = None  # of the training rows, drawn by the seed; None: all
    dev_share: float = 0.1  # of the rows, where no dev rows are given
    test_share: float = 0.1
    max_length: int | None = None  # tokens; None: what the model can read
    long: Literal["window", "cut"] = "window"
    stride: int | None = None  # tokens that neighbouring windows share; None: as the task has it
    both_orders: bool | None = None  # two texts are read either way; None: where a causal model compares them
    max_answer: int = MAX_ANSWER_TOKENS  # tokens of the longest answer that is looked for
    max_tokens: int | None = None  # of a row in all its windows, the rest is cut off and counted; None: by the task
    metric: str | None = None  # that epochs are compared by; None: as the task has it
    target_accuracy: float | None = None  # abstain where the model is too unsure to be right so often
    # what a classification head reads; auto: the mean where the model's folder pools so; None: as the family has it
    head_pooling: Literal["auto", "first", "mean"] | None = "auto"
    layer: str | int | None = None  # features: which layer, ...
    pooling: str | None = None  # ... and which tokens
    layers: Literal["sweep"] | None = None  # features: try every layer and pooling, and take the best
    C: float | None = None  # of a logistic regression: inverse regularization strength; None: by cross-validation
    baselines: bool = True  # measure the most frequent answer and frozen features beside a trained network
    device: str = "auto"
    threads: int | None = None
    minutes: float | None = None  # of fitting, in all its seeds: as many steps as fit; None: all epochs
    keep_state: bool = False  # True: the optimizer's state stays in the folder of a finished run
    auto_epochs: bool = True  # as many epochs as the rows need; False where they were said
    auto_rate: bool = True  # the learning rate that suits the model; False where it was said
    auto_method: bool = True  # frozen features where they are better; False where the method was said
    settings: TrainSettings = field(default_factory=TrainSettings)

    @property
    def column_roles(self) -> ColumnRoles:
        """The columns that were named."""
        options = tuple(name.strip() for name in (self.options or "").split(",") if name.strip())
        return ColumnRoles(
            text=self.text, text_b=self.text_b, label=self.label, id=self.id, split=self.split, options=options
        )

    @property
    def has_explicit_pooling(self) -> bool:
        """Whether it was said what a classification head reads."""
        return self.head_pooling not in ("auto", None)

    def check_task(self, task: Task) -> None:
        """Refuse a choice of what the head reads where the task has another head."""
        if self.has_explicit_pooling and task.head.kind != "classify":
            raise InputError(f"Settings of the run: {HEAD_POOLING_RULE}; this is {task.name}.")

    def check(self) -> None:
        """One sentence for the first choice that cannot be."""
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
                "minutes is for methods finetune and head, which train a network",
            ),
            (
                self.method == "features" or (self.layer is None and self.pooling is None),
                "layer and pooling are for method features",
            ),
            (self.method == "features" or self.layers is None, "layers=sweep is for method features"),
            (
                not self.has_explicit_pooling or self.method in NETWORK_METHODS,
                "head_pooling is for methods finetune and head",
            ),
            (not self.has_explicit_pooling or self.task in (None, "aspect", *ONE_VECTOR_TASKS), HEAD_POOLING_RULE),
            (not self.both_orders or self.method in NETWORK_METHODS, "both_orders is for methods finetune and head"),
            (not self.settings.lm_weight or self.method == "finetune", "lm_weight is for method finetune"),
            (
                self.layers is None or (self.layer is None and self.pooling is None),
                "layers=sweep tries every layer and pooling, so that neither is said",
            ),
        )
        for holds, said in rules:
            if not holds:
                raise InputError(f"Settings of the run: {said}.")
        if self.pooling is not None:
            pooling_modes(self.pooling.split("+"))


# of runs from before these could be chosen
EARLIER_DEFAULTS: dict[str, Any] = {"head_pooling": None, "auto_rate": False, "auto_method": False, "baselines": False}
METRIC_NAMES = {*CLASSIFY, *BINARY, *MULTILABEL, *PROBS, *REGRESS, "precision", "recall", "f1", "exact_match"}
RENAMED_SETTINGS = {**TRAINING_SETTINGS, **PLAN_SETTINGS}  # former name -> current name
BATCH_SETTINGS = {"batch_size", "batch_tokens"}
LOWER_IS_BETTER = ("log_loss", "mse", "mae")
_SETTING_FIELDS = {field.name for field in fields(TrainSettings)}
AUTO_FLAGS = {"auto_epochs", "auto_rate", "auto_method"}  # by what was left open, and not by a name of their own
_PLAN_FIELDS = {field.name for field in fields(RunPlan)} - {"settings", *AUTO_FLAGS}
# who names one of these wants a network: epochs, learning_rate and the like, which no other method has
_SHARED_SETTINGS = {"seed", "class_weight", "precision", "save_every"}
_NETWORK_SETTINGS = {*_SETTING_FIELDS, "head_pooling", "both_orders", "seeds", "minutes"} - _SHARED_SETTINGS


def make_plan(*layers: Mapping[str, Any]) -> RunPlan:
    """A plan out of flat names and values; later layers win, None says nothing."""
    said: dict[str, Any] = {}
    for layer in layers:
        here = {key.replace("-", "_"): value for key, value in layer.items() if value is not None}
        here = rename_settings(here, RENAMED_SETTINGS, stacklevel=3)
        if here.keys() & BATCH_SETTINGS:  # one of the two says how large a step is: the one that was said last
            said = {key: value for key, value in said.items() if key not in BATCH_SETTINGS}
        said |= here
    for key in said:
        if key not in _SETTING_FIELDS | _PLAN_FIELDS:
            near = get_close_matches(key, sorted(_SETTING_FIELDS | _PLAN_FIELDS), n=1)
            hint = (
                f"; did you mean {near[0]}?"
                if near
                else f"; there are {', '.join(sorted(_SETTING_FIELDS | _PLAN_FIELDS))}."
            )
            raise InputError(f"There is no setting {to_printable(key, 40)!r}{hint}")
    auto_method = "method" not in said and not said.keys() & _NETWORK_SETTINGS
    said = METHOD_DEFAULTS.get(str(said.get("method")), {}) | said
    if said.get("task") == "translate":
        new = NEW_RNN_DEFAULTS if said.get("family") == "rnn" else NEW_TRANSFORMER_DEFAULTS
        usual = new if said.get("model", "default") == "default" else PRETRAINED_TRANSLATOR_DEFAULTS
        said = {
            key: value for key, value in usual.items() if key not in BATCH_SETTINGS or not said.keys() & BATCH_SETTINGS
        } | said
    if said.get("batch_tokens") is not None and "batch_size" not in said:
        said["batch_size"] = None  # in place of the default
    settings = {key: value for key, value in said.items() if key in _SETTING_FIELDS}
    plan = {key: value for key, value in said.items() if key in _PLAN_FIELDS}
    try:
        chosen = {
            "auto_epochs": "epochs" not in said,
            "auto_rate": "learning_rate" not in said,
            "auto_method": auto_method,
        }
        made = decode_dataclass({**plan, **chosen, "settings": settings}, RunPlan, "settings")
    except ConfigError as error:
        raise InputError(explain_setting_error(str(error), RunPlan)) from None
    made.check()
    return made


def explain_setting_error(said: str, kind: type) -> str:
    """What a decoder complains about, in words: the setting, what is wrong and, where there are few, its choices."""
    wrong, _, place = said.removeprefix("settings: ").rpartition(" - at ")
    name = place.strip("`.").rpartition(".")[2]
    hints = get_type_hints(kind) | get_type_hints(TrainSettings)
    choices = [choice for choice in _literal_values(hints.get(name)) if isinstance(choice, str)]
    listed = f" It can be {', '.join(choices)}." if choices else ""
    return f"Setting {name}: {wrong[:1].lower()}{wrong[1:].replace('`', '')}.{listed}"


def _literal_values(hint: Any) -> list[Any]:
    """The values of a Literal, also where it may be None."""
    return [value for inner in get_args(hint) for value in (_literal_values(inner) if get_args(inner) else [inner])]


def read_recipe(path: str | Path) -> dict[str, Any]:
    """A TOML file of settings; data files in it are found beside it, or where an environment variable says."""
    place = Path(path)
    try:
        text = read_bytes(place, max_bytes=MAX_RECIPE_BYTES).decode()
        if any(line.count(".") > MAX_DOTS for line in text.splitlines()):  # tables in tables take memory as a square
            raise ValueError(f"a line has more than {MAX_DOTS} dots")
        said = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also nested too deeply, or a number with too many digits
        raise InputError(f"{place.name} is not a recipe in TOML: {to_printable(error, 160)}.") from None
    said = rename_settings(said, RENAMED_SETTINGS, stacklevel=3)
    for key, value in said.items():
        if isinstance(value, dict | list):
            what = f"{to_printable(key, 40)!r} is a table or a list"
            raise InputError(f"{place.name}: {what}; a recipe has plain names and values.")
        if key in ("train", "dev", "test") and isinstance(value, str):
            said[key] = str(place.parent / _expand_variables(value, f"{place.name}: {key}"))
    return said


def _expand_variables(path: str, where: str) -> str:
    """A path with $NAME and ${NAME} in place; what is not set is said, not guessed."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if not os.environ.get(name):
            raise InputError(f"{where} lies in ${name}, which is not set: set it to the folder that holds the data.")
        return os.environ[name]

    return VARIABLE.sub(value, path)


def parse_set(pairs: list[str] | tuple[str, ...]) -> dict[str, Any]:
    """`key=value` as TOML would read the value; what is no TOML is a string."""
    said: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key.strip():
            raise InputError(f"--set takes key=value, and it was given {to_printable(pair, 40)!r}.")
        try:
            if text.count(".") > MAX_DOTS:
                raise ValueError
            value = tomllib.loads(f"x = {text}")["x"]
        except (ValueError, RecursionError):
            value = {"True": True, "False": False}.get(text, text)
        said[key.strip()] = value
    return said
