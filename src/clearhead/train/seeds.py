"""Fitting a method with several seeds, and keeping the one with the best dev score."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.errors import CheckpointError, InputError
from clearhead.files import decode_dataclass, read_json, write_json
from clearhead.jobs.events import RunEvents
from clearhead.jobs.method import FitInputs, FittedMethod
from clearhead.jobs.plan import LOWER_IS_BETTER, NETWORK_METHODS, RunPlan
from clearhead.jobs.run_file import FitRecord
from clearhead.jobs.training_state import SEEDS_FOLDER, STATE_FOLDER, restore_weights
from clearhead.train.finish import SeedScore, compute_held_out_logits, measure_parts
from clearhead.train.fitted_network import make_fitted_method
from clearhead.train.methods import FIT_METHODS
from clearhead.train.network import restore_network
from clearhead.train.start import StartModels

if TYPE_CHECKING:
    from clearhead.tasks.evaluation import Evaluation

SCORE_FILE = "result.json"


@dataclass(frozen=True, kw_only=True)
class SeedFits:
    """The kept fit, and the scores of all seeds if there are several."""

    fitted: FittedMethod
    scores: tuple[SeedScore, ...]
    log_folder: Path  # of the kept seed


def restore_method(inputs: FitInputs, finished_fit: FitRecord) -> FittedMethod:
    """Load a network from the model folder, if its training had finished before the run was killed."""
    assert inputs.model is not None
    restore_weights(inputs.model, inputs.folder)
    return make_fitted_method(inputs, tuple(finished_fit.notes))


def fit_seeds(
    inputs: FitInputs, start_models: StartModels, events: RunEvents, finished_fit: FitRecord | None
) -> SeedFits:
    """Fit every seed in its own folder, and keep the one with the best dev score.

    The scores of finished seeds are read from their files. With `finished_fit`, training had finished before the run
    was killed.
    """
    plan, prepared, folder, first_seed = inputs.plan, inputs.prepared, inputs.folder, inputs.plan.settings.seed
    scores: list[SeedScore] = []
    for index in range(plan.seeds):
        seed = first_seed + index
        seed_folder = folder / SEEDS_FOLDER / f"seed-{seed}"
        if (seed_folder / SCORE_FILE).exists():
            scores.append(_read_seed_score(seed_folder, seed))
            continue
        if inputs.finish and not (seed_folder / STATE_FOLDER).exists():
            continue  # not started
        seed_folder.mkdir(parents=True, exist_ok=True)
        events.seed_started(seed, index, plan.seeds)
        settings = replace(plan.settings, seed=seed)
        model = inputs.model if index == 0 else start_models.load(plan, seed)
        fitted = FIT_METHODS[plan.method](replace(inputs, settings=settings, folder=seed_folder, model=model))
        evaluations = measure_parts(prepared, compute_held_out_logits(prepared, fitted), plan)[1]
        score = SeedScore(
            seed=seed, dev=_finite_score(evaluations.get("dev")), test=_finite_score(evaluations.get("test"))
        )
        write_json(seed_folder / SCORE_FILE, asdict(score))
        scores.append(score)
    if not scores:
        raise InputError(f"{folder} has no finished training step yet; resume it instead.")
    best_seed = _select_best_seed(scores, plan)
    settings = replace(plan.settings, seed=best_seed)
    model, seed_folder = start_models.load(plan, best_seed), folder / SEEDS_FOLDER / f"seed-{best_seed}"
    best_inputs = FitInputs(
        prepared=prepared, plan=plan, settings=settings, folder=seed_folder, model=model, events=inputs.events
    )
    if plan.method not in NETWORK_METHODS or model is None:
        return SeedFits(fitted=FIT_METHODS[plan.method](best_inputs), scores=tuple(scores), log_folder=seed_folder)
    if finished_fit is not None:
        restore_weights(model, folder)
    else:
        restore_network(model, prepared, settings, seed_folder)
    return SeedFits(fitted=make_fitted_method(best_inputs), scores=tuple(scores), log_folder=seed_folder)


def _select_best_seed(scores: list[SeedScore], plan: RunPlan) -> int:
    """The seed with the best dev score; the first of equal ones."""
    sign = -1 if plan.metric in LOWER_IS_BETTER else 1
    return max(scores, key=lambda score: (float("-inf") if score.dev is None else sign * score.dev, -score.seed)).seed


def _read_seed_score(folder: Path, seed: int) -> SeedScore:
    """Read the scores of a finished seed."""
    score = decode_dataclass(read_json(folder / SCORE_FILE), SeedScore, f"{folder.name}/{SCORE_FILE}")
    if score.seed != seed or not all(value is None or isfinite(value) for value in (score.dev, score.test)):
        raise CheckpointError(f"{folder / SCORE_FILE} is damaged: expected finite scores of seed {seed}.")
    return score


def _finite_score(evaluation: Evaluation | None) -> float | None:
    """The value of the main metric; None without an evaluation, or if it is undefined."""
    return evaluation.value if evaluation is not None and isfinite(evaluation.value) else None
