"""Training with torch: loops that yield steps, objectives, the optimizer, and a training state that survives a kill.

An objective (`objectives/`) computes the loss of each row of a batch. Fine-tuning (`loop.py`) and pre-training
(`pretrain_loop.py`) share one optimizer step: gradient accumulation, clipping, and the check for divergence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.training.dropout import set_dropout
    from clearhead.training.interrupt import TrainingInterrupted, deferred_interrupt, on_stop_request
    from clearhead.training.log import RunLog, read_log
    from clearhead.training.loop import TrainingStep, count_steps, find_epoch, train_steps
    from clearhead.training.loss_monitor import LossMonitor
    from clearhead.training.optimizer import make_optimizer
    from clearhead.training.pretrain_loop import (
        collect_fresh_parameters,
        init_new_network,
        init_output_bias,
        make_pretrain_optimizer,
        measure_step_seconds,
        pretrain_steps,
    )
    from clearhead.training.probe import can_probe, probe_head
    from clearhead.training.settings import TrainSettings
    from clearhead.training.state import (
        TrainingProgress,
        TrainingState,
        copy_weights,
        find_last_bias,
        load_state,
        save_state,
    )
    from clearhead.training.threads import use_threads
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "dropout": ("set_dropout",),
            "interrupt": ("TrainingInterrupted", "deferred_interrupt", "on_stop_request"),
            "log": ("RunLog", "read_log"),
            "loop": ("TrainingStep", "find_epoch", "count_steps", "train_steps"),
            "loss_monitor": ("LossMonitor",),
            "optimizer": ("make_optimizer",),
            "pretrain_loop": (
                "collect_fresh_parameters",
                "init_new_network",
                "init_output_bias",
                "make_pretrain_optimizer",
                "pretrain_steps",
                "measure_step_seconds",
            ),
            "probe": ("can_probe", "probe_head"),
            "settings": ("TrainSettings",),
            "state": (
                "TrainingState",
                "TrainingProgress",
                "copy_weights",
                "find_last_bias",
                "load_state",
                "save_state",
            ),
            "threads": ("use_threads",),
        },
    )

__all__ = [
    "LossMonitor",
    "RunLog",
    "TrainSettings",
    "TrainingInterrupted",
    "TrainingProgress",
    "TrainingState",
    "TrainingStep",
    "can_probe",
    "collect_fresh_parameters",
    "copy_weights",
    "count_steps",
    "deferred_interrupt",
    "find_epoch",
    "find_last_bias",
    "init_new_network",
    "init_output_bias",
    "load_state",
    "make_optimizer",
    "make_pretrain_optimizer",
    "measure_step_seconds",
    "on_stop_request",
    "pretrain_steps",
    "probe_head",
    "read_log",
    "save_state",
    "set_dropout",
    "train_steps",
    "use_threads",
]
