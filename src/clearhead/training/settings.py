"""Settings of a training run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from clearhead.deprecation import TRAINING_SETTINGS, renamed_fields
from clearhead.errors import InputError

MAX_BATCH = 10**9  # rows or tokens
MAX_EPOCHS = 100_000  # the number of steps of each epoch is computed before training starts
PROBE_OBJECTIVES = ("cross_entropy", "binary", "squared", "tags")  # objectives that implement `linear_examples`


@renamed_fields(**TRAINING_SETTINGS)
@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Hyperparameters of training; the defaults are those of fine-tuning BERT."""

    epochs: int = 3  # the BERT paper recommends two to four
    learning_rate: float = 5e-5  # peak value of the schedule
    head_learning_rate: float | None = None  # of a newly initialized head; None: learning_rate
    # a new head starts with random weights, or with a linear model fitted on frozen features (training/probe.py)
    head_start: Literal["random", "probe"] = "random"
    batch_size: int | None = 32  # rows per step; exclusive with batch_tokens
    batch_tokens: int | None = None  # tokens per step: a batch gets as many rows as fit
    micro_tokens: int = 2048  # a batch is computed in micro-batches of this size, with accumulated gradients
    warmup_ratio: float = 0.1  # fraction of the steps with a rising learning rate
    warmup_steps: int | None = None  # overrides warmup_ratio
    schedule: Literal["linear", "cosine", "constant", "inverse_sqrt"] = "linear"  # inverse_sqrt: the 2017 Transformer
    adam_beta2: float = 0.999  # decay of Adam's second moment; 0.98 in the 2017 Transformer
    weight_decay: float = 0.01  # not applied to biases and norms
    layer_decay: float = 1.0  # factor on the learning rate of each layer below the top one
    max_grad_norm: float = 1.0  # gradients are clipped to this norm; 0: no clipping
    label_smoothing: float = 0.0
    lm_weight: float = 0.0  # weight of the language-modeling loss of a causal model; 0.5 in the GPT paper
    class_weight: Literal["none", "auto"] = "none"  # auto: weight classes by their inverse frequency
    freeze_encoder: bool = False  # train only the head
    gradual_unfreezing: bool = False  # ULMFiT: unfreeze one more layer with each epoch, from the top
    average_epochs: int = 1  # number of final epochs whose weights are averaged
    patience: int | None = None  # stop after this number of epochs without improvement on dev; None: never
    seed: int = 0
    precision: Literal["auto", "float", "bf16"] = "auto"  # auto: bf16 on a GPU that supports it, float otherwise
    save_every: float = 30.0  # seconds between checkpoints; does not affect the result

    def resolve_precision(self, precision: str) -> TrainSettings:
        """Return the settings with `precision`, the one in use on this machine, in place of "auto"."""
        return replace(self, precision="bf16" if precision == "bf16" else "float")

    def check(self) -> None:
        """Raise an InputError for the first setting that is out of range."""
        rules = (
            (self.epochs >= 1, "epochs", "at least 1"),
            (self.epochs <= MAX_EPOCHS, "epochs", f"at most {MAX_EPOCHS:,}"),
            (0 <= self.seed < 1 << 31, "seed", "from 0 to 2,147,483,647"),
            (0 < self.learning_rate < math.inf, "learning_rate", "above 0 and finite"),
            (
                self.head_learning_rate is None or 0 < self.head_learning_rate < math.inf,
                "head_learning_rate",
                "above 0 and finite",
            ),
            (self.batch_size is None or self.batch_size >= 1, "batch_size", "at least 1"),
            (self.batch_tokens is None or self.batch_tokens >= 1, "batch_tokens", "at least 1"),
            (self.batch_size is None or self.batch_size <= MAX_BATCH, "batch_size", f"at most {MAX_BATCH:,}"),
            (self.batch_tokens is None or self.batch_tokens <= MAX_BATCH, "batch_tokens", f"at most {MAX_BATCH:,}"),
            (self.micro_tokens >= 1, "micro_tokens", "at least 1"),
            (0 <= self.warmup_ratio < 1, "warmup_ratio", "at least 0 and below 1"),
            (self.warmup_steps is None or self.warmup_steps >= 0, "warmup_steps", "at least 0"),
            (0 < self.adam_beta2 < 1, "adam_beta2", "above 0 and below 1"),
            (1 <= self.average_epochs <= 100, "average_epochs", "from 1 to 100"),
            (0 <= self.weight_decay < math.inf, "weight_decay", "at least 0 and finite"),
            (0 < self.layer_decay <= 1, "layer_decay", "above 0 and at most 1"),
            (self.max_grad_norm >= 0, "max_grad_norm", "at least 0"),
            (0 <= self.label_smoothing < 1, "label_smoothing", "at least 0 and below 1"),
            (0 <= self.lm_weight <= 100, "lm_weight", "from 0 to 100"),
            (self.save_every >= 0, "save_every", "at least 0"),
            (self.patience is None or self.patience >= 1, "patience", "at least 1"),
        )
        for is_valid, name, expected in rules:
            if not is_valid:
                raise InputError(f"Training settings: {name} must be {expected}, got {getattr(self, name)}.")
        if (self.batch_size is None) == (self.batch_tokens is None):
            raise InputError("Training settings: set either batch_size or batch_tokens.")
