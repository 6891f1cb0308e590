"""Training a network on prepared data: every step is logged, the state is saved, and a stopped run is resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.classic import fit_majority
from clearhead.errors import InputError
from clearhead.jobs.defaults import default_learning_rate
from clearhead.jobs.events import RunEvents
from clearhead.jobs.method import FitInputs, FittedMethod
from clearhead.jobs.plan import LOWER_IS_BETTER, RunPlan
from clearhead.jobs.prepare import PreparedData, encode_part
from clearhead.jobs.training_state import STATE_FOLDER
from clearhead.model import Model
from clearhead.predict.scoring import compute_network_logits
from clearhead.progress import Progress, for_stage
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.task import Calibration
from clearhead.train.fitted_network import make_fitted_method
from clearhead.training.interrupt import TrainingInterrupted, deferred_interrupt
from clearhead.training.log import RunLog, read_log
from clearhead.training.loss_monitor import LossMonitor
from clearhead.training.settings import TrainSettings

if TYPE_CHECKING:
    import numpy as np

    from clearhead.training.loop import TrainingStep
    from clearhead.training.loss_monitor import LossMonitor
    from clearhead.training.objectives import Objective
    from clearhead.training.state import TrainingProgress, TrainingState

    Array = np.ndarray[Any, Any]

MIN_DEV_ROWS = 50  # with fewer dev rows, the choice of the best epoch would be random
MIN_GAIN = 0.01  # relative gain of the last epoch above which more epochs are suggested
MIN_LEAD = 0.05  # lead over the most frequent answer above which the model has learned something


def fit_network(inputs: FitInputs) -> FittedMethod:
    """Train all weights, or only the head, to the end, from the last saved state if there is one.

    The model then has the best weights. With `inputs.finish`, a stopped run is finished at its current step.
    """
    from clearhead.training.loop import train_steps
    from clearhead.training.objectives import objective_for
    from clearhead.training.optimizer import make_optimizer
    from clearhead.training.probe import probe_head
    from clearhead.training.state import TrainingProgress, TrainingState, fold_target_scale, load_state

    model, prepared, plan, settings, folder = inputs.model, inputs.prepared, inputs.plan, inputs.settings, inputs.folder
    assert model is not None
    objective_name = prepared.task.objective(prepared.space)
    objective = objective_for(objective_name, settings)
    data, scale = _standardize_targets(model, encode_part(model, prepared.parts["train"]), objective_name)
    weights = _compute_row_weights(data, settings, prepared)
    network = model.use_core().network
    state = TrainingState(network, make_optimizer(network, settings), TrainingProgress())
    load_state(folder / STATE_FOLDER, state)
    score, select_best = _make_scorer(model, prepared, plan, scale, inputs.events.progress), can_choose_epoch(prepared)
    if inputs.finish:
        finish_stopped_run(state, data, settings, folder, score, select_best=select_best)
    if state.progress.step == 0 and _should_probe(model, settings, objective):
        inputs.events.progress("fitting the head", 0, None)
        probe_head(network, data, prepared.space, settings, objective=objective, device=str(model.core.device))
        if score is not None and select_best:
            state.record_start_score(score())
    compute_chance_loss = prepared.task.metrics.chance_loss
    constant_loss = (
        objective.constant_loss(data.targets, weights) if compute_chance_loss is None else compute_chance_loss(data)
    )
    is_per_word = prepared.task.head.collect_words is not None
    monitor = LossMonitor(
        constant_loss or 0.0,
        settings,
        default_rate=default_learning_rate(model.shape.stack.width, is_per_word=is_per_word),
    )
    steps = train_steps(
        state,
        data,
        settings,
        objective=objective,
        row_weights=weights,
        score=score,
        select_best=select_best,
        device=str(model.core.device),
        seconds=compute_seconds_per_seed(plan),
    )
    run_training(state, steps, folder, settings, monitor, inputs.events)
    state.restore_best()
    fold_target_scale(network, scale)
    network.eval()
    diagnosis = monitor.diagnose() if not _beats_constant(state.progress.best_score, model, prepared, plan) else None
    metric = plan.metric or prepared.task.metrics.main(prepared.space)
    kept_note = describe_kept_weights(state.progress, metric, prepared, was_stopped=inputs.finish)
    early_notes = describe_early_end(state, data, settings, plan, select_best=select_best)
    notes = [note for note in (*early_notes, diagnosis, kept_note) if note is not None]
    return make_fitted_method(inputs, tuple(notes), state.progress.step)


def compute_seconds_per_seed(plan: RunPlan) -> float | None:
    """The time limit of a seed in seconds; several seeds share the limit of the run."""
    return None if plan.minutes is None else 60 * plan.minutes / plan.seeds


def finish_stopped_run(
    state: TrainingState,
    data: Any,
    settings: TrainSettings,
    folder: Path,
    score: Callable[[], float] | None,
    *,
    select_best: bool = True,
) -> None:
    """Finish a stopped run at its current step, and save the state."""
    from clearhead.training.loop import finish_early
    from clearhead.training.state import save_state

    if not state.progress.step:
        raise InputError(f"{folder} has no finished training step yet; resume it instead.")
    finish_early(state, data, settings, score, select_best=select_best)
    save_state(folder / STATE_FOLDER, state)


def describe_early_end(
    state: TrainingState, data: Any, settings: TrainSettings, plan: RunPlan, *, select_best: bool = True
) -> list[str]:
    """A note if a run ended before its last epoch, because of its time limit or on request."""
    from clearhead.training.loop import count_steps, find_epoch

    progress = state.progress
    is_plan_done = progress.planned is not None and progress.step == progress.planned
    if not progress.stopped and not (is_plan_done and progress.step < count_steps(data, settings)):
        return []
    is_time_up = compute_seconds_per_seed(plan) is not None and (
        is_plan_done or progress.seconds >= (compute_seconds_per_seed(plan) or 0)
    )
    reason = f"stopped after {plan.minutes:g} minutes" if is_time_up else "finished early"
    epoch, _ = find_epoch(data, settings, progress.step)
    kept_weights = f"epoch {progress.best_epoch + 1}"
    if progress.best_epoch < 0 or not select_best:
        kept_weights = "the start" if select_best and progress.start_score is not None else "the last weights"
    return [f"{reason} at epoch {epoch + 1} of {settings.epochs}; kept {kept_weights}"]


def can_choose_epoch(prepared: PreparedData) -> bool:
    """Whether there are enough dev rows to compare epochs."""
    return len(prepared.parts.get("dev", ())) >= MIN_DEV_ROWS


def describe_kept_weights(
    progress: TrainingProgress, metric: str, prepared: PreparedData, *, was_stopped: bool = False
) -> str | None:
    """A note on which weights were kept and whether more epochs may help; None without dev rows."""
    dev_rows, scores = len(prepared.parts.get("dev", ())), progress.scores
    if progress.best_score is None:
        return None
    if not can_choose_epoch(prepared):
        return (
            f"{dev_rows} dev rows are too few to select the best epoch (at least {MIN_DEV_ROWS} are needed); "
            "the last epoch was kept."
        )
    sign = -1 if metric in LOWER_IS_BETTER else 1
    best_text = f"dev {metric} {sign * progress.best_score:.4f}"
    if progress.best_epoch < 0:
        best_epoch_text = f" (the best had {sign * max(scores):.4f})" if scores else ""
        return f"Kept the start, a head fitted on frozen features: {best_text}; no epoch was better{best_epoch_text}."
    kept_note = f"Kept epoch {progress.best_epoch + 1} of {len(scores)}: {best_text}."
    previous_score = scores[-2] if len(scores) > 1 else progress.start_score
    is_last = progress.best_epoch == len(scores) - 1
    if (
        not is_last
        or previous_score is None
        or scores[-1] - previous_score < max(MIN_GAIN, 1 / dev_rows) * max(abs(scores[-1]), MIN_GAIN)
    ):
        return kept_note
    if was_stopped:
        return f"{kept_note} The run was finished early: more epochs may help."
    epochs_setting = setting("epochs", 2 * len(scores))
    return f"{kept_note} The dev score was still improving: more epochs may help ({epochs_setting})."


def _should_probe(model: Model, settings: TrainSettings, objective: Objective) -> bool:
    """Whether the head is new and can be initialized by linear probing."""
    from clearhead.training.probe import can_probe

    is_new = "head.out.weight" in model.fresh
    return settings.head_start == "probe" and is_new and can_probe(model.use_core().network, objective)


def run_training(
    state: TrainingState,
    steps: Iterable[TrainingStep],
    folder: Path,
    settings: TrainSettings,
    monitor: LossMonitor,
    events: RunEvents,
) -> None:
    """Run every step: log and report it, and save the state at intervals, after each evaluation and on interruption."""
    from clearhead.training.state import save_state

    log = RunLog(folder, state.progress.step)
    for line in read_log(folder):
        monitor.add(line["loss"])
    last_save, saved_plan = time.monotonic(), state.progress.planned
    try:
        with deferred_interrupt() as stop_request:
            for step in steps:
                log.write(step)
                monitor.add(step.loss)
                is_last, is_interrupted = state.progress.finished, False
                try:
                    events.training_step(step)
                except KeyboardInterrupt:  # between two steps, so that the state is consistent
                    is_interrupted = True
                is_interrupted = is_interrupted or stop_request.requested
                is_due = is_last or step.score is not None or time.monotonic() - last_save > settings.save_every
                if is_due or is_interrupted or saved_plan != state.progress.planned:
                    save_state(folder / STATE_FOLDER, state)
                    last_save, saved_plan = time.monotonic(), state.progress.planned
                if is_interrupted:
                    epoch_note = f" (epoch {step.epoch + 1:,})"
                    raise TrainingInterrupted(f"stopped after step {step.step:,} of {step.steps:,}{epoch_note}; saved")
    finally:
        log.close()


def _make_scorer(
    model: Model,
    prepared: PreparedData,
    plan: RunPlan,
    scale: tuple[float, float] | None,
    progress: Progress,
) -> Callable[[], float] | None:
    """A function that computes the dev score of the current weights (higher is better); None without dev rows."""
    if "dev" not in prepared.parts:
        return None
    dev = encode_part(model, prepared.parts["dev"])

    def compute_dev_logits() -> Any:
        stage = for_stage(progress, "measuring dev rows")
        outputs = compute_network_logits(model.runner, dev, prepared.task, progress=stage)
        return outputs if scale is None else outputs * scale[1] + scale[0]

    return partial(_score_logits, compute_dev_logits, prepared, plan)


def _score_logits(compute_dev_logits: Callable[[], Any], prepared: PreparedData, plan: RunPlan) -> float:
    """The main metric of the dev rows, negated if lower is better."""
    logits = compute_dev_logits()
    task, space, targets = prepared.task, prepared.space, prepared.parts["dev"].targets
    metric = plan.metric or task.metrics.main(space)
    calibration = task.decoding.fit(logits, targets, space) if task.decoding.has_thresholds(space) else Calibration()
    metrics = task.metrics.measure(task.decoding.decode(logits, space, calibration), targets, space, 0)
    value = metrics[metric].value
    value = value if value == value else float("-inf")  # undefined, such as the correlation of constant predictions
    return -value if metric in LOWER_IS_BETTER else value


def _beats_constant(score: float | None, model: Model, prepared: PreparedData, plan: RunPlan) -> bool:
    """Whether the dev score is clearly better than that of always predicting the most frequent answer."""
    import numpy as np

    if score is None:
        return False
    if prepared.task.metrics.chance_score is not None:
        return score > prepared.task.metrics.chance_score(encode_part(model, prepared.parts["dev"])) + MIN_LEAD
    constant_logits = fit_majority(prepared.parts["train"].targets, prepared.space).logits(len(prepared.parts["dev"]))
    floor = _score_logits(lambda: np.asarray(constant_logits), prepared, plan)
    return score > (floor + MIN_LEAD if floor > float("-inf") else MIN_LEAD)


def _compute_row_weights(data: PackedDataset, settings: TrainSettings, prepared: PreparedData) -> Array | None:
    """Row weights of the task, or n / (classes * rows of the class) for balanced classes; None for equal weights."""
    import numpy as np

    task_weights, targets = prepared.task.rows.row_weights(data), data.targets
    if task_weights is not None:
        return task_weights
    if settings.class_weight == "none" or prepared.space.kind == "number":
        return None
    if prepared.space.kind == "classes":
        counts = np.bincount(targets, minlength=len(prepared.space))
        weights = 1.0 / counts[targets]
    else:  # a row with several labels has the weight of its rarest one
        label_weights = 1.0 / np.maximum(targets.sum(0), 1)
        unlabeled_weight = 1.0 / max(int((targets.sum(1) == 0).sum()), 1)
        weights = np.where(targets.any(1), (targets * label_weights).max(1), unlabeled_weight)
    return np.asarray(weights * len(weights) / weights.sum())


def _standardize_targets(
    model: Model, data: PackedDataset, objective: str
) -> tuple[PackedDataset, tuple[float, float] | None]:
    """Standardize numeric targets to mean 0 and standard deviation 1; `fold_target_scale` undoes it in the head."""
    from clearhead.training.state import find_last_bias

    network: Any = model.use_core().network
    if objective != "squared" or (network.head.out.bias is None and find_last_bias(network) is None):
        return data, None
    mean, deviation = float(data.targets.mean()), float(data.targets.std()) or 1.0
    return replace(data, targets=(data.targets - mean) / deviation), (mean, deviation)


def restore_network(model: Model, prepared: PreparedData, settings: TrainSettings, folder: Path) -> None:
    """Load the best weights of a finished training into a new model."""
    from clearhead.training.optimizer import make_optimizer
    from clearhead.training.state import TrainingProgress, TrainingState, fold_target_scale, load_state

    network = model.use_core().network
    state = TrainingState(network, make_optimizer(network, settings), TrainingProgress())
    load_state(folder / STATE_FOLDER, state)
    state.restore_best()
    objective = prepared.task.objective(prepared.space)
    fold_target_scale(network, _standardize_targets(model, encode_part(model, prepared.parts["train"]), objective)[1])
    network.eval()
