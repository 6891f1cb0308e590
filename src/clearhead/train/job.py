"""The training job: the steps from labeled rows to a run folder."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.caller import setting
from clearhead.checkpoint.passport import TrainingRecord
from clearhead.data import Source
from clearhead.data.sources.row_store import store_rows
from clearhead.errors import InputError
from clearhead.evaluate.examples import analyze_errors
from clearhead.jobs.cost import measure_cost
from clearhead.jobs.job import JobRequest
from clearhead.jobs.kinds import has_vectors
from clearhead.jobs.machine import resolve_compute, update_compute_history
from clearhead.jobs.method import FitInputs
from clearhead.jobs.plan import NETWORK_METHODS, RunPlan
from clearhead.jobs.prepare import PreparedData, prepare_data
from clearhead.jobs.profile import DatasetProfile, profile_dataset, report_rows_read
from clearhead.jobs.run_file import RUN_FILE, ComputeHistory, read_run_file, start_run
from clearhead.jobs.run_folder import check_run_folder, remove_unstarted_run
from clearhead.jobs.training_state import remove_state
from clearhead.model import Model
from clearhead.train.baselines import BaselineComparison, compare_baselines, describe_better_baseline, fit_baselines
from clearhead.train.finish import (
    KeptModel,
    Run,
    compute_held_out_logits,
    make_passport,
    measure_parts,
    write_metrics,
    write_split,
)
from clearhead.train.method_choice import choose_kept_model
from clearhead.train.methods import FIT_METHODS
from clearhead.train.report import select_inspected_rows, write_report
from clearhead.train.resolve import ResolvedInputs, resolve_inputs, resolve_plan
from clearhead.train.seeds import SeedFits, fit_seeds, restore_method
from clearhead.train.start import StartModels

if TYPE_CHECKING:
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.tasks.task import Calibration


def read_run(folder: Path) -> tuple[RunPlan, str]:
    """Read the plan and the command of a started run."""
    saved = read_run_file(folder)
    return saved.plan, saved.command


class TrainJob:
    """Trains a method on labeled rows. Each step sets the attributes that later steps read."""

    sources: dict[str, Source]  # set by `plan`; files are read once
    profile: DatasetProfile
    start_models: StartModels
    model: Model | None
    inputs: ResolvedInputs
    compute_history: ComputeHistory
    folder_existed: bool  # set by `prepare`
    prepared: PreparedData
    resolved_plan: RunPlan  # as stored in run.json
    seeds: SeedFits  # set by `fit`
    fitting_seconds: float
    kept_model: KeptModel  # set by `measure`
    calibration: Calibration
    evaluations: dict[str, Evaluation]
    baselines: tuple[BaselineComparison, ...]
    notes: tuple[str, ...]
    trained: TrainingRecord  # set by `save`

    def __init__(self, request: JobRequest[RunPlan]) -> None:
        self.request = request
        self.started = time.perf_counter()

    def plan(self) -> None:
        """Profile the dataset, load the model, and resolve how rows are read."""
        request, plan, events = self.request, self.request.plan, self.request.events
        if plan.method in NETWORK_METHODS and has_vectors(plan.model):
            features_setting = setting("method", "features")
            raise InputError(f"{plan.model} contains word vectors, which cannot be fine-tuned; use {features_setting}.")
        events.progress("loading", 0, None)
        compute = resolve_compute(plan)
        compute_history = update_compute_history(
            request.folder,
            compute.machine,
            resume=request.resume,
            allowed=request.allow_different_cpu,
            report_message=events.message,
        )
        if not request.resume:
            check_run_folder(request.folder)
        self.sources = {part: store_rows(source) for part, source in request.sources.items()}
        sources = {part: report_rows_read(source, events.progress) for part, source in self.sources.items()}
        self.profile = profile_dataset(sources, plan)
        self._check_method()
        for message in (
            *(message for source in sources.values() for message in source.messages),
            *self.profile.columns.messages,
        ):
            events.message(message)
        task = self.profile.task
        events.message(f"task: {task.name} ({task.description}; {task.rows.describe_labels(self.profile.space)})")
        events.progress("loading the model", 0, None)
        self.start_models = StartModels(self.profile, events)
        plan_with_threads = replace(plan, threads=compute.threads)
        self.model = self.start_models.load(plan_with_threads, plan.settings.seed)
        self.inputs = resolve_inputs(plan, compute, self.profile, self.model)
        if plan.method in NETWORK_METHODS:
            compute_history = compute_history.with_threads(self.inputs.threads)
        self.compute_history = compute_history.with_precision(
            "float" if self.model is None else self.model.runner.precision
        )

    def prepare(self) -> None:
        """Tokenize and split the rows, then resolve the plan and store it."""
        request, plan, events, inputs = self.request, self.request.plan, self.request.events, self.inputs
        tokenizer = None if self.model is None else self.model.tokenizer
        profile = replace(self.profile, task=inputs.task)
        self.prepared = prepare_data(profile, plan, tokenizer, inputs.length_policy)
        for message in self.prepared.messages:
            events.message(message)
        self.resolved_plan = resolve_plan(plan, inputs, self.prepared, self.model)
        if self.resolved_plan.method != plan.method:
            reason = "two texts and too few dev rows to compare it with fine-tuning"
            events.message(f"method: features ({reason}; override with {setting('method', 'finetune')})")
            self.model = self.start_models.encoder(self.resolved_plan)
        elif self.model is not None and plan.method in NETWORK_METHODS:
            epochs, rate = self.resolved_plan.settings.epochs, self.resolved_plan.settings.learning_rate
            if plan.auto_epochs:
                events.message(f"epochs: {epochs} (chosen from the dataset size; override with {setting('epochs')})")
            if plan.auto_rate:
                events.message(
                    f"learning rate: {rate:g} (chosen from the model size; override with {setting('learning_rate')})"
                )
        self.folder_existed = request.folder.exists()
        facts = _collect_run_facts(self.prepared)
        start_run(
            request.folder, self.resolved_plan, facts, request.command, self.compute_history, resume=request.resume
        )
        events.started(request.folder)

    def fit(self) -> None:
        """Fit the method with one or several seeds."""
        request, folder, plan, events = self.request, self.request.folder, self.resolved_plan, self.request.events
        started, finished_fit = time.perf_counter(), read_run_file(folder).fitted
        inputs = FitInputs(
            prepared=self.prepared,
            plan=plan,
            settings=plan.settings,
            folder=folder,
            model=self.model,
            events=events,
            finish=request.finish,
        )
        try:
            if plan.seeds > 1:
                self.seeds = fit_seeds(inputs, self.start_models, events, finished_fit)
            else:
                events.seed_started(plan.settings.seed, 0, 1)
                fit_method = (
                    FIT_METHODS[plan.method]
                    if finished_fit is None or self.model is None
                    else partial(restore_method, finished_fit=finished_fit)
                )
                self.seeds = SeedFits(fitted=fit_method(inputs), scores=(), log_folder=folder)
        except InputError:  # refused before the first step
            if not request.resume and [path.name for path in folder.iterdir()] == [RUN_FILE]:
                remove_unstarted_run(folder, existed=self.folder_existed)
            raise
        self.fitting_seconds = time.perf_counter() - started

    def measure(self) -> None:
        """Evaluate the fitted model and the baselines on held-out rows, and choose which of them is kept."""
        plan, prepared, folder, events = self.resolved_plan, self.prepared, self.request.folder, self.request.events
        events.progress("measuring", 0, None)
        fitted_baselines = fit_baselines(prepared, plan, folder, events.progress, self.start_models.encoder)
        inputs = FitInputs(prepared=prepared, plan=plan, settings=plan.settings, folder=folder, events=events)
        fitted = self.seeds.fitted
        logits = compute_held_out_logits(prepared, fitted)
        self.kept_model = kept_model = choose_kept_model(
            inputs, fitted, logits, fitted_baselines, self.fitting_seconds, self.start_models.encoder
        )
        self.calibration, self.evaluations, notes = measure_parts(prepared, kept_model.logits, kept_model.plan)
        self.baselines = ()
        main_part = next((part for part in ("test", "dev") if part in self.evaluations), None)
        if main_part is not None:
            main_evaluation = self.evaluations[main_part]
            self.baselines = compare_baselines(
                kept_model.baselines, prepared, kept_model.plan, kept_model.logits, self.calibration, main_part
            )
            notes = (
                *notes,
                *filter(None, [describe_better_baseline(self.baselines, main_evaluation.main, main_evaluation.value)]),
            )
        self.notes = (*kept_model.fitted.notes, *notes, *self.compute_history.notes())

    def save(self) -> None:
        """Save the model with its passport, and the numbers of the held-out rows."""
        self.trained = make_passport(
            self.prepared,
            self.kept_model,
            self.calibration,
            self.evaluations,
            seeds=[score.seed for score in self.seeds.scores] or [self.kept_model.plan.settings.seed],
            max_length=self.inputs.length_policy.max_length,
            command=self.request.command,
            compute_history=self.compute_history,
        )
        self.kept_model.fitted.save(self.request.folder, self.trained)
        write_split(self.request.folder, self.prepared)

    def report(self) -> Run:
        """Write the report, remove the training state, and write metrics.json, which marks the run as finished."""
        folder, events, kept_model, prepared = self.request.folder, self.request.events, self.kept_model, self.prepared
        run = self._make_result()
        if self.request.report:
            events.progress("writing the report", 0, None)
            error_analysis = analyze_errors(
                folder,
                prepared.parts,
                self.evaluations,
                kept_model.plan.device,
                events.progress,
                run.seconds,
                weights=kept_model.fitted.model,
            )
            run = replace(run, cost={**run.cost, **error_analysis.cost})
            inspected_sources = select_inspected_rows(run, self.request.plan, prepared, self.sources)
            report_path = write_report(
                run, prepared, self.trained, inspected_sources, self.seeds.log_folder, error_analysis
            )
            run = replace(run, report=report_path)
        if kept_model.plan.method in NETWORK_METHODS:
            remove_state(folder, kept_model.fitted.notes, keep=kept_model.plan.keep_state)
        # last, because it marks the run as finished
        write_metrics(folder, self.evaluations, self.seeds.scores, run.sweep)
        if self.resolved_plan.method in NETWORK_METHODS and kept_model.plan.method not in NETWORK_METHODS:
            # the model folder has no weights of the network to resume from
            remove_state(folder, kept_model.fitted.notes, keep=kept_model.plan.keep_state)
        return run

    def _check_method(self) -> None:
        """Raise an InputError for a method that does not support the task."""
        plan, task = self.request.plan, self.profile.task
        if plan.method not in task.methods:
            raise InputError(
                f"{task.name} does not support the method {plan.method}; use one of {', '.join(task.methods)}."
            )
        plan.check_task(task)

    def _make_result(self) -> Run:
        """Collect the results of all steps."""
        kept_model, prepared, sweep = self.kept_model, self.prepared, self.seeds.fitted.sweep
        return Run(
            folder=self.request.folder,
            task=prepared.task.name,
            method=kept_model.plan.method,
            labels=prepared.space.names,
            columns=self.trained.columns,
            rows={name: len(part) for name, part in prepared.parts.items()},
            evaluations=self.evaluations,
            seeds=self.seeds.scores,
            messages=(*self.profile.columns.messages, *prepared.messages),
            notes=self.notes,
            skipped=prepared.skipped,
            seconds=time.perf_counter() - self.started,
            cost=measure_cost(self.seeds.log_folder, self.started, self.fitting_seconds),
            sweep=() if sweep is None else sweep.scores,
            baselines=self.baselines,
            machine=self.compute_history.latest,
        )


def _collect_run_facts(prepared: PreparedData) -> dict[str, object]:
    """Facts that must not change when the run is resumed."""
    return {
        "columns": {part: getattr(prepared.columns, part) for part in ("text", "text_b", "label", "id", "split")},
        "task": prepared.task.name,
        "labels": list(prepared.space.names),
        "data": {name: asdict(part.fingerprint()) for name, part in prepared.parts.items()},
        "tokens": prepared.tokens_digest,
    }
