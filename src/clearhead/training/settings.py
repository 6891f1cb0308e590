"""Settings of a training run: frozen, keyword-only, each with its reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from clearhead.errors import InputError

MOST_BATCH = 10**9  # rows or tokens
PROBED = ("cross_entropy", "binary", "squared", "tags")  # objectives that have `linear_examples`
MOST_EPOCHS = 100_000  # the steps of every one are counted before the first


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """How to train; the defaults are those of BERT's fine-tuning."""

    epochs: int = 3  # BERT's paper: two to four
    rate: float = 5e-5
    head_rate: float | None = None  # a fresh head may learn faster; None: as the rest
    # a new head starts at random, or as the linear model that fits the frozen features best (training/probe.py)
    head_start: Literal["random", "probe"] = "random"
    batch_rows: int | None = 32  # rows a step, or ...
    batch_tokens: int | None = None  # ... as many rows as fit in so many tokens
    micro_tokens: int = 2048  # a step is cut into parts of this size, for memory; their gradients add up
    warmup: float = 0.1  # share of the steps in which the rate grows, or ...
    warmup_steps: int | None = None  # ... how many they are
    schedule: Literal["linear", "cosine", "constant", "inverse_sqrt"] = "linear"  # the last is the 2017 Transformer's
    beta2: float = 0.999  # how long Adam remembers squares; 0.98 in the 2017 Transformer
    decay: float = 0.01  # weight decay, never on biases and norms
    layer_decay: float = 1.0  # each layer below learns this much slower
    clip: float = 1.0  # longest gradient; 0: any
    smoothing: float = 0.0  # label smoothing
    lm_weight: float = 0.0  # of a causal model's next-word loss beside the task's; 0.5 in the OpenAI Transformer
    class_weight: Literal["none", "auto"] = "none"  # auto: rare classes count more
    frozen: bool = False  # True: only the head learns
    unfreeze: bool = False  # ULM-FiT: one more layer learns with each epoch
    average: int = 1  # epochs whose weights are averaged, the last so many
    patience: int | None = None  # epochs without a better dev result before it stops; None: never
    seed: int = 0
    precision: Literal["auto", "float", "bf16"] = "auto"  # auto: float on a CPU, bf16 on a GPU that has it
    save_every: float = 30.0  # seconds between two saved states; what is learned does not depend on it

    def resolved(self, precision: str) -> TrainSettings:
        """The same with the precision that it computes in, whatever "auto" means elsewhere."""
        return replace(self, precision="bf16" if precision == "bf16" else "float")

    def check(self) -> None:
        """One sentence for the first setting that cannot be."""
        rules = (
            (self.epochs >= 1, "epochs must be at least 1"),
            (self.epochs <= MOST_EPOCHS, f"epochs must be at most {MOST_EPOCHS:,}"),
            (0 <= self.seed < 1 << 31, "seed must be from 0 to 2,147,483,647"),
            (0 < self.rate < math.inf, "rate must be above 0"),
            (self.head_rate is None or 0 < self.head_rate < math.inf, "head_rate must be above 0"),
            ((self.batch_rows is None) != (self.batch_tokens is None), "give either batch_rows or batch_tokens"),
            (self.batch_rows is None or self.batch_rows >= 1, "batch_rows must be at least 1"),
            (self.batch_tokens is None or self.batch_tokens >= 1, "batch_tokens must be at least 1"),
            (max(self.batch_rows or 1, self.batch_tokens or 1) <= MOST_BATCH, f"a batch has at most {MOST_BATCH:,}"),
            (self.micro_tokens >= 1, "micro_tokens must be at least 1"),
            (0 <= self.warmup < 1, "warmup must be from 0 up to 1"),
            (self.warmup_steps is None or self.warmup_steps >= 0, "warmup_steps must be at least 0"),
            (0 < self.beta2 < 1, "beta2 must be above 0 and below 1"),
            (1 <= self.average <= 100, "average must be from 1 to 100"),
            (0 <= self.decay < math.inf, "decay must be at least 0"),
            (0 < self.layer_decay <= 1, "layer_decay must be above 0 and at most 1"),
            (self.clip >= 0, "clip must be at least 0"),
            (0 <= self.smoothing < 1, "smoothing must be from 0 up to 1"),
            (0 <= self.lm_weight <= 100, "lm_weight must be from 0 to 100"),
            (self.save_every >= 0, "save_every must be at least 0"),
            (self.patience is None or self.patience >= 1, "patience must be at least 1"),
        )
        for holds, said in rules:
            if not holds:
                raise InputError(f"Training settings: {said}.")
