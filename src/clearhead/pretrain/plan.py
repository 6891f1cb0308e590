"""The plan of a pre-training run: all settings in one frozen value."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from clearhead.caller import command, setting
from clearhead.deprecation import REMOVED_IN, TRAINING_SETTINGS, rename_settings, rename_stored_fields, renamed_fields
from clearhead.errors import CheckpointError, ConfigError, InputError
from clearhead.families import FAMILIES
from clearhead.families.family import parse_config_option
from clearhead.files import decode_dataclass, read_json, to_printable, write_json
from clearhead.jobs.plan import MAX_THREADS, explain_setting_error
from clearhead.jobs.run_file import RUN_FILE, ComputeHistory, FitRecord, check_stored_settings
from clearhead.machine.cpu import Machine
from clearhead.pretrain.config import config_width, resolve_config
from clearhead.pretraining.documents import Documents
from clearhead.pretraining.registry import OBJECTIVES
from clearhead.pretraining.vocab_info import Masking
from clearhead.training.settings import TrainSettings

FORMAT = 2  # of the shards and the sampling of batches
KIND = "pretrain"
DEFAULT_PRESET = "mini"
LEARNING_RATES = {
    "tiny": 1e-3,
    "mini": 1e-3,
    "small": 7e-4,
    "base": 2e-4,
}  # of new models: larger ones need lower rates, ...
LEARNING_RATES_BY_WIDTH = {256: 1e-3, 512: 7e-4}  # ... also if a config sets the width
CONFIG_EXAMPLE = '{"num_hidden_layers": 6}'
CHECKPOINT_LEARNING_RATE = 1e-4  # of a checkpoint that is trained further, ...
NEW_HEAD_LEARNING_RATE = (
    1e-3  # ... and of its new head, whose random weights would otherwise disturb the encoder for long
)
PRETRAIN_DEFAULTS: dict[str, Any] = {
    "batch_size": None,
    "batch_tokens": 4096,
    "micro_tokens": 4096,
    "warmup_ratio": 0.06,
    "adam_beta2": 0.98,
    "save_every": 120.0,
}


FORMER_SETTINGS = {
    "vocabulary": "vocab_size",
    "length": "max_length",
    "mask": "mlm_probability",
    "start": "attention_init",
    "steps": "max_steps",
}
FORMER_INITS = {"neighbours": "local", "plain": "random"}  # former values of `attention_init`


@renamed_fields(**FORMER_SETTINGS)
@dataclass(frozen=True, kw_only=True)
class PretrainPlan:
    """Settings of a pre-training run: text, model, objective, duration and optimization."""

    files: list[str] = field(default_factory=list)
    dev: list[str] = field(default_factory=list)  # text to evaluate on; empty: hold out some of the documents
    family: str | None = None  # of a new model; None: bert
    objective: str | None = None  # None: the default of the family
    preset: str | None = None  # of a new model
    config: str | None = None  # of a new model: keys of its config.json, as JSON
    model: str | None = None  # a checkpoint to continue from, instead of a new model
    tokenizer: str | None = None  # of a new model; None: train one on the text
    vocab_size: int | None = None  # of a new tokenizer; None: set by the preset
    cased: bool = False  # a new WordPiece tokenizer keeps upper case
    text: str | None = None  # text columns of tables
    documents: Documents = "auto"  # what a document is in plain text
    encoding: str | None = None
    language: str = "en"  # of the sentence splitter
    max_length: int = 128  # tokens of an example
    mlm_probability: float = 0.15  # share of the tokens that are masked
    masking: Masking = "tokens"  # single tokens, whole words, or spans of words
    # of a new model: the heads of the first layer start with local attention, or at random (training/local_init.py)
    attention_init: Literal["local", "random"] = "local"
    dropout: float | None = None  # None: no dropout for a new model, the dropout of its config for a checkpoint
    max_steps: int | None = None
    minutes: float | None = None  # instead of `max_steps`: converted into a number of steps once
    evaluations: int = 10  # on held-out text, evenly distributed over the run
    device: str = "auto"
    threads: int | None = None
    keep_state: bool = False  # keep the optimizer state in the folder of a finished run
    settings: TrainSettings = field(default_factory=TrainSettings)

    def check(self) -> None:
        """Refuse the first invalid setting."""
        self.settings.check()
        rules = (
            (
                self.objective is None or self.objective in OBJECTIVES,
                f"objective must be one of {', '.join(OBJECTIVES)}",
            ),
            (self.family is None or self.family in FAMILIES, f"family must be one of {', '.join(FAMILIES)}"),
            (self.max_steps is None or self.minutes is None, "set either max_steps or minutes, not both"),
            (self.max_steps is None or 1 <= self.max_steps <= 10**9, "max_steps must be at least 1"),
            (self.minutes is None or 0 < self.minutes <= 60 * 24 * 365, "minutes must be above 0"),
            (8 <= self.max_length <= 1 << 16, "max_length must be from 8 to 65,536"),
            (0 < self.mlm_probability < 1, "mlm_probability must be above 0 and below 1"),
            (self.dropout is None or 0 <= self.dropout < 1, "dropout must be from 0 up to 1"),
            (self.vocab_size is None or self.vocab_size >= 16, "vocab_size must be at least 16"),
            (1 <= self.evaluations <= 10_000, "evaluations must be from 1 to 10,000"),
            (self.threads is None or self.threads >= 1, "threads must be at least 1"),
            (self.threads is None or self.threads <= MAX_THREADS, f"threads must be at most {MAX_THREADS}"),
            (
                re.fullmatch("[A-Za-z]{2,3}(-[A-Za-z]+)*", self.language) is not None,
                "language must be a code such as en or de",
            ),
            (
                self.model is None
                or not (self.family or self.preset or self.config or self.vocab_size or self.tokenizer),
                "family, preset, config, vocab_size and tokenizer are for new models; a checkpoint has its own",
            ),
            (
                self.tokenizer is None or self.vocab_size is None,
                "vocab_size cannot be set together with tokenizer, which has its own vocabulary",
            ),
        )
        for is_valid, problem in rules:
            if not is_valid:
                raise InputError(f"Invalid pre-training settings: {problem}.")

    def without_folders(self) -> PretrainPlan:
        """Return the plan with file names instead of paths: a published model does not reveal local folders."""
        return replace(self, files=[Path(name).name for name in self.files], dev=[Path(name).name for name in self.dev])


_TASK_SETTINGS = {
    "epochs",
    "freeze_encoder",
    "gradual_unfreezing",
    "patience",
    "label_smoothing",
    "layer_decay",
    "lm_weight",
    "class_weight",
    "average_epochs",
}
_TRAIN_FIELDS = {setting_field.name for setting_field in fields(TrainSettings)} - _TASK_SETTINGS
_PLAN_FIELDS = {setting_field.name for setting_field in fields(PretrainPlan)} - {"settings"}


def rename_pretrain_settings(values: Mapping[str, Any], *, stacklevel: int = 2) -> dict[str, Any]:
    """Return settings under their current names; a former name or value warns."""
    settings = {key.replace("-", "_"): value for key, value in values.items() if value is not None}
    settings = rename_settings(settings, FORMER_SETTINGS | TRAINING_SETTINGS, stacklevel=stacklevel + 1)
    former = settings.get("attention_init")
    if isinstance(former, str) and former in FORMER_INITS:
        settings["attention_init"] = FORMER_INITS[former]
        change = f"{setting('attention_init', former)} is deprecated and will be removed in {REMOVED_IN}"
        replacement = setting("attention_init", settings["attention_init"])
        warnings.warn(f"{change}; use {replacement}.", DeprecationWarning, stacklevel=stacklevel + 1)
    return settings


def make_pretrain_plan(values: Mapping[str, Any]) -> PretrainPlan:
    """Make a plan from a flat mapping of settings; None leaves a setting at its default."""
    requested = resolve_config(rename_pretrain_settings(values))
    for key in requested:
        if key not in _TRAIN_FIELDS | _PLAN_FIELDS:
            close_names = get_close_matches(key, sorted(_TRAIN_FIELDS | _PLAN_FIELDS), n=1)
            hint = (
                f"; did you mean {close_names[0]}?"
                if close_names
                else f"; the settings are {', '.join(sorted(_TRAIN_FIELDS | _PLAN_FIELDS))}."
            )
            raise InputError(f"Unknown setting {to_printable(key, 40)!r}{hint}")
    defaults = dict(PRETRAIN_DEFAULTS)
    if requested.get("batch_size") is not None:
        defaults |= {"batch_size": requested["batch_size"], "batch_tokens": None}
    if requested.get("model"):
        defaults["head_learning_rate"] = NEW_HEAD_LEARNING_RATE
    settings = (
        defaults
        | {"learning_rate": _default_learning_rate(requested)}
        | {key: value for key, value in requested.items() if key in _TRAIN_FIELDS}
    )
    plan_fields = {key: value for key, value in requested.items() if key in _PLAN_FIELDS}
    try:
        plan = decode_dataclass({**plan_fields, "settings": settings}, PretrainPlan, "settings")
    except ConfigError as error:
        raise InputError(explain_setting_error(str(error), PretrainPlan)) from None
    plan.check()
    return plan


def _default_learning_rate(settings: Mapping[str, Any]) -> float:
    """Return the default peak learning rate of a checkpoint, a preset, or a config with this width."""
    if settings.get("model"):
        return CHECKPOINT_LEARNING_RATE
    preset, family = str(settings.get("preset") or DEFAULT_PRESET), FAMILIES.get(str(settings.get("family") or "bert"))
    if isinstance(settings.get("config"), str) and family is not None and preset in family.presets:
        width = config_width(family, preset, parse_config_option(settings["config"], CONFIG_EXAMPLE))
        if width is not None:
            return next(
                (rate for max_width, rate in LEARNING_RATES_BY_WIDTH.items() if width <= max_width),
                LEARNING_RATES["base"],
            )
    return LEARNING_RATES.get(preset, LEARNING_RATES["base"])


@dataclass(frozen=True, kw_only=True)
class SavedPretrain:
    """The content of run.json of a pre-training run."""

    format: int
    kind: str
    plan: PretrainPlan
    command: str = ""
    source: str | None = None  # hash of the text and the tokenizer, once they have been read
    minutes: float | None = None  # from which the steps of the plan were computed
    machine: Machine | None = None
    resumed_on: list[Machine] = field(default_factory=list)
    fitted: FitRecord | None = None

    @property
    def compute_history(self) -> ComputeHistory:
        """Where it computed so far."""
        return ComputeHistory(machine=self.machine, resumed_on=self.resumed_on)


def read_pretrain_run(folder: Path) -> SavedPretrain:
    """Read and validate the run.json of an existing run."""
    if not (folder / RUN_FILE).is_file():
        raise InputError(f"{folder} is not a training run ({RUN_FILE} not found).")
    stored = read_json(folder / RUN_FILE)
    if stored.get("kind") != KIND:
        raise InputError(
            f"{folder} is not a pre-training run; continue it with {command('train', resume=str(folder))}."
        )
    if stored.get("format") != FORMAT:
        raise CheckpointError(f"{RUN_FILE} was written by an incompatible version of clearhead.")
    stored = rename_stored_fields(stored, SavedPretrain)
    if isinstance(plan := stored.get("plan"), dict) and isinstance(init := plan.get("attention_init"), str):
        plan["attention_init"] = FORMER_INITS.get(init, init)
    run = decode_dataclass(stored, SavedPretrain, RUN_FILE)
    check_stored_settings(run.plan.check)
    return run


def write_pretrain_run(folder: Path, saved: SavedPretrain) -> None:
    """Write run.json, and create the run folder if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be created: {error.strerror or error}.") from None
    write_json(folder / RUN_FILE, asdict(saved))
